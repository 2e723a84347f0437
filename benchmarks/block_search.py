"""Better blocks by CP-SAT, from a good start: which node goes to which block, and when each block starts.

Solves the model of `block_latency` as it is: an accelerator's part is one block, host ops run as soon as they can.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from benchmarks.block_latency import block_latency
from editor.graph.graph import Ints
from editor.placement.policies.problem import Problem

UNITS = 2_000_000
"""Of time in the latency of the start: costs are rounded to this part of it."""
_SLACK = UNITS // 50
"""By which rounded costs may exceed it."""


def better_blocks(
    problem: Problem,
    label: Ints,
    host: int,
    seconds: float,
    together: Sequence[Sequence[int]] = (),
    workers: int = 8,
) -> tuple[Ints, float]:
    """A placement at least as good as the given one, and a latency that none is below.

    Args:
        problem: nodes in a topological order; accelerators must be alike.
        label: [node] device of a placement that fits.
        host: the device whose ops run one by one.
        seconds: for the search.
        together: groups of nodes that share a device.
        workers: threads of the solver; more than processors is fine, they search differently.
    """
    best = block_latency(problem, label, host)
    blocks = _Blocks(problem, host, UNITS / best)
    blocks.place(label, together)
    blocks.order()
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers, solver.parameters.random_seed = workers, 0
    status = solver.solve(blocks.model)
    bound = solver.best_objective_bound / blocks.scale
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return label, bound
    found = np.array(
        [next(d for d, literal in choice.items() if solver.value(literal)) for choice in blocks.on],
        np.int64,
    )
    return (
        (found, bound)
        if problem.fits(found) and block_latency(problem, found, host) < best
        else (label, bound)
    )


class _Blocks:
    """The model: a choice for each node, when what it makes is ready, and begin and end of each block."""

    def __init__(self, problem: Problem, host: int, scale: float) -> None:
        self.problem, self.host, self.scale, self.model = problem, host, scale, cp_model.CpModel()
        self.accelerators = [d for d in range(problem.time.shape[1]) if d != host]
        self.nodes = range(len(problem))
        self.units = np.rint(problem.time * scale).astype(np.int64)
        self.on = [
            {d: self.model.new_bool_var(f"on{v}_{d}") for d in (*self.accelerators, host)}
            for v in self.nodes
        ]
        self.ready = [self._instant(f"ready{v}") for v in self.nodes]
        self.begin = {d: self._instant(f"begin{d}") for d in self.accelerators}
        self.end = {d: self._instant(f"end{d}") for d in self.accelerators}

    def _instant(self, name: str) -> Any:
        return self.model.new_int_var(0, UNITS + _SLACK, name)

    def place(self, label: Ints, together: Sequence[Sequence[int]]) -> None:
        """Each node on one device that may have it, within its memory, where the others of its group are."""
        for v in self.nodes:
            self.model.add_exactly_one(self.on[v].values())
            for d, literal in self.on[v].items():
                self.model.add_hint(literal, int(label[v] == d))
                if not self.problem.allowed[v, d]:
                    self.model.add(literal == 0)
        for first, *others in together:
            for v in others:
                for d, literal in self.on[v].items():
                    self.model.add(literal == self.on[first][d])
        for d in self.accelerators:
            if np.isfinite(self.problem.capacity[d]):
                sizes = np.ceil(self.problem.size).astype(np.int64).tolist()
                used = sum(size * self.on[v][d] for v, size in enumerate(sizes))
                self.model.add(used <= int(self.problem.capacity[d]))

    def order(self) -> None:
        """What begins after what; the last end is least."""
        for v in self.nodes:
            self.model.add(self.ready[v] >= int(self.units[v, self.host])).only_enforce_if(
                self.on[v][self.host]
            )
            for d in self.accelerators:
                self.model.add(self.ready[v] >= self.end[d]).only_enforce_if(self.on[v][d])
        for t in self.problem.tensors:
            for r in t.readers:
                after = self.ready[t.source] + int(self.units[r, self.host])
                self.model.add(self.ready[r] >= after).only_enforce_if(self.on[r][self.host])
        for d in self.accelerators:
            work = [int(self.units[v, d]) * self.on[v][d] for v in self.nodes] + self._transfers(d)
            self.model.add(self.end[d] == self.begin[d] + sum(work))
        for first, second in pairwise(self.accelerators):  # they are alike
            self.model.add(self.begin[first] <= self.begin[second])
        last = self._instant("last")
        self.model.add_max_equality(last, self.ready)
        self.model.minimize(last)

    def _transfers(self, d: int) -> list[Any]:
        """Time of what comes into a block and leaves it; it begins when all that comes in is ready."""
        spent = []
        for t in self.problem.tensors:
            into, away = self.model.new_bool_var(""), self.model.new_bool_var("")
            inside = self.on[t.source][d]
            for r in t.readers:
                self.model.add_bool_or([into, self.on[r][d].negated(), inside])
                self.model.add_bool_or([away, inside.negated(), self.on[r][d]])
            self.model.add(self.begin[d] >= self.ready[t.source]).only_enforce_if(into)
            spent += [round(t.enter[d] * self.scale) * into, round(t.leave[d] * self.scale) * away]
        return spent
