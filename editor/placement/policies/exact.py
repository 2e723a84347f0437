"""Least latency of small problems, starts of subgraphs included, by looking at every placement."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from editor.graph.graph import Graph, Ints
from editor.placement.costs import Costs, price
from editor.placement.policies.problem import Floats, Problem

Labels = npt.NDArray[np.uint8]

MOST = 1 << 14
"""Placements that are looked at (14 ops with two choices each); decided ops do not count."""
_MOST_NODES, _MOST_PRICED = 512, 300


def least_latency(graph: Graph, problem: Problem, costs: Costs, placed: Ints, best: float) -> tuple[Ints | None, bool]:
    """A placement that costs less than ``best``, and whether it is known that nothing costs less.

    All placements are valued at once with the fewest starts they can have, then priced from the
    cheapest on until no other can win.

    Args:
        graph: the model.
        problem: its placed ops.
        costs: times.
        placed: [node] op.
        best: seconds of the best placement known so far.

    Returns:
        ([node] device, or None where nothing was found that beats ``best``; True when that is proved).
    """
    choices = problem.allowed.sum(axis=1).astype(np.float64)
    if not 0 < len(problem) <= _MOST_NODES or np.log2(choices).sum() > np.log2(MOST) + 1e-9:
        return None, False
    labels = _every(problem)
    value = _cut(problem, labels) + _starts(graph, problem, labels, placed, costs.launch)
    found, device = None, np.zeros(len(graph), np.int64)
    order = np.argsort(value, kind="stable").tolist()
    for row in order[:_MOST_PRICED]:
        if value[row] >= best * (1 - 1e-12):
            return found, True
        device[placed] = labels[row]
        total = price(graph, costs, device, placed).total
        if total < best * (1 - 1e-12):
            found, best = labels[row].astype(np.int64), total
    return found, len(order) <= _MOST_PRICED


def _every(problem: Problem) -> Labels:
    """[placement, node] every way to choose allowed devices."""
    choices = [np.flatnonzero(row).astype(np.uint8) for row in problem.allowed]
    count = int(np.prod([len(c) for c in choices]))
    labels, row, stride = np.empty((count, len(choices)), np.uint8), np.arange(count), 1
    for node, devices in enumerate(choices):
        labels[:, node] = devices[row // stride % len(devices)]
        stride *= len(devices)
    return labels


def _cut(problem: Problem, labels: Labels) -> Floats:
    """[placement] seconds of ops and transfers."""
    total: Floats = np.zeros(len(labels))
    for node, label in enumerate(labels.T):
        total += problem.time[node][label]
    for tensor in problem.tensors:
        home, leaves = labels[:, tensor.source], np.zeros(len(labels), bool)
        for device, enter in enumerate(tensor.enter):
            arrives = (labels[:, list(tensor.readers)] == device).any(axis=1) & (home != device)
            total += arrives * enter
            leaves |= arrives
        total += leaves * np.array(tensor.leave)[home]
    return total


def _starts(graph: Graph, problem: Problem, labels: Labels, placed: Ints, launch: Floats) -> Floats:
    """[placement] the least seconds of starts: exact for two devices, where subgraphs take turns."""
    node = np.full(len(graph), -1, np.int64)
    node[placed] = np.arange(len(placed))
    producer, consumer, _ = graph.edges
    edges = [(int(node[p]), int(node[c])) for p, c in zip(producer, consumer, strict=True) if node[p] >= 0 and node[c] >= 0]
    devices = problem.time.shape[1]
    used = np.stack([(labels == d).any(axis=1) for d in range(devices)], axis=1)
    if devices > 2:
        turns = _turns(labels, edges, np.zeros_like(labels, np.int16))
        return np.asarray(np.maximum(used @ launch, turns * launch.min()), np.float64)
    least = np.full(len(labels), np.inf)
    for start in range(devices):
        turns = _turns(labels, edges, (labels != start).astype(np.int16))
        least = np.minimum(least, (turns + 1) // 2 * launch[start] + turns // 2 * launch[devices - 1 - start])
    return np.asarray(np.where(used.sum(axis=1) == 1, used @ launch, least), np.float64)


def _turns(labels: Labels, edges: Iterable[tuple[int, int]], first: npt.NDArray[np.int16]) -> Ints:
    """[placement] changes of device along the longest path, plus one; ``first``: [placement, node] at the sources."""
    turn = first
    for source, target in sorted(edges, key=lambda edge: edge[1]):  # nodes are numbered in a topological order
        np.maximum(turn[:, target], turn[:, source] + (labels[:, source] != labels[:, target]), out=turn[:, target])
    return np.asarray(turn.max(axis=1), np.int64) + 1
