"""Improves a placement by large neighbourhood search: part of the nodes is placed again, exactly, the rest stays.

Each round frees some nodes (neighbours in the graph, a stretch of the order, or nodes of two devices) and lets CP-SAT
find their best devices (Shaw, "Using constraint programming and local search methods to solve vehicle routing problems",
1998). A round that ends early frees more nodes next time, one that does not end frees fewer. Small problems are freed as
a whole, which also proves a bound. One thread, a fixed seed and the solver's own count of its work make results repeatable.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from ortools.sat.python import cp_model

from editor.graph.graph import Bools, Ints
from editor.placement.policies.problem import Problem

BUSIEST, TOTAL = "busiest", "total"
_UNITS = 10_000_000
"""The value of the start, in the solver's integers."""
_FIRST_SIZE, _LEAST_SIZE = 40, 8
_ROUND_SHARE, _MIN_ROUND = 0.06, 0.15
"""Of the budget, and seconds: the most that one round may take."""
_WHOLE_CHOICES = 1_200
"""Nodes times devices up to which the whole problem is handed to the solver."""
_WALL_FACTOR = 1.5
"""A slow machine stops at this multiple of the budget, even where that makes results differ from machine to machine."""
_ASK_SECONDS = 0.05
_GOOD_ENOUGH = 1e-4
"""Relative distance from the bound at which the search ends."""


@dataclass(frozen=True)
class Improved:
    """The best placement found."""

    label: Ints
    """[node] device"""
    value: float
    """seconds: load of the busiest device, or sum of all loads"""
    bound: float
    """No placement has a lower value, as far as proved."""


def value_of(problem: Problem, label: Ints, objective: str) -> float:
    """Seconds of a placement: the load of its busiest device, or the sum of all loads."""
    loads = problem.loads(label)
    return float(loads.max(initial=0.0) if objective == BUSIEST else loads.sum())


def improve(problem: Problem, label: Ints, objective: str, seconds: float, bound: float = 0.0,
            should_stop: Callable[[], bool] = bool, seed: int = 0) -> Improved:
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
    while (spent < seconds and perf_counter() - begin < _WALL_FACTOR * seconds and not should_stop()
           and best.value > best.bound * (1 + _GOOD_ENOUGH)):
        share = min(max(_ROUND_SHARE * seconds, _MIN_ROUND), seconds - spent)
        best, took = search.place_again(best, search.choose(best.label), share)
        spent += took + 0.002  # building a model takes time as well
    return best


