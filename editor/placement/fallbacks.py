"""Finds ops that fell back from their preferred device, and hints for pins."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from editor.devices.published import need_of, reason_of_all
from editor.errors import EditorError
from editor.graph.graph import Ints
from editor.graph.scopes.tree import Scopes, scopes_of
from editor.groups import grouped
from editor.kinds import Basis, Kind, too_close
from editor.placement.choices import grouping_of
from editor.placement.chosen_costs import aims_at_throughput, assumed_speeds, is_assumed
from editor.placement.costs import Costs, boundary_seconds, price, subgraph_overheads
from editor.placement.device_profile import costs_of
from editor.placement.placement import Placement, solve
from editor.placement.subgraphs.division import Boundary
from editor.text import in_words


@dataclass(frozen=True)
class Fallback:
    """Ops that one device refuses for one reason, with what that costs in one run."""

    wanted: str
    """The device that refuses them."""
    reason: str
    op_types: tuple[str, ...]
    """The most frequent one first."""
    ops: tuple[int, ...]
    devices: tuple[str, ...]
    """Where they run instead."""
    layers: int
    """Blocks that they are in; 0 where the model has no repeated blocks."""
    subgraphs: int
    """Subgraphs that they are in."""
    bytes: int
    """Transferred tensors that they read or make."""
    seconds: float
    """What they add to a run: the time of the ops here instead of there, and a share of the transfers and launches by which
    the plan differs from one with all fallbacks where they were wanted. All fallbacks add up to the difference of the two;
    negative where they are faster here."""
    source: str
    """Address of the document that says so; "" where a runtime or the device table says it."""
    by_rule: int = 0
    """How many of the ops a rule placed."""
    plan_as: str = ""
    """The element type that the device would take, if the model were planned in it; "" where that is not the reason."""
    rough: bool = False
    """Whether the seconds rest on assumed speeds"""
    condition: str = ""
    """The condition of the device table that they do not meet, as it is written; "" where that is not the reason."""

    own_seconds: float = 0.0
    """Of the seconds, the time of the ops here less that where they were wanted"""

    @property
    def parts(self) -> str:
        """ "ops −8.1 µs, overhead +112 µs": what the seconds consist of; overhead are transfers and starts of subgraphs."""
        own, rest = self.own_seconds, self.seconds - self.own_seconds
        return f"ops {_signed(own, self.rough)}, overhead {_signed(rest, self.rough)}"

    @property
    def lost(self) -> str:
        """The seconds in words."""
        return lost_in_words(self.seconds, self.rough)

    @property
    def op_type(self) -> str:
        """All types in one text."""
        return ", ".join(self.op_types)


def fallbacks(placement: Placement, costs: Costs) -> list[Fallback]:
    """All fallbacks, the most expensive first."""
    graph, devices = placement.graph, placement.devices
    device = placement.assignment.device
    wanted = 0
    groups = grouped(
        (need_of(placement.constraints.inability(op, wanted)), op)
        for op in placement.placed_ops.tolist()
        if _falls_back(placement, op)
    )
    if not groups:
        return []
    at_home = device.copy()
    for ops in groups.values():
        at_home[ops] = wanted
    own = [
        float((costs.op[ops, device[ops]] - costs.op[ops, wanted]).sum()) for ops in groups.values()
    ]
    lost = placement.price(costs).total - _seconds(placement, costs, at_home)
    shares = _shares_of_overhead(placement, costs, list(groups.values()))
    scopes, ruled = scopes_of(graph), placement.constraints.ruled
    found = []
    for ops, slower, share in zip(groups.values(), own, shares, strict=True):
        reason = reason_of_all([placement.constraints.inability(op, wanted) for op in ops])
        types = Counter(graph.type_label(op) for op in ops)
        found.append(
            Fallback(
                devices[wanted].name,
                reason,
                tuple(sorted(types, key=lambda name: (-types[name], name))),
                tuple(ops),
                _names(placement, ops),
                _layers(scopes, ops),
                len(np.unique(placement.division.subgraph_of_op[ops])),
                _moved(placement, ops),
                slower + share * (lost - sum(own)),
                _source(placement, ops[0], wanted),
                sum(op in ruled for op in ops),
                devices[wanted].published.way_out(reason),
                is_assumed(devices, costs, wanted) or bool(assumed_speeds(placement, costs)),
                placement.constraints.condition(ops[0], wanted),
                slower,
            )
        )
    return sorted(found, key=lambda f: (-f.seconds, -len(f.ops), f.wanted, f.op_type))


class Taken(NamedTuple):
    """A run where the first device would take the ops that it refuses."""

    seconds: float
    subgraphs: int
    before: float
    """Seconds of a run as it is"""


def if_taken(placement: Placement, costs: Costs, found: Sequence[Fallback]) -> Taken:
    """What a run would be without some fallbacks, the other ops where they are."""
    device, placed = placement.assignment.device.copy(), np.sort(placement.placed_ops)
    device[[op for fallback in found for op in fallback.ops]] = 0
    groups = grouping_of(placement.settings.subgraphs)(placement.graph, device, placed)
    seconds = price(placement.graph, costs, device, placement.placed_ops, groups).total
    return Taken(seconds, int(groups[placed].max()) + 1, placement.price(costs).total)


_NOTHING = 1e-9
"""Seconds that sums in another order differ by"""


def lost_in_words(seconds: float, rough: bool) -> str:
    """E.g. "8.1 µs", or "none: 3 µs faster here" of negative seconds."""
    said = in_words(abs(seconds), rough)
    return said if seconds > 0 else f"none: {said} faster here" if seconds else "none"


def _signed(seconds: float, rough: bool) -> str:
    if abs(seconds) < _NOTHING:
        return "0"
    return f"{'−' if seconds < 0 else '+'}{in_words(abs(seconds), rough).removeprefix('about ')}"


def _falls_back(placement: Placement, op: int) -> bool:
    """Whether the first device cannot run an op. A rule hides no reason, a pin is a person's own.

    Where that device could, a policy or a rule keeps the op from it.
    """
    pinned = placement.graph.op_keys[op] in placement.settings.pins
    return not placement.constraints.able[op, 0] and not pinned


def _shares_of_overhead(
    placement: Placement, costs: Costs, groups: Sequence[list[int]]
) -> list[float]:
    """Share of each group in transfers and launches: by the seconds of those that its ops take part in."""
    part = placement.division.subgraph_of_op
    _, launches = subgraph_overheads(
        placement.graph, costs, placement.assignment.device, placement.placed_ops, part
    )
    transfers = [seconds_of(placement, costs, t) for t in placement.division.transfers]
    weights = [
        float(launches[np.unique(part[ops])].sum())
        + sum(transfers[i] for i in _touching(placement, ops))
        for ops in groups
    ]
    total = sum(weights)
    return [
        w / total if total else len(ops) / sum(map(len, groups))
        for w, ops in zip(weights, groups, strict=True)
    ]


def _source(placement: Placement, op: int, wanted: int) -> str:
    """The document that says why; lists of the device table are the user's own."""
    published = placement.constraints.capabilities[wanted].reasons[op]
    return placement.devices[wanted].published.source if published else ""


