"""Policy `memory`: another policy's plan within the memory of each device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from editor.devices.device import Device
from editor.errors import EditorError
from editor.graph.flops import Floats, op_bytes
from editor.graph.graph import Bools, Ints
from editor.graph.states import states_of
from editor.groups import grouped
from editor.placement.costs import Costs, price
from editor.placement.policies.expansion import Expansion
from editor.placement.policies.memory_moves import (
    Excess,
    blocks_of,
    improved,
    roomy,
    with_whole_blocks,
)
from editor.placement.policies.optimal import (
    candidates,
    device_of_all_ops,
    lower_bound,
    search_seconds,
)
from editor.placement.policies.pipeline import stages
from editor.placement.policies.problem import Problem, column_keys
from editor.placement.policies.task import Assignment, Task, reasons
from editor.placement.run_memory import (
    RunMemory,
    heaviest,
    weight_bytes,
    weight_shrinkage,
)
from editor.text import human_bytes, pluralize

_LARGEST = 3


def memory_reasons(
    task: Task, costs: Costs, device: Ints, limits: Floats, size: Floats, ideal: Ints
) -> tuple[Callable[[int], str], Ints]:
    """As `reasons`; where the device that an op would be on has no room, that is why it is elsewhere.

    Returns:
        The reasons, and [op] the device that has no room for it, -1 where that is not the reason.

    Args:
        task: what is placed.
        costs: of the task.
        device: [op] of the placement.
        limits: [device] bytes.
        size: [op, device] bytes of the op's constants there.
        ideal: [op] device of the best placement without limits.
    """
    constraints, plain, needed = (
        task.constraints,
        reasons(task, costs, device),
        Excess.of(task, device, limits).needed,
    )
    wanted = Excess.of(task, ideal, limits)

    ops, peaks = (
        np.arange(len(device)),
        np.array([needed.peaks[d.name] for d in constraints.devices]),
    )
    times = np.where(constraints.allowed, costs.op, np.inf)
    fastest = times.argmin(axis=1)
    is_slower = times[ops, fastest] != times[ops, device]
    alone = is_slower & (peaks[fastest] + size[ops, fastest] > limits[fastest])
    together = (ideal != device) & (wanted.over[ideal] > 0)
    as_fast = together & ~alone & (times[ops, ideal] == times[ops, device])
    no_room = np.where(alone, fastest, np.where(together & ~as_fast, ideal, -1))
    equal = (times == times[ops, device][:, None]).sum(axis=1) > 1
    divided = equal & (wanted.over > 0).any()

    def because(op: int) -> str:
        if as_fast[op]:
            there = constraints.devices[int(ideal[op])]
            return (
                f"as fast as on {there.name}, which has no room for all that would be there: that needs "
                f"{human_bytes(wanted.needed.peaks[there.name])} of {there.limit_text}"
            )
        lacking = int(no_room[op])
        if lacking < 0:
            within = "; the split keeps each device within its memory" if divided[op] else ""
            return plain(op) + within
        name = constraints.devices[lacking].name
        if alone[op]:
            return (
                f"no room on {name}, which is faster for it: {taken(lacking)} are taken, and it has "
                f"{human_bytes(int(size[op, lacking]))} of constants"
            )
        return (
            f"no room on {name} for all that would be faster there: that needs "
            f"{human_bytes(wanted.needed.peaks[name])}, and {taken(lacking)} are taken as it is"
        )

    def taken(d: int) -> str:
        device = constraints.devices[d]
        return f"{human_bytes(needed.peaks[device.name])} of {device.limit_text}"

    return because, no_room


def too_large(
    task: Task, size: Floats, limits: Floats, shrinkage: Floats, closest: Excess | None
) -> str:
    """Why nothing fits, one line for each thing that can be changed."""
    constraints = task.constraints
    names, placed = [d.name for d in constraints.devices], np.zeros(len(constraints.graph), bool)
    placed[task.placed] = True
    lines = ["The model does not fit into the memory of its devices."]
    needed, room = float(size[placed].sum() / shrinkage.max()), float(limits.sum())
    if needed > room:
        least = "at least " if (shrinkage > 1).any() else ""  # where floats count as int8
        lines.append(
            f"Its constants take {least}{human_bytes(int(needed))}, all devices together have "
            f"{human_bytes(int(room))}: {human_bytes(int(needed - room))} "
            f"({int(needed - room):,} bytes) too few."
        )
    only = constraints.allowed & (constraints.allowed.sum(axis=1) == 1)[:, None]
    over = np.zeros(len(names)) if closest is None else closest.over.copy()
    for d, name in enumerate(names):
        forced = float(size[only[:, d]].sum() / shrinkage[d])
        if forced > limits[d]:
            over[d] = max(over[d], forced - limits[d])
            held = ", or are held there" if _held(task, d).any() else ""
            lines.append(
                f"{name} is over by {human_bytes(int(forced - limits[d]))} with the ops that can only run there{held}."
            )
    lines.insert(1, _way_out(task, over, needed > room))
    if closest is None:
        own = " (in their own type)" if (shrinkage > 1).any() else ""
        lines.append(
            f"Heaviest constants{own}: {', '.join(heaviest(constraints.graph, placed, size)) or 'none'}."
        )
        return "\n".join(lines)
    for d, device in enumerate(constraints.devices):
        if closest.over[d] > 0:
            lines += _what_fills(closest, d, device, placed & (closest.device == d), size)
    return "\n".join(lines)


def _held(task: Task, d: int) -> Bools:
    """[op] which ops a pin or rule keeps on a device, although another one could run them."""
    constraints = task.constraints
    kept_off = (constraints.able & ~constraints.allowed).any(axis=1)
    return constraints.placed & constraints.allowed[:, d] & kept_off


def _way_out(task: Task, over: Floats, never: bool) -> str:
    """What makes room: fewer pins and rules where these fill a device, else memory, devices or sizes.

    Args:
        task: what is placed.
        over: [device] bytes that it lacks.
        never: whether all devices together have too little for the constants.
    """
    full, held = np.flatnonzero(over > 0).tolist(), np.zeros(len(task.constraints.graph), bool)
    touched = op_bytes(task.constraints.graph)
    for d in full:
        there = _held(task, d)
        if touched[there].sum() >= over[d]:  # else the device is over without them, too
            held |= there
    if held.any() and not never:
        count = int(held.sum())
        return (
            f"{pluralize(count, 'op')} {'is' if count == 1 else 'are'} held by pins or rules: with fewer of them it may "
            "fit."
        )
    names = " and ".join(task.constraints.devices[d].name for d in full)
    ways = [f"more memory for {names}" if names else "more memory", "another device"]
    if task.constraints.graph.define:
        ways.append("smaller input sizes")
    return f"What helps: {', '.join(ways[:-1])} or {ways[-1]}."


def _what_fills(closest: Excess, d: int, device: Device, ops: Bools, size: Floats) -> Iterator[str]:
    """Describes what a device holds at its peak: constants and tensors, and the largest of them."""
    memory = closest.needed.devices[d]
    yield (
        f"In the closest placement that was found, {device.name} is over by {human_bytes(int(closest.over[d]))}: "
        f"{human_bytes(memory.constants)} of constants and {human_bytes(memory.peak - memory.constants)} of tensors at "
        f"once, without what runtimes add, where the limit is {device.limit_text}."
    )
    if constants := heaviest(closest.needed.graph, ops, size, _LARGEST):
        own = (
            " (in their own type)" if closest.needed.devices[d].constants < size[ops].sum() else ""
        )
        yield f"Heaviest constants there{own}: {', '.join(constants)}."
    if tensors := closest.needed.at_peak(d)[:_LARGEST]:
        yield f"Heaviest tensors there: {', '.join(f'{t.tensor} ({human_bytes(t.bytes)}, {t.kind})' for t in tensors)}."


_MOST_REGIONS = 400
"""Whose gain is looked at; of more, those with the most work."""
_PARTS = 16
"""Numbers of nodes that a region is tried with, from either end, where it does not fit as a whole."""
_LEVELS = (0.1, 0.3, 0.5, 0.7, 0.85, 1.0)
"""Shares of the regions, those with the smallest tensors, that are looked at."""


def filled_by_regions(
    problem: Problem,
    ideal: Ints,
    tensors: Floats,
    fits: Callable[[Ints], bool],
    per_cut: float = 0.0,
) -> Iterable[Ints]:
    """Yields placements that fit, with as many regions of an ideal one as have room and gain time.

    A region is a connected part of a full device. One that does not fit as a whole gives its first or last nodes.
    Weights of all regions add up, and of their tensors the largest counts: a placement is made for several largest ones.

    Args:
        problem: what to place.
        ideal: [node] device, if there were room.
        tensors: [node] bytes that it reads and writes.
        fits: whether there is room for the tensors, too.
        per_cut: extra seconds for every transfer.
    """
    full = problem.used(ideal) > problem.capacity
    elsewhere = problem.allowed & ~full
    if not full.any() or not elsewhere.any(axis=1).all():
        return
    objective = Expansion(problem, per_cut)
    apart = replace(problem, allowed=elsewhere)
    label = Expansion(apart, per_cut).solve(apart.fastest)
    if not problem.fits(label) or not fits(label):
        return
    choices = _regions(problem, ideal, full)
    largest = np.array([tensors[nodes].max() for nodes in choices])
    for most in np.unique(np.quantile(largest, _LEVELS, method="inverted_cdf")).tolist():
        small = [nodes for nodes, size in zip(choices, largest, strict=True) if size <= most]
        filled = _with_best(problem, objective, label, ideal, small, fits)
        yield _with_best(problem, objective, filled, ideal, small, fits)


def _with_best(
    problem: Problem,
    objective: Expansion,
    label: Ints,
    ideal: Ints,
    choices: list[Ints],
    fits: Callable[[Ints], bool],
) -> Ints:
    """The placement with those choices moved to where they would ideally be that gain most per byte, while there is room."""
    value, gains = objective.value(label), []
    for number, nodes in enumerate(choices):
        gain = value - objective.value(_moved(label, nodes, ideal))
        if gain > 0:
            gains.append((-gain / max(float(problem.size[nodes].sum()), 1.0), number))
    for _, number in sorted(gains):
        nodes = choices[number][label[choices[number]] != ideal[choices[number]]]
        if not len(nodes):
            continue
        left = (problem.capacity - problem.used(label))[ideal[nodes[0]]]
        tried = [_moved(label, part, ideal) for part in _parts(problem, nodes, left)]
        for reached, _, moved in sorted(
            (objective.value(moved), i, moved) for i, moved in enumerate(tried)
        ):
            if reached >= value:
                break
            if problem.fits(moved) and fits(moved):
                label, value = moved, reached
                break
    return label


def _parts(problem: Problem, nodes: Ints, left: float) -> list[Ints]:
    """A region as a whole where its weights have room; else its first nodes, or its last ones, more or fewer of them."""
    if problem.size[nodes].sum() <= left:
        return [nodes]
    parts = []
    for way in (nodes, nodes[::-1]):
        most = int((np.cumsum(problem.size[way]) <= left).sum())
        counts = np.unique(np.linspace(0, most, _PARTS + 1).astype(int))[1:]
        parts += [way[:count] for count in counts.tolist()]
    return parts


def filled_in_order(problem: Problem) -> Iterable[tuple[int, Ints]]:
    """Yields numbered placements that fill one device after the other, in table order and in reverse."""
    devices = problem.time.shape[1]
    for number, order in enumerate((list(range(devices)), list(range(devices))[::-1])):
        label, left = np.zeros(len(problem), np.int64), problem.capacity.copy()
        current = 0
        for node in range(len(problem)):
            usable = [
                d for d in order if problem.allowed[node, d] and problem.size[node] <= left[d]
            ]
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


def _moved(label: Ints, nodes: Ints, ideal: Ints) -> Ints:
    moved = label.copy()
    moved[nodes] = ideal[nodes]
    return moved


def _regions(problem: Problem, label: Ints, full: Bools) -> list[Ints]:
    """Connected nodes on each full device, in topological order; the largest where there are too many."""
    tensor = problem.readers.row_of_value
    source, reader = problem.source[tensor], problem.readers.values
    inside = (label[source] == label[reader]) & full[label[source]]
    parent = np.arange(len(problem))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = int(parent[node])
        return node

    for one, other in zip(source[inside].tolist(), reader[inside].tolist(), strict=True):
        a, b = root(one), root(other)
        parent[max(a, b)] = min(a, b)
    members = grouped((root(node), node) for node in np.flatnonzero(full[label]).tolist())
    regions = [np.array(nodes, np.int64) for nodes in members.values()]
    work = [float(problem.time[nodes].max(axis=1).sum()) for nodes in regions]
    largest = sorted(range(len(regions)), key=lambda i: -work[i])[:_MOST_REGIONS]
    return [regions[i] for i in sorted(largest)]


_STEPS = 12
_TENSOR_SHARES = (1.0, 0.6, 0.3)
"""Of a full device's memory: ops beside more tensors leave it first. Which pays depends on what fills it."""
_CLOSE = 1.02
"""Times the bound: good enough."""
_GOOD_ENOUGH = 1.001
"""Times the bound: nothing is left to search."""
_ROUNDS = 16
"""Of less room for weights, or fewer ops with large tensors, until the peak fits."""


