"""Policy ``memory``: `optimal` or `priority` under each device's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from editor.errors import EditorError
from editor.graph.graph import Bools, Ints
from editor.placement.costs import Costs, price
from editor.placement.device_memory import heaviest, weight_bytes, weight_shrinkage
from editor.placement.policies.expansion import Expansion
from editor.placement.policies.optimal import candidates, device_of_all_ops, lower_bound
from editor.placement.policies.pipeline import pipeline
from editor.placement.policies.problem import Floats, Problem
from editor.placement.policies.task import Assignment, Task, reasons
from editor.placement.run_memory import RunMemory, run_memory
from editor.placement.subgraphs.minimal import minimal
from editor.text import human_bytes

_STEPS, _LARGEST = 12, 3
_ROOM_SHARES = (1.0, 0.85, 0.7, 0.5)
"""Of a limit that weights may have, where one device is filled after the other; the rest is for tensors."""
_TENSOR_SHARES = (1.0, 0.6, 0.3)
"""Of a full device's memory: ops beside more tensors leave it first. Which pays depends on what fills it."""
_CLOSE = 1.02
"""Times the bound: good enough."""
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

    @classmethod
    def of(cls, task: Task, device: Ints, limits: Floats) -> _Excess:
        """What a placement needs beyond the limits; ``total`` is 0 where it fits."""
        constraints = task.constraints
        needed = run_memory(constraints.graph, constraints.devices, device, minimal(constraints.graph, device, task.placed))
        over = np.array([needed.peaks[d.name] for d in constraints.devices]) - limits
        return cls(float(np.maximum(over, 0).sum()), over, device, needed)


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
    best = _first(_stages(task, costs, limits), *_runs_of_ops(task, costs, limits, shrinkage, size))
    whole = Problem.of(constraints.graph, costs, constraints.allowed, placed, limits * shrinkage, size)
    bound = lower_bound(whole, costs)  # for weights alone; it holds for the peak
    closest = None
    for share in _TENSOR_SHARES:
        best, found = _improved(task, costs, size, limits, shrinkage, best, share)
        closest = min((each for each in (closest, found) if each is not None), key=lambda each: each.total, default=None)
        if found is None or (best is not None and best[0] <= bound * _CLOSE) or task.should_stop():
            break
    if best is not None:
        total, device = best
        because = _reasons(task, costs, device, limits, size[:, None] / shrinkage)
        return Assignment(device, because, total, min(bound, total), "latency within memory", costs.estimated)
    raise EditorError(_too_large(task, size, limits, shrinkage, closest))


def _improved(task: Task, costs: Costs, size: Floats, limits: Floats, shrinkage: Floats, best: tuple[float, Ints] | None,
              share: float) -> tuple[tuple[float, Ints] | None, _Excess | None]:
    """The cheapest placement that fits, and that which lacks least; each round has less room, or fewer ops with large tensors.

    Args:
        task: what is placed.
        costs: its costs.
        size: [op] bytes of weights.
        limits: [device] bytes.
        shrinkage: [device] as ``weight_shrinkage`` returns it.
        best: the price and devices of the cheapest one so far.
        share: of a full device's memory; ops that run while tensors alone take more leave it before weights do.
    """
    graph, placed = task.constraints.graph, task.placed
    room, allowed, closest = limits * shrinkage, task.constraints.allowed, None
    for _ in range(_ROUNDS):
        problem = Problem.of(graph, costs, allowed, placed, room, size)
        fitting = []
        for label in _fitting(problem, costs):
            device = device_of_all_ops(task, placed, label)
            fitting.append((price(graph, costs, device, placed).total, device))
        too_large = []
        if not fitting and closest is None and best is None:  # not even the weights: what lacks least, for the message
            closest = _nearest(task, problem, costs, limits)
        for total, device in sorted(fitting, key=lambda item: item[0]):
            if best is not None and total >= best[0]:
                break
            excess = _Excess.of(task, device, limits)
            if not excess.total:
                best = total, device
                break
            too_large.append(excess)
        if not too_large or task.should_stop():
            break
        found = min(too_large, key=lambda each: each.total)
        closest = min(closest or found, found, key=lambda each: each.total)
        fewer = _without_large_tensors(allowed, found.device, found.needed, limits, share)
        if fewer is not None:
            allowed = fewer
            continue
        # What another device had too much of in an earlier round, it may not have now.
        over = found.over
        room = np.where(over > 0, np.minimum(room, limits * shrinkage) - over * shrinkage, limits * shrinkage)
        if (room < 0).any():
            break
    return best, closest


def _stages(task: Task, costs: Costs, limits: Floats) -> tuple[float, Ints] | None:
    """Price and devices of contiguous pipeline stages, where they fit."""
    constraints, placed = task.constraints, task.placed
    try:
        device = pipeline(task).device
    except EditorError:
        return None
    if _Excess.of(task, device, limits).total:
        return None
    return price(constraints.graph, costs, device, placed).total, device


def _first(*found: tuple[float, Ints] | None) -> tuple[float, Ints] | None:
    """The cheapest of some placements."""
    return min((each for each in found if each is not None), key=lambda each: each[0], default=None)