def _seconds(placement: Placement, costs: Costs, device: Ints) -> float:
    """Seconds of a run with the ops on these devices."""
    graph, placed = placement.graph, placement.placed_ops
    groups = grouping_of(placement.settings.subgraphs)(graph, device, np.sort(placed))
    return price(graph, costs, device, placed, groups).total


def chosen_elsewhere(placement: Placement) -> dict[str, list[int]]:
    """Device -> ops, no fallbacks, that may run there, and that the policy put on a later device; by the first such device."""
    allowed, device = placement.constraints.allowed, placement.assignment.device
    return grouped(
        (placement.devices[int(allowed[op].argmax())].name, op)
        for op in placement.placed_ops.tolist()
        if not _falls_back(placement, op)
        and allowed[op, : device[op]].any()
        and _is_free(placement, op)
    )


def without_room(placement: Placement) -> dict[str, list[int]]:
    """Device -> ops that would be there if it had the memory, but for those that a pin or a rule places."""
    lacking = placement.assignment.no_room
    if lacking is None:
        return {}
    return grouped(
        (placement.devices[int(lacking[op])].name, op)
        for op in placement.placed_ops.tolist()
        if lacking[op] >= 0 and _is_free(placement, op)
    )


def _is_free(placement: Placement, op: int) -> bool:
    """Whether the policy places an op: no pin and no rule does."""
    pins = placement.settings.pins
    return placement.graph.op_keys[op] not in pins and op not in placement.constraints.ruled


