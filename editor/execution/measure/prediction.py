"""Holds what was predicted against what was measured, and says where the two part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from editor.kinds import Basis
from editor.placement.costs import Costs, transfer_seconds
from editor.placement.device_profile import basis_of, best_source, costs_of
from editor.placement.placement import Placement
from editor.text import human_seconds

WORTH_SAYING = 0.15
"""Relative difference from the prediction that is explained."""
_MAIN_SHARE = 0.5
"""Share of the whole difference that makes one part its reason."""


@dataclass(frozen=True)
class Parts:
    """Measured seconds of the parts of a run."""

    subgraphs: Mapping[int, float]
    """id -> seconds"""
    transfers: float


def costs_by_best_source(placement: Placement) -> tuple[Costs, Basis]:
    """Costs from profiles where every real device has one, else from shapes; and what to call them."""
    source = best_source(placement.graph, placement.devices)
    costs = costs_of(placement.graph, placement.devices, source)
    return costs, basis_of(costs, source)


def surprise(placement: Placement, costs: Costs, measured: Parts, total: float) -> str:
    """Which part of a run took longer or shorter than its costs say; "" where the whole is close to its prediction.

    Args:
        placement: what ran.
        costs: what it was predicted by.
        measured: medians of its parts.
        total: median of the whole run, seconds.
    """
    predicted = placement.price(costs).total
    if not predicted or abs(total / predicted - 1) <= WORTH_SAYING:
        return ""
    expected = expected_parts(placement, costs)
    gaps = {f"subgraph {number} on {_device(placement, number)}": (seconds, expected.subgraphs[number])
            for number, seconds in measured.subgraphs.items() if number in expected.subgraphs}
    gaps["transfers"] = (measured.transfers, expected.transfers)
    by_device: dict[str, tuple[float, float]] = {}
    for number, seconds in measured.subgraphs.items():
        name = f"all subgraphs on {_device(placement, number)}"
        before = by_device.get(name, (0.0, 0.0))
        by_device[name] = (before[0] + seconds, before[1] + expected.subgraphs.get(number, 0.0))
    for candidates in (gaps, by_device):
        name, (was, should) = max(candidates.items(), key=lambda item: (item[1][0] - item[1][1]) * (total - predicted))
        if (was - should) / (total - predicted) >= _MAIN_SHARE:
            return f"{name} took {human_seconds(was)}, not {human_seconds(should)}"
    return "no single subgraph or device explains it"


def expected_parts(placement: Placement, costs: Costs) -> Parts:
    """What costs say of each subgraph, its launch overhead included, and of all transfers."""
    device, subgraph_of_op = placement.assignment.device, placement.division.subgraph_of_op
    placed = placement.placed_ops
    seconds = np.bincount(subgraph_of_op[placed], costs.op[placed, device[placed]], len(placement.subgraphs))
    launch = {d.name: float(costs.launch[i]) for i, d in enumerate(placement.devices)}
    return Parts({s.id: float(seconds[s.id]) + launch[s.device] for s in placement.subgraphs},
                 transfer_seconds(placement.graph, costs, device, placed))


def _device(placement: Placement, subgraph: int) -> str:
    return next(s.device for s in placement.subgraphs if s.id == subgraph)