def _runs_of_ops(task: Task, costs: Costs, limits: Floats, shrinkage: Floats, size: Floats) -> Iterable[tuple[float, Ints]]:
    """Price and devices where one device after the other is filled in topological order, with room for the tensors.

    Weights are found to fit at once; how much room tensors need beside them, only a look at the run tells.
    """
    constraints, placed, graph = task.constraints, task.placed, task.constraints.graph
    done: set[int] = set()
    for share in _ROOM_SHARES:
        room = np.where(np.isfinite(limits), limits * shrinkage * share, np.inf)
        problem = Problem.of(graph, costs, constraints.allowed, placed, room, size)
        for number, label in _filled(problem):
            if number in done:
                continue
            device = device_of_all_ops(task, placed, label)
            if not _Excess.of(task, device, limits).total:
                done.add(number)
                yield price(graph, costs, device, placed).total, device


def _nearest(task: Task, problem: Problem, costs: Costs, limits: Floats) -> _Excess:
    """Of the placements that the policy tries, the one that lacks the fewest bytes."""
    found = [_Excess.of(task, device_of_all_ops(task, task.placed, label), limits) for label in candidates(problem, costs)]
    return min(found, key=lambda each: each.total)


def _reasons(task: Task, costs: Costs, device: Ints, limits: Floats, size: Floats) -> Callable[[int], str]:
    """As `reasons`; where the fastest device of an op has no room for it, that is why it is elsewhere.

    ``size`` is [op, device] bytes of the op's constants there.
    """
    constraints, plain, needed = task.constraints, reasons(task, costs, device), _Excess.of(task, device, limits).needed

    def because(op: int) -> str:
        times = np.where(constraints.allowed[op], costs.op[op], np.inf)
        fastest = int(times.argmin())
        name, weights = constraints.devices[fastest].name, int(size[op, fastest])
        if times[fastest] == times[device[op]] or needed.peaks[name] + weights <= limits[fastest]:
            return plain(op)
        room = f"{human_bytes(needed.peaks[name])} of {human_bytes(int(limits[fastest]))} are taken"
        return f"no room on {name}, which is faster for it: {room}, and it has {human_bytes(weights)} of constants"
    return because


def _without_large_tensors(allowed: Bools, device: Ints, needed: RunMemory, limits: Floats, share: float) -> Bools | None:
    """[op, device] the choices without those ops on a full device that run while tensors alone take more than a share of it.

    None where there are none of them with another choice: then fewer weights are what is left to do.
    """
    fewer = allowed.copy()
    for d, memory in enumerate(needed.devices):
        if memory.peak <= limits[d]:
            continue
        ops = needed.ops[memory.live > share * limits[d]]
        fewer[ops[device[ops] == d], d] = False
    fewer[~fewer.any(axis=1)] = allowed[~fewer.any(axis=1)]
    return None if (fewer == allowed).all() else fewer


def _fitting(problem: Problem, costs: Costs) -> Iterable[Ints]:
    """Yields placements whose weights fit."""
    for label in (*candidates(problem, costs), *(label for _, label in _filled(problem))):
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


def _filled(problem: Problem) -> Iterable[tuple[int, Ints]]:
    """Yields numbered placements that fill one device after the other, in table order and in reverse."""
    devices = problem.time.shape[1]
    for number, order in enumerate((list(range(devices)), list(range(devices))[::-1])):
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
            yield number, label


def _too_large(task: Task, size: Floats, limits: Floats, shrinkage: Floats, closest: _Excess | None) -> str:
    """Why nothing fits, one line for each thing that can be changed."""
    constraints = task.constraints
    names, placed = [d.name for d in constraints.devices], np.zeros(len(constraints.graph), bool)
    placed[task.placed] = True
    lines = ["The model does not fit into the memory of its devices."]
    needed, room = float(size[placed].sum() / shrinkage.max()), float(limits.sum())
    if needed > room:
        least = "at least " if (shrinkage > 1).any() else ""  # where floats count as int8
        lines.append(f"Its constants take {least}{int(needed):,} bytes, all devices together have {int(room):,}: "
                     f"{int(needed - room):,} bytes too few.")
    only = constraints.allowed & (constraints.allowed.sum(axis=1) == 1)[:, None]
    for d, name in enumerate(names):
        forced = float(size[only[:, d]].sum() / shrinkage[d])
        if forced > limits[d]:
            lines.append(f"{name} is over by {int(forced - limits[d]):,} bytes with the ops that can only run there.")
    if closest is None:
        own = " (in their own type)" if (shrinkage > 1).any() else ""
        lines.append(f"Heaviest constants{own}: {', '.join(heaviest(constraints.graph, placed, size)) or 'none'}.")
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
        own = " (in their own type)" if closest.needed.devices[d].constants < size[ops].sum() else ""
        lines.append(f"Heaviest constants there{own}: {', '.join(constants)}.")
    if tensors := closest.needed.at_peak(d)[:_LARGEST]:
        lines.append(f"Heaviest tensors there: {', '.join(f'{t.tensor} ({t.bytes:,} bytes, {t.kind})' for t in tensors)}.")
    return lines
