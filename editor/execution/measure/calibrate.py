"""Corrects profiles by a run of the split that they predict to be best.

Op costs come from whole runs on one device. A subgraph is slower than its share: the cut prevents fusions, caches are
cold, threads of two runtimes compete, and the split with the most underestimated cost looks best (winner's curse). So
the split that `optimal` chooses is measured against the fastest single device. Where it does not win, its time beyond
the prediction is added to the transfer cost per value, and `optimal` chooses a new split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from editor.devices.device import Device
from editor.errors import EditorError
from editor.execution.executor import CompiledPlan, compile_placement
from editor.graph.graph import Graph
from editor.placement.costs import Costs, transfer_seconds
from editor.placement.device_profile import DeviceProfile, costs_of, save_profile
from editor.placement.placement import Placement, Settings, solve
from editor.runtimes.base import Value

_ROUNDS = 4
_MIN_RUNS, _MAX_RUNS = 10, 200
_WIN = 0.97
"""A split must take less than this share of the time of the best single device."""


def calibrate(graph: Graph, devices: Sequence[Device], profiles: Mapping[str, DeviceProfile],
              alone: Mapping[str, CompiledPlan], values: Mapping[str, Value], seconds: float,
              threads: int = 0) -> dict[str, DeviceProfile]:
    """Measures the best split and corrects the profiles until the predicted best split is really faster.

    Args:
        graph: the model.
        devices: the devices that have a profile.
        profiles: device name -> its saved profile.
        alone: device name -> plan that runs the whole model on this device.
        values: graph inputs by name.
        seconds: time for each measurement.
        threads: threads per subgraph; 0 leaves the choice to the runtimes.

    Returns:
        The profiles, changed or not; changed ones are saved.
    """
    result = dict(profiles)
    if len(result) < 2 or not alone:
        return result
    fastest = min(alone, key=lambda name: result[name].total)
    for _ in range(_ROUNDS):
        costs = costs_of(graph, devices, "measured")
        split = solve(graph, devices, Settings("optimal", {"costs": "measured"}))
        transfer_count = _transfer_count(graph, costs, split)
        if not transfer_count:
            break
        believed = result[fastest].total + result[fastest].launch_seconds
        excess = _excess(graph, costs, split, alone[fastest], believed, values, seconds, threads)
        if excess <= 0:
            break
        for device in devices:
            known = result[device.name]
            result[device.name] = replace(known, in_latency=known.in_latency + excess / transfer_count)
            save_profile(graph, device, result[device.name])
    return result


def _transfer_count(graph: Graph, costs: Costs, placement: Placement) -> float:
    """Number of transfers in one run: each tensor once per destination device."""
    counting = replace(costs, enter=np.ones_like(costs.enter), leave=np.zeros_like(costs.leave))
    return transfer_seconds(graph, counting, placement.assignment.device, placement.placed_ops)


def _excess(graph: Graph, costs: Costs, placement: Placement, rival: CompiledPlan, believed: float,
            values: Mapping[str, Value], seconds: float, threads: int) -> float:
    """Seconds to add to the predicted cost of a split, so that it is no longer chosen; 0 where it beats its rival.

    ``believed`` is the predicted time of the rival, the fastest single device.
    """
    try:
        split = compile_placement(placement, threads)
        mine, other = _in_turns(split, rival, values, seconds)
    except EditorError:  # a runtime refuses a sub-model: counts as slow as two runs of the rival
        _, other = _in_turns(rival, rival, values, seconds)
        return 2 * other
    if mine < _WIN * other:
        return 0.0
    predicted = placement.price(costs).total
    return max(mine, believed) - predicted + 0.01 * other  # always positive, so that another split is chosen


def _in_turns(first: CompiledPlan, second: CompiledPlan, values: Mapping[str, Value], seconds: float) -> tuple[float, float]:
    """Median seconds of two plans, whose order alternates from round to round."""
    spent: list[list[float]] = []
    begin = perf_counter()
    while len(spent) < _MIN_RUNS or (perf_counter() - begin < seconds and len(spent) < _MAX_RUNS):
        row = [0.0, 0.0]
        for i in ((0, 1), (1, 0))[len(spent) % 2]:
            start = perf_counter()
            (first, second)[i].run(values)
            row[i] = perf_counter() - start
        spent.append(row)
    mine, other = np.median(np.array(spent[2:]), axis=0).tolist()
    return float(mine), float(other)
