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
    """The cheapest of many placements that fit.

    Weights get a price per byte on full devices, raised until they fit (Lagrangian relaxation); a walk
    in topological order that fills one device after the other competes. What is left over after the
    weights must hold the buffers of the largest subgraph, so the room for weights shrinks until it does.

    Raises:
        EditorError: nothing fits; the message says by how many bytes which device is over, and what weighs most.
    """
    costs, placed, table = task.costs(), task.placed, task.table
    limits = np.array([np.inf if d.memory is None else float(d.memory) for d in table.devices])
    size = weight_bytes(table.graph, placed)
    room = limits.copy()
    over: Floats = np.zeros(len(limits))
    for _ in range(_SHRINK):
        problem = Problem.of(table.graph, costs, table.allowed, placed, room, size)
        found = []
        for label in _fitting(problem, costs):
            device = table.allowed.argmax(axis=1).astype(np.int64)
            device[placed] = label
            found.append((price(table.graph, costs, device, placed).total, device))
        excess = []
        for total, device in sorted(found, key=lambda item: item[0]):
            subgraphs = divide(table.graph, table.devices, device, minimal(table.graph, device, placed)).subgraphs
            used = device_bytes(table.devices, subgraphs)
            excess.append(np.array([used[d.name] for d in table.devices]) - limits)
            if (excess[-1] <= 0).all():
                bound = min(lower_bound(problem, costs), total)  # that of more memory holds for less
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
    """Placements whose weights fit."""
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
    """Fills devices one after the other in topological order, in table order and in the reverse."""
    devices = problem.time.shape[1]
    for order in (list(range(devices)), list(range(devices))[::-1]):
        label, left = np.zeros(len(problem), np.int64), problem.capacity.copy()
        current = 0
        for node in range(len(problem)):
            may = [d for d in order if problem.allowed[node, d] and problem.size[node] <= left[d]]
            if not may:
                break
            later = [d for d in may if order.index(d) >= current]
            chosen = later[0] if later else may[0]
            if problem.size[node] > 0:
                current = max(current, order.index(chosen))
            label[node] = chosen
            left[chosen] -= problem.size[node]
        else:
            yield label


def _too_large(task: Task, placed: Ints, size: Floats, limits: Floats, over: Floats) -> str:
    table = task.table
    names = [d.name for d in table.devices]
    lines = ["The model does not fit into the memory of its devices."]
    needed, room = float(size[placed].sum()), float(limits.sum())
    if needed > room:
        lines.append(f"Its constants take {int(needed):,} bytes, all devices together have {int(room):,}: "
                     f"{int(needed - room):,} bytes too few.")
    only = table.allowed & (table.allowed.sum(axis=1) == 1)[:, None]
    for d, name in enumerate(names):
        forced = float(size[only[:, d]].sum())
        if forced > limits[d]:
            lines.append(f"{name} is over by {int(forced - limits[d]):,} bytes with the ops that may only run there.")
        elif over[d] > 0:
            lines.append(f"{name} is over by {int(over[d]):,} bytes (limit {int(limits[d]):,}), buffers included.")
    mask = np.zeros(len(table.graph), bool)
    mask[placed] = True
    lines.append(f"Heaviest: {', '.join(heaviest(table.graph, mask, size))}.")
    return "\n".join(lines)
