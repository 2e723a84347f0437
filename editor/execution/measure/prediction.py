"""Compares predictions with measurements, and corrects profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from editor.errors import EditorError
from editor.execution.measure.figures import BenchmarkResult
from editor.graph.flops import Floats
from editor.kinds import Basis
from editor.placement.costs import Costs, seconds_of_ops, transfer_seconds
from editor.placement.device_profile import (
    DeviceProfile,
    basis_of,
    best_source,
    costs_of,
    load_profile,
    save_profile,
)
from editor.placement.placement import Placement
from editor.text import human_seconds

MOST_MARGIN = 0.1
"""Of the interval of the median, relative to it"""
_MOST_CHANGE = 0.3
"""Of the unsplit model beside the plan, relative to its profile"""


def _changed(costs: Costs, placement: Placement, result: BenchmarkResult) -> list[str]:
    """Devices on which the unsplit model takes another time than its profile says: "+40 % on CPU"."""
    if costs.whole is None:
        return []
    known = {d.name: float(costs.whole[i]) for i, d in enumerate(placement.devices)}
    changes = {
        b.device: b.time.median / known[b.device] - 1
        for b in result.baselines
        if b.time is not None and b.time.count > 1 and known.get(b.device, 0) > 0
    }  # NaN is not
    return [
        f"{change * 100:+.0f} % on {name}"
        for name, change in changes.items()
        if abs(change) > _MOST_CHANGE
    ]


def _time_between_steps(result: BenchmarkResult) -> float:
    """How many times as long the median run took as the medians of its steps together.

    Runs that are slower as a whole than their medians say, and what passes between steps, are a part of what a plan takes.
    """
    steps = sum(s.time.median for s in result.subgraphs) + sum(
        t.time.median for t in result.transfers
    )
    return max(result.total.median / steps, 1.0) if steps else 1.0


def check_correctable(placement: Placement, mode: str) -> None:
    """Checks before or after a benchmark that it can correct profiles.

    Raises:
        EditorError: it cannot, and why.
    """
    planned = {d.name for d in placement.devices if d.planned} & {
        s.device for s in placement.subgraphs
    }
    if planned:
        raise EditorError(
            f"only a measured latency can correct profiles, and {', '.join(sorted(planned))} runs on a stand-in"
        )
    if mode != "latency":
        raise EditorError(
            "only a measured latency can correct profiles: with several requests in flight each waits for "
            "others. Benchmark in mode latency"
        )
    if len(placement.subgraphs) == 1:
        raise EditorError(
            "a plan of one subgraph is the unsplit model, which a profile measures: press Profile in the tab "
            "Benchmark, or run `python -m editor profile PLAN`"
        )


def check_correction(placement: Placement, result: BenchmarkResult) -> Costs:
    """Checks that a benchmark can correct the profiles that a plan is predicted by; returns the costs by these.

    Raises:
        EditorError: it cannot, and why.
    """
    check_correctable(placement, result.mode)
    if result.total.margin > MOST_MARGIN:
        raise EditorError(
            f"this run is too uncertain to correct profiles by ({result.total.precision}): measure longer, or "
            "when nothing else runs"
        )
    costs = costs_of(placement.graph, placement.devices, "measured")
    if changed := _changed(costs, placement, result):
        raise EditorError(
            f"the unsplit model takes another time than in its profile ({', '.join(changed)}): the machine has "
            "changed, and the plan says nothing about its profiles. Profile again"
        )
    return costs


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
    costs = check_correction(placement, result)
    expected = expected_parts(placement, costs)
    ops = seconds_of_ops(
        costs, placement.assignment.device, placement.division.subgraph_of_op, placement.placed_ops
    )
    beside = _time_between_steps(result)
    measured = {s.id: s.time.median * beside for s in result.subgraphs}
    transfers = sum(t.time.median for t in result.transfers) * beside
    ratio = transfers / expected.transfers if expected.transfers else 0.0
    each = 0.0 if expected.transfers else transfers / max(len(result.transfers), 1)
    if (
        costs.wires is not None
    ):  # links have measurements of their own, and are most of these transfers
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
            profile,
            split_factor=profile.split_factor * faster,
            launch_seconds=max(overhead, 0.0),
            has_launch=True,
            cold_seconds=profile.cold_seconds if beyond else 0.0,
            convert_seconds_per_byte=profile.convert_seconds_per_byte if beyond else 0.0,
            in_latency=profile.in_latency * ratio + each,
            in_seconds_per_byte=profile.in_seconds_per_byte * ratio,
            out_latency=profile.out_latency * ratio,
            out_seconds_per_byte=profile.out_seconds_per_byte * ratio,
        )
    for name, profile in corrected.items():
        save_profile(placement.graph, placement.by_name[name], profile)
    return corrected


WORTH_SAYING = 0.15
"""Relative difference from the prediction that is explained."""
_MAIN_SHARE = 0.5
"""Share of the whole difference that makes one part, or the machine, its reason."""


PROFILE_AGAIN = "profile again"
"""Ends the reason where the machine has changed; the run of a plan says nothing about its profiles then."""


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
    return costs, basis_of(costs, source, placement.used_numbers)


def explain_deviation(
    placement: Placement,
    costs: Costs,
    measured: Parts,
    total: float,
    unsplit: Mapping[str, float] = MappingProxyType({}),
) -> str:
    """Why a run took longer or shorter than its costs say; "" where the whole is close to its prediction.

    Args:
        placement: what ran.
        costs: what it was predicted by.
        measured: medians of its parts.
        total: median of the whole run, seconds.
        unsplit: device name -> median seconds of the unsplit model on it, measured beside the plan.
    """
    predicted = placement.price(costs).total
    if not predicted or abs(total / predicted - 1) <= WORTH_SAYING:
        return ""
    if machine := _changed_machine(placement, costs, total, unsplit):
        return machine
    expected = expected_parts(placement, costs)
    gaps = {
        f"subgraph {number} on {_device(placement, number)}": (seconds, expected.subgraphs[number])
        for number, seconds in measured.subgraphs.items()
        if number in expected.subgraphs
    }
    gaps["transfers"] = (measured.transfers, expected.transfers)
    by_device: dict[str, tuple[float, float]] = {}
    for number, seconds in measured.subgraphs.items():
        name = f"all subgraphs on {_device(placement, number)}"
        before = by_device.get(name, (0.0, 0.0))
        by_device[name] = (before[0] + seconds, before[1] + expected.subgraphs.get(number, 0.0))
    for candidates in (gaps, by_device):
        name, (was, should) = max(
            candidates.items(), key=lambda item: (item[1][0] - item[1][1]) * (total - predicted)
        )
        if (was - should) / (total - predicted) >= _MAIN_SHARE:
            return f"{name} took {human_seconds(was)}, not {human_seconds(should)}"
    return (
        _other_speed(placement, costs, total > predicted, unsplit)
        or "no single subgraph or device explains it"
    )


def predicted_now(placement: Placement, costs: Costs, unsplit: Mapping[str, float]) -> float | None:
    """Seconds predicted for a machine that has become slower or faster since its devices were profiled.

    Args:
        placement: the plan.
        costs: what it is predicted by.
        unsplit: device name -> seconds of the unsplit model on it, measured now.

    Returns:
        The prediction, each device's share multiplied with what the unsplit model on it takes now, relative to its profile;
        None where a device of the plan has no such figure.
    """
    factor = _factors(placement, costs, unsplit)
    if factor is None:
        return None
    if len(placement.subgraphs) == 1:
        return placement.price(costs).total * factor[placement.subgraphs[0].device]
    expected = expected_parts(placement, costs)
    seconds = sum(
        seconds * factor[_device(placement, number)]
        for number, seconds in expected.subgraphs.items()
    )
    return seconds + expected.transfers * float(np.mean(list(factor.values())))


def _factors(
    placement: Placement, costs: Costs, unsplit: Mapping[str, float]
) -> dict[str, float] | None:
    """Device of the plan -> how many times as long as in its profile the unsplit model takes on it."""
    if costs.whole is None:
        return None
    profiled = {
        d.name: float(costs.whole[i])
        for i, d in enumerate(placement.devices)
        if not np.isnan(costs.whole[i])
    }
    used = {s.device for s in placement.subgraphs}
    if not used <= profiled.keys() & unsplit.keys():
        return None
    return {name: unsplit[name] / profiled[name] for name in sorted(used)}


def _changed_machine(
    placement: Placement, costs: Costs, total: float, unsplit: Mapping[str, float]
) -> str:
    """What to say where the unsplit model, too, takes longer or shorter than in its profile, and that explains the run."""
    factor, explained = (
        _factors(placement, costs, unsplit),
        predicted_now(placement, costs, unsplit),
    )
    if factor is None or explained is None:
        return ""
    profiled = {name: human_seconds(unsplit[name] / f) for name, f in factor.items()}
    if len(placement.subgraphs) == 1:
        ((name, times),) = factor.items()
        if origin := _origins(placement, costs).get(name):
            return (
                f"it took {profiled[name]} in the profile from elsewhere ({origin}): another machine, precision or "
                f"number of threads; {PROFILE_AGAIN} here"
            )
        now = "slower" if times > 1 else "faster"
        return f"it took {profiled[name]} when {name} was profiled: the machine is {now} now; {PROFILE_AGAIN}"
    predicted = placement.price(costs).total
    if (
        abs(total / explained - 1) > WORTH_SAYING
        or (explained - predicted) / (total - predicted) < _MAIN_SHARE
    ):
        return ""
    return _speeds(placement, costs, unsplit, list(factor))


def _other_speed(
    placement: Placement, costs: Costs, slower: bool, unsplit: Mapping[str, float]
) -> str:
    """What to say where the unsplit model changed as the run did, by much, though not by as much."""
    factor = _factors(placement, costs, unsplit) or {}
    changed = [
        name
        for name, times in factor.items()
        if (times if slower else 1 / times) > 1 + 2 * WORTH_SAYING
    ]
    return _speeds(placement, costs, unsplit, changed) if changed else ""


def _speeds(
    placement: Placement, costs: Costs, unsplit: Mapping[str, float], names: Sequence[str]
) -> str:
    factor = _factors(placement, costs, unsplit) or {}
    wholes = " and ".join(
        f"{human_seconds(unsplit[name])}, not {human_seconds(unsplit[name] / factor[name])}, on {name}"
        for name in names
    )
    known = _origins(placement, costs)
    elsewhere = [known[name] for name in names if name in known]
    since = (
        f"this machine is not as in the profile from elsewhere ({'; '.join(elsewhere)})"
        if elsewhere
        else ("the machine has changed since the profile")
    )
    return f"{since}: the unsplit model took {wholes}; {PROFILE_AGAIN}"


def _origins(placement: Placement, costs: Costs) -> dict[str, str]:
    """Device -> tool, machine and date of its profile, where that was measured elsewhere."""
    return {
        d.name: origin
        for d, origin in zip(placement.devices, costs.origins, strict=False)
        if origin
    }


def expected_parts(placement: Placement, costs: Costs) -> Parts:
    """What costs say of each subgraph, its overhead included, and of all transfers."""
    device, subgraph_of_op = placement.assignment.device, placement.division.subgraph_of_op
    placed = placement.placed_ops
    seconds = seconds_of_ops(costs, device, subgraph_of_op, placed)
    of_subgraph = np.array(
        [placement.device_number(s.device) for s in placement.subgraphs], np.int64
    )
    seconds += costs.launch[of_subgraph] + costs.cold_seconds(of_subgraph, seconds)
    convert = _convert_seconds(placement, costs)
    return Parts(
        {s.id: float(seconds[s.id] + convert[s.id]) for s in placement.subgraphs},
        max(transfer_seconds(placement.graph, costs, device, placed) - float(convert.sum()), 0.0),
    )


def _convert_seconds(placement: Placement, costs: Costs) -> Floats:
    """[subgraph] what it takes for the layouts of tensors that come from or go to other devices."""
    graph, device = placement.graph, placement.assignment.device
    result = np.zeros(len(placement.subgraphs))
    if costs.convert is None or not costs.convert.any():
        return result
    producer, consumer, tensor = graph.edges
    home = placement.division.subgraph_of_op
    crosses = (home[producer] >= 0) & (home[consumer] >= 0) & (device[producer] != device[consumer])
    sizes = np.maximum(graph.tensor_bytes, 0)
    for op, arrives in ((producer[crosses], False), (consumer[crosses], True)):
        # As transfers are counted: out of its device once, and once into each other device, by its first reader there.
        which = tensor[crosses] * len(costs.convert) + (device[op] if arrives else 0)
        first = np.unique(which, return_index=True)[1]
        np.add.at(
            result,
            home[op[first]],
            costs.convert[device[op[first]]] * sizes[tensor[crosses][first]],
        )
    return result


def _device(placement: Placement, subgraph: int) -> str:
    return next(s.device for s in placement.subgraphs if s.id == subgraph)