def memory(task: Task) -> Assignment:
    """The cheapest of several candidate placements that fit.

    Weights on a full device cost a price per byte, raised until they fit (Lagrangian relaxation). Other candidates are the
    stages of `pipeline`, devices filled to their peak one after the other, and regions of placements without limits; then
    blocks and single ops move into room that is left. Of placements that are as cheap, to 2 %, one without a device that is
    nearly full is taken, and the most even one of a model whose states grow; to 10 %, one that has room for what its
    runtimes add. Besides its weights, a device must hold the tensors of the run, so the capacity for weights shrinks until the
    peak of both fits.

    Raises:
        EditorError: nothing fits; the message says what the closest placement lacks on each device, and what is largest there.
    """
    costs, placed, constraints = task.costs(), task.placed, task.constraints
    limits = constraints.memory_limits
    size = weight_bytes(constraints.graph, placed)
    shrinkage = weight_shrinkage(constraints.graph, constraints.devices, size)
    whole = Problem.of(
        constraints.graph, costs, constraints.allowed, placed, limits * shrinkage, size
    )
    ideals = list(candidates(whole, costs))  # they know no limits
    bound = lower_bound(whole, costs)  # for weights alone; it holds for the peak
    found, closest = _found(task, costs, size, limits, shrinkage, whole, ideals, bound)
    held = placed[(constraints.able & ~constraints.allowed)[placed].any(axis=1)]
    if len(held) and (not found or found[0][0] > bound * _CLOSE) and not task.should_stop():
        found = _cheapest(*found, _around_held(task, costs, size, limits, shrinkage, held))
    if found:
        best = found[0]
        if best[0] > bound * _GOOD_ENOUGH:
            best = improved(task, costs, limits, found, search_seconds(task.options))
        if states_of(constraints.graph) and np.isfinite(limits).all():  # they grow
            found += _even(task, costs, size, limits)
        best = roomy(task, costs, limits, best, found, search_seconds(task.options))
        total, device = best[0], _in_table_order(task, costs, limits, best[1])
        device = _as_without_pins(task, costs, limits, device, held)
        ideal = min(
            (device_of_all_ops(task, placed, label) for label in ideals),
            key=lambda each: price(constraints.graph, costs, each, placed).total,
        )
        because, no_room = memory_reasons(
            task, costs, device, limits, size[:, None] / shrinkage, ideal
        )
        return Assignment(
            device,
            because,
            total,
            min(bound, total),
            "latency within memory",
            costs.estimated,
            no_room=no_room,
        )
    raise EditorError(too_large(task, size, limits, shrinkage, closest))


