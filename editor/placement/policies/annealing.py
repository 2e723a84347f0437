"""Improving a placement for throughput by moving single nodes, contiguous or not (simulated annealing)."""

from __future__ import annotations

import numpy as np

from editor.graph.graph import Ints
from editor.placement.policies.problem import Problem

_BATCH = 512
_NORM = 10
"""Loads are compared by a high norm: close to the largest, yet it rewards progress on the others."""


def balance(problem: Problem, label: Ints, moves: int, seed: int = 0) -> Ints:
    """The placement with the least busiest device seen on a random walk; never worse than the start.

    Args:
        problem: what to place.
        label: [node] device to start from; it must be allowed and fit.
        moves: length of the walk; the result depends on it and the seed alone.
        seed: of the random moves.
    """
    walk = _Walk(problem, label)
    rng = np.random.default_rng(seed)
    best, best_value = label.copy(), walk.busiest()
    hot = 0.02 * best_value
    n, devices = len(problem), problem.time.shape[1]
    if n == 0 or devices == 1:
        return best
    for done in range(0, moves, _BATCH):
        temperature = hot * (1 - done / moves) ** 2 + 1e-12
        for node, roll, luck in zip(rng.integers(0, n, _BATCH).tolist(), rng.random(_BATCH).tolist(),
                                    rng.random(_BATCH).tolist(), strict=True):
            target = walk.propose(node, roll)
            if target is None:
                continue
            before = walk.score()
            undo = walk.move(node, target)
            change = walk.score() - before
            if change > 0 and luck >= np.exp(-change / temperature):
                walk.undo(undo)
            elif walk.busiest() < best_value - 1e-15:
                best, best_value = np.array(walk.of), walk.busiest()
    return best


class _Walk:
    """Loads kept up to date move by move."""

    def __init__(self, problem: Problem, label: Ints) -> None:
        self.problem, self.of = problem, label.tolist()
        self.load = problem.loads(label).tolist()
        self.used = problem.used(label).tolist()
        self.time = problem.time.tolist()
        self.allowed = problem.allowed.tolist()
        self.size, self.capacity = problem.size.tolist(), problem.capacity.tolist()
        self.touching: list[list[int]] = [[] for _ in range(len(problem))]
        self.near: list[list[int]] = [[] for _ in range(len(problem))]
        for i, t in enumerate(problem.tensors):
            for v in {t.source, *t.readers}:
                self.touching[v].append(i)
            for r in t.readers:
                self.near[t.source].append(r)
                self.near[r].append(t.source)

    def busiest(self) -> float:
        """Load of the busiest device."""
        return float(max(self.load))

    def score(self) -> float:
        """A smooth stand-in for the busiest device."""
        top = max(self.load)
        return float(top * sum((v / top) ** _NORM for v in self.load) ** (1 / _NORM)) if top else 0.0

    def propose(self, node: int, roll: float) -> int | None:
        """Another device for a node: mostly that of a neighbour."""
        near = self.near[node]
        target = (self.of[near[int(roll / 0.85 * len(near))]] if near and roll < 0.85
                  else int(roll * 1e6) % len(self.load))
        if target == self.of[node] or not self.allowed[node][target]:
            return None
        return target if self.used[target] + self.size[node] <= self.capacity[target] + 1e-6 else None

    def move(self, node: int, target: int) -> tuple[int, int, list[float]]:
        """Moves a node; returns what ``undo`` needs."""
        home, loads = self.of[node], self.load.copy()
        for i in self.touching[node]:
            self._charge(i, -1.0)
        self.of[node] = target
        for i in self.touching[node]:
            self._charge(i, 1.0)
        self.load[home] -= self.time[node][home]
        self.load[target] += self.time[node][target]
        self.used[home] -= self.size[node]
        self.used[target] += self.size[node]
        return node, home, loads

    def undo(self, token: tuple[int, int, list[float]]) -> None:
        """Takes a move back."""
        node, home, loads = token
        target = self.of[node]
        self.used[target] -= self.size[node]
        self.used[home] += self.size[node]
        self.of[node], self.load = home, loads

    def _charge(self, tensor: int, sign: float) -> None:
        t = self.problem.tensors[tensor]
        home = self.of[t.source]
        away = {self.of[r] for r in t.readers}
        away.discard(home)
        if away:
            self.load[home] += sign * t.leave[home]
            for device in away:
                self.load[device] += sign * t.enter[device]
