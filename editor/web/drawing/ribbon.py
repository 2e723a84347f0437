"""The whole run in one line: subgraphs in the order in which they run, with their device, time, bytes and ops.

After a benchmark of the same plan it is the measured run.
"""

from __future__ import annotations

import numpy as np

from editor.graph.flops import op_bytes
from editor.kinds import Kind
from editor.placement.chosen_costs import assumed_speeds
from editor.placement.fallbacks import fallbacks
from editor.web.drawing.spans import spans
from editor.web.messages import Ribbon, RibbonPart
from editor.web.view import measured_medians, plan_costs
from editor.workspace.document import Document


def ribbon_of(document: Document) -> Ribbon:
    """The parts of a run; a benchmark of throughput says nothing of the order in time."""
    medians, _ = measured_medians(document)
    placement = document.placement
    costs, basis = plan_costs(document)
    placed, device, count = (
        placement.placed_ops,
        placement.assignment.device,
        len(placement.subgraphs),
    )
    part = placement.division.subgraph_of_op[placed]
    seconds = np.bincount(part, costs.op[placed, device[placed]], count)
    sizes = np.bincount(part, op_bytes(document.graph)[placed], count)
    arriving = _arriving(document)
    order = np.argsort(part, kind="stable")
    groups = (
        np.split(placed[order], np.cumsum(np.bincount(part, minlength=count))[:-1]) if count else []
    )
    parts: list[RibbonPart] = [
        {
            "part": s.id,
            "device": placement.device_number(s.device),
            "ops": spans(np.sort(groups[s.id])),
            "seconds": round(float((medians or seconds)[s.id]), 9),
            "bytes": int(sizes[s.id]),
            "moved": arriving[s.id],
        }
        for s in placement.subgraphs
    ]
    return {
        "parts": parts,
        "kind": str(Kind.MEASUREMENT if medians else basis.kind),
        "source": "" if medians else basis.source,
        "measured": bool(medians),
        "rough": not medians and bool(assumed_speeds(placement, costs)),
        "fallbacks": sum(len(f.ops) for f in fallbacks(placement, costs))
        if len({p["device"] for p in parts}) == 1
        else 0,
    }


def _arriving(document: Document) -> list[int]:
    """[subgraph] bytes that other devices send to it; -1 where only unknown sizes arrive."""
    placement = document.placement
    moved = [0] * len(placement.subgraphs)
    device = [s.device for s in placement.subgraphs]
    for transfer in placement.division.transfers:
        for target in transfer.targets:
            if device[target] != device[transfer.source]:
                moved[target] += max(transfer.bytes, 1)
    return moved