_SAME = 1 + 1e-9
"""Factor within which two prices are equal: sums in another order differ in the last digits."""
_FEW = 0.1
"""Of the ops on devices that differ in nothing: what runs fewer comes after the others."""


def _in_table_order(task: Task, costs: Costs, limits: Floats, device: Ints) -> Ints:
    """[op] device where of devices that differ in nothing the first of the table runs what comes first.

    A device with a few ops comes after the others: "GPU0: 1 op, GPU1: 242 ops" would be read as a mistake.
    """
    constraints = task.constraints
    run = device[constraints.graph.order[constraints.placed[constraints.graph.order]]]
    used = list(dict.fromkeys(run.tolist()))
    counts = np.bincount(run, minlength=len(limits))
    number = np.arange(len(limits))
    for group in _alike(task, costs, limits):
        few = counts < _FEW * counts[group].sum()
        order = sorted((d for d in used if d in group), key=lambda d: bool(few[d]))
        number[[*order, *(d for d in group if d not in used)]] = group
    return number[device]


def _as_without_pins(task: Task, costs: Costs, limits: Floats, device: Ints, held: Ints) -> Ints:
    """[op] device where devices that would differ in nothing without pins have the order of the table, if that costs no more.

    A person who paints a layer wants that one on the other card; all others would change places with it. Where the pinned ops
    alone cost more there, a block around them may go with them.

    Args:
        held: ops that pins and rules keep off devices.
    """
    constraints, graph = task.constraints, task.constraints.graph
    if not len(held):
        return device
    free = replace(task, constraints=replace(constraints, allowed=_freed(task, held)))
    ordered = _in_table_order(free, costs, limits, device)
    wrong = held[~constraints.allowed[held, ordered[held]]]
    if not len(wrong) or np.array_equal(ordered, device):
        return device
    most = price(graph, costs, device, task.placed).total * _SAME
    is_tight = bool(Excess.of(task, device, limits).needed.over_with_runtimes)
    around = [ops for ops in blocks_of(graph, constraints.placed) if np.isin(wrong, ops).all()]
    for ops in (wrong, *reversed(around)):
        other = ordered.copy()
        other[ops] = device[ops]  # which pins and rules allow
        if price(graph, costs, other, task.placed).total > most:
            continue
        excess = Excess.of(task, other, limits)
        if not excess.total and (is_tight or not excess.needed.over_with_runtimes):
            return other
    return device


