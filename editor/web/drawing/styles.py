"""Cytoscape stylesheets for light and dark."""

from __future__ import annotations

from typing import Any

from editor.web.drawing.elements import NODE_HEIGHT, NODE_WIDTH

FAR_FONT = 22
"""Size of short names below zoom 0.5: 10 pixels at zoom 0.46."""
_UNREADABLE = 6
"""Pixels on the screen below which a name from afar is not drawn."""
WIDEST_BYTES = 8_000_000
"""From here on, edges are as wide as they get."""
_COLOURS = {
    "light": {
        "ground": "#f3f5f7",
        "edge": "#b4bac2",
        "state": "#868e96",
        "cross": "#343a40",
        "ink": "#212529",
        "terminal": "#eef0f3",
        "terminal_line": "#adb5bd",
        "pin": "#111418",
        "select": "#111418",
        "halo": "#1c7ed6",
    },
    "dark": {
        "ground": "#15171a",
        "edge": "#565d66",
        "state": "#6c747d",
        "cross": "#f1f3f5",
        "ink": "#e9ecef",
        "terminal": "#2b3036",
        "terminal_line": "#5c636b",
        "pin": "#ffffff",
        "select": "#ffffff",
        "halo": "#74c0fc",
    },
}


def stylesheet(scheme: str) -> list[dict[str, Any]]:
    """Styles of all element classes; fills come from the elements' data."""
    c = _COLOURS["dark" if scheme == "dark" else "light"]
    font = {
        "font-family": "Inter, system-ui, sans-serif",
        "font-size": 12,
        "text-valign": "center",
        "text-halign": "center",
        "text-wrap": "wrap",
        "line-height": 1.25,
        "min-zoomed-font-size": 5,
    }
    return [
        {
            "selector": "node",
            "style": {
                **font,
                "label": "data(label)",
                "width": NODE_WIDTH,
                "height": NODE_HEIGHT,
                "shape": "round-rectangle",
                "background-color": c["terminal"],
                "color": c["ink"],
                "border-width": 0,
            },
        },
        {
            "selector": "node.op[fill]",
            "style": {"background-color": "data(fill)", "color": "data(ink)"},
        },
        {
            "selector": "node.group",
            "style": {
                "shape": "round-rectangle",
                "height": 46,
                "border-width": 1.5,
                "width": NODE_WIDTH + 14,
                "border-style": "double",
                "border-color": c["terminal_line"],
            },
        },
        {
            "selector": "node.holder",
            "style": {
                "border-width": 4,
                "border-style": "double",
                "border-color": c["terminal_line"],
            },
        },
        {
            "selector": "node.frame",
            "style": {
                "width": "data(w)",
                "height": "data(h)",
                "background-color": c["ink"],
                "background-opacity": 0.035,
                "border-width": 1.2,
                "border-style": "dashed",
                "border-color": c["terminal_line"],
                "text-valign": "top",
                "text-margin-x": "data(beside)",
                "text-margin-y": 18,
                "font-size": 13,
                "font-weight": 600,
                "z-compound-depth": "bottom",
                "text-wrap": "ellipsis",
                "text-max-width": "data(room)",
            },
        },
        {
            "selector": "node.mixed",
            "style": {
                "background-fill": "linear-gradient",
                "background-gradient-direction": "to-bottom",
                "background-gradient-stop-colors": "data(colours)",
                "background-gradient-stop-positions": "data(stops)",
                "text-margin-y": -3,  # clear of the stripes
            },
        },
        {
            "selector": "node.terminal",
            "style": {
                "shape": "round-rectangle",
                "height": 26,
                "border-width": 1,
                "border-color": c["terminal_line"],
                "font-size": 11,
            },
        },
        {"selector": "node.several", "style": {"height": 36, "line-height": 1.15}},
        {"selector": "node.state", "style": {"border-style": "dashed", "border-width": 1.5}},
        # Far out there is one line, as large as the node holds: the devices' numbers and the name.
        {
            "selector": "node.far[brief]",
            "style": {
                "label": "data(brief)",
                "font-size": "data(briefSize)",
                "min-zoomed-font-size": _UNREADABLE,
                "text-wrap": "ellipsis",
                "text-max-width": NODE_WIDTH - 2,
            },
        },
        {"selector": "node.farther[brief]", "style": {"font-size": "data(farSize)"}},
        {
            "selector": "node.far.long",
            "style": {"width": NODE_WIDTH + 14, "text-max-width": NODE_WIDTH + 12},
        },
        {"selector": "node.group.far", "style": {"text-max-width": NODE_WIDTH + 12}},
        {"selector": "node.pinned", "style": {"border-width": 3, "border-color": c["pin"]}},
        {
            "selector": "node.forced",
            "style": {"border-width": 3, "border-style": "dashed", "border-color": "#e03131"},
        },
        {
            "selector": "edge",
            "style": {
                "width": 1.4,
                "line-color": c["edge"],
                "target-arrow-color": c["edge"],
                "target-arrow-shape": "triangle",
                "arrow-scale": 0.8,
                "curve-style": "straight",
            },
        },
        {
            "selector": "edge[pairs]",
            "style": {
                "width": f"mapData(bytes, 0, {WIDEST_BYTES}, 1.2, 6)",
                "curve-style": "bezier",
            },
        },
        {
            "selector": "edge.bent",
            "style": {
                "curve-style": "segments",
                "edge-distances": "node-position",
                "segment-weights": "data(weights)",
                "segment-distances": "data(distances)",
            },
        },
        # Hubs are read by many ops far apart: their edges would be a grey wall, so they show with their ends only.
        {
            "selector": "edge.faint",
            "style": {"visibility": "hidden", "width": 1, "target-arrow-shape": "none"},
        },
        # From one step to the next: quieter than what flows within a step.
        {
            "selector": "edge.state",
            "style": {
                "width": 1.2,
                "line-style": "dashed",
                "line-dash-pattern": [3, 4],
                "line-color": c["state"],
                "target-arrow-color": c["state"],
                "target-arrow-shape": "triangle",
                "arrow-scale": 0.7,
            },
        },
        {
            "selector": "edge.state:loop",
            "style": {
                "curve-style": "bezier",
                "loop-direction": "90deg",
                "loop-sweep": "30deg",
                "control-point-step-size": 0.65 * NODE_WIDTH,
            },
        },
        {
            "selector": "edge.faint.lit, edge.faint.mark",
            "style": {"visibility": "visible", "opacity": 0.8, "line-color": c["halo"]},
        },
        {
            "selector": "edge.boundary",
            "style": {"line-style": "dashed", "line-dash-pattern": [6, 4], "width": 1.6},
        },
        {
            "selector": "edge.transfer",
            "style": {
                "line-style": "solid",
                "line-color": c["cross"],
                "width": 3,
                "target-arrow-color": c["cross"],
                "opacity": 1,
            },
        },
        {
            "selector": "edge.transfer[bytes]",
            "style": {"width": f"mapData(bytes, 0, {WIDEST_BYTES}, 2.4, 8)"},
        },
        {
            "selector": "edge.faint.transfer",
            "style": {"visibility": "visible", "width": 1, "opacity": 0.14},
        },
        # In panes: a border and a sign at a corner, for colours are what differs already.
        {
            "selector": "node.differs",
            "style": {"border-width": 3, "border-style": "solid", "border-color": c["pin"]},
        },
        {
            "selector": "node.sign",
            "style": {
                "width": "data(w)",
                "height": 18,
                "background-color": c["pin"],
                "color": c["ground"],
                "font-weight": "bold",
                "events": "no",
                "z-index": 1,
            },
        },
        {
            "selector": "node.sign.far",
            "style": {"label": "data(far)", "width": "data(farW)", "height": 26, "font-size": 22},
        },
        {
            "selector": "node.dim, node.faded",
            "style": {
                "background-opacity": 0.28,
                "border-opacity": 0.35,
                "color": c["ink"],  # the label of a bright node cannot be read on a pale one
                "text-opacity": 0.75,
                "text-background-opacity": 0,
            },
        },
        {"selector": "edge.dim", "style": {"opacity": 0.12}},
        {
            "selector": "node.mark",
            "style": {"underlay-color": c["halo"], "underlay-opacity": 0.45, "underlay-padding": 7},
        },
        {
            "selector": "edge.mark",
            "style": {"line-color": c["halo"], "target-arrow-color": c["halo"], "width": 4},
        },
        {
            "selector": "node:selected",
            "style": {"underlay-color": c["halo"], "underlay-opacity": 0.6, "underlay-padding": 6},
        },
        {
            "selector": "edge.shaped",
            "style": {
                "source-label": "data(shape)",
                "source-text-offset": "data(along)",
                "source-text-margin-x": "data(aside)",
                "source-text-margin-y": "data(below)",
                "font-family": font["font-family"],
                "font-size": 9.5,
                "min-zoomed-font-size": 8,
                "color": c["ink"],
                "text-background-color": c["ground"],
                "text-background-opacity": 0.85,
                "text-background-padding": 1,
                "text-events": "no",
            },
        },
        # Only some ops of the block are selected.
        {
            "selector": "node.part:selected",
            "style": {
                "underlay-opacity": 0.22,
                "border-style": "dashed",
                "border-width": 2.5,
                "border-color": c["select"],
            },
        },
        {
            "selector": "core",
            "style": {
                "selection-box-color": c["halo"],
                "selection-box-opacity": 0.18,
                "selection-box-border-color": c["halo"],
                "active-bg-opacity": 0,
            },
        },
    ]
