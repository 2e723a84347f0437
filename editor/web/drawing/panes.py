"""What the panes of a comparison need of each layout: a device and a subgraph per op, packed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from editor.exports.dot import text_colour
from editor.text import human_seconds, pluralize
from editor.web.drawing.elements import visible_ops
from editor.web.drawing.map import packed
from editor.web.messages import Pane, PaneDevice, Panes
from editor.web.view import colours_of, layout_costs
from editor.workspace.document import Document
from editor.workspace.layouts import Layout, figures


def panes_data(document: Document, layouts: Sequence[Layout]) -> Panes:
    """Layouts for the browser.

    ``device`` is uint8 and ``part`` uint32, in the order of the page's ops; ``devices`` are what they refer to: those of the
    plan, then those that only a layout with other devices has.
    """
    ops = visible_ops(document.graph)
    others = [
        d for layout in layouts if layout.placement is not None for d in layout.placement.devices
    ]
    colours = colours_of(document, others)
    number = {
        name: i
        for i, name in enumerate(dict.fromkeys(d.name for d in [*document.devices, *others]))
    }
    panes: list[Pane] = []
    for layout in layouts:
        placement = layout.placement
        if placement is None:
            continue
        costs, source = layout_costs(document, layout)
        f = figures(placement, costs)
        numbers = np.array([number[d.name] for d in placement.devices])
        summary = " · ".join(
            [
                pluralize(f["subgraphs"], "subgraph"),
                pluralize(f["transfers"], "transfer"),
                f"{human_seconds(f['predicted'])} {source}",
            ]
        )
        panes.append(
            {
                "name": layout.name,
                "summary": summary,
                "device": packed(numbers[placement.assignment.device[ops]], "u1"),
                "part": packed(np.maximum(placement.division.subgraph_of_op[ops], 0), "<u4"),
            }
        )
    devices: list[PaneDevice] = [
        {"fill": colours[name], "ink": text_colour(colours[name]), "short": name[:12]}
        for name in number
    ]
    return {"layouts": panes, "devices": devices}
