"""Measures what a split costs beyond its ops: slower ops, launches and transfers.

Times of ops come from runs of the unsplit model. In a split the same ops take longer, because cuts prevent fusions and
caches are colder; every subgraph has a launch overhead, and transfers between two runtimes are slower than copies in a loop.
None of these can be had from a runtime alone. So the model is cut into stripes that alternate between the devices, into few
and into many, and what each device's subgraphs took is fitted by a factor on its ops and an overhead per subgraph.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter

import numpy as np

from editor.devices.device import Device
from editor.errors import EditorError
from editor.execution.executor import CompiledPlan, RunTimes, compile_placement
from editor.execution.measure.turns import Turn
from editor.graph.graph import Graph
from editor.placement.constraints import allowed_by_lists
from editor.placement.device_profile import DeviceProfile
from editor.placement.placement import Placement, Settings, placement_of_groups, solve
from editor.runtimes.base import Value
from editor.runtimes.profiling import MAX_RUNS, MIN_RUNS
from editor.runtimes.registry import capability

STRIPES = (2, 4, 12, 32)
"""Few and many: the first tell about the factor, the others about the overhead."""
_LEAST_FACTOR, _MOST_FACTOR = 0.8, 3.0
_LEAST_TRANSFERS = 6
"""Below this, transfers keep the costs that were measured alone."""


@dataclass
class Striped:
    """A plan of stripes with its runs."""

    placement: Placement
    compiled: CompiledPlan
    runs: list[RunTimes] = field(default_factory=list)


def with_split_costs(graph: Graph, devices: Sequence[Device], profiles: Mapping[str, DeviceProfile],
                     values: Mapping[str, Value], seconds: float, threads: int = 0) -> dict[str, DeviceProfile]:
    """Profiles with what a split costs on their devices.

    Args:
        graph: the model.
        devices: the profiled devices.
        profiles: device name -> its profile, from runs of the unsplit model or of as much of it as the device can run.
        values: graph inputs by name.
        seconds: time for measuring.
        threads: threads per subgraph; 0 leaves the choice to the runtimes.

    Returns:
        device name -> profile; unchanged for devices of which no stripes could be made.
    """
    plans = striped(graph, devices, threads)
    run_in_turns(plans, values, seconds)
    return fitted(graph, devices, profiles, plans)


def fitted(graph: Graph, devices: Sequence[Device], profiles: Mapping[str, DeviceProfile],
           plans: Sequence[Striped]) -> dict[str, DeviceProfile]:
    """Profiles with the costs of a split that the runs of striped plans show."""
    result = dict(profiles)
    for device in devices:
        factor, overhead = _fit(graph, device, profiles[device.name], plans)
        if overhead is not None:
            result[device.name] = replace(profiles[device.name], split_factor=factor, launch_seconds=overhead)
        if len(devices) > 1:
            result[device.name] = _with_transfers(device, result[device.name], plans)
    return result


def striped(graph: Graph, devices: Sequence[Device], threads: int) -> list[Striped]:
    """Compiled plans of stripes over the devices; a device that is alone alternates with itself."""
    plans = []
    for count in STRIPES:
        try:
            placement = stripes(graph, devices, count)
            if placement is not None:
                plans.append(Striped(placement, compile_placement(placement, threads)))
        except EditorError:
            continue  # a runtime refuses a sub-model; the others tell enough
    return plans


def stripes(graph: Graph, devices: Sequence[Device], count: int) -> Placement | None:
    """Ops in topological order, cut into ``count`` runs of equal length that alternate between the devices.

    None where there are too few ops. Ops go elsewhere where their device cannot run them.
    """
    placed = graph.order[~graph.op_is_constant[graph.order]]
    if len(placed) < 2 * count:
        return None
    stripe = np.arange(len(placed)) * count // len(placed)
    if len(devices) == 1:
        group = np.full(len(graph), -1, np.int64)
        group[placed] = stripe
        pair = [devices[0], replace(devices[0], name=f"{devices[0].name} copy")]
        return placement_of_groups(graph, pair, np.maximum(group, 0) % 2, group)
    able = np.column_stack([capability(graph, d).mask & allowed_by_lists(graph, d) for d in devices])
    pins = {graph.op_keys[op]: devices[s % len(devices)].name for op, s in zip(placed.tolist(), stripe.tolist(), strict=True)
            if able[op, s % len(devices)]}
    return solve(graph, devices, Settings(pins=pins))


def run_in_turns(plans: Sequence[Striped], values: Mapping[str, Value], seconds: float) -> None:
    """Runs the plans in turns, in random order, so that a disturbance affects all of them."""
    order, rounds, begin = random.Random(0), 0, perf_counter()

    def run(plan: Striped) -> RunTimes:
        return plan.compiled.run_timed(values)[1]
    turns = [(plan, Turn.of(min(run(plan).total, run(plan).total))) for plan in plans]
    while plans and (rounds < MIN_RUNS or (perf_counter() - begin < seconds and rounds < MAX_RUNS)):
        for plan, turn in order.sample(turns, len(turns)):
            plan.runs += turn.take(partial(run, plan))
        rounds += 1


def _fit(graph: Graph, device: Device, profile: DeviceProfile, plans: Sequence[Striped]) -> tuple[float, float | None]:
    """(factor on the ops, overhead per subgraph in seconds) of a device, by least squares; None without subgraphs.

    Runs spend time between subgraphs too; it counts to their overhead.
    """
    alone, measured = [], []
    for plan in plans:
        parts = np.median([run.subgraphs for run in plan.runs], axis=0)
        moved = float(np.median([sum(t.seconds for t in run.transfers) for run in plan.runs]))
        between = (float(np.median([run.total for run in plan.runs])) - moved - float(parts.sum())) / max(len(parts), 1)
        for subgraph in plan.placement.subgraphs:
            if subgraph.device in (device.name, f"{device.name} copy"):
                alone.append(sum(profile.seconds.get(key, 0.0) for key in subgraph.ops))
                measured.append(float(parts[subgraph.id]) + max(between, 0.0))
    if not alone:
        return 1.0, None
    return line(alone, measured)


def line(alone: Sequence[float], measured: Sequence[float]) -> tuple[float, float]:
    """(factor, overhead) with measured = factor * alone + overhead, both within what makes sense."""
    x, y = np.asarray(alone), np.asarray(measured)
    spread = float(((x - x.mean()) ** 2).sum())
    factor = float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread > 0 else 1.0
    factor = min(max(factor, _LEAST_FACTOR), _MOST_FACTOR)
    overhead = float((y - factor * x).mean())
    if overhead >= 0:
        return factor, overhead
    fitted = float((x * y).sum()) / float((x * x).sum()) if (x * x).sum() > 0 else 1.0
    return min(max(fitted, _LEAST_FACTOR), _MOST_FACTOR), 0.0


def _with_transfers(device: Device, profile: DeviceProfile, plans: Sequence[Striped]) -> DeviceProfile:
    """The profile with the times of transfers into its device as they were within runs, the way out included."""
    sizes, spent = [], []
    for plan in plans:
        device_of = {s.id: s.device for s in plan.placement.subgraphs}
        seconds = np.median([[t.seconds for t in run.transfers] for run in plan.runs], axis=0)
        for transfer, taken in zip(plan.runs[0].transfers, np.atleast_1d(seconds).tolist(), strict=True):
            if device_of[transfer.target] == device.name != device_of[transfer.source]:
                sizes.append(float(max(transfer.bytes, 0)))
                spent.append(taken)
    if len(spent) < _LEAST_TRANSFERS:
        return profile
    order = np.argsort(sizes, kind="stable")
    half = (len(order) + 1) // 2
    latency = float(np.median(np.asarray(spent)[order[:half]]))  # of the smaller ones, whose size hardly counts
    per_byte = max(float(np.mean(spent)) - latency, 0.0) / max(float(np.mean(sizes)), 1.0)
    return replace(profile, in_latency=latency, in_seconds_per_byte=per_byte, out_latency=0.0, out_seconds_per_byte=0.0)
