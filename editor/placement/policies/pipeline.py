"""Policy ``pipeline``: balanced stages for throughput, one contiguous stage per device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from editor.errors import EditorError
from editor.graph.flops import Floats, op_bytes
from editor.graph.graph import Bools, Ints
from editor.placement.costs import processors
from editor.placement.policies.exact import best_chain, orders
from editor.placement.policies.memory_moves import Excess
from editor.placement.policies.problem import Problem, Tensor, busiest_load, busiest_name
from editor.placement.policies.task import Assignment, Task, reasons
from editor.placement.run_memory import weight_bytes, weight_shrinkage
from editor.text import human_bytes, pluralize

_ROUNDS, _STEP = 6, 4
"""Of fewer weights for a device whose tensors do not fit beside them, each at least a fourth of those before."""
_MAX_NODES = 360
"""Larger graphs are first merged into this many blocks of about equal time."""


def pipeline(task: Task) -> Assignment:
    """Minimises the load of the busiest device; every device runs one stage of a topological order. Runtimes of one CPU take
    turns on it, so what is reported is the load of the busiest processor.

    The bound is the larger of the mean load with every op on its fastest device and the slowest single op.

    A device must hold the tensors of its stage beside its weights: where they are too much, it gets fewer weights, until both
    fit. Where they never do, the stages whose weights fit are taken.

    Raises:
        EditorError: the constraints allow no contiguous stages.
    """
    found = stages(task)
    if found is None:
        raise EditorError(_no_stages(task))
    return found


def stages(task: Task) -> Assignment | None:
    """Returns the placement of `pipeline`; None where the constraints allow no contiguous stages."""
    costs, placed, constraints = task.costs(), task.placed, task.constraints
    size = weight_bytes(constraints.graph, placed)
    limits = constraints.memory_limits
    shrinkage = weight_shrinkage(constraints.graph, constraints.devices, size)
    room = limits * shrinkage
    too_large = (
        op_bytes(constraints.graph)[:, np.newaxis] > limits
    )  # by itself, whatever else is there
    problem = Problem.of(
        constraints.graph,
        costs,
        _without(constraints.allowed, too_large),
        placed,
        room,
        size,
        processors(constraints.devices),
    )
    device = constraints.allowed.argmax(axis=1).astype(np.int64)
    if not len(placed):
        return Assignment(
            device, reasons(task, costs, device), 0.0, 0.0, busiest_name(problem), costs.estimated
        )
    label = best_stages(problem)
    if label is None:
        return None
    device[placed] = label
    left_out: tuple[str, ...] = ()
    if np.isfinite(limits).any():
        device, left_out = _within(task, problem, device, limits, shrinkage)
    load, once = busiest_load(constraints.graph, costs, problem, device, placed), costs.least_launch
    bound = min(busiest_bound(problem) + once, load)  # what is busiest was launched once, at least
    return Assignment(
        device,
        _reasons(task, device, left_out),
        load,
        bound,
        busiest_name(problem),
        costs.estimated,
    )


def _within(
    task: Task, problem: Problem, device: Ints, limits: Floats, shrinkage: Floats
) -> tuple[Ints, tuple[str, ...]]:
    """[op] device of stages whose weights and tensors fit, from stages whose weights do; and devices that were left out for it.

    Devices that are over their limit get fewer weights; where that does not help, the one with the least memory is left out,
    and the others have all their room again. Where no stages fit, those whose weights do are given.
    """
    tried, room, allowed = device.copy(), limits * shrinkage, problem.allowed
    left_out: list[int] = []
    for number in range(_ROUNDS * int(np.isfinite(limits).sum()) + 1):
        over = Excess.of(task, tried, limits).over
        if (over <= 0).all():
            return tried, tuple(task.constraints.devices[d].name for d in left_out)
        room = np.where(over > 0, np.maximum(room - over * shrinkage, room / _STEP), room)
        if number % _ROUNDS == _ROUNDS - 1:
            inside = [d for d in np.flatnonzero(np.isfinite(limits)).tolist() if d not in left_out]
            left_out.append(min(inside, key=lambda d: (float(limits[d]), -d)))
            allowed = _without(problem.allowed, np.isin(np.arange(len(limits)), left_out))
            room = limits * shrinkage
        fewer = best_stages(replace(problem, capacity=room, allowed=allowed))
        if fewer is None:
            break
        tried[task.placed] = fewer
    return device, ()


def _without(allowed: Bools, full: Bools) -> Bools:
    """[node, device] what may run where, without devices that are too small, where others can."""
    others: Bools = allowed & ~full
    some: Bools = np.logical_or.reduce(others, axis=1, keepdims=True)
    return np.where(some, others, allowed)


def _no_stages(task: Task) -> str:
    """Why there is no pipeline: weights that do not fit, or ops that cannot be in contiguous stages."""
    constraints, limited = (
        task.constraints,
        [d for d in task.constraints.devices if d.memory is not None],
    )
    without = tuple(replace(d, memory=None) for d in constraints.devices)
    if (
        limited
        and stages(replace(task, constraints=replace(constraints, devices=without))) is not None
    ):
        limits = ", ".join(f"{d.name} has {d.limit_text}" for d in limited)
        weights = human_bytes(int(weight_bytes(constraints.graph, task.placed).sum()))
        return (
            f"no stage per device fits the memory ({limits}): the weights are {weights} in all. The policy "
            "`memory` (Optimal within memory) takes parts that are not contiguous, too"
        )
    pins = f" {pluralize(len(task.constraints.pins), 'pin')}," if task.constraints.pins else ""
    return (
        f"what the devices can run,{pins} and rules leave no contiguous stage per device; take the policy `optimal` "
        "(Optimal) or `memory` (Optimal within memory), or unpin ops that lie between those of another device"
    )


def _reasons(task: Task, device: Ints, left_out: Sequence[str]) -> Callable[[int], str]:
    """Op -> the stage that it is in: stages are balanced as a whole, whatever is fastest for a single op.

    Args:
        task: what was to be placed.
        device: [op] where it is.
        left_out: devices whose memory was too small for the tensors of a stage beside its weights.
    """
    no_room = (
        f"; no stage was found whose tensors fit on {' and '.join(left_out)}" if left_out else ""
    )
    stages = list(dict.fromkeys(device[task.placed].tolist()))

    def because(op: int) -> str:
        chosen = int(device[op])
        if chosen not in stages or len(stages) == 1:
            return f"one stage holds the whole model{no_room}"
        number = stages.index(chosen) + 1
        return f"in stage {number} of {len(stages)}, one after the other, which share the load evenly{no_room}"

    return because


def best_stages(problem: Problem) -> Ints | None:
    """[node] device of the best contiguous stages over several orders; None where there are none."""
    best, label = float("inf"), None
    for order in orders(problem, count=4):
        small, block = _blocks(problem, order)
        value, of_block = best_chain(small, np.arange(len(small)))
        if value < best:
            best, label = value, of_block[block]
    return label


def busiest_bound(problem: Problem) -> float:
    """Lower bound in seconds of the busiest processor's load: mean load at best speed, or the slowest single op."""
    if not len(problem):
        return 0.0
    fastest = problem.times.min(axis=1)
    return float(max(fastest.sum() / (problem.processors.max() + 1), fastest.max()))


