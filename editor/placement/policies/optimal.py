"""Policy ``optimal``: least time of one run, least load of the busiest processor, or least energy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from editor.errors import EditorError
from editor.graph.graph import Ints
from editor.placement.costs import Costs, processors
from editor.placement.policies.energy import least_energy
from editor.placement.policies.latency import (
    MAX_SEARCHED_OPS,
    SPLIT_MARGIN,
    candidates,
    device_of_all_ops,
    least_latency_of,
    search_seconds,
)
from editor.placement.policies.neighbourhood import BUSIEST, Improved, improve, value_of
from editor.placement.policies.pipeline import best_stages, busiest_bound
from editor.placement.policies.problem import Problem, busiest_load, busiest_name, relaxed_bound
from editor.placement.policies.task import Assignment, Task, reasons

_FIRST_SHARE = 0.25
"""The part of the budget for the placement of least latency, from which the search for throughput starts."""


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
        return least_energy(task, seconds)
    if "within" in task.options:
        raise EditorError("policy option within: it belongs to the objective energy")
    if objective == "latency":
        return least_latency_of(task, seconds)
    searches = len(task.constraints.devices) > 2
    first = seconds * _FIRST_SHARE if searches else 0.0
    return _least_busy(task, least_latency_of(task, first), seconds - first)


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
        if seconds <= found.value * SPLIT_MARGIN or _is_measured_alone(costs, found.label):
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


def _is_measured_alone(costs: Costs, label: Ints) -> bool:
    """Whether all is on one device, and its seconds for the whole model were measured."""
    return (
        costs.whole is not None
        and bool((label == label[0]).all())
        and not np.isnan(costs.whole[label[0]])
    )


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
