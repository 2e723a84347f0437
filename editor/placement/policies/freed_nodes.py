"""Some nodes of a placement, placed again by CP-SAT while all others stay.

A module of its own because the solver's package loads pandas: 0.2 s that only a search needs.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from editor.graph.graph import Bools, Ints
from editor.placement.policies.problem import Problem

_UNITS = 10_000_000
"""The value of the start, in the solver's integers."""
_MOST_UNITS = 8 * _UNITS
"""Of one choice: with it, the whole is worse than the start; larger numbers would overflow."""
_ASK_SECONDS = 0.05


@dataclass(frozen=True)
class Solution:
    """The result of the solver."""

    label: Ints | None
    """[node] device; None where it found nothing"""
    ended: bool
    """Whether nothing is left to search"""
    bound: float
    """seconds: nothing is better while the other nodes stay"""
    took: float
    """seconds, as the solver counts its work"""


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


class FreedNodes:
    """The freed nodes as a CP-SAT model; everything else is constant."""

    def __init__(
        self, problem: Problem, label: Ints, freed: Bools, busiest: bool, value: float
    ) -> None:
        """The model.

        Args:
            problem: all nodes.
            label: [node] device, where a node is not freed.
            freed: [node] whether it is placed again.
            busiest: whether to minimise the load of the busiest processor, and not the sum of all loads.
            value: seconds of ``label``; the unit of the solver's integers is a small part of it.
        """
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
        loads = [
            sum(terms) + constant for terms, constant in zip(self.terms, self.constant, strict=True)
        ]
        if busiest:
            top = self.model.new_int_var(0, 4 * _UNITS, "top")
            for processor in range(int(problem.processors.max()) + 1):
                mine = np.flatnonzero(problem.processors == processor).tolist()
                self.model.add(sum(loads[d] for d in mine) <= top)
            self.model.minimize(top)
        else:
            self.model.minimize(sum(loads))

    def solve(self, seconds: float, most: float, should_stop: Callable[[], bool]) -> Solution:
        """The best devices that the solver finds, the same every time.

        Args:
            seconds: as the solver counts its work.
            most: seconds of the clock.
            should_stop: asked many times a second.
        """
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.max_deterministic_time = seconds
        solver.parameters.max_time_in_seconds = most
        with _stopping(solver, should_stop):
            status = solver.solve(self.model)
        found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
        return Solution(
            self.label(solver) if found else None,
            status in (cp_model.OPTIMAL, cp_model.INFEASIBLE),
            self.seconds(solver.best_objective_bound),
            solver.response_proto.deterministic_time,
        )

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
        amount = round(min(float(seconds) / self.unit, _MOST_UNITS))
        if when is None:
            self.constant[device] += amount
        elif amount:
            self.terms[device].append(when * amount)

    def _transfers(
        self, source: int, readers: tuple[int, ...], leave: np.ndarray, enter: np.ndarray
    ) -> None:
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

    def _if_apart(
        self, one: cp_model.IntVar | bool, other: cp_model.IntVar | bool, then: cp_model.IntVar
    ) -> None:
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
            terms = [
                chosen * int(np.ceil(problem.size[v] / scale))
                for v, choices in self.on.items()
                for e, chosen in choices.items()
                if e == d and problem.size[v]
            ]
            if terms:
                self.model.add(sum(terms) <= room)
