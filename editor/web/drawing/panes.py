"""What the panes of a comparison need of each layout: a device and a subgraph per op, packed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from editor.exports.colours import text_colour
from editor.text import counted, human_seconds
from editor.web.drawing.elements import visible_ops
from editor.web.drawing.map import packed
from editor.web.messages import Pane, PaneDevice, Panes
from editor.web.view import colours_of, op_costs
from editor.workspace.document import Document
from editor.workspace.layouts import Layout, figures


def panes_data(document: Document, layouts: Sequence[Layout]) -> Panes:
    """Layouts for the browser.

    ``device`` is uint8 and ``part`` uint32, in the order of the page's ops; ``devices`` are what they refer to.
    """
    ops, colours = visible_ops(document.graph), colours_of(document)
    costs, source = op_costs(document)
    panes: list[Pane] = []
    for layout in layouts:
        placement = layout.placement
        if placement is None:
            continue
        f = figures(placement, costs)
        summary = " · ".join([counted(f["subgraphs"], "subgraph"), counted(f["transfers"], "transfer"),
                           f"{human_seconds(f['predicted'])} {source}"])
        panes.append({"name": layout.name, "summary": summary, "device": packed(placement.assignment.device[ops], "u1"),
                      "part": packed(np.maximum(placement.division.subgraph_of_op[ops], 0), "<u4")})
    devices: list[PaneDevice] = [{"fill": colours[d.name], "ink": text_colour(colours[d.name]), "short": d.name[:12]}
                                 for d in document.devices]
    return {"layouts": panes, "devices": devices}
