"""The graph as a picture in the first answer of the server: to be seen before a script has run.

The page's own scripts take a second to start. What they will show first is known here already: the same nodes
at the same places in the same colours. The picture goes when the live graph is there. The scripts that fit it into the
window and that start the others after it are `assets/inline_*.js`; they stand in the page itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from editor.text import end_of_name, pluralize, shorten_distinct, shortened
from editor.web.drawing.collapsed import first_detail, shown_elements
from editor.web.drawing.elements import (
    Edge,
    EdgeData,
    Frame,
    Node,
    NodeData,
    ops_of,
    size_of,
    split,
    visible_ops,
)
from editor.web.drawing.styles import FAR_FONT, WIDEST_BYTES
from editor.web.messages import DetailShown, View
from editor.web.view import view_of
from editor.workspace.document import Document

_STRIPES = 0.2
"""Share of the height of a block, for the devices that have less of it than the first"""
_NAME, _WORDS = 12, 20
_FAR_SIZES, _FAR_LOW = ((13, 17), (15, FAR_FONT)), 17
"""Least and most size of names from afar and from farther away, and the most in a node that is low."""
_FAR = (118, 136, 16, 0.55)
"""Names from afar: room in a node and in a wider one, letters from which it is one, width of a letter."""

WAIT = '<div id="preview" data-wait hidden></div>'
"""Instead of a picture, while the model is still being read: the script asks for it."""


def preview(document: Document, detail: DetailShown | None = None) -> str:
    """HTML of the picture; nothing for a model without ops. ``detail`` is what a document opens with unless given."""
    if not visible_ops(document.graph):
        return ""
    nodes, frames, drawn_edges = split(
        shown_elements(document, detail or first_detail(document.graph))
    )
    drawn_edges = [e for e in drawn_edges if "states" not in e["data"]]  # with the live graph
    picture = _Picture(nodes, view_of(document))
    edges = "".join(map(picture.edge, drawn_edges))
    x0, x1, y0, y1 = picture.bounds(frames, drawn_edges)
    fed = {e["data"]["target"] for e in drawn_edges}
    change = picture.view["change"]
    focus = (
        next((n["position"] for n in nodes if change in picture.ops[n["data"]["id"]]), None)
        if change >= 0
        else None
    )
    at = f' data-focus-x="{focus["x"]}" data-focus-y="{focus["y"]}"' if focus else ""
    first = next((n for n in nodes if n["data"]["id"] not in fed), nodes[0])["position"]["x"]
    return (
        f'<div id="preview" aria-hidden="true"><header><span class="logo"></span>'
        f'<span class="brand">Hetero Editor</span><div class="model"><div class="model-name">'
        f'{escape(document.title)}</div><div class="model-what">'
        f'{pluralize(len(visible_ops(document.graph)), "op")}</div></div></header><div class="preview-tools"></div>'
        f'<div class="preview-ribbon"></div>'
        f'<svg data-x0="{x0}" data-x1="{x1}" data-y0="{y0}" data-y1="{y1}" data-first="{first}"{at}><g>'
        f"{''.join(map(_frame, frames))}{edges}{''.join(picture.node(n) for n in nodes)}</g>{_TIPS}</svg>"
        f'<div class="preview-inspector"></div><div class="preview-dock"></div></div>'
    )


class _Picture:
    def __init__(self, nodes: list[Node], view: View) -> None:
        self.view = view
        self.index = {op: i for i, op in enumerate(view["ops"])}
        self.at = {n["data"]["id"]: (n["position"]["x"], n["position"]["y"]) for n in nodes}
        self.size = {n["data"]["id"]: size_of(n["classes"]) for n in nodes}
        self.ops = {n["data"]["id"]: _ops(n["data"]) for n in nodes}

    def bounds(self, frames: list[Frame], edges: list[Edge]) -> tuple[float, float, float, float]:
        """Left, right, top and bottom of all there is."""
        boxes: list[tuple[float, float, float, float]] = [
            (x, y, *self.size[name]) for name, (x, y) in self.at.items()
        ]
        boxes += [
            (f["position"]["x"], f["position"]["y"], f["data"]["w"], f["data"]["h"]) for f in frames
        ]
        for data in (e["data"] for e in edges):
            boxes += [
                (x, y, 2, 2)
                for x, y in _bends(self.at[data["source"]], self.at[data["target"]], data)
            ]
        return (
            min(x - w / 2 for x, _, w, _ in boxes),
            max(x + w / 2 for x, _, w, _ in boxes),
            min(y - h / 2 for _, y, _, h in boxes),
            max(y + h / 2 for _, y, _, h in boxes),
        )

    def node(self, node: Node) -> str:
        """A rectangle in the colours of its devices, with its name and theirs."""
        name = node["data"]["id"]
        (x, y), (w, h), ops = self.at[name], self.size[name], self.ops[name]
        left, top = round(x - w / 2, 1), round(y - h / 2, 1)
        if not ops:
            return (
                f'<rect class="terminal" x="{left}" y="{top}" width="{w}" height="{h}" rx="5"/>'
                + _text(x, y, "var(--ink)", node["data"]["label"].split("\n"))
                + _brief(x, y, "var(--ink)", node["data"]["name"], is_low=True)
            )
        view = self.view
        places = [self.index[op] for op in ops]
        shares = Counter(view["device"][i] for i in places).most_common()
        (most, count), *others = shares
        fills = [device["fill"] for device in view["devices"]]
        boxes = [
            f'<rect x="{left}" y="{top}" width="{w}" height="{h}" fill="{fills[most]}" rx="5"/>'
        ]
        begin = top + (1 - _STRIPES) * h
        for device, number in others:
            high = _STRIPES * h * number / (len(places) - count)
            boxes.append(
                f'<rect x="{left}" y="{begin:.1f}" width="{w}" height="{high:.1f}" fill="{fills[device]}"/>'
            )
            begin += high
        if "group" in node["classes"]:
            words = _group_words(
                [(view["devices"][d]["name"], d, n) for d, n in shares], len(places)
            )
        else:
            only = view["devices"][most]["name"]
            room = _NAME if view["part"][places[0]] <= 99 else _NAME - 2
            words = f"{shorten_distinct(only, (d['name'] for d in view['devices']), room)} · s{view['part'][places[0]]}"
        ink, y = view["devices"][most]["ink"], y - (3 if others else 0)
        signs = _signs([device for device, _ in shares[:3]])
        name, far = node["data"]["name"], node["data"].get("far")
        return (
            "".join(boxes)
            + _text(x, y, ink, [name if "group" in node["classes"] else _near_name(name), words])
            + _brief(
                x,
                y,
                ink,
                f"{signs} {_briefly(name)}" if far is None else _far_name(far, signs),
                is_wide=far is not None,
            )
        )

    def edge(self, edge: Edge) -> str:
        """A line from border to border, with what it means; hubs' edges show with the live graph only."""
        data = edge["data"]
        if "faint" in edge["classes"]:
            return ""
        start, end = self.at[data["source"]], self.at[data["target"]]
        points = [start, *_bends(start, end, data), end]
        points[-1] = _border(points[-2], end, self.size[data["target"]])
        pairs = data.get("pairs") or [
            [a, b] for a in self.ops[data["source"]] for b in self.ops[data["target"]]
        ]
        known = [
            (self.index[a], self.index[b]) for a, b in pairs if a in self.index and b in self.index
        ]
        moves = any(self.view["device"][a] != self.view["device"][b] for a, b in known)
        crosses = any(self.view["part"][a] != self.view["part"][b] for a, b in known)
        width = 2.4 + 5.6 * min(data["bytes"] / WIDEST_BYTES, 1)
        kind = (
            f' class="moves" style="stroke-width:{width:.1f}"'
            if moves
            else ' class="crosses"'
            if crosses
            else ""
        )
        return f'<polyline{kind} points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def _ops(data: NodeData) -> list[int]:
    """The ops that a node stands for: none for inputs and outputs of the model."""
    return ops_of(data["ops"]) if "ops" in data else [data["op"]] if "op" in data else []


