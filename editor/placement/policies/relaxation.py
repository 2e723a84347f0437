"""Lower bounds by linear programming: nodes may be divided between devices, everything else is as in the real problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from editor.placement.policies.problem import Problem

if TYPE_CHECKING:
    from ortools.linear_solver import pywraplp

_MAX_TERMS = 40_000
"""Readers times devices up to which the program is solved: larger ones take seconds."""
_TIME_LIMIT = 2.0
_SAFETY = 1e-6
"""The solver's tolerance, relative to the bound."""


def relaxed_bound(problem: Problem, busiest: bool) -> float:
    """No placement takes fewer seconds; 0 where the problem is too large, or the solver does not end in time.

    Args:
        problem: what to place.
        busiest: bound the load of the busiest processor, instead of the sum of all loads.
    """
    n, devices = problem.time.shape
    if n == 0 or len(problem.readers.values) * devices > _MAX_TERMS:
        return 0.0
    from ortools.linear_solver import pywraplp  # importing takes 0.04 s, and most commands do not need it

    # Interior points stop at a tolerance; a simplex solver ends at a vertex, whose dual is a proof.
    solver = pywraplp.Solver.CreateSolver("GLOP")
    solver.SetTimeLimit(int(_TIME_LIMIT * 1000))
    unit = float(np.where(problem.allowed, problem.time, np.inf).min(axis=1).sum()) or 1.0
    on = _places(solver, problem)
    loads: list[list[tuple[pywraplp.Variable, float]]] = [[] for _ in range(devices)]
    for v, choices in enumerate(on):
        for d, share in choices.items():
            loads[d].append((share, problem.time[v, d] / unit))
    for i, tensor in enumerate(problem.tensors):
        homes = on[tensor.source]
        for d in range(devices):
            arrives = leaves = None
            for reader in tensor.readers:
                there, here = on[reader].get(d), homes.get(d)
                if there is not None and problem.enter[i, d]:
                    arrives = arrives or solver.NumVar(0, 1, "")
                    _at_least(solver, arrives, there, here)
                if here is not None and problem.leave[i, d]:
                    leaves = leaves or solver.NumVar(0, 1, "")
                    _at_least(solver, leaves, here, there)
            if arrives is not None:
                loads[d].append((arrives, problem.enter[i, d] / unit))
            if leaves is not None:
                loads[d].append((leaves, problem.leave[i, d] / unit))
    if busiest:
        devices_of = [np.flatnonzero(problem.processors == p).tolist() for p in range(int(problem.processors.max()) + 1)]
        loads = [[term for d in mine for term in loads[d]] for mine in devices_of]
    _minimise(solver, loads, busiest)
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return 0.0
    return float(solver.Objective().Value()) * unit * (1 - _SAFETY)


def _places(solver: pywraplp.Solver, problem: Problem) -> list[dict[int, pywraplp.Variable]]:
    """[node] device -> share of the node on it; weights fit."""
    on = []
    for v in range(len(problem)):
        choices = {d: solver.NumVar(0, 1, "") for d in np.flatnonzero(problem.allowed[v]).tolist()}
        row = solver.Constraint(1, 1)
        for share in choices.values():
            row.SetCoefficient(share, 1)
        on.append(choices)
    for d in np.flatnonzero(np.isfinite(problem.capacity)).tolist():
        row = solver.Constraint(-solver.infinity(), 1)
        for v, choices in enumerate(on):
            if d in choices and problem.size[v] and problem.capacity[d]:
                row.SetCoefficient(choices[d], problem.size[v] / problem.capacity[d])
    return on


def _at_least(solver: pywraplp.Solver, cost: pywraplp.Variable, one: pywraplp.Variable,
              other: pywraplp.Variable | None) -> None:
    """``cost`` is at least the share of ``one`` that exceeds that of ``other``."""
    row = solver.Constraint(0, solver.infinity())
    row.SetCoefficient(cost, 1)
    row.SetCoefficient(one, -1)
    if other is not None:
        row.SetCoefficient(other, 1)


def _minimise(solver: pywraplp.Solver, loads: list[list[tuple[pywraplp.Variable, float]]], busiest: bool) -> None:
    objective = solver.Objective()
    objective.SetMinimization()
    if not busiest:
        for load in loads:
            for variable, seconds in load:
                objective.SetCoefficient(variable, objective.GetCoefficient(variable) + seconds)
        return
    top = solver.NumVar(0, solver.infinity(), "")
    objective.SetCoefficient(top, 1)
    for load in loads:
        row = solver.Constraint(0, solver.infinity())
        row.SetCoefficient(top, 1)
        for variable, seconds in load:
            row.SetCoefficient(variable, row.GetCoefficient(variable) - seconds)