def _freed(task: Task, held: Ints) -> Bools:
    """[op, device] what is allowed without pins and rules."""
    allowed = task.constraints.allowed.copy()
    allowed[held] |= task.constraints.able[held]
    return allowed


def _alike(task: Task, costs: Costs, limits: Floats) -> list[list[int]]:
    """Numbers of devices that take, cost and hold the same, in groups of two and more."""
    constraints = task.constraints
    times = (costs.op, costs.enter, costs.leave, costs.launch[None])
    keys = column_keys(constraints.allowed, *times, limits[None])
    kinds = grouped(
        ((key, d.runtime, d.provider, d.machine, d.published.assumes), number)
        for number, (key, d) in enumerate(zip(keys, constraints.devices, strict=True))
    )
    return [group for group in kinds.values() if len(group) > 1]


def _found(
    task: Task,
    costs: Costs,
    size: Floats,
    limits: Floats,
    shrinkage: Floats,
    whole: Problem,
    ideals: list[Ints],
    bound: float,
) -> tuple[list[tuple[float, Ints]], Excess | None]:
    """The cheapest few of the candidates that fit, and that which lacks least; arguments as for ``_shrunk``.

    Args:
        whole: the problem with all memory for weights.
        ideals: placements of it that know no limits.
        bound: no placement costs less.
    """
    filled = list(_in_order(task, costs, size, limits))
    found = _cheapest(
        _stages(task, costs, limits),
        *_by_regions(task, whole, ideals, costs, limits),
        *(_priced(task, costs, e.device) for e in filled if not e.total),
    )
    closest = min((e for e in filled if e.total), key=lambda each: each.total, default=None)
    for share in _TENSOR_SHARES:
        found, lacking = _shrunk(task, costs, size, limits, shrinkage, found, share)
        closest = min(
            (each for each in (closest, lacking) if each is not None),
            key=lambda each: each.total,
            default=None,
        )
        if lacking is None or (found and found[0][0] <= bound * _CLOSE) or task.should_stop():
            break
    return found, closest