_TIPS = (
    "<defs>"
    + "".join(
        f'<marker id="tip{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="{size}" markerHeight="{size}" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8Z"/></marker>'
        for kind, size in (("", 8), ("-moves", 13))
    )
    + "</defs>"
)


def _frame(frame: Frame) -> str:
    """The border of an open block, with its name."""
    (x, y), (w, h) = (
        (frame["position"]["x"], frame["position"]["y"]),
        (frame["data"]["w"], frame["data"]["h"]),
    )
    return (
        f'<path class="frame" d="M{x - w / 2:.1f} {y - h / 2:.1f}h{w}v{h}h-{w}Z"/>'
        f'<text class="frame" x="{x + frame["data"]["beside"]:.1f}" y="{y - h / 2 + 11:.1f}">'
        f"{escape(frame['data']['label'])}</text>"
    )


def _bends(
    start: tuple[float, float], end: tuple[float, float], data: EdgeData
) -> list[tuple[float, float]]:
    """Bend points from the form that Cytoscape takes: shares of the straight line, and distances from it."""
    if "weights" not in data:
        return []
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    weights, distances = (
        [float(number) for number in text.split()] for text in (data["weights"], data["distances"])
    )
    return [
        (
            start[0] + weight * dx - distance * dy / length,
            start[1] + weight * dy + distance * dx / length,
        )
        for weight, distance in zip(weights, distances, strict=True)
    ]