class _Search:
    """A problem in the solver's integers, and the size of the next neighbourhood."""

    def __init__(self, problem: Problem, objective: str, rng: np.random.Generator, size: int,
                 should_stop: Callable[[], bool]) -> None:
        self.problem, self.objective, self.rng, self.size, self.should_stop = problem, objective, rng, size, should_stop
        n = len(problem)
        self.neighbours: list[list[int]] = [[] for _ in range(n)]
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
            busiest = int(loads.argmax()) if self.objective == BUSIEST else int(self.rng.integers(len(loads)))
            mine = np.flatnonzero((label == busiest) | (label == int(self.rng.integers(len(loads)))))
            nodes = self.rng.choice(mine, min(size, len(mine)), replace=False) if len(mine) else np.arange(size)
        freed = np.zeros(n, bool)
        freed[nodes] = True
        return freed

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
        model = _Model(self.problem, best.label, freed, self.objective, best.value)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.max_deterministic_time = seconds
        solver.parameters.max_time_in_seconds = _WALL_FACTOR * seconds + 0.1
        with _stopping(solver, self.should_stop):
            status = solver.solve(model.model)
        ended = status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
        if not freed.all():
            self.size = min(self.size * 5 // 4 + 1, len(self.problem)) if ended else max(self.size * 4 // 5, _LEAST_SIZE)
        took = solver.response_proto.deterministic_time
        if freed.all():
            proved = min(model.seconds(solver.best_objective_bound), best.value)
            best = Improved(best.label, best.value, max(best.bound, proved))
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            label = model.label(solver)
            value = value_of(self.problem, label, self.objective)
            # An equal value with other loads is taken too: it may open a way on.
            if value <= best.value and self.problem.fits(label):
                best = Improved(label, value, best.bound)
        return best, took


@contextlib.contextmanager
def _stopping(solver: cp_model.CpSolver, should_stop: Callable[[], bool]) -> Iterator[None]:
    """Ends the solver soon after it should stop: a round of a long search takes seconds."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_ASK_SECONDS):
            if should_stop():
                solver.stop_search()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


class _Model:
    """The freed nodes as a CP-SAT model; everything else is constant."""

    def __init__(self, problem: Problem, label: Ints, freed: Bools, objective: str, value: float) -> None:
        self.problem, self.start, self.freed, self.unit = problem, label, freed, value / _UNITS
        self.model = cp_model.CpModel()
        devices = problem.time.shape[1]
        self.on: dict[int, dict[int, cp_model.IntVar]] = {}
        for v in np.flatnonzero(freed).tolist():
            choices = np.flatnonzero(problem.allowed[v]).tolist()
            self.on[v] = {d: self.model.new_bool_var("") for d in choices}
            self.model.add_exactly_one(self.on[v].values())
            for d, chosen in self.on[v].items():
                self.model.add_hint(chosen, d == label[v])
        self.terms: list[list[cp_model.LinearExprT]] = [[] for _ in range(devices)]
        self.constant = [0] * devices
        self._charge_all()
        self._fit()
        loads = [sum(terms) + constant for terms, constant in zip(self.terms, self.constant, strict=True)]
        if objective == BUSIEST:
            top = self.model.new_int_var(0, 4 * _UNITS, "top")
            for load in loads:
                self.model.add(load <= top)
            self.model.minimize(top)
        else:
            self.model.minimize(sum(loads))

    def _charge_all(self) -> None:
        """Every node and every transfer, as terms or constants of the loads."""
        problem, label, freed = self.problem, self.start, self.freed
        for v in range(len(problem)):
            if v not in self.on:
                self._charge(int(label[v]), problem.time[v, label[v]], None)
            else:
                for d, chosen in self.on[v].items():
                    self._charge(d, problem.time[v, d], chosen)
        for i, tensor in enumerate(problem.tensors):
            if freed[tensor.source] or any(freed[r] for r in tensor.readers):
                self._transfers(tensor.source, tensor.readers, problem.leave[i], problem.enter[i])
            else:
                home, targets = int(label[tensor.source]), {int(label[r]) for r in tensor.readers}
                if targets - {home}:
                    self._charge(home, problem.leave[i, home], None)
                for d in targets - {home}:
                    self._charge(d, problem.enter[i, d], None)

    def seconds(self, objective: float) -> float:
        """The solver's value in seconds; rounding of every term to integers is taken off."""
        terms = sum(len(t) for t in self.terms) + len(self.problem)
        return max(objective - terms, 0.0) * self.unit

    def label(self, solver: cp_model.CpSolver) -> Ints:
        """[node] device of a solution."""
        label = self.start.copy()
        for v, choices in self.on.items():
            label[v] = next(d for d, chosen in choices.items() if solver.boolean_value(chosen))
        return label

    def _charge(self, device: int, seconds: float, when: cp_model.IntVar | None) -> None:
        amount = round(float(seconds) / self.unit)
        if when is None:
            self.constant[device] += amount
        elif amount:
            self.terms[device].append(when * amount)

    def _transfers(self, source: int, readers: tuple[int, ...], leave: np.ndarray, enter: np.ndarray) -> None:
        """A tensor leaves its device where some reader is elsewhere, and arrives at each device of a reader once."""
        leaves: dict[int, cp_model.IntVar] = {}
        arrives: dict[int, cp_model.IntVar] = {}
        homes = self._choices(source)
        for reader in readers:
            for d, there in self._choices(reader).items():
                if enter[d]:
                    arrives.setdefault(d, self.model.new_bool_var(""))
                    self._if_apart(there, homes.get(d, False), arrives[d])
            for d, here in homes.items():
                if leave[d]:
                    leaves.setdefault(d, self.model.new_bool_var(""))
                    self._if_apart(here, self._choices(reader).get(d, False), leaves[d])
        for d, var in leaves.items():
            self._charge(d, leave[d], var)
        for d, var in arrives.items():
            self._charge(d, enter[d], var)

    def _choices(self, node: int) -> dict[int, cp_model.IntVar | bool]:
        """device -> whether the node is on it; devices that it cannot be on are absent."""
        return dict(self.on[node]) if node in self.on else {int(self.start[node]): True}

    def _if_apart(self, one: cp_model.IntVar | bool, other: cp_model.IntVar | bool, then: cp_model.IntVar) -> None:
        """``one`` and not ``other`` imply ``then``."""
        if other is True:
            return
        clause = [then]
        if not isinstance(one, bool):
            clause.append(one.negated())
        if not isinstance(other, bool):
            clause.append(other)
        self.model.add_bool_or(clause)

    def _fit(self) -> None:
        problem = self.problem
        limited = [d for d in range(problem.time.shape[1]) if np.isfinite(problem.capacity[d])]
        scale = max(problem.size.max(initial=0.0), 1.0) / 1e9
        for d in limited:
            used = float(problem.size[(self.start == d) & ~self.freed].sum())
            room = int((problem.capacity[d] + 1e-6 - used) / scale)
            terms = [chosen * int(np.ceil(problem.size[v] / scale)) for v, choices in self.on.items()
                     for e, chosen in choices.items() if e == d and problem.size[v]]
            if terms:
                self.model.add(sum(terms) <= room)