def seconds_of(placement: Placement, costs: Costs, transfer: Boundary) -> float:
    """Seconds of a boundary tensor to all other devices that read it."""
    source = placement.device_number(placement.subgraphs[transfer.source].device)
    return boundary_seconds(
        placement.graph,
        costs,
        transfer.tensor,
        source,
        [placement.device_number(name) for name in transfer.to_devices],
    )


def _names(placement: Placement, ops: list[int]) -> tuple[str, ...]:
    used = np.unique(placement.assignment.device[ops]).tolist()
    return tuple(placement.devices[d].name for d in used)


def _layers(scopes: Scopes, ops: Iterable[int]) -> int:
    """Number of the model's layers (its outermost repeated blocks) that some ops are in."""
    found = {
        number
        for op in ops
        if op in scopes.of_op
        for number in scopes.ancestors(scopes.of_op[op])
        if number in scopes.repeated
    }
    return len(found)


def _touching(placement: Placement, ops: list[int]) -> Iterator[int]:
    """Yields the positions of the transfers whose tensor the ops read or make."""
    graph, chosen = placement.graph, set(ops)
    for i, transfer in enumerate(placement.division.transfers):
        tensor = graph.tensor_index[transfer.tensor]
        if int(graph.tensor_producer[tensor]) in chosen or not chosen.isdisjoint(
            graph.readers[tensor].tolist()
        ):
            yield i


def _moved(placement: Placement, ops: list[int]) -> int:
    transfers = placement.division.transfers
    return sum(
        max(transfers[i].bytes, 0) * len(transfers[i].to_devices) for i in _touching(placement, ops)
    )


_MAX_TRANSFERS, _MAX_TRIALS, _MAX_REPEATED_OPS = 6, 48, 500
_LEAST_SAVING = 1e-3
"""Share of the latency; a smaller saving is within the noise of a measurement."""


@dataclass(frozen=True)
class Hint:
    """A change of device for some ops, with its effect on one run by the costs that policies use."""

    tensor: str
    """The transferred tensor that the change concerns."""
    ops: tuple[int, ...]
    device: str
    seconds: float
    """Seconds saved: per run, or between two requests."""
    subgraphs: int
    """Subgraphs saved."""
    bytes: int
    """Transferred bytes saved per run."""
    estimated: bool
    throughput: bool = False
    """Whether ``seconds`` are between two requests, because the policy aims at throughput."""
    before: float = 0.0
    """Seconds without the change, that is what ``seconds`` are saved of."""

    def tells(self, *bases: Basis | Kind) -> bool:
        """Whether figures of these kinds, and of its own, can tell that it saves time."""
        own = Kind.ESTIMATE if self.estimated else Kind.PREDICTION
        return not too_close(self.before, self.before - self.seconds, own, *bases)


def hints(
    placement: Placement,
    source: str = "estimate",
    most: int = 5,
    progress: Callable[[int, int], None] | None = None,
    should_stop: Callable[[], bool] = bool,
) -> list[Hint]:
    """The changes that save most, best first; each was solved, so its figures include all consequences.

    Args:
        placement: the placement to improve.
        source: ``estimate`` or ``measured`` costs.
        most: number of hints to return.
        progress: called with (done, total) before each change that is tried.
        should_stop: asked all along; then it is the best of those that were tried.

    Changes by which a device lacks memory, or lacks more of it, are left out.
    """
    graph, devices = placement.graph, placement.devices
    costs = costs_of(graph, devices, source)
    throughput = aims_at_throughput(placement.settings)

    def value(one: Placement) -> float:
        return one.busiest_seconds(costs) if throughput else one.price(costs).total

    now = value(placement)
    best: dict[bytes, Hint] = {}
    tried = list(itertools.islice(_candidates(placement, costs), _MAX_TRIALS))
    for trial, (boundary, ops, device) in enumerate(tried):
        if should_stop():
            break
        if progress:
            progress(trial, len(tried))
        pins = {
            **placement.settings.pins,
            **{graph.op_keys[op]: devices[device].name for op in ops},
        }
        try:
            after = solve(
                graph,
                devices,
                replace(placement.settings, pins=pins),
                placement.constraints.capabilities,
                should_stop,
            )
        except EditorError:
            continue
        if should_stop():
            break
        saved = now - value(after)
        if _lacks_more(after, placement):
            continue
        if saved > max(1e-9, _LEAST_SAVING * now):
            hint = Hint(
                boundary.tensor,
                tuple(ops),
                devices[device].name,
                saved,
                len(placement.subgraphs) - len(after.subgraphs),
                placement.division.bytes_moved - after.division.bytes_moved,
                costs.estimated,
                throughput,
                now,
            )
            best.setdefault(after.assignment.device.tobytes(), hint)
    return sorted(best.values(), key=lambda h: (-h.seconds, len(h.ops)))[:most]


