"""Policy ``memory``: `optimal` or `priority` under each device's memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from editor.errors import EditorError
from editor.graph.flops import op_bytes
from editor.graph.graph import Bools, Ints
from editor.placement.costs import Costs, price
from editor.placement.device_memory import weight_bytes, weight_shrinkage
from editor.placement.policies.block_moves import moved_blocks
from editor.placement.policies.expansion import Expansion
from editor.placement.policies.filling import filled_by_regions, filled_in_order
from editor.placement.policies.memory_words import Excess, memory_reasons, too_large
from editor.placement.policies.neighbourhood import TOTAL, improve
from editor.placement.policies.optimal import MAX_SEARCHED_OPS, candidates, device_of_all_ops, lower_bound, search_seconds
from editor.placement.policies.pipeline import stages
from editor.placement.policies.problem import Floats, Problem
from editor.placement.policies.task import Assignment, Task
from editor.placement.run_memory import RunMemory

_STEPS = 12
_ROOM_SHARES = (1.0, 0.85, 0.7, 0.5)
"""Of a limit that weights may have, where one device is filled after the other; the rest is for tensors."""
_TENSOR_SHARES = (1.0, 0.6, 0.3)
"""Of a full device's memory: ops beside more tensors leave it first. Which pays depends on what fills it."""
_CLOSE = 1.02
"""Times the bound: good enough."""
_GOOD_ENOUGH = 1.001
"""Times the bound: nothing is left to search."""
_SEARCHES = 3
_ROUNDS = 16
"""Of less room for weights, or fewer ops with large tensors, until the peak fits."""


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
    whole = Problem.of(constraints.graph, costs, constraints.allowed, placed, limits * shrinkage, size)
    ideals = list(candidates(whole, costs))  # they know no limits
    bound = lower_bound(whole, costs)  # for weights alone; it holds for the peak
    best, closest = _found(task, costs, size, limits, shrinkage, whole, ideals, bound)
    if constraints.pins and (best is None or best[0] > bound * _CLOSE) and not task.should_stop():
        best = _first(best, _around_pins(task, costs, size, limits, shrinkage))
    if best is not None:
        best = _searched(task, whole, costs, limits, shrinkage, best, bound)
        if best[0] > bound * _GOOD_ENOUGH:
            best = moved_blocks(task, costs, limits, best, search_seconds(task.options))
        total, device = best
        ideal = min((device_of_all_ops(task, placed, label) for label in ideals),
                    key=lambda each: price(constraints.graph, costs, each, placed).total)
        because = memory_reasons(task, costs, device, limits, size[:, None] / shrinkage, ideal)
        return Assignment(device, because, total, min(bound, total), "latency within memory", costs.estimated)
    raise EditorError(too_large(task, size, limits, shrinkage, closest))


def _found(task: Task, costs: Costs, size: Floats, limits: Floats, shrinkage: Floats, whole: Problem, ideals: list[Ints],
           bound: float) -> tuple[tuple[float, Ints] | None, Excess | None]:
    """The cheapest of several candidates that fit, and that which lacks least; arguments as for ``_improved``.

    Args:
        whole: the problem with all memory for weights.
        ideals: placements of it that know no limits.
        bound: no placement costs less.
    """
    best = _first(_stages(task, costs, limits), *_runs_of_ops(task, costs, limits, shrinkage, size),
                  *_by_regions(task, whole, ideals, costs, limits))
    closest = None
    for share in _TENSOR_SHARES:
        best, found = _improved(task, costs, size, limits, shrinkage, best, share)
        closest = min((each for each in (closest, found) if each is not None), key=lambda each: each.total, default=None)
        if found is None or (best is not None and best[0] <= bound * _CLOSE) or task.should_stop():
            break
    return best, closest


def _around_pins(task: Task, costs: Costs, size: Floats, limits: Floats, shrinkage: Floats) -> tuple[float, Ints] | None:
    """Price and devices of a placement without the pins, with the pinned ops then put where they belong, where that fits.

    Pins that are far from what the policy would do lead its candidates to bad places, as far as they decide by parts.
    """
    constraints, placed = task.constraints, task.placed
    pinned = np.array([constraints.graph.key_index[key] for key in constraints.pins], np.int64)
    allowed = constraints.allowed.copy()
    allowed[pinned] |= constraints.able[pinned]
    free = replace(task, constraints=replace(constraints, allowed=allowed))
    whole = Problem.of(constraints.graph, costs, allowed, placed, limits * shrinkage, size)
    best, _ = _found(free, costs, size, limits, shrinkage, whole, list(candidates(whole, costs)), lower_bound(whole, costs))
    if best is None:
        return None
    device = best[1].copy()
    wrong = pinned[~constraints.allowed[pinned, device[pinned]]]
    device[wrong] = constraints.allowed[wrong].argmax(axis=1)
    if Excess.of(task, device, limits).total:
        return None
    return price(constraints.graph, costs, device, placed).total, device


