"""Policy ``optimal``: least time of one run, least load of the busiest processor, or least energy.

For the objective ``energy``, a second of a device costs its watts and a price, in joules per second, that is the same for all
devices: the price steers between joules and latency (Lagrangian relaxation), and the cuts and searches of the objective latency
find placements. The next price is the one at which the best placement that takes too long and the best that does not cost the
same, until nothing costs less at it (Handler and Zang, "A dual algorithm for the constrained shortest path problem", 1980).
Then ops of the first take the place of those of the second, in the order of the graph, as many as the limit allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from editor.arguments import shown
from editor.errors import EditorError, NoPowerError
from editor.graph.flops import Floats
from editor.graph.graph import Ints
from editor.placement.costs import Costs, price, processors, stated_watts, times_watts
from editor.placement.policies.exact import all_placements, bounds, least, least_latency
from editor.placement.policies.expansion import Expansion
from editor.placement.policies.neighbourhood import BUSIEST, TOTAL, Improved, improve, value_of
from editor.placement.policies.pipeline import best_stages, busiest_bound
from editor.placement.policies.problem import (
    Problem,
    busiest_load,
    busiest_name,
    busy_seconds,
    relaxed_bound,
)
from editor.placement.policies.task import Assignment, Task, reasons
from editor.placement.subgraphs.minimal import minimal
from editor.text import human_seconds, parse_seconds

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
    for share in (0.5, 0.0) if launch else (0.0,):
        priced = replace(problem, enter=problem.enter + share * launch)
        start = Expansion(problem, share * launch).solve(problem.fastest)
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
    launch = costs.most_per_subgraph
    for share in (0.0, 0.5, 1.5) if launch else (0.0,):
        yield Expansion(problem, share * launch).solve(problem.fastest)


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
    time = problem.times
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


_MOST_PRICES = 16
_SAME = 1e-9
"""Relative difference of sums that are equal but for rounding."""


@dataclass(frozen=True, eq=False)
class _Found:
    label: Ints
    """[node] device"""
    joules: float
    seconds: float
    """Latency"""
    value: float
    """Joules by which placements are compared"""


def least_energy(task: Task, seconds: float) -> Assignment:
    """The placement of fewest joules that is found: of ops, transfers and launches, by the watts of the device table.

    Args:
        task: with the limit of latency as option ``within``.
        seconds: for the search on three and more devices.

    Raises:
        NoPowerError: the table does not state the watts of a device.
        EditorError: the limit is not a time, or nothing within it is found.
    """
    limit, watts = _limit(task.options), _watts(task)
    search = _Search(task, watts, limit)
    low = search.look(0.0, seconds / 2)
    fastest = None
    if low.seconds > limit:
        fastest = least_latency_of(task, seconds / 4)
        high = search.price(fastest.device[task.placed])
        search.between(low, search.best or high, seconds / 4)
    proved = search.enumerate()
    best = search.best
    if best is None:
        assert fastest is not None and fastest.objective is not None
        bound = fastest.bound
        none = f", and none is below {human_seconds(bound)}" if bound is not None else ""
        raise EditorError(
            f"no placement was found that takes at most {human_seconds(limit)} (policy option within): the fastest takes "
            f"{human_seconds(fastest.objective)}{none}. Raise the limit, or leave it out"
        )
    device = device_of_all_ops(task, task.placed, best.label)
    bound = best.joules if proved else min(search.bound, best.joules)
    return Assignment(
        device,
        reasons(task, times_watts(search.costs, watts), device, in_joules=True),
        best.joules,
        bound if search.costs.wires is None else None,
        "energy" if limit == np.inf else f"energy, latency within {human_seconds(limit)}",
        search.costs.estimated,
        in_joules=True,
    )


class _Search:
    """The placements that were priced, and the best within the limit."""

    def __init__(self, task: Task, watts: Floats, limit: float) -> None:
        self.task, self.watts, self.limit = task, watts, limit
        self.costs = task.costs()
        graph, allowed = task.constraints.graph, task.constraints.allowed
        self.seconds = Problem.of(graph, self.costs, allowed, task.placed)
        self.joules = Problem.of(graph, times_watts(self.costs, watts), allowed, task.placed)
        self.best: _Found | None = None
        self.bound = 0.0
        """No placement within the limit takes fewer joules."""

    def price(self, label: Ints) -> _Found:
        """Joules and seconds of a placement, which is kept where it is the best."""
        task, costs = self.task, self.costs
        graph, placed = task.constraints.graph, task.placed
        device = device_of_all_ops(task, placed, label)
        groups = minimal(graph, device, placed)
        joules = float(busy_seconds(graph, costs, device, placed, groups) @ self.watts)
        margin = 1.0 if costs.estimated or (label == label[:1]).all() else SPLIT_MARGIN
        seconds = price(graph, costs, device, placed, groups).total
        found = _Found(label, joules, seconds, joules * margin)
        if seconds <= self.limit and (self.best is None or found.value < self.best.value):
            self.best = found
        return found

    def look(self, second: float, budget: float) -> _Found:
        """The placement of least joules, each second of its latency counted as joules, of those that are found.

        Args:
            second: the joules that a second counts.
            budget: seconds for the search on three and more devices.
        """
        joules, seconds = self.joules, self.seconds
        problem = replace(
            joules,
            time=joules.time + second * seconds.time,
            leave=joules.leave + second * seconds.leave,
            enter=joules.enter + second * seconds.enter,
        )
        costs = times_watts(self.costs, self.watts + second)
        known = lower_bound(problem, costs)
        self.bound = max(self.bound, known - (second * self.limit if second else 0.0))
        labels: Iterable[Ints] = candidates(problem, costs)
        if budget:
            labels = chain(labels, searched(self.task, problem, costs, known, budget))
        best: _Found | None = None
        for label in labels:
            found = self.price(label)
            if best is None or _mixed(found, second) < _mixed(best, second):
                best = found
            if self.task.should_stop():
                break
        assert best is not None
        return best

    def between(self, low: _Found, high: _Found, budget: float) -> None:
        """Looks between a placement of few joules that takes too long and one within the limit."""
        second = 0.0
        for _ in range(_MOST_PRICES):
            saved = low.seconds - high.seconds
            if high.seconds > self.limit or high.joules <= low.joules or self.task.should_stop():
                break
            second = (high.joules - low.joules) / saved
            found = self.look(second, 0.0)
            if _mixed(found, second) >= _mixed(low, second) * (1 - _SAME):
                break
            low, high = (low, found) if found.seconds <= self.limit else (found, high)
        if budget and second and not self.task.should_stop():
            self.look(second, budget)
        differing = np.flatnonzero(low.label != high.label)
        for order in (differing, differing[::-1]):
            self._as_many(low.label, high.label, order)

    def _as_many(self, low: Ints, high: Ints, order: Ints) -> None:
        """Takes the devices of ``low`` for as many nodes of an order as the limit allows, by bisection."""
        fits, fails = 0, len(order)
        while fails - fits > 1 and not self.task.should_stop():
            middle = (fits + fails) // 2
            label = high.copy()
            label[order[:middle]] = low[order[:middle]]
            if self.price(label).seconds <= self.limit:
                fits = middle
            else:
                fails = middle

    def enumerate(self) -> bool:
        """Prices all placements of a small problem that may be the best; whether that proves it."""
        labels = all_placements(self.joules)
        if labels is None or not self.costs.estimated or self.costs.wires is not None:
            return False
        graph, placed = self.task.constraints.graph, self.task.placed
        seconds = bounds(graph, self.seconds, labels, placed, self.costs.launch)
        labels = labels[seconds <= self.limit * (1 + _SAME)]
        launch = self.costs.launch * self.watts
        joules = bounds(graph, self.joules, labels, placed, launch)

        def value(label: Ints) -> float:
            found = self.price(label)
            return found.joules if found.seconds <= self.limit else np.inf

        return least(labels, joules, self.best.joules if self.best else np.inf, value)[1]


def _mixed(found: _Found, second: float) -> float:
    return found.joules + second * found.seconds


def _limit(options: Mapping[str, Any]) -> float:
    given = options.get("within")
    if given is None:
        return np.inf
    seconds = parse_seconds(str(given))
    if not seconds:
        raise EditorError(f"policy option within: {shown(given)} is not a time such as 12ms")
    return seconds


def _watts(task: Task) -> Floats:
    """[device] watts; 0 for devices that may run no op."""
    devices = task.constraints.devices
    watts = stated_watts(devices)
    usable = task.constraints.allowed[task.placed].any(axis=0)
    missing = [d.name for d, no in zip(devices, np.isnan(watts) & usable, strict=True) if no]
    if missing:
        raise NoPowerError(
            f"the objective energy needs the watts of {' and '.join(missing)}: state them in the device table, such as "
            "power: 15 W",
            missing,
        )
    return np.nan_to_num(watts)


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
    first = seconds * _FIRST_SHARE if len(task.constraints.devices) > 2 else 0.0
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
