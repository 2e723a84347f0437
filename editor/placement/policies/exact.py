"""Finds exact placements of small problems and of chains."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

import numpy as np
import numpy.typing as npt

from editor.graph.flops import Floats
from editor.graph.graph import Graph, Ints, numbers_at
from editor.groups import grouped
from editor.placement.costs import Costs, price
from editor.placement.policies.problem import Problem, column_keys

Labels = npt.NDArray[np.uint8]

MAX_PLACEMENTS = 1 << 14
"""Most placements to enumerate: 14 ops with two allowed devices each."""
_MAX_NODES, _MAX_PRICED = 512, 300


def least_latency(
    graph: Graph, problem: Problem, costs: Costs, placed: Ints, best: float
) -> tuple[Ints | None, bool]:
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
    labels = all_placements(problem)
    if labels is None:
        return None, False
    device = np.zeros(len(graph), np.int64)

    def total(label: Ints) -> float:
        device[placed] = label
        return price(graph, costs, device, placed).total

    return least(labels, bounds(graph, problem, labels, placed, costs.launch), best, total)


def least(
    labels: Labels, bound: Floats, best: float, value: Callable[[Ints], float]
) -> tuple[Ints | None, bool]:
    """The placement of least value, if that is below ``best``, and whether it is proved.

    Args:
        labels: [placement, node] device.
        bound: [placement] what its value is at least.
        best: what is known.
        value: of a placement, [node] device.
    """
    result = None
    order = np.argsort(bound, kind="stable").tolist()
    for row in order[:_MAX_PRICED]:
        if bound[row] >= best * (1 - 1e-12):
            return result, True
        label = labels[row].astype(np.int64)
        found = value(label)
        if found < best * (1 - 1e-12):
            result, best = label, found
    return result, len(order) <= _MAX_PRICED


def bounds(graph: Graph, problem: Problem, labels: Labels, placed: Ints, launch: Floats) -> Floats:
    """[placement] what it costs at least: its ops, its transfers and the fewest launches that it can have."""
    return _op_and_transfer_seconds(problem, labels) + _least_launch_seconds(
        graph, problem, labels, placed, launch
    )


def all_placements(problem: Problem) -> Labels | None:
    """[placement, node] device, for every combination of allowed devices; None where there are too many."""
    counts = problem.allowed.sum(axis=1).astype(np.float64)
    if not 0 < len(problem) <= _MAX_NODES or np.log2(counts).sum() > np.log2(MAX_PLACEMENTS) + 1e-9:
        return None
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
            arrives = (labels[:, list(tensor.readers)] == device).any(axis=1) & (
                source_device != device
            )
            total += arrives * enter
            leaves |= arrives
        total += leaves * np.array(tensor.leave)[source_device]
    return total


def _least_launch_seconds(
    graph: Graph, problem: Problem, labels: Labels, placed: Ints, launch: Floats
) -> Floats:
    """[placement] lower bound of the launch overhead; exact for two devices, whose subgraphs alternate."""
    node = numbers_at(len(graph), placed, np.arange(len(placed)))
    producer, consumer, _ = graph.edges
    edges = [
        (int(node[p]), int(node[c]))
        for p, c in zip(producer, consumer, strict=True)
        if node[p] >= 0 and node[c] >= 0
    ]
    devices = problem.time.shape[1]
    used = np.stack([(labels == d).any(axis=1) for d in range(devices)], axis=1)
    if devices > 2:
        turns = _turns(labels, edges, np.zeros_like(labels, np.int16))
        return np.asarray(np.maximum(used @ launch, turns * launch.min()), np.float64)
    least = np.full(len(labels), np.inf)
    for start in range(devices):
        turns = _turns(labels, edges, (labels != start).astype(np.int16))
        least = np.minimum(
            least, (turns + 1) // 2 * launch[start] + turns // 2 * launch[devices - 1 - start]
        )
    return np.asarray(np.where(used.sum(axis=1) == 1, used @ launch, least), np.float64)


def _turns(labels: Labels, edges: Iterable[tuple[int, int]], first: npt.NDArray[np.int16]) -> Ints:
    """[placement] most device changes along any path, plus one; ``first`` is the [placement, node] start value."""
    turn = first
    for source, target in sorted(
        edges, key=lambda edge: edge[1]
    ):  # nodes are numbered in a topological order
        np.maximum(
            turn[:, target],
            turn[:, source] + (labels[:, source] != labels[:, target]),
            out=turn[:, target],
        )
    return np.asarray(turn.max(axis=1), np.int64) + 1


def segment_costs(problem: Problem, order: Ints, device: int) -> Floats:
    """[begin, end] seconds of the segment order[begin:end] on a device; infinite where not allowed or too large."""
    n = len(order)
    position = np.empty(n, np.int64)
    position[order] = np.arange(n)
    diff = np.zeros((n + 2, n + 2))

    def add(first: int, last: int, low: int, high: int, value: float) -> None:
        """Adds to begins first..last and ends low..high, inclusive."""
        if first <= last and low <= high and value:
            diff[first, low] += value
            diff[last + 1, low] -= value
            diff[first, high + 1] -= value
            diff[last + 1, high + 1] += value

    for t in problem.tensors:
        source = int(position[t.source])
        readers = sorted({int(position[r]) for r in t.readers})
        add(
            0, source, source + 1, readers[-1], t.leave[device]
        )  # produced inside, read after the end
        previous = source
        for reader in readers:  # produced before; the first reader in the segment pays
            add(previous + 1, reader, reader + 1, n, t.enter[device])
            previous = reader
    cost: Floats = diff.cumsum(axis=0).cumsum(axis=1)[: n + 1, : n + 1]
    compute = np.concatenate([[0.0], np.cumsum(problem.time[order, device])])
    cost = cost + compute[None, :] - compute[:, None]
    refused = np.concatenate([[0], np.cumsum(~problem.allowed[order, device])])
    size = np.concatenate([[0.0], np.cumsum(problem.size[order])])
    too_large = size[None, :] - size[:, None] > problem.capacity[device] + 1e-6
    cost[(refused[None, :] > refused[:, None]) | too_large] = np.inf
    cost[np.tril_indices(n + 1, 0)] = np.inf
    np.fill_diagonal(cost, 0.0)
    return np.maximum(cost, 0.0)


def device_classes(problem: Problem) -> list[list[int]]:
    """Devices grouped by equal costs, limits and allowed nodes, in table order."""
    leave = np.array([t.leave for t in problem.tensors]).reshape(-1, problem.time.shape[1])
    enter = np.array([t.enter for t in problem.tensors]).reshape(-1, problem.time.shape[1])
    keys = column_keys(problem.capacity[None], problem.allowed, problem.time, leave, enter)
    return list(grouped((key, d) for d, key in enumerate(keys)).values())


def best_chain(problem: Problem, order: Ints) -> tuple[float, Ints]:
    """The way to cut an order into one segment per device whose busiest device has least to do.

    Args:
        problem: what to place.
        order: all nodes, in a topological order.

    Returns:
        (objective, [node] device); an infinite objective when no placement is allowed.
    """
    n = len(order)
    classes = device_classes(problem)
    costs = [segment_costs(problem, order, members[0]) for members in classes]
    states = list(product(*(range(len(members) + 1) for members in classes)))
    value = {s: np.full(n + 1, np.inf) for s in states}
    backpointers: dict[tuple[int, ...], tuple[Ints, Ints]] = {}
    for s in states:  # product() yields smaller states first
        if not any(s):
            value[s][0] = 0.0
            continue
        options, begins = [], []
        for c in range(len(classes)):
            if s[c]:
                less = (*s[:c], s[c] - 1, *s[c + 1 :])
                reach = np.maximum(value[less][:, None], costs[c])
                begins.append(reach.argmin(axis=0))
                options.append(reach[begins[-1], np.arange(n + 1)])
            else:
                begins.append(np.zeros(n + 1, np.int64))
                options.append(np.full(n + 1, np.inf))
        which = np.argmin(options, axis=0)
        value[s] = np.choose(which, options)
        backpointers[s] = (which, np.choose(which, begins))
    best = min(states, key=lambda s: (value[s][n], sum(s)))
    label = np.zeros(n, np.int64)
    if not np.isfinite(value[best][n]):
        return float("inf"), label
    objective, end = float(value[best][n]), n
    while any(best) and end > 0:
        which, begins_of = backpointers[best]
        c, begin = int(which[end]), int(begins_of[end])
        label[order[begin:end]] = classes[c][best[c] - 1]
        best, end = (*best[:c], best[c] - 1, *best[c + 1 :]), begin
    return objective, label


def orders(problem: Problem, count: int = 8) -> list[Ints]:
    """Several topological orders: breadth first, depth first, and depth first with random priorities."""
    n = len(problem)
    successors: list[list[int]] = [[] for _ in range(n)]
    indegree = [0] * n
    for t in problem.tensors:
        for r in set(t.readers):
            successors[t.source].append(r)
            indegree[r] += 1
    rng = np.random.default_rng(0)
    result = [_kahn(successors, indegree)]
    for i in range(count):
        keys = np.arange(n) if i == 0 else -np.arange(n) if i == 1 else rng.permutation(n)
        result.append(_depth_first(successors, indegree, keys.tolist()))
    return result


def _kahn(successors: list[list[int]], indegree: list[int]) -> Ints:
    waiting, queue = indegree.copy(), [v for v, b in enumerate(indegree) if not b]
    for v in queue:  # the loop body appends to the queue
        for t in successors[v]:
            waiting[t] -= 1
            if not waiting[t]:
                queue.append(t)
    return np.array(queue, np.int64)


def _depth_first(successors: list[list[int]], indegree: list[int], keys: list[int]) -> Ints:
    waiting, order = indegree.copy(), []
    stack = sorted((v for v, b in enumerate(indegree) if not b), key=lambda v: keys[v])
    while stack:
        v = stack.pop()
        order.append(v)
        for t in sorted(successors[v], key=lambda t: keys[t]):
            waiting[t] -= 1
            if not waiting[t]:
                stack.append(t)
    return np.array(order, np.int64)
