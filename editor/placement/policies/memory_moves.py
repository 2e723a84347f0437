"""Better placements within memory: blocks, parts and single ops move to where they cost less and fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from editor.graph.flops import Floats
from editor.graph.graph import Bools, Graph, Ints
from editor.graph.scopes.tree import scopes_of
from editor.graph.states import states_of
from editor.placement.costs import Costs, price
from editor.placement.policies.task import Task
from editor.placement.run_memory import RunMemory, run_memory
from editor.placement.subgraphs.minimal import minimal


@dataclass(frozen=True, eq=False)
class Excess:
    """A placement that needs more memory than there is."""

    total: float
    """bytes"""
    over: Floats
    """[device] bytes; negative where there is room"""
    device: Ints
    """[op]"""
    needed: RunMemory

    @classmethod
    def of(cls, task: Task, device: Ints, limits: Floats) -> Excess:
        """Computes what a placement needs beyond the limits; ``total`` is 0 where it fits."""
        constraints = task.constraints
        needed = run_memory(
            constraints.graph,
            constraints.devices,
            device,
            minimal(constraints.graph, device, task.placed),
        )
        over = np.array([needed.peaks[d.name] for d in constraints.devices]) - limits
        return cls(float(np.maximum(over, 0).sum()), over, device, needed)


_LEAST_OPS = 3
_LEAST_GAIN = 1e-4
"""Of the price: less is not worth another look at all moves."""
_SECONDS_PER_OP = 1e-6
"""Of a graph, to weigh one move. Moves are counted by it and not timed, so that a busy machine finds the same placement."""
_WALL_FACTOR = 4
"""Times the budget: a machine as slow as this stops all the same."""

_Move = tuple[Ints, int]
"""Ops, and the device that they may go to"""


def improved(
    task: Task, costs: Costs, limits: Floats, starts: Sequence[tuple[float, Ints]], seconds: float
) -> tuple[float, Ints]:
    """The best placement with ops on devices where they cost less and fit, one move after the other.

    First blocks move whose ops alone take less time elsewhere, the most promising first, then others, as transfers may pay for
    that; at last whole subgraphs, and single ops beside a change of device.

    Args:
        task: what is placed.
        costs: of the task.
        limits: [device] bytes.
        starts: price and devices of placements that fit; each is improved while the budget lasts.
        seconds: budget, as counted by the moves.
    """
    graph = task.constraints.graph
    blocks, until = (
        blocks_of(graph, task.constraints.placed),
        perf_counter() + _WALL_FACTOR * seconds,
    )
    left = int(seconds / (_SECONDS_PER_OP * max(len(graph), 1)))

    def ended() -> bool:
        return left <= 0 or perf_counter() >= until or task.should_stop()

    def moves(stage: int, device: Ints) -> Iterator[_Move]:
        groups = _at_borders(task, device) if stage == 2 else blocks
        return _moves(groups, costs, task.constraints.allowed, device, worse=stage > 0)

    def climbed(best: tuple[float, Ints]) -> tuple[float, Ints]:
        nonlocal left
        stage = 0
        while stage < 3 and not ended():
            before = best[0]
            for ops, d in moves(stage, best[1]):
                if ended():
                    break
                left -= 1
                total, device = _moved(task, costs, best[1], ops, d)
                is_less = total < best[0] * (1 - _LEAST_GAIN)
                if is_less and not Excess.of(task, device, limits).total:
                    best = total, device
            if best[0] == before:
                stage += 1
        return best

    return min((climbed(start) for start in starts), key=lambda each: each[0])


def _moved(task: Task, costs: Costs, device: Ints, ops: Ints, d: int) -> tuple[float, Ints]:
    """Price and devices of a placement where some ops go to a device."""
    moved = device.copy()
    moved[ops] = d
    return price(task.constraints.graph, costs, moved, task.placed).total, moved


_AS_CHEAP = 1.02
"""Times the price: less than estimates and measurements can tell apart."""
_SAME = 1 + 1e-9
"""Times the price: a move that costs nothing."""
_ALIKE = 1.05
"""Times the price: less than predictions can tell apart."""
_ROOM = 1.1
"""Times the price: what a split may take that has room for what its runtimes add, too."""
_EVEN = 0.02
"""Of a memory: as much room makes no difference."""
_FULL = 0.9
"""Of a memory: what is fuller has little room for a longer context."""


def evened(
    task: Task, costs: Costs, limits: Floats, best: tuple[float, Ints], seconds: float
) -> tuple[float, Ints]:
    """A placement about as cheap as the best one whose fullest device has more room, where that is nearly full.

    Block after block leaves the fullest device, each time the one that costs least; what costs more does so only while a device
    is nearly full, or has no room for what its runtime adds.

    Args:
        task: what is placed.
        costs: of the task.
        limits: [device] bytes.
        best: price and devices of a placement that fits.
        seconds: budget, as counted by the moves.
    """
    graph = task.constraints.graph
    blocks, cheapest = blocks_of(graph, task.constraints.placed), best[0]
    left = int(seconds / (_SECONDS_PER_OP * max(len(graph), 1)))

    def shares(device: Ints) -> tuple[Floats, bool]:
        """[device] how full it is, and whether one has no room for what its runtime adds."""
        needed = Excess.of(task, device, limits).needed
        peaks = np.array([memory.peak for memory in needed.devices])
        return np.asarray(peaks / np.maximum(limits, 1.0)), bool(needed.over_with_runtimes)

    now, lacks = shares(best[1])
    nearly_full = bool(now.max() > _FULL)
    while (nearly_full or lacks) and left > 0 and not task.should_stop():
        tight = _ROOM * cheapest if lacks else _AS_CHEAP * cheapest
        most = tight if lacks or now.max() > _FULL else _SAME * best[0]
        full, found = int(now.argmax()), list[tuple[float, int, Ints]]()
        beside = _beside(graph, best[1], len(limits))
        for ops, d in _moves(blocks, costs, task.constraints.allowed, best[1], worse=True):
            mine = ops[best[1][ops] == full]
            if d == full or not beside[mine, d].any():
                continue
            left -= 1
            total, device = _moved(task, costs, best[1], mine, d)
            if total <= most:
                found.append((total, len(found), device))
        following = ((total, d, shares(d)) for total, _, d in sorted(found, key=lambda f: f[:2]))
        step = next((each for each in following if each[2][0].max() < now.max()), None)
        if step is None:
            break
        best, (now, lacks) = step[:2], step[2]
    return best


def roomy(
    task: Task,
    costs: Costs,
    limits: Floats,
    best: tuple[float, Ints],
    starts: Sequence[tuple[float, Ints]],
    seconds: float,
) -> tuple[float, Ints]:
    """The best placement where it has room for what runtimes add, else another that has and costs little more; of a model that
    keeps a state, whatever it costs.

    Others are improved within less memory: less by the share that runtimes add to the best one. Of those whose prices can
    hardly be told apart, the most even one has the most room for a longer context; of the starts, too.

    Args:
        task: what is placed.
        costs: of the task.
        limits: [device] bytes.
        best: price and devices of a placement that fits.
        starts: of others that fit.
        seconds: budget, as counted by the moves.
    """
    needed = Excess.of(task, best[1], limits).needed
    even = evened(task, costs, limits, best, seconds)

    if np.isfinite(limits).all():
        parts = len(_parts(task, even[1])) + 1
        as_cheap = [each for each in starts if each[0] <= _AS_CHEAP * best[0]]
        as_simple = [each for each in as_cheap if len(_parts(task, each[1])) <= parts]
        even = _most_even(task, limits, (even, *as_simple))
    if not needed.over_with_runtimes:
        return even
    peaks = np.array([max(memory.peak, 1) for memory in needed.devices])
    added = np.array([needed.added_by_runtime(d) for d in range(len(peaks))])
    less = limits * float((peaks / (peaks + added)).min())
    within = [each for each in (even, *starts) if not Excess.of(task, each[1], less).total]
    found = [improved(task, costs, less, within, seconds)] if within else []
    # A state grows: a plan without room for it as it is does not hold its own context.
    most = np.inf if states_of(task.constraints.graph) else _ROOM * best[0]
    others = [
        each
        for each in (even, *found, *within)
        if each[0] <= most and not Excess.of(task, each[1], limits).needed.over_with_runtimes
    ]
    if not others:
        return even
    alike = [each for each in others if each[0] <= _ALIKE * min(other[0] for other in others)]
    return _simpler(task, costs, less, _most_even(task, limits, alike), seconds)


def _most_even(
    task: Task, limits: Floats, found: Sequence[tuple[float, Ints]]
) -> tuple[float, Ints]:
    """The one whose fullest device has most room; of those that are about as even, the one that cuts the fewest tensors."""
    source, reader, tensor = task.constraints.graph.edges

    def fullest(device: Ints) -> float:
        memory = Excess.of(task, device, limits).needed.devices
        return float((np.array([one.peak for one in memory]) / np.maximum(limits, 1.0)).max())

    def cuts(device: Ints) -> int:
        return len(np.unique(tensor[device[source] != device[reader]]))

    shares = [fullest(device) for _, device in found]
    near = [each for each, s in zip(found, shares, strict=True) if s <= min(shares) + _EVEN]
    return min(near, key=lambda each: (cuts(each[1]), each[0]))


def _simpler(
    task: Task, costs: Costs, limits: Floats, best: tuple[float, Ints], seconds: float
) -> tuple[float, Ints]:
    """A placement with fewer subgraphs, where whole ones can join others at about the same price.

    ``seconds``: budget, as counted by the moves.
    """
    graph, allowed = task.constraints.graph, task.constraints.allowed
    most, left = _AS_CHEAP * best[0], int(seconds / (_SECONDS_PER_OP * max(len(graph), 1)))

    def joined(best: tuple[float, Ints]) -> tuple[float, Ints] | None:
        nonlocal left
        now = _parts(task, best[1])
        for ops in sorted(now, key=len):
            for d in np.flatnonzero(allowed[ops].all(axis=0)).tolist():
                if d == best[1][ops[0]] or left <= 0 or task.should_stop():
                    continue
                left -= 1
                total, device = _moved(task, costs, best[1], ops, d)
                fits = total <= most and not Excess.of(task, device, limits).total
                if fits and len(_parts(task, device)) < len(now):
                    return total, device
        return None

    while (found := joined(best)) is not None:
        best = found
    return best


_NEARLY_ALL = 0.75
"""Of the ops of a block"""


def with_whole_blocks(task: Task, device: Ints) -> Ints:
    """[op] device where blocks that are nearly all on one device are there altogether, as far as their ops may be."""
    constraints, found = task.constraints, device.copy()
    for ops in blocks_of(constraints.graph, constraints.placed):
        counts = np.bincount(found[ops])
        most = int(counts.argmax())
        if (
            _NEARLY_ALL * len(ops) <= counts[most] < len(ops)
            and constraints.allowed[ops, most].all()
        ):
            found[ops] = most
    return found


def _parts(task: Task, device: Ints) -> list[Ints]:
    """[subgraph] its ops."""
    number = minimal(task.constraints.graph, device, task.placed)[task.placed]
    return [task.placed[number == each] for each in np.unique(number).tolist()]


def _beside(graph: Graph, device: Ints, devices: int) -> Bools:
    """[op, device] whether it reads or is read by an op there."""
    source, reader, _ = graph.edges
    found = np.zeros((len(graph), devices), bool)
    found[source, device[reader]] = True
    found[reader, device[source]] = True
    return found


def blocks_of(graph: Graph, placed: Bools) -> list[Ints]:
    """[block] its ops with a device of their own; the outer ones first."""
    scopes = scopes_of(graph).scopes[1:]
    found = [np.array([op for op in scope.ops if placed[op]], np.int64) for scope in scopes]
    return sorted((ops for ops in found if len(ops) >= _LEAST_OPS), key=len, reverse=True)


def _at_borders(task: Task, device: Ints) -> list[Ints]:
    """Subgraphs of a placement, and each op beside one of another device."""
    graph, placed = task.constraints.graph, task.placed
    part = minimal(graph, device, placed)
    whole = [placed[part[placed] == number] for number in np.unique(part[placed]).tolist()]
    source, reader, _ = graph.edges
    changes = device[source] != device[reader]
    beside = np.unique(np.concatenate([source[changes], reader[changes]]))
    return [*whole, *(np.array([op], np.int64) for op in beside[task.constraints.placed[beside]])]


def _moves(
    groups: Sequence[Ints], costs: Costs, allowed: Bools, device: Ints, worse: bool
) -> Iterator[_Move]:
    """Ops of a group that may go to a device, and the device; those first that gain most for their ops alone.

    With ``worse`` also those that gain nothing.
    """
    found = []
    for ops in groups:
        for d in range(allowed.shape[1]):
            mine = ops[allowed[ops, d] & (device[ops] != d)]
            gain = float(costs.op[mine, device[mine]].sum() - costs.op[mine, d].sum())
            if len(mine) and (gain > 0 or worse):
                found.append((gain, mine, d))
    found.sort(key=lambda move: -move[0])
    yield from ((mine, d) for _, mine, d in found)