def _improved(task: Task, costs: Costs, size: Floats, limits: Floats, shrinkage: Floats, best: tuple[float, Ints] | None,
              share: float) -> tuple[tuple[float, Ints] | None, Excess | None]:
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
            excess = Excess.of(task, device, limits)
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


def _searched(task: Task, problem: Problem, costs: Costs, limits: Floats, shrinkage: Floats, best: tuple[float, Ints],
              bound: float) -> tuple[float, Ints]:
    """The placement, improved by large neighbourhood search with the room that its tensors leave for weights.

    Args:
        task: what is placed.
        problem: with all memory for weights.
        costs: of the task.
        limits: [device] bytes.
        shrinkage: [device] as ``weight_shrinkage`` returns it.
        best: price and devices of a placement that fits.
        bound: no placement costs less.
    """
    seconds = search_seconds(task.options)
    if not 0 < len(problem) <= MAX_SEARCHED_OPS or not seconds:
        return best
    room, placed = _room_for_weights(Excess.of(task, best[1], limits), limits, shrinkage), task.placed
    for _ in range(_SEARCHES):
        if best[0] <= bound * _GOOD_ENOUGH or task.should_stop():
            break
        priced = replace(problem, capacity=room, enter=problem.enter + costs.most_per_subgraph / 2)
        label = improve(priced, best[1][placed], TOTAL, seconds / _SEARCHES, 0.0, task.should_stop).label
        device = device_of_all_ops(task, placed, label)
        excess, total = Excess.of(task, device, limits), price(task.constraints.graph, costs, device, placed).total
        if not excess.total and total < best[0]:
            best = total, device
        elif not excess.total:
            break
        # Other ops hold other tensors; the best placement has room for its own in any case.
        room = np.minimum(room, _room_for_weights(excess, limits, shrinkage))
        if not replace(problem, capacity=room).fits(best[1][placed]):
            break
    return best


def _room_for_weights(found: Excess, limits: Floats, shrinkage: Floats) -> Floats:
    """[device] bytes of weights that fit beside the tensors of a placement."""
    tensors = np.array([float(each.peak - each.constants) for each in found.needed.devices])
    return np.asarray((limits - tensors) * shrinkage, np.float64)


def _stages(task: Task, costs: Costs, limits: Floats) -> tuple[float, Ints] | None:
    """Price and devices of contiguous pipeline stages, where they fit."""
    constraints, placed = task.constraints, task.placed
    found = stages(task)
    if found is None:
        return None
    device = found.device
    if Excess.of(task, device, limits).total:
        return None
    return price(constraints.graph, costs, device, placed).total, device


def _first(*found: tuple[float, Ints] | None) -> tuple[float, Ints] | None:
    """The cheapest of some placements; of equal ones that on the devices that come first in the table."""
    return min((each for each in found if each is not None), key=lambda each: (each[0], int(each[1].sum())), default=None)


def _runs_of_ops(task: Task, costs: Costs, limits: Floats, shrinkage: Floats, size: Floats) -> Iterable[tuple[float, Ints]]:
    """Price and devices where one device after the other is filled in topological order, with room for the tensors.

    Weights are found to fit at once; how much room tensors need beside them, only a look at the run tells.
    """
    constraints, placed, graph = task.constraints, task.placed, task.constraints.graph
    done: set[int] = set()
    for share in _ROOM_SHARES:
        room = np.where(np.isfinite(limits), limits * shrinkage * share, np.inf)
        problem = Problem.of(graph, costs, constraints.allowed, placed, room, size)
        for number, label in filled_in_order(problem):
            if number in done:
                continue
            device = device_of_all_ops(task, placed, label)
            if not Excess.of(task, device, limits).total:
                done.add(number)
                yield price(graph, costs, device, placed).total, device


def _by_regions(task: Task, problem: Problem, ideals: Iterable[Ints], costs: Costs,
                limits: Floats) -> Iterable[tuple[float, Ints]]:
    """Price and devices where full devices have as many regions of placements without limits as fit with their tensors."""
    graph, placed = task.constraints.graph, task.placed

    def fits(label: Ints) -> bool:
        return not task.should_stop() and not Excess.of(task, device_of_all_ops(task, placed, label), limits).total

    tensors = op_bytes(graph)[placed] - problem.size
    for ideal in ideals:
        for label in filled_by_regions(problem, ideal, tensors, fits, costs.most_per_subgraph / 2):
            device = device_of_all_ops(task, placed, label)
            yield price(graph, costs, device, placed).total, device


def _nearest(task: Task, problem: Problem, costs: Costs, limits: Floats) -> Excess:
    """Of the placements that the policy tries, the one that lacks the fewest bytes."""
    found = [Excess.of(task, device_of_all_ops(task, task.placed, label), limits) for label in candidates(problem, costs)]
    return min(found, key=lambda each: each.total)


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
    for label in (*candidates(problem, costs), *(label for _, label in filled_in_order(problem))):
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