def _around_held(
    task: Task, costs: Costs, size: Floats, limits: Floats, shrinkage: Floats, held: Ints
) -> tuple[float, Ints] | None:
    """Price and devices of a placement without pins and rules, with the ops that they hold then put where they belong.

    None where that does not fit. What is held far from where the policy would have it leads its candidates to bad places, as
    far as they decide by parts; and rules that the placement keeps anyway must not make it worse.

    Args:
        held: ops that pins and rules keep off devices.
    """
    constraints, placed = task.constraints, task.placed
    allowed = _freed(task, held)
    free = replace(task, constraints=replace(constraints, allowed=allowed))
    whole = Problem.of(constraints.graph, costs, allowed, placed, limits * shrinkage, size)
    found, _ = _found(
        free,
        costs,
        size,
        limits,
        shrinkage,
        whole,
        list(candidates(whole, costs)),
        lower_bound(whole, costs),
    )
    if not found:
        return None
    device = _renamed(found[0][1], _alike(free, costs, limits), constraints.allowed, held)
    wrong = held[~constraints.allowed[held, device[held]]]
    device[wrong] = constraints.allowed[wrong].argmax(axis=1)
    if Excess.of(task, device, limits).total:
        return None
    return _priced(task, costs, device)


def _renamed(device: Ints, groups: Sequence[Sequence[int]], allowed: Bools, held: Ints) -> Ints:
    """[op] device where of those that differ in nothing each stands for the one that most of its ops may use."""
    number = np.arange(allowed.shape[1])
    for group in groups:
        fitting = {d: allowed[held[device[held] == d]].sum(axis=0) for d in group}
        pairs = sorted((-int(fitting[d][to]), d != to, d, to) for d in group for to in group)
        free, taken = set(group), set[int]()
        for _, _, d, to in pairs:
            if d in free and to not in taken:
                number[d] = to
                free.remove(d)
                taken.add(to)
    renamed: Ints = number[device]
    return renamed


