"""Least time of one run, by minimum cuts and searches; what the other objectives start from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from editor.arguments import shown
from editor.errors import EditorError
from editor.graph.graph import Ints
from editor.placement.costs import Costs, price
from editor.placement.policies.exact import least_latency
from editor.placement.policies.expansion import Expansion
from editor.placement.policies.neighbourhood import TOTAL, improve
from editor.placement.policies.problem import Problem, relaxed_bound
from editor.placement.policies.task import Assignment, Task, reasons

SPLIT_MARGIN = 1.05
"""By profiled costs, a split must beat a single device by this factor."""
SEARCH_SECONDS = 0.5
"""Budget of the search where the options give none: short enough for every stroke in the page."""
_MAX_SEARCH_SECONDS = 600
MAX_SEARCHED_OPS = 3_000
"""Most ops for which a short search pays."""


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
