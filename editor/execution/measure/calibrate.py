"""Profiles corrected by a run of the split that they recommend.

Costs of ops come from whole runs on one device. Parts cut out of them are slower than their share: fusions across the
cut are lost, caches are cold, two runtimes' threads get in each other's way, and among many splits the one whose
costs are most underrated looks best (the winner's curse). So the split that `optimal` would choose runs against the
fastest single device, and where it does not win, what it took beyond the prediction becomes part of the price of
handing a value over. Then `optimal` is asked again.
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
"""A split that is only as fast as a single device is not worth its trouble, and may lose the next time."""


def calibrate(graph: Graph, devices: Sequence[Device], profiles: Mapping[str, DeviceProfile],
              alone: Mapping[str, CompiledPlan], values: Mapping[str, Value], seconds: float,
              threads: int = 0) -> dict[str, DeviceProfile]:
    """Tries the best split for real, and keeps profiles in which it costs what it takes.

    Args:
        graph: the model.
        devices: those with a profile.
        profiles: by device name, saved already.
        alone: plans that run the whole model on one device, by device name.
        values: inputs.
        seconds: for each try.
        threads: per subgraph; 0 leaves the choice to the runtimes.

    Returns:
        The profiles, changed or not; changed ones are saved.
    """
    found = dict(profiles)
    if len(found) < 2 or not alone:
        return found
    fastest = min(alone, key=lambda name: found[name].total)
    for _ in range(_ROUNDS):
        costs = costs_of(graph, devices, "measured")
        split = solve(graph, devices, Settings("optimal", {"costs": "measured"}))
        values_handed_over = _arrivals(graph, costs, split)
        if not values_handed_over:
            break
        believed = found[fastest].total + found[fastest].launch_seconds
        excess = _excess(graph, costs, split, alone[fastest], believed, values, seconds, threads)
        if excess <= 0:
            break
        for device in devices:
            known = found[device.name]
            found[device.name] = replace(known, in_latency=known.in_latency + excess / values_handed_over)
            save_profile(graph, device, found[device.name])
    return found


def _arrivals(graph: Graph, costs: Costs, placement: Placement) -> float:
    """Values that are handed over in one run, once per destination."""
    counting = replace(costs, enter=np.ones_like(costs.enter), leave=np.zeros_like(costs.leave))
    return transfer_seconds(graph, counting, placement.assignment.device, placement.placed_ops)


def _excess(graph: Graph, costs: Costs, placement: Placement, rival: CompiledPlan, believed: float,
            values: Mapping[str, Value], seconds: float, threads: int) -> float:
    """Seconds that a split takes beyond its prediction, and at least as many as its rival is believed to be faster.

    0 where the split beats its rival.
    """
    try:
        split = compile_placement(placement, threads)
        mine, other = _in_turns(split, rival, values, seconds)
    except EditorError:  # a runtime refuses a part: as bad as running the model twice
        _, other = _in_turns(rival, rival, values, seconds)
        return 2 * other
    if mine < _WIN * other:
        return 0.0
    predicted = placement.price(costs).total
    return max(mine, believed) - predicted + 0.01 * other  # always more than nothing: the next answer is another one


def _in_turns(first: CompiledPlan, second: CompiledPlan, values: Mapping[str, Value], seconds: float) -> tuple[float, float]:
    """Median seconds of two plans, the order changing from round to round."""
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
