"""Policy ``optimal``: least time of one run, or least time of the busiest device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from editor.errors import EditorError
from editor.graph.graph import Ints
from editor.placement.choices import OBJECTIVES
from editor.placement.costs import Costs, price
from editor.placement.policies.annealing import balance
from editor.placement.policies.exact import least_latency
from editor.placement.policies.expansion import Expansion
from editor.placement.policies.pipeline import busiest_bound, pipeline
from editor.placement.policies.problem import Problem
from editor.placement.policies.task import Assignment, Task, reasons

_SPLIT_MARGIN = 1.1
"""How much better a split must promise to be than a single device, by profiled costs."""
_MOVES, _MOST_WALKED = 20_000, 3_000
"""Of the walk for throughput: moves, and ops above which it would take too long to be felt as instant."""


def optimal(task: Task) -> Assignment:
    """Minimises the objective that the options name, ``latency`` unless told otherwise.

    ``latency`` counts every op, every transfer once per tensor and destination, and the start of every
    subgraph. Compute and transfers are minimised by cuts, exactly for two devices; starts of subgraphs
    have no exact cut, so cuts with several prices per transfer compete, together with `priority` and
    every single device, and the true cost decides (by profiled costs a split must win by a tenth). The
    bound is the exact cut without starts, plus one. Where few ops are left open, every placement is
    looked at and the bound is the optimum, starts included.

    Raises:
        EditorError: the objective is unknown.
    """
    objective = task.options.get("objective", "latency")
    if objective not in OBJECTIVES:
        raise EditorError(f"unknown objective {objective!r}; choose one of: {', '.join(OBJECTIVES)}")
    latency = _least_latency(task)
    return latency if objective == "latency" else _least_busy(task, latency)


def _least_latency(task: Task) -> Assignment:
    costs, placed, graph = task.costs(), task.placed, task.table.graph
    problem = Problem.of(graph, costs, task.table.allowed, placed)
    best, best_price, best_value = None, None, float("inf")
    for label in candidates(problem, costs):
        device = _spread(task, placed, label)
        found = price(graph, costs, device, placed)
        # Profiles are of whole runs on one device: parts cut out of them flatter every split (the winner's curse).
        margin = 1.0 if costs.estimated or (label == label[:1]).all() else _SPLIT_MARGIN
        if best_price is None or found.total * margin < best_value - 1e-15:
            best, best_price, best_value = device, found, found.total * margin
    assert best is not None and best_price is not None
    bound = lower_bound(problem, costs)
    if costs.estimated:
        better, proved = least_latency(graph, problem, costs, placed, best_price.total)
        if better is not None:
            best = _spread(task, placed, better)
            best_price = price(graph, costs, best, placed)
        bound = best_price.total if proved else bound
    return Assignment(best, reasons(task, costs, best), best_price.total, min(bound, best_price.total), "latency",
                      costs.estimated)


def _least_busy(task: Task, start: Assignment) -> Assignment:
    """The busiest device made as idle as can be: stages of a pipeline, then moves of single ops.

    Where the constraints leave no contiguous stages, the walk begins at the placement of least latency.
    """
    costs, placed = task.costs(), task.placed
    problem = Problem.of(task.table.graph, costs, task.table.allowed, placed)
    try:
        start = pipeline(task)
    except EditorError:
        pass  # no contiguous stages
    label = balance(problem, start.device[placed], _MOVES) if len(problem) <= _MOST_WALKED else start.device[placed]
    device = _spread(task, placed, label)
    return Assignment(device, reasons(task, costs, device), float(problem.loads(label).max(initial=0.0)),
                      busiest_bound(problem), "busiest device", costs.estimated)


def candidates(problem: Problem, costs: Costs) -> Iterable[Ints]:
    """Different placements worth pricing, `priority` first so that nothing worse is ever chosen."""
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
    launch = float(costs.launch.max(initial=0.0))
    for share in (0.0, 0.5, 1.5) if launch else (0.0,):
        yield Expansion(problem, share * launch).solve(start)


def lower_bound(problem: Problem, costs: Costs) -> float:
    """Seconds that no placement can beat: exact for two devices but for the starts of subgraphs.

    With more devices, the best of k relaxations: one device against the cheapest of all others for every
    op and transfer. Any placement is one of each relaxation at no higher cost, and with two classes the
    minimum cut is exact.
    """
    if not len(problem):
        return 0.0
    start = float(costs.launch.min(initial=0.0))
    devices = problem.time.shape[1]
    if devices <= 2:
        return _exact(problem) + start
    return max(_exact(_one_against_rest(problem, d)) for d in range(devices)) + start


def _exact(problem: Problem) -> float:
    cut = Expansion(problem)
    # Rounding to the solver's unit may have raised every term by half of it.
    return max(cut.seconds(cut.solve(np.zeros(len(problem), np.int64))) - 1e-12 * len(problem), 0.0)


def _one_against_rest(problem: Problem, device: int) -> Problem:
    others = [d for d in range(problem.time.shape[1]) if d != device]
    time = np.where(problem.allowed, problem.time, np.inf)
    allowed = np.stack([problem.allowed[:, device], problem.allowed[:, others].any(axis=1)], axis=1)
    pair = np.stack([time[:, device], time[:, others].min(axis=1)], axis=1)
    return replace(problem, time=np.where(allowed, pair, 0.0), allowed=allowed, capacity=np.full(2, np.inf),
                   leave=np.stack([problem.leave[:, device], problem.leave[:, others].min(axis=1)], axis=1),
                   enter=np.stack([problem.enter[:, device], problem.enter[:, others].min(axis=1)], axis=1))


def _spread(task: Task, placed: Ints, label: Ints) -> Ints:
    """[op] device; ops without a place get their first allowed one, which nothing looks at."""
    device: Ints = task.table.allowed.argmax(axis=1).astype(np.int64)
    device[placed] = label
    return device