def separating_rules(placement: Placement, tensor: int) -> list[str]:
    """Texts of rules that keep the op that makes a tensor and a reader of it apart, where both could run on either device."""
    constraints, device = placement.constraints, placement.assignment.device
    found = [
        constraints.ruled[op]
        for op, other in _ends_apart(placement, tensor)
        if op in constraints.ruled
        and not constraints.allowed[op, device[other]]
        and constraints.able[[op, other], device[[other, op]]].all()
    ]
    return list(dict.fromkeys(found))


def separating_pins(placement: Placement, tensor: int) -> list[int]:
    """Pinned ones of the op that makes a tensor and its readers on other devices, which could be where the other end is."""
    keys, device = placement.graph.op_keys, placement.assignment.device
    found = [
        op
        for op, other in _ends_apart(placement, tensor)
        if keys[op] in placement.settings.pins and placement.constraints.able[op, device[other]]
    ]
    return list(dict.fromkeys(found))


def _ends_apart(placement: Placement, tensor: int) -> Iterator[tuple[int, int]]:
    """Yields the op that makes a tensor with each reader on another device, and the reader with it."""
    graph, device = placement.graph, placement.assignment.device
    maker = int(graph.tensor_producer[tensor])
    for reader in graph.readers[tensor].tolist() if maker >= 0 else []:
        if placement.constraints.placed[reader] and device[maker] != device[reader]:
            yield maker, reader
            yield reader, maker


def _lacks_more(after: Placement, before: Placement) -> bool:
    """Whether a device has less memory than it needs, and needs more of it than before."""
    limits = {d.name: d.memory for d in after.devices if d.memory is not None}
    if not limits:
        return False
    needed, earlier = after.run_memory.peaks, before.run_memory.peaks
    return any(needed[name] > max(limit, earlier[name]) for name, limit in limits.items())


def _candidates(placement: Placement, costs: Costs) -> Iterator[tuple[Boundary, list[int], int]]:
    """Yields, for the longest transfers, one side's op or subgraph (once, or in every block) and the other side's device."""
    scopes = scopes_of(placement.graph)
    graph, subgraph_of_op = placement.graph, placement.division.subgraph_of_op
    number = {d.name: i for i, d in enumerate(placement.devices)}
    device_of = {s.id: number[s.device] for s in placement.subgraphs}
    seen: set[tuple[tuple[int, ...], int]] = set()
    longest = sorted(
        placement.division.transfers,
        key=lambda b: (-seconds_of(placement, costs, b), -b.bytes, b.source),
    )
    for boundary in longest[:_MAX_TRANSFERS]:
        tensor = graph.tensor_index[boundary.tensor]
        producer = int(graph.tensor_producer[tensor])
        source_device = device_of[boundary.source]
        readers = [op for op in graph.readers[tensor].tolist() if subgraph_of_op[op] >= 0]
        for target_device in {device_of[t] for t in boundary.targets} - {source_device}:
            targets = [t for t in boundary.targets if device_of[t] == target_device]
            adjacent = [
                ([producer], target_device),
                ([r for r in readers if subgraph_of_op[r] in targets], source_device),
            ]
            whole = [
                (placement.ops_of([boundary.source]), target_device),
                (placement.ops_of(targets), source_device),
            ]
            sides = [
                (_in_every_block(scopes, subgraph_of_op, ops), device)
                for ops, device in (*adjacent, *whole)
                if len(ops) <= _MAX_REPEATED_OPS
            ]
            sides += [*adjacent, *whole]
            for ops, device in sides:
                able = bool(placement.constraints.able[ops, device].all())
                moves = bool((placement.assignment.device[ops] != device).any()) if ops else False
                if moves and able and (tuple(ops), device) not in seen:
                    seen.add((tuple(ops), device))
                    yield boundary, ops, device


def _in_every_block(scopes: Scopes, subgraph_of_op: Ints, ops: Sequence[int]) -> list[int]:
    """The corresponding ops in every repetition of the block, since each repetition has the same cost."""
    return sorted(
        {
            other
            for op in ops
            for other in scopes.corresponding_ops(op)
            if subgraph_of_op[other] >= 0
        }
    )