def _shrunk(
    task: Task,
    costs: Costs,
    size: Floats,
    limits: Floats,
    shrinkage: Floats,
    found: list[tuple[float, Ints]],
    share: float,
) -> tuple[list[tuple[float, Ints]], Excess | None]:
    """The cheapest few placements that fit, and that which lacks least; rounds have less room, or fewer ops with large tensors.

    Args:
        task: what is placed.
        costs: its costs.
        size: [op] bytes of weights.
        limits: [device] bytes.
        shrinkage: [device] as ``weight_shrinkage`` returns it.
        found: price and devices of the cheapest ones so far.
        share: of a full device's memory; ops that run while tensors alone take more leave it before weights do.
    """
    graph, placed = task.constraints.graph, task.placed
    room, allowed, closest = limits * shrinkage, task.constraints.allowed, None
    for _ in range(_ROUNDS):
        problem = Problem.of(graph, costs, allowed, placed, room, size)
        fitting = [
            _priced(task, costs, device_of_all_ops(task, placed, label))
            for label in _fitting(problem, costs)
        ]
        too_large = []
        if (
            not fitting and closest is None and not found
        ):  # not even the weights: what lacks least, for the message
            closest = _nearest(task, problem, costs, limits)
        for total, device in sorted(fitting, key=lambda item: item[0]):
            if found and total >= found[0][0]:
                break
            excess = Excess.of(task, device, limits)
            if not excess.total:
                found = _cheapest(*found, (total, device))
                break
            too_large.append(excess)
        if not too_large or task.should_stop():
            break
        least = min(too_large, key=lambda each: each.total)
        closest = min(closest or least, least, key=lambda each: each.total)
        fewer = _without_large_tensors(allowed, least.device, least.needed, limits, share)
        if fewer is not None:
            allowed = fewer
            continue
        # What another device had too much of in an earlier round, it may not have now.
        over = least.over
        room = np.where(
            over > 0, np.minimum(room, limits * shrinkage) - over * shrinkage, limits * shrinkage
        )
        if (room < 0).any():
            break
    return found, closest


