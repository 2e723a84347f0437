"""Policy ``pipeline``: balanced stages for throughput, one contiguous stage per device."""

from __future__ import annotations

import numpy as np

from editor.errors import EditorError
from editor.graph.graph import Ints
from editor.placement.costs import processors
from editor.placement.device_memory import weight_bytes, weight_shrinkage
from editor.placement.policies.chain import best_chain, orders
from editor.placement.policies.problem import Problem, Tensor
from editor.placement.policies.task import Assignment, Task, reasons

_MAX_NODES = 360
"""Larger graphs are first merged into this many blocks of about equal time."""


def pipeline(task: Task) -> Assignment:
    """Minimises the load of the busiest device; every device runs one stage of a topological order. Runtimes of one CPU take
    turns on it, so what is reported is the load of the busiest processor.

    The bound is the larger of the mean load with every op on its fastest device and the slowest single op.

    Raises:
        EditorError: the constraints allow no contiguous stages.
    """
    costs, placed, constraints = task.costs(), task.placed, task.constraints
    size = weight_bytes(constraints.graph, placed)
    limits = [np.inf if d.memory is None else float(d.memory) for d in constraints.devices]
    room = limits * weight_shrinkage(constraints.graph, constraints.devices, size)
    problem = Problem.of(constraints.graph, costs, constraints.allowed, placed, room, size, processors(constraints.devices))
    device = constraints.allowed.argmax(axis=1).astype(np.int64)
    if not len(placed):
        return Assignment(device, reasons(task, costs, device), 0.0, 0.0, "busiest device", costs.estimated)
    best, label = float("inf"), device[placed]
    for order in orders(problem, count=4):
        small, block = _blocks(problem, order)
        value, of_block = best_chain(small, np.arange(len(small)))
        if value < best:
            best, label = value, of_block[block]
    if not np.isfinite(best):
        raise EditorError("capability, rules, pins or memory allow no contiguous stage per device; "
                          "use the policy `optimal` or `memory`, or relax the constraints")
    device[placed] = label
    return Assignment(device, reasons(task, costs, device), float(problem.busy(label).max()),
                      busiest_bound(problem), "busiest device", costs.estimated)


def busiest_bound(problem: Problem) -> float:
    """Lower bound in seconds of the busiest processor's load: mean load at best speed, or the slowest single op."""
    if not len(problem):
        return 0.0
    fastest = np.where(problem.allowed, problem.time, np.inf).min(axis=1)
    return float(max(fastest.sum() / (problem.processors.max() + 1), fastest.max()))


def _blocks(problem: Problem, order: Ints) -> tuple[Problem, Ints]:
    """Merges consecutive nodes of an order into blocks; returns the smaller problem and [node] block."""
    n = len(order)
    block = np.empty(n, np.int64)
    if n <= _MAX_NODES:
        block[order] = np.arange(n)
        count = n
    else:
        work = np.where(problem.allowed, problem.time, np.inf).min(axis=1)[order]
        share = np.cumsum(work + work.sum() / n) / (2 * work.sum())
        block[order] = np.minimum((share * _MAX_NODES).astype(np.int64), _MAX_NODES - 1)
        _, block = np.unique(block, return_inverse=True)
        count = int(block.max()) + 1
    devices = problem.time.shape[1]
    time = np.column_stack([np.bincount(block, problem.time[:, d], count) for d in range(devices)]).astype(np.float64)
    size = np.bincount(block, problem.size, count).astype(np.float64)
    allowed = np.column_stack([np.bincount(block, ~problem.allowed[:, d], count) == 0 for d in range(devices)])
    tensors = []
    for t in problem.tensors:
        source = int(block[t.source])
        readers = sorted({int(block[r]) for r in t.readers} - {source})
        if readers:
            tensors.append(Tensor(source, tuple(readers), t.leave, t.enter))
    return Problem.build(time, allowed, size, problem.capacity, tensors), block