def _with_common_device(parts: Ints, allowed: Bools) -> Ints:
    """[node in order] number of its block: a part is divided where no device is allowed for all of it.

    Args:
        parts: [node in order] number of its part, which never falls.
        allowed: [node in order, device]
    """
    numbers = np.empty(len(parts), np.int64)
    number, common = -1, allowed[0]
    for i, part in enumerate(parts.tolist()):
        both = common & allowed[i]
        if not i or part != parts[i - 1] or not both.any():
            number, both = number + 1, allowed[i]
        numbers[i], common = number, both
    return numbers


def _blocks(problem: Problem, order: Ints) -> tuple[Problem, Ints]:
    """Merges consecutive nodes of an order into blocks; returns the smaller problem and [node] block."""
    n = len(order)
    block = np.empty(n, np.int64)
    if n <= _MAX_NODES:
        block[order] = np.arange(n)
        count = n
    else:
        work = problem.times.min(axis=1)[order]
        share = np.cumsum(work + work.sum() / n) / (2 * work.sum())
        parts = np.minimum((share * _MAX_NODES).astype(np.int64), _MAX_NODES - 1)
        divided = _with_common_device(parts, problem.allowed[order])
        # So many changes of device are not a few stages, and a search takes the square of their number.
        block[order] = (
            divided if divided[-1] < 2 * _MAX_NODES else np.unique(parts, return_inverse=True)[1]
        )
        count = int(block.max()) + 1
    devices = problem.time.shape[1]
    time = np.column_stack(
        [np.bincount(block, problem.time[:, d], count) for d in range(devices)]
    ).astype(np.float64)
    size = np.bincount(block, problem.size, count).astype(np.float64)
    allowed = np.column_stack(
        [np.bincount(block, ~problem.allowed[:, d], count) == 0 for d in range(devices)]
    )
    tensors = []
    for t in problem.tensors:
        source = int(block[t.source])
        readers = sorted({int(block[r]) for r in t.readers} - {source})
        if readers:
            tensors.append(Tensor(source, tuple(readers), t.leave, t.enter))
    return Problem.build(time, allowed, size, problem.capacity, tensors), block