def _stages(task: Task, costs: Costs, limits: Floats) -> tuple[float, Ints] | None:
    """Price and devices of contiguous pipeline stages, where they fit."""
    found = stages(task)
    if found is None or Excess.of(task, found.device, limits).total:
        return None
    return _priced(task, costs, found.device)


def _priced(task: Task, costs: Costs, device: Ints) -> tuple[float, Ints]:
    """Price and devices of a placement."""
    return price(task.constraints.graph, costs, device, task.placed).total, device


_STARTS = 3
"""Placements that are improved"""
_NEAR = 1.25
"""Times the price of the cheapest: improving others takes time and hardly ever pays."""


def _cheapest(*found: tuple[float, Ints] | None) -> list[tuple[float, Ints]]:
    """The cheapest few of some placements, no price twice; of equal ones the most even, then first devices of the table."""
    known = [each for each in found if each is not None]

    def rank(each: tuple[float, Ints]) -> tuple[float, int, int]:
        rounded = round(each[0], 15)  # sums in another order differ in the last digits
        return rounded, int(np.bincount(each[1], minlength=1).max()), int(each[1].sum())

    known.sort(key=rank)
    prices = [rank(each)[0] for each in known]
    new = [each for i, each in enumerate(known) if prices[i] not in prices[:i]]
    return [each for each in new if each[0] <= _NEAR * known[0][0]][:_STARTS]


_LEFT_OUT: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (0, 1), (0, 1, 2, 3))
"""Of the ops that hold most, those that leave a device room for all others: an embedding, or the last layer, or both."""


_HALVINGS = 5
"""Of the share of all memories that devices are filled to"""
_MARGIN = 1.02
"""Times that share: what a border may move to where it costs less"""


def _even(task: Task, costs: Costs, size: Floats, limits: Floats) -> Iterator[tuple[float, Ints]]:
    """Price and devices where all are filled to the least share of their memory, in the order of the run.

    Each of the largest devices comes last once: pins may leave it nothing else.
    """
    for last in np.flatnonzero(limits == limits.max()).tolist():
        low, high, device = 0.0, 1.0, None
        for _ in range(_HALVINGS):
            share = (low + high) / 2
            filled = next(_in_order(task, costs, size, share * limits, last), None)
            if filled is None or filled.total:
                low = share
            else:
                high, device = share, filled.device
        if device is not None:
            whole = with_whole_blocks(task, device)
            if not Excess.of(task, whole, limits).total:
                yield _priced(task, costs, whole)
            priced = _priced(task, costs, device)
            yield priced
            room = min(_MARGIN * high, 1.0) * limits
            yield improved(task, costs, room, [priced], search_seconds(task.options))


