"""Policy ``optimal``: least time of one run, least load of the busiest processor, or least energy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from editor.arguments import shown
from editor.errors import EditorError
from editor.graph.graph import Ints
from editor.placement.costs import Costs, price, processors
from editor.placement.policies.exact import least_latency
from editor.placement.policies.expansion import Expansion
from editor.placement.policies.neighbourhood import BUSIEST, TOTAL, Improved, improve, value_of
from editor.placement.policies.pipeline import best_stages, busiest_bound
from editor.placement.policies.problem import Problem, busiest_load, busiest_name, relaxed_bound
from editor.placement.policies.task import Assignment, Task, reasons

SPLIT_MARGIN = 1.05
"""By profiled costs, a split must beat a single device by this factor."""
_FIRST_SHARE = 0.25
"""The part of the budget for the placement of least latency, from which the search for throughput starts."""
SEARCH_SECONDS = 0.5
"""Budget of the search where the options give none: short enough for every stroke in the page."""
_MAX_SEARCH_SECONDS = 600
MAX_SEARCHED_OPS = 3_000
"""Most ops for which a short search pays."""


def optimal(task: Task) -> Assignment:
    """Minimises the objective of the options, ``latency`` by default.

    ``latency`` is the sum of every op, every transfer (once per tensor and destination device) and the
    launch overhead of every subgraph. Minimum cuts minimise compute and transfers, exactly for two
    devices. No cut expresses launch overhead, so the candidates are cuts with several extra prices per
    transfer, `priority` and every single device; the full cost decides (by profiled costs a split must
    win by a twentieth). The bound is the minimum cut without launch overhead, plus one launch. Where few ops
    have a choice, exhaustive search proves the optimum. With three and more devices, and for throughput, large
    neighbourhood search improves the result for ``search`` seconds, and a linear program gives the bound.

    Raises:
        EditorError: an option has a value that it cannot have, or no placement is within the limit of latency.
    """
    seconds = search_seconds(task.options)
    objective = task.options.get("objective", "latency")
    if objective == "energy":
        from editor.placement.policies.energy import least_energy  # it searches as this module does

        return least_energy(task, seconds)
    if "within" in task.options:
        raise EditorError("policy option within: it belongs to the objective energy")
    if objective == "latency":
        return least_latency_of(task, seconds)
    searches = len(task.constraints.devices) > 2
    first = seconds * _FIRST_SHARE if searches else 0.0
    return _least_busy(task, least_latency_of(task, first), seconds - first)


def least_latency_of(task: Task, seconds: float) -> Assignment:
    """The placement of least latency; ``seconds``: for the search."""
    costs, placed, graph = task.costs(), task.placed, task.constraints.graph
    problem = Problem.of(graph, costs, task.constraints.allowed, placed)
    best, best_price, best_value = None, None, float("inf")
    exact = (
        costs.wires is None or costs.wires.is_exact
    )  # else `problem` has mean costs of wires, and proves nothing
    bound = lower_bound(problem, costs) if exact else 0.0
    for label in chain(candidates(problem, costs), searched(task, problem, costs, bound, seconds)):
        device = device_of_all_ops(task, placed, label)
        full = price(graph, costs, device, placed)
        # Profiles measure whole runs on one device, so the predicted cost of a split is too low (winner's curse).
        margin = 1.0 if costs.estimated or (label == label[:1]).all() else SPLIT_MARGIN
        if best_price is None or full.total * margin < best_value - 1e-15:
            best, best_price, best_value = device, full, full.total * margin
        if task.should_stop():
            break
    assert best is not None and best_price is not None
    if costs.estimated and exact:
        better, proved = least_latency(graph, problem, costs, placed, best_price.total)
        if better is not None:
            best = device_of_all_ops(task, placed, better)
            best_price = price(graph, costs, best, placed)
        bound = best_price.total if proved else bound
    return Assignment(
        best,
        reasons(task, costs, best),
        best_price.total,
        min(bound, best_price.total) if exact else None,
        "latency",
        costs.estimated,
    )


def _least_busy(task: Task, start: Assignment, seconds: float) -> Assignment:
    """Least load of the busiest processor: the best known placement, improved by large neighbourhood search.

    The search knows no launches; of what it found and what it started from, the load with launches decides.

    Known are contiguous pipeline stages, where the constraints allow them, the placement of least latency, and its candidates.
    """
    costs, placed, constraints = task.costs(), task.placed, task.constraints
    problem = Problem.of(
        constraints.graph,
        costs,
        constraints.allowed,
        placed,
        processor=processors(constraints.devices),
    )
    known = [start.device[placed]]
    if not task.should_stop():
        known += candidates(problem, costs)
    # Stages without the limits of memory, which this policy does not look at.
    if len(problem) and (stages := best_stages(problem)) is not None:
        known.insert(0, stages)
    value, first = min(
        (value_of(problem, label, BUSIEST), number) for number, label in enumerate(known)
    )
    found = Improved(known[first], value, busiest_bound(problem))
    if len(problem) <= MAX_SEARCHED_OPS and not task.should_stop():
        bound = max(found.bound, min(relaxed_bound(problem, busiest=True), found.value))
        found = improve(problem, found.label, BUSIEST, seconds, bound, task.should_stop)
    bound = found.bound + costs.least_launch  # what is busiest was launched once, at least
    found = _least_with_launches(task, problem, costs, [found.label, *known])
    if (alone := _fastest_alone(problem, costs)) is not None:
        seconds, label = alone
        if seconds <= found.value * SPLIT_MARGIN or (found.label == found.label[:1]).all():
            found = Improved(label, seconds, found.bound)
        bound = min(bound, seconds)
    device = device_of_all_ops(task, placed, found.label)
    return Assignment(
        device,
        reasons(task, costs, device),
        found.value,
        min(bound, found.value),
        busiest_name(problem),
        costs.estimated,
    )


def _least_with_launches(
    task: Task, problem: Problem, costs: Costs, labels: Sequence[Ints]
) -> Improved:
    """The placement whose busiest processor has the least to do, launches included."""
    graph, placed = task.constraints.graph, task.placed
    loads = [
        busiest_load(graph, costs, problem, device_of_all_ops(task, placed, label), placed)
        for label in labels
    ]
    best = int(np.argmin(loads))
    return Improved(labels[best], loads[best], 0.0)


def _fastest_alone(problem: Problem, costs: Costs) -> tuple[float, Ints] | None:
    """Measured seconds of the whole model on the device that is fastest alone, and that placement; None where none may be.

    Its ops, summed up, may say something else: they share what was measured by their estimates.
    """
    if costs.whole is None or not len(problem):
        return None
    seconds = np.where(problem.allowed.all(axis=0), costs.whole, np.nan)
    if np.isnan(seconds).all():
        return None
    return float(np.nanmin(seconds)), np.full(len(problem), int(np.nanargmin(seconds)), np.int64)


def searched(
    task: Task, problem: Problem, costs: Costs, bound: float, seconds: float
) -> Iterable[Ints]:
    """Placements on three and more devices that large neighbourhood search finds; cuts are exact for two.

    Launch overhead is approximated by a price on every transfer, as for the cuts.
    """
    if problem.time.shape[1] <= 2 or not 0 < len(problem) <= MAX_SEARCHED_OPS or not seconds:
        return
    launch = costs.most_per_subgraph
    fastest = np.where(problem.allowed, problem.time, np.inf).argmin(axis=1).astype(np.int64)
    for share in (0.5, 0.0) if launch else (0.0,):
        priced = replace(problem, enter=problem.enter + share * launch)
        start = Expansion(problem, share * launch).solve(fastest)
        known = bound if not share else 0.0
        yield improve(
            priced, start, TOTAL, seconds / (2 if launch else 1), known, task.should_stop
        ).label


def search_seconds(options: Mapping[str, Any]) -> float:
    """Budget of the search.

    Raises:
        EditorError: it is not a number from 0 to 600.
    """
    given = options.get("search", SEARCH_SECONDS)
    try:
        seconds = float(given)
    except (TypeError, ValueError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds <= _MAX_SEARCH_SECONDS:
        raise EditorError(
            f"policy option search: {shown(given)} is not a number of seconds from 0 to {_MAX_SEARCH_SECONDS}"
        )
    return seconds


def candidates(problem: Problem, costs: Costs) -> Iterable[Ints]:
    """Yields distinct placements to price; `priority` comes first, so the result is never worse."""
    seen: set[bytes] = set()
    for label in _candidates(problem, costs):
        if label.tobytes() not in seen:
            seen.add(label.tobytes())
            yield label


def _candidates(problem: Problem, costs: Costs) -> Iterable[Ints]:
    yield problem.allowed.argmax(axis=1).astype(np.int64)
    for d in range(problem.time.shape[1]):
        if len(problem) and problem.allowed[:, d].all():
            yield np.full(len(problem), d, np.int64)
    if problem.time.shape[1] == 1 or not len(problem):
        return
    start = np.where(problem.allowed, problem.time, np.inf).argmin(axis=1).astype(np.int64)
    launch = costs.most_per_subgraph
    for share in (0.0, 0.5, 1.5) if launch else (0.0,):
        yield Expansion(problem, share * launch).solve(start)


def lower_bound(problem: Problem, costs: Costs) -> float:
    """Lower bound of the latency in seconds; for two devices exact apart from launch overhead.

    With k devices, the best of a linear program, in which ops may be divided between devices, and of k relaxations: one
    device against the cheapest of all others for every op and transfer. Every placement maps to one of each relaxation
    at no higher cost, and with two classes the minimum cut is exact.
    """
    if not len(problem):
        return 0.0
    start = costs.least_launch
    devices = problem.time.shape[1]
    unsplit = (
        float(np.nanmin(np.append(costs.whole, np.inf))) if costs.whole is not None else np.inf
    )
    if devices <= 2:
        return min(_exact(problem) + start, unsplit)
    cuts = max(_exact(_one_against_rest(problem, d)) for d in range(devices))
    return min(max(cuts, relaxed_bound(problem, busiest=False)) + start, unsplit)


def _exact(problem: Problem) -> float:
    cut = Expansion(problem)
    # Rounding to the solver's unit can raise every term by half a unit.
    return max(
        cut.seconds(cut.solve(np.zeros(len(problem), np.int64))) - len(problem) / cut.unit, 0.0
    )


def _one_against_rest(problem: Problem, device: int) -> Problem:
    others = [d for d in range(problem.time.shape[1]) if d != device]
    time = np.where(problem.allowed, problem.time, np.inf)
    allowed = np.stack([problem.allowed[:, device], problem.allowed[:, others].any(axis=1)], axis=1)
    pair = np.stack([time[:, device], time[:, others].min(axis=1)], axis=1)
    return replace(
        problem,
        time=np.where(allowed, pair, 0.0),
        allowed=allowed,
        capacity=np.full(2, np.inf),
        leave=np.stack([problem.leave[:, device], problem.leave[:, others].min(axis=1)], axis=1),
        enter=np.stack([problem.enter[:, device], problem.enter[:, others].min(axis=1)], axis=1),
    )


def device_of_all_ops(task: Task, placed: Ints, label: Ints) -> Ints:
    """[op] device; constants that follow their consumers have their first allowed device, which is not used."""
    device: Ints = task.constraints.allowed.argmax(axis=1).astype(np.int64)
    device[placed] = label
    return device
