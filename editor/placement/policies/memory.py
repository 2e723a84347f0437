"""Policy ``memory``: `optimal` or `priority` under each device's memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from editor.errors import EditorError
from editor.graph.graph import Ints
from editor.placement.costs import Costs, price
from editor.placement.device_memory import device_bytes, heaviest, weight_bytes
from editor.placement.policies.expansion import Expansion
from editor.placement.policies.optimal import candidates, lower_bound
from editor.placement.policies.problem import Floats, Problem
from editor.placement.policies.task import Assignment, Task, reasons
from editor.placement.subgraphs.division import divide
from editor.placement.subgraphs.minimal import minimal

_STEPS = 12
_SHRINK = 8


def memory(task: Task) -> Assignment:
    """The cheapest of several candidate placements that fit.

    Weights on a full device cost a price per byte, raised until they fit (Lagrangian relaxation). Other
    candidates fill one device after the other in topological order. Beside its weights, a device must
    hold the buffers of its largest subgraph, so the capacity for weights shrinks until both fit.

    Raises:
        EditorError: nothing fits; the message names the excess bytes per device and the largest constants.
    """
    costs, placed, constraints = task.costs(), task.placed, task.constraints
    limits = np.array([np.inf if d.memory is None else float(d.memory) for d in constraints.devices])
    size = weight_bytes(constraints.graph, placed)
    room = limits.copy()
    over: Floats = np.zeros(len(limits))
    for _ in range(_SHRINK):
        problem = Problem.of(constraints.graph, costs, constraints.allowed, placed, room, size)
        fitting = []
        for label in _fitting(problem, costs):
            device = constraints.allowed.argmax(axis=1).astype(np.int64)
            device[placed] = label
            fitting.append((price(constraints.graph, costs, device, placed).total, device))
        excess = []
        for total, device in sorted(fitting, key=lambda item: item[0]):
            groups = minimal(constraints.graph, device, placed)
            subgraphs = divide(constraints.graph, constraints.devices, device, groups).subgraphs
            used = device_bytes(constraints.devices, subgraphs)
            excess.append(np.array([used[d.name] for d in constraints.devices]) - limits)
            if (excess[-1] <= 0).all():
                bound = min(lower_bound(problem, costs), total)  # a bound for more memory holds for less memory
                return Assignment(device, reasons(task, costs, device), total, bound, "latency within memory",
                                  costs.estimated)
        if not excess:
            break
        over = min(excess, key=lambda e: float(np.maximum(e, 0).sum()))
        room = np.where(over > 0, np.minimum(room, limits) - over, room)
        if (room < 0).any():
            break
    raise EditorError(_too_large(task, placed, size, limits, over))


def _fitting(problem: Problem, costs: Costs) -> Iterable[Ints]:
    """Yields placements whose weights fit."""
    for label in (*candidates(problem, costs), *_filled(problem)):
        if problem.fits(label):
            yield label
    penalty = np.zeros(problem.time.shape[1])
    start = np.where(problem.allowed, problem.time, np.inf).argmin(axis=1).astype(np.int64)
    scale = float(problem.time.sum()) / max(float(problem.size.sum()), 1.0)
    for step in range(_STEPS if len(problem) else 0):
        label = Expansion(problem, 0.0, penalty).solve(start)
        over = problem.used(label) > problem.capacity
        if not over.any():
            yield label
            return
        penalty[over] = np.maximum(penalty[over] * 2, scale * 0.25 * 2 ** (step / 2))


def _filled(problem: Problem) -> Iterable[Ints]:
    """Yields placements that fill one device after the other, in table order and in reverse."""
    devices = problem.time.shape[1]
    for order in (list(range(devices)), list(range(devices))[::-1]):
        label, left = np.zeros(len(problem), np.int64), problem.capacity.copy()
        current = 0
        for node in range(len(problem)):
            usable = [d for d in order if problem.allowed[node, d] and problem.size[node] <= left[d]]
            if not usable:
                break
            later = [d for d in usable if order.index(d) >= current]
            chosen = later[0] if later else usable[0]
            if problem.size[node] > 0:
                current = max(current, order.index(chosen))
            label[node] = chosen
            left[chosen] -= problem.size[node]
        else:
            yield label


def _too_large(task: Task, placed: Ints, size: Floats, limits: Floats, over: Floats) -> str:
    constraints = task.constraints
    names = [d.name for d in constraints.devices]
    lines = ["The model does not fit into the memory of its devices."]
    needed, room = float(size[placed].sum()), float(limits.sum())
    if needed > room:
        lines.append(f"Its constants take {int(needed):,} bytes, all devices together have {int(room):,}: "
                     f"{int(needed - room):,} bytes too few.")
    only = constraints.allowed & (constraints.allowed.sum(axis=1) == 1)[:, None]
    for d, name in enumerate(names):
        forced = float(size[only[:, d]].sum())
        if forced > limits[d]:
            lines.append(f"{name} is over by {int(forced - limits[d]):,} bytes with the ops that can only run there.")
        elif over[d] > 0:
            lines.append(f"{name} is over by {int(over[d]):,} bytes (limit {int(limits[d]):,}), buffers included.")
    mask = np.zeros(len(constraints.graph), bool)
    mask[placed] = True
    lines.append(f"Heaviest: {', '.join(heaviest(constraints.graph, mask, size))}.")
    return "\n".join(lines)