def _border(
    before: tuple[float, float], end: tuple[float, float], size: tuple[int, int]
) -> tuple[float, float]:
    """Where a line into the middle of a node meets its border."""
    dx, dy = before[0] - end[0], before[1] - end[1]
    share = min([1.0, *(size[i] / 2 / abs(d) for i, d in enumerate((dx, dy)) if d)])
    return end[0] + dx * share, end[1] + dy * share


def _text(x: float, y: float, ink: str, lines: list[str]) -> str:
    first = y - 7.5 * (len(lines) - 1)
    return "".join(
        f'<text x="{x}" y="{first + 15 * i:.1f}" fill="{ink}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )


_BRIEF = (("Normalization", "Norm"), ("Attention", "Attn"), ("AveragePool", "AvgPool"))


def _brief(
    x: float, y: float, ink: str, line: str, *, is_wide: bool = False, is_low: bool = False
) -> str:
    """What is shown instead from afar."""
    letters = sum(2 if "①" <= letter <= "⑨" else 1 for letter in line)
    room = int(_FAR[is_wide or letters > _FAR[2]] / (_FAR[3] * letters))
    size, farther = (
        max(least, min(_FAR_LOW if is_low else most, room)) for least, most in _FAR_SIZES
    )
    return (
        f'<text class="brief" x="{x}" y="{y}" fill="{ink}" font-size="{size}" '
        f'style="--farther:{farther}px">{escape(line)}</text>'
    )


def _briefly(op_type: str) -> str:
    """A type of op from afar. As ``briefly`` of `assets/looks.js`."""
    for word, brief in _BRIEF:
        op_type = op_type.replace(word, brief)
    return op_type


def _near_name(type_: str) -> str:
    """A type of op as the first line of its node. As `nearName` of assets/looks.js."""
    return type_ if len(type_) < _WORDS else shortened(_briefly(type_), _WORDS - 1)


def _far_name(name: str, signs: str) -> str:
    """A block from afar: its devices' numbers, and the end of its name, by which blocks differ."""
    room = 16 - 2 * len(signs)
    return f"{signs} {end_of_name(name, room)}"


def _signs(devices: Sequence[int]) -> str:
    """The keys of devices as signs."""
    return "".join(chr(0x2460 + device) if device < 9 else "" for device in devices)


def _group_words(devices: list[tuple[str, int, int]], total: int) -> str:
    """How many ops of a block each device has: (name, number, ops), the most first."""
    if len(devices) == 1:
        words = f"{total} op{'s' if total != 1 else ''} on {devices[0][0]}"
        return words if len(words) <= _WORDS else shortened(f"{total} on {devices[0][0]}", _WORDS)
    counts = " · ".join(
        str(n) if len(devices) > 3 else f"{_signs([number])} {n}" for _, number, n in devices
    )
    return shortened(f"{counts} ops", _WORDS)
