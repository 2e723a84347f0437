"""Least latency of small problems, launch overhead included, by exhaustive search."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from editor.graph.graph import Graph, Ints
from editor.placement.costs import Costs, price
from editor.placement.policies.problem import Floats, Problem

Labels = npt.NDArray[np.uint8]

MAX_PLACEMENTS = 1 << 14
"""Most placements to enumerate: 14 ops with two allowed devices each."""
_MAX_NODES, _MAX_PRICED = 512, 300


def least_latency(graph: Graph, problem: Problem, costs: Costs, placed: Ints, best: float) -> tuple[Ints | None, bool]:
    """A placement that costs less than ``best``, and whether it is proved optimal.

    All placements get a lower bound, from the least launch overhead they can have; they are then priced
    in the order of this bound until no other can be better.

    Args:
        graph: the model.
        problem: its placed ops as nodes.
        costs: times.
        placed: [node] op.
        best: seconds of the best placement known so far.

    Returns:
        ([node] device, or None where no placement beats ``best``; True when the result is proved optimal).
    """
    choices = problem.allowed.sum(axis=1).astype(np.float64)
    if not 0 < len(problem) <= _MAX_NODES or np.log2(choices).sum() > np.log2(MAX_PLACEMENTS) + 1e-9:
        return None, False
    labels = _all_placements(problem)
    bound = _op_and_transfer_seconds(problem, labels) + _least_launch_seconds(graph, problem, labels, placed, costs.launch)
    result, device = None, np.zeros(len(graph), np.int64)
    order = np.argsort(bound, kind="stable").tolist()
    for row in order[:_MAX_PRICED]:
        if bound[row] >= best * (1 - 1e-12):
            return result, True
        device[placed] = labels[row]
        total = price(graph, costs, device, placed).total
        if total < best * (1 - 1e-12):
            result, best = labels[row].astype(np.int64), total
    return result, len(order) <= _MAX_PRICED


def _all_placements(problem: Problem) -> Labels:
    """[placement, node] device, for every combination of allowed devices."""
    choices = [np.flatnonzero(row).astype(np.uint8) for row in problem.allowed]
    count = int(np.prod([len(c) for c in choices]))
    labels, row, stride = np.empty((count, len(choices)), np.uint8), np.arange(count), 1
    for node, devices in enumerate(choices):
        labels[:, node] = devices[row // stride % len(devices)]
        stride *= len(devices)
    return labels


def _op_and_transfer_seconds(problem: Problem, labels: Labels) -> Floats:
    """[placement] seconds of ops and transfers."""
    total: Floats = np.zeros(len(labels))
    for node, label in enumerate(labels.T):
        total += problem.time[node][label]
    for tensor in problem.tensors:
        source_device, leaves = labels[:, tensor.source], np.zeros(len(labels), bool)
        for device, enter in enumerate(tensor.enter):
            arrives = (labels[:, list(tensor.readers)] == device).any(axis=1) & (source_device != device)
            total += arrives * enter
            leaves |= arrives
        total += leaves * np.array(tensor.leave)[source_device]
    return total


def _least_launch_seconds(graph: Graph, problem: Problem, labels: Labels, placed: Ints, launch: Floats) -> Floats:
    """[placement] lower bound of the launch overhead; exact for two devices, whose subgraphs alternate."""
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
    """[placement] most device changes along any path, plus one; ``first`` is the [placement, node] start value."""
    turn = first
    for source, target in sorted(edges, key=lambda edge: edge[1]):  # nodes are numbered in a topological order
        np.maximum(turn[:, target], turn[:, source] + (labels[:, source] != labels[:, target]), out=turn[:, target])
    return np.asarray(turn.max(axis=1), np.int64) + 1
