"""Corrects the profiles of devices by a measured run of a plan, so that its prediction, and those of similar plans, fit.

Times of ops come from runs of the unsplit model, where they are well known. What a split adds is known less well: the
overhead of a subgraph, and transfers. So these take up the difference; times of ops change only where a device ran its
subgraphs faster than even without any overhead.
"""

from __future__ import annotations

from dataclasses import replace

from editor.errors import EditorError
from editor.execution.measure.figures import BenchmarkResult
from editor.execution.measure.prediction import expected_parts
from editor.placement.costs import Costs, seconds_of_ops
from editor.placement.device_profile import DeviceProfile, costs_of, load_profile, save_profile
from editor.placement.placement import Placement

MOST_MARGIN = 0.1
"""Of the interval of the median, relative to it"""
_MOST_CHANGE = 0.3
"""Of the unsplit model beside the plan, relative to its profile"""


def _changed(costs: Costs, placement: Placement, result: BenchmarkResult) -> list[str]:
    """Devices on which the unsplit model takes another time than its profile says: "+40 % on CPU"."""
    if costs.whole is None:
        return []
    known = {d.name: float(costs.whole[i]) for i, d in enumerate(placement.devices)}
    changes = {b.device: b.time.median / known[b.device] - 1 for b in result.baselines
               if b.time is not None and b.time.count > 1 and known.get(b.device, 0) > 0}  # NaN is not
    return [f"{change * 100:+.0f} % on {name}" for name, change in changes.items() if abs(change) > _MOST_CHANGE]


def _time_between_steps(result: BenchmarkResult) -> float:
    """How many times as long the median run took as the medians of its steps together.

    Runs that are slower as a whole than their medians say, and what passes between steps, are a part of what a plan takes.
    """
    steps = sum(s.time.median for s in result.subgraphs) + sum(t.time.median for t in result.transfers)
    return max(result.total.median / steps, 1.0) if steps else 1.0


def check_correctable(placement: Placement, mode: str) -> None:
    """Checks before or after a benchmark that it can correct profiles.

    Raises:
        EditorError: it cannot, and why.
    """
    planned = {d.name for d in placement.devices if d.planned} & {s.device for s in placement.subgraphs}
    if planned:
        raise EditorError(f"only a measured latency can correct profiles, and {', '.join(sorted(planned))} runs on a stand-in")
    if mode != "latency":
        raise EditorError("only a measured latency can correct profiles: with several requests in flight each waits for "
                          "others. Benchmark in mode latency")
    if len(placement.subgraphs) == 1:
        raise EditorError("a plan of one subgraph is the unsplit model, which a profile measures: press Profile in the tab "
                          "Benchmark, or run `python -m editor profile PLAN`")


def correct_profiles(placement: Placement, result: BenchmarkResult) -> dict[str, DeviceProfile]:
    """Stores profiles that predict a measured plan as it ran.

    Args:
        placement: what ran.
        result: its benchmark, in mode latency.

    Returns:
        device name -> its corrected profile, for each device that ran a subgraph.

    Raises:
        EditorError: the result is an estimate, or of throughput, or of one subgraph, or a device has no profile.
    """
    check_correctable(placement, result.mode)
    if result.total.margin > MOST_MARGIN:
        raise EditorError(f"this run is too uncertain to correct profiles by ({result.total.precision}): measure longer, or "
                          "when nothing else runs")
    costs = costs_of(placement.graph, placement.devices, "measured")
    if changed := _changed(costs, placement, result):
        raise EditorError(f"the unsplit model takes another time than in its profile ({', '.join(changed)}): the machine has "
                          "changed, and the plan says nothing about its profiles. Profile again")
    expected = expected_parts(placement, costs)
    ops = seconds_of_ops(costs, placement.assignment.device, placement.division.subgraph_of_op, placement.placed_ops)
    beside = _time_between_steps(result)
    measured = {s.id: s.time.median * beside for s in result.subgraphs}
    transfers = sum(t.time.median for t in result.transfers) * beside
    ratio = transfers / expected.transfers if expected.transfers else 0.0
    each = 0.0 if expected.transfers else transfers / max(len(result.transfers), 1)
    if costs.wires is not None:  # links have measurements of their own, and are most of these transfers
        ratio, each = 1.0, 0.0
    corrected = {}
    for number, device in enumerate(placement.devices):
        mine = [s.id for s in placement.subgraphs if s.device == device.name and s.id in measured]
        profile = load_profile(placement.graph, device)
        if not mine or profile is None:
            continue
        taken, launch = sum(measured[i] for i in mine), float(costs.launch[number])
        warm = float(ops[mine].sum())
        beyond = sum(expected.subgraphs[i] - launch for i in mine) - warm
        if taken < warm + beyond:  # not even that: so cold starts and conversions cost nothing here
            beyond = 0.0
        overhead = (taken - warm - beyond) / len(mine)
        faster = 1.0 if overhead >= 0 else taken / warm
        corrected[device.name] = replace(
            profile, split_factor=profile.split_factor * faster, launch_seconds=max(overhead, 0.0),
            has_launch=True, cold_seconds=profile.cold_seconds if beyond else 0.0,
            convert_seconds_per_byte=profile.convert_seconds_per_byte if beyond else 0.0,
            in_latency=profile.in_latency * ratio + each, in_seconds_per_byte=profile.in_seconds_per_byte * ratio,
            out_latency=profile.out_latency * ratio, out_seconds_per_byte=profile.out_seconds_per_byte * ratio)
    for device in placement.devices:
        if device.name in corrected:
            save_profile(placement.graph, device, corrected[device.name])
    return corrected