def _in_order(
    task: Task, costs: Costs, size: Floats, limits: Floats, last: int | None = None
) -> Iterator[Excess]:
    """Placements where one device after the other is filled to its peak, in the order of the run; not all of them fit.

    The device with the most memory, or ``last``, takes what is left, and some of the ops that hold most.
    """
    constraints, placed = task.constraints, task.placed
    allowed = constraints.allowed[placed]
    rest = len(limits) - 1 - int(limits[::-1].argmax()) if last is None else last
    times = np.where(allowed, costs.op[placed], 0.0).sum(axis=0)
    filled = [d for d in np.argsort(times, kind="stable").tolist() if d != rest]
    first = np.where(allowed[:, rest], rest, allowed.argmax(axis=1)).astype(np.int64)
    held = np.maximum(op_bytes(constraints.graph)[placed], size[placed])
    heaviest_first = np.argsort(-held, kind="stable")
    for left_out in _LEFT_OUT:
        if max(left_out, default=-1) >= len(placed):
            return
        label, kept = first.copy(), np.sort(np.delete(heaviest_first, left_out))
        for d in filled:
            kept = kept[_filled(task, limits, label, kept, d) :]
            if task.should_stop():
                return
        yield Excess.of(task, device_of_all_ops(task, placed, label), limits)


def _filled(task: Task, limits: Floats, label: Ints, nodes: Ints, d: int) -> int:
    """How many of some nodes a device has room for, found by halving; ``label`` has these there then."""
    low, high, begin = 0, len(nodes), label[nodes]
    able = task.constraints.allowed[task.placed[nodes], d]
    while low < high:
        most = (low + high + 1) // 2
        label[nodes] = np.where(able & (np.arange(len(nodes)) < most), d, begin)
        over = Excess.of(task, device_of_all_ops(task, task.placed, label), limits).over[d]
        low, high = (most, high) if over <= 0 else (low, most - 1)
    label[nodes] = np.where(able & (np.arange(len(nodes)) < low), d, begin)
    return low


def _by_regions(
    task: Task, problem: Problem, ideals: Iterable[Ints], costs: Costs, limits: Floats
) -> Iterable[tuple[float, Ints]]:
    """Price and devices where full devices have as many regions of placements without limits as fit with their tensors."""
    placed = task.placed

    def fits(label: Ints) -> bool:
        return (
            not task.should_stop()
            and not Excess.of(task, device_of_all_ops(task, placed, label), limits).total
        )

    tensors = op_bytes(task.constraints.graph)[placed] - problem.size
    for ideal in ideals:
        for label in filled_by_regions(problem, ideal, tensors, fits, costs.most_per_subgraph / 2):
            yield _priced(task, costs, device_of_all_ops(task, placed, label))


def _nearest(task: Task, problem: Problem, costs: Costs, limits: Floats) -> Excess:
    """Returns the placement that lacks the fewest bytes, of those that the policy tries."""
    found = [
        Excess.of(task, device_of_all_ops(task, task.placed, label), limits)
        for label in candidates(problem, costs)
    ]
    return min(found, key=lambda each: each.total)


def _without_large_tensors(
    allowed: Bools, device: Ints, needed: RunMemory, limits: Floats, share: float
) -> Bools | None:
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
    scale = float(problem.time.sum()) / max(float(problem.size.sum()), 1.0)
    for step in range(_STEPS if len(problem) else 0):
        label = Expansion(problem, 0.0, penalty).solve(problem.fastest)
        over = problem.used(label) > problem.capacity
        if not over.any():
            yield label
            return
        penalty[over] = np.maximum(penalty[over] * 2, scale * 0.25 * 2 ** (step / 2))
