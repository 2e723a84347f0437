"""Policy ``memory``: `optimal` or `priority` under each device's memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from editor.errors import EditorError
from editor.graph.graph import Bools, Ints
from editor.placement.costs import Costs, price
from editor.placement.device_memory import heaviest, weight_bytes, weight_shrinkage
from editor.placement.policies.expansion import Expansion
from editor.placement.policies.optimal import candidates, lower_bound
from editor.placement.policies.pipeline import pipeline
from editor.placement.policies.problem import Floats, Problem
from editor.placement.policies.task import Assignment, Task, reasons
from editor.placement.run_memory import RunMemory, run_memory
from editor.placement.subgraphs.minimal import minimal

_STEPS, _LARGEST = 12, 3
_ROUNDS = 16
"""Of less room for weights, or fewer ops with large tensors, until the peak fits."""


@dataclass(frozen=True, eq=False)
class _Excess:
    """A placement that needs more memory than there is."""

    total: float
    """bytes"""
    over: Floats
    """[device] bytes; negative where there is room"""
    device: Ints
    """[op]"""
    needed: RunMemory


def memory(task: Task) -> Assignment:
    """The cheapest of several candidate placements that fit.

    Weights on a full device cost a price per byte, raised until they fit (Lagrangian relaxation). Other
    candidates fill one device after the other in topological order, or are the stages of `pipeline`. Beside its
    weights, a device must hold the tensors of the run, so the capacity for weights shrinks until the peak of both fits.

    Raises:
        EditorError: nothing fits; the message says what the closest placement lacks on each device, and what is largest there.
    """
    costs, placed, constraints = task.costs(), task.placed, task.constraints
    limits = np.array([np.inf if d.memory is None else float(d.memory) for d in constraints.devices])
    size = weight_bytes(constraints.graph, placed)
    shrinkage = weight_shrinkage(constraints.graph, constraints.devices, size)
    room, allowed = limits * shrinkage, constraints.allowed
    best, closest = _stages(task, costs, limits), None
    for _ in range(_ROUNDS):
        problem = Problem.of(constraints.graph, costs, allowed, placed, room, size)
        fitting = []
        for label in _fitting(problem, costs):
            device = constraints.allowed.argmax(axis=1).astype(np.int64)
            device[placed] = label
            fitting.append((price(constraints.graph, costs, device, placed).total, device))
        too_large = []
        for total, device in sorted(fitting, key=lambda item: item[0]):
            if best is not None and total >= best[0]:
                break
            groups = minimal(constraints.graph, device, placed)
            needed = run_memory(constraints.graph, constraints.devices, device, groups)
            excess = np.array([needed.peaks[d.name] for d in constraints.devices]) - limits
            if (excess <= 0).all():
                best = total, device
                break
            too_large.append((float(np.maximum(excess, 0).sum()), excess, device, needed))
        if not too_large:
            break
        found = _Excess(*min(too_large, key=lambda each: each[0]))
        closest = min(closest or found, found, key=lambda each: each.total)
        over, device, needed = found.over, found.device, found.needed
        fewer = _without_large_tensors(allowed, device, needed, limits)
        if fewer is not None:
            allowed = fewer
            continue
        # What another device had too much of in an earlier round, it may not have now.
        room = np.where(over > 0, np.minimum(room, limits * shrinkage) - over * shrinkage, limits * shrinkage)
        if (room < 0).any():
            break
    if best is not None:
        total, device = best
        whole = Problem.of(constraints.graph, costs, constraints.allowed, placed, limits * shrinkage, size)
        bound = min(lower_bound(whole, costs), total)  # a bound for weights alone holds for the peak
        return Assignment(device, reasons(task, costs, device), total, bound, "latency within memory", costs.estimated)
    raise EditorError(_too_large(task, size, limits, shrinkage, closest))


def _stages(task: Task, costs: Costs, limits: Floats) -> tuple[float, Ints] | None:
    """Price and devices of contiguous pipeline stages, where they fit."""
    constraints, placed = task.constraints, task.placed
    try:
        device = pipeline(task).device
    except EditorError:
        return None
    needed = run_memory(constraints.graph, constraints.devices, device, minimal(constraints.graph, device, placed))
    if any(needed.peaks[d.name] > limit for d, limit in zip(constraints.devices, limits.tolist(), strict=True)):
        return None
    return price(constraints.graph, costs, device, placed).total, device


def _without_large_tensors(allowed: Bools, device: Ints, needed: RunMemory, limits: Floats) -> Bools | None:
    """[op, device] the choices without those ops on a full device that run while tensors alone take more than it has.

    None where there are none of them with another choice: then fewer weights are what is left to do.
    """
    fewer = allowed.copy()
    for d, memory in enumerate(needed.devices):
        if memory.peak <= limits[d]:
            continue
        ops = needed.ops[memory.live > limits[d]]
        fewer[ops[device[ops] == d], d] = False
    fewer[~fewer.any(axis=1)] = allowed[~fewer.any(axis=1)]
    return None if (fewer == allowed).all() else fewer


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


def _too_large(task: Task, size: Floats, limits: Floats, shrinkage: Floats, closest: _Excess | None) -> str:
    """Why nothing fits, one line for each thing that can be changed."""
    constraints = task.constraints
    names, placed = [d.name for d in constraints.devices], np.zeros(len(constraints.graph), bool)
    placed[task.placed] = True
    lines = ["The model does not fit into the memory of its devices."]
    needed, room = float(size[placed].sum() / shrinkage.max()), float(limits.sum())
    if needed > room:
        lines.append(f"Its constants take {int(needed):,} bytes, all devices together have {int(room):,}: "
                     f"{int(needed - room):,} bytes too few.")
    only = constraints.allowed & (constraints.allowed.sum(axis=1) == 1)[:, None]
    for d, name in enumerate(names):
        forced = float(size[only[:, d]].sum() / shrinkage[d])
        if forced > limits[d]:
            lines.append(f"{name} is over by {int(forced - limits[d]):,} bytes with the ops that can only run there.")
    if closest is None:
        lines.append(f"Heaviest constants: {', '.join(heaviest(constraints.graph, placed, size)) or 'none'}.")
        return "\n".join(lines)
    lines.append("The closest placement that was found:")
    for d, name in enumerate(names):
        if closest.over[d] > 0:
            lines += _what_fills(closest, d, name, limits[d], placed & (closest.device == d), size)
    return "\n".join(lines)


def _what_fills(closest: _Excess, d: int, name: str, limit: float, ops: Bools, size: Floats) -> list[str]:
    """What a device holds at its peak: constants and tensors, and the largest of them."""
    memory = closest.needed.devices[d]
    lines = [f"{name} is over by {int(closest.over[d]):,} bytes (limit {int(limit):,}): {memory.constants:,} of constants and "
             f"{memory.peak - memory.constants:,} of tensors at once."]
    if constants := heaviest(closest.needed.graph, ops, size, _LARGEST):
        lines.append(f"Heaviest constants there: {', '.join(constants)}.")
    if tensors := closest.needed.at_peak(d)[:_LARGEST]:
        lines.append(f"Heaviest tensors there: {', '.join(f'{t.tensor} ({t.bytes:,} bytes, {t.kind})' for t in tensors)}.")
    return lines
