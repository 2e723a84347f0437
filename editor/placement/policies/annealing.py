"""Improves a placement for throughput by moving single nodes (simulated annealing); stages may be non-contiguous."""

from __future__ import annotations

import numpy as np

from editor.graph.graph import Ints
from editor.placement.policies.problem import Problem

_BATCH = 512
_NORM = 10
"""Order of the norm of the loads: close to the maximum, yet sensitive to the other devices."""


def balance(problem: Problem, label: Ints, moves: int, seed: int = 0) -> Ints:
    """The placement of a random walk whose busiest device has the least load; never worse than the start.

    Args:
        problem: what to place.
        label: [node] device to start from; it must be allowed and fit.
        moves: number of steps of the walk; the result depends only on it and the seed.
        seed: seed of the random moves.
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
                best, best_value = np.array(walk.device_of), walk.busiest()
    return best


class _Walk:
    """A placement with the loads of its devices, updated after each move."""

    def __init__(self, problem: Problem, label: Ints) -> None:
        self.problem, self.device_of = problem, label.tolist()
        self.load = problem.loads(label).tolist()
        self.used = problem.used(label).tolist()
        self.time = problem.time.tolist()
        self.allowed = problem.allowed.tolist()
        self.size, self.capacity = problem.size.tolist(), problem.capacity.tolist()
        self.touching: list[list[int]] = [[] for _ in range(len(problem))]
        self.neighbours: list[list[int]] = [[] for _ in range(len(problem))]
        for i, t in enumerate(problem.tensors):
            for v in {t.source, *t.readers}:
                self.touching[v].append(i)
            for r in t.readers:
                self.neighbours[t.source].append(r)
                self.neighbours[r].append(t.source)

    def busiest(self) -> float:
        """Load of the busiest device."""
        return float(max(self.load))

    def score(self) -> float:
        """A smooth approximation of the largest load."""
        top = max(self.load)
        return float(top * sum((v / top) ** _NORM for v in self.load) ** (1 / _NORM)) if top else 0.0

    def propose(self, node: int, roll: float) -> int | None:
        """Another device for a node, mostly that of a neighbour; None when it is not allowed or does not fit."""
        neighbours = self.neighbours[node]
        target = (self.device_of[neighbours[int(roll / 0.85 * len(neighbours))]] if neighbours and roll < 0.85
                  else int(roll * 1e6) % len(self.load))
        if target == self.device_of[node] or not self.allowed[node][target]:
            return None
        return target if self.used[target] + self.size[node] <= self.capacity[target] + 1e-6 else None

    def move(self, node: int, target: int) -> tuple[int, int, list[float]]:
        """Moves a node; returns the argument for ``undo``."""
        origin, loads = self.device_of[node], self.load.copy()
        for i in self.touching[node]:
            self._charge(i, -1.0)
        self.device_of[node] = target
        for i in self.touching[node]:
            self._charge(i, 1.0)
        self.load[origin] -= self.time[node][origin]
        self.load[target] += self.time[node][target]
        self.used[origin] -= self.size[node]
        self.used[target] += self.size[node]
        return node, origin, loads

    def undo(self, token: tuple[int, int, list[float]]) -> None:
        """Reverts a move."""
        node, origin, loads = token
        target = self.device_of[node]
        self.used[target] -= self.size[node]
        self.used[origin] += self.size[node]
        self.device_of[node], self.load = origin, loads

    def _charge(self, tensor: int, sign: float) -> None:
        t = self.problem.tensors[tensor]
        source_device = self.device_of[t.source]
        destinations = {self.device_of[r] for r in t.readers}
        destinations.discard(source_device)
        if destinations:
            self.load[source_device] += sign * t.leave[source_device]
            for device in destinations:
                self.load[device] += sign * t.enter[device]
