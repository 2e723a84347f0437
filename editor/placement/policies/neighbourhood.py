"""Improves a placement by large neighbourhood search: part of the nodes is placed again, exactly, the rest stays.

Each round frees some nodes (neighbours in the graph, a stretch of the order, or nodes of two devices) and lets CP-SAT
find their best devices (Shaw, "Using constraint programming and local search methods to solve vehicle routing problems",
1998). A round that ends early frees more nodes next time, one that does not end frees fewer. Small problems are freed as
a whole, which also proves a bound. One thread, a fixed seed and the solver's own count of its work make results repeatable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from editor.graph.graph import Bools, Ints, mask_of
from editor.placement.policies.problem import Problem

BUSIEST, TOTAL = "busiest", "total"
_FIRST_SIZE, _LEAST_SIZE = 40, 8
_ROUND_SHARE, _MIN_ROUND = 0.06, 0.15
"""Of the budget, and seconds: the most that one round may take."""
_WHOLE_CHOICES = 1_200
"""Nodes times devices up to which the whole problem is handed to the solver."""
_WALL_FACTOR = 1.5
"""A slow machine stops at this multiple of the budget, even where that makes results differ from machine to machine."""
_GOOD_ENOUGH = 1e-4
"""Relative distance from the bound at which the search ends."""


@dataclass(frozen=True)
class Improved:
    """The best placement found."""

    label: Ints
    """[node] device"""
    value: float
    """seconds: load of the busiest processor, or sum of all loads"""
    bound: float
    """No placement has a lower value, as far as proved."""


def value_of(problem: Problem, label: Ints, objective: str) -> float:
    """Seconds of a placement: the load of its busiest processor, or the sum of all loads."""
    return float(
        problem.busy(label).max(initial=0.0) if objective == BUSIEST else problem.loads(label).sum()
    )


def improve(
    problem: Problem,
    label: Ints,
    objective: str,
    seconds: float,
    bound: float = 0.0,
    should_stop: Callable[[], bool] = bool,
    seed: int = 0,
) -> Improved:
    """The best placement that large neighbourhood search finds; never worse than the start.

    Args:
        problem: what to place.
        label: [node] device to start from; allowed, and it fits.
        objective: ``busiest`` or ``total``.
        seconds: budget, as counted by the solver.
        bound: a known lower bound of the objective, seconds.
        should_stop: asked between rounds and all along.
        seed: of the choice of nodes.
    """
    best = Improved(label.copy(), value_of(problem, label, objective), bound)
    n, devices = problem.time.shape
    if n == 0 or devices == 1 or seconds <= 0 or not best.value:
        return best
    search = _Search(problem, objective, np.random.default_rng(seed), _FIRST_SIZE, should_stop)
    begin, spent = perf_counter(), 0.0
    if n * devices <= _WHOLE_CHOICES and not should_stop():
        best, spent = search.place_again(best, np.ones(n, bool), seconds / 3)
    while (
        spent < seconds
        and perf_counter() - begin < _WALL_FACTOR * seconds
        and not should_stop()
        and best.value > best.bound * (1 + _GOOD_ENOUGH)
    ):
        share = min(max(_ROUND_SHARE * seconds, _MIN_ROUND), seconds - spent)
        best, took = search.place_again(best, search.choose(best.label), share)
        spent += took + 0.002  # building a model takes time as well
    return best


class _Search:
    """A problem in the solver's integers, and the size of the next neighbourhood."""

    def __init__(
        self,
        problem: Problem,
        objective: str,
        rng: np.random.Generator,
        size: int,
        should_stop: Callable[[], bool],
    ) -> None:
        self.problem, self.objective, self.rng, self.size, self.should_stop = (
            problem,
            objective,
            rng,
            size,
            should_stop,
        )
        self.neighbours: list[list[int]] = [[] for _ in range(len(problem))]
        for t in problem.tensors:
            for r in t.readers:
                self.neighbours[t.source].append(r)
                self.neighbours[r].append(t.source)

    def choose(self, label: Ints) -> Bools:
        """[node] whether it is freed."""
        n, size = len(self.problem), min(self.size, len(self.problem))
        way = self.rng.integers(4)
        if way == 0:
            start = int(self.rng.integers(0, n - size + 1))
            nodes = np.arange(start, start + size)
        elif way == 1:
            nodes = self._around(int(self.rng.integers(n)), size)
        elif way == 2:
            crossing = self._crossing(label)
            first = int(self.rng.choice(crossing)) if len(crossing) else int(self.rng.integers(n))
            nodes = self._around(first, size)
        else:
            loads = self.problem.loads(label)
            busiest = (
                int(loads.argmax())
                if self.objective == BUSIEST
                else int(self.rng.integers(len(loads)))
            )
            mine = np.flatnonzero(
                (label == busiest) | (label == int(self.rng.integers(len(loads))))
            )
            nodes = (
                self.rng.choice(mine, min(size, len(mine)), replace=False)
                if len(mine)
                else np.arange(size)
            )
        return mask_of(n, nodes)

    def _crossing(self, label: Ints) -> Ints:
        tensor = self.problem.readers.row_of_value
        away = label[self.problem.readers.values] != label[self.problem.source[tensor]]
        return np.unique(self.problem.readers.values[away])

    def _around(self, first: int, size: int) -> Ints:
        """The nodes nearest to one, in breadth-first order with random ties."""
        seen, queue = {first}, [first]
        for node in queue:
            if len(queue) >= size:
                break
            around = self.neighbours[node]
            for i in self.rng.permutation(len(around)).tolist():
                if around[i] not in seen:
                    seen.add(around[i])
                    queue.append(around[i])
        return np.array(queue[:size], np.int64)

    def place_again(self, best: Improved, freed: Bools, seconds: float) -> tuple[Improved, float]:
        """The best placement of the freed nodes, and the seconds that the solver counted."""
        from editor.placement.policies.freed_nodes import FreedNodes

        nodes = FreedNodes(self.problem, best.label, freed, self.objective == BUSIEST, best.value)
        found = nodes.solve(seconds, _WALL_FACTOR * seconds + 0.1, self.should_stop)
        if freed.all():
            best = Improved(best.label, best.value, max(best.bound, min(found.bound, best.value)))
        else:
            self.size = (
                min(self.size * 5 // 4 + 1, len(self.problem))
                if found.ended
                else max(self.size * 4 // 5, _LEAST_SIZE)
            )
        if found.label is not None:
            value = value_of(self.problem, found.label, self.objective)
            # An equal value with other loads is taken too: it may open a way on.
            if value <= best.value and self.problem.fits(found.label):
                best = Improved(found.label, value, best.bound)
        return best, found.took
