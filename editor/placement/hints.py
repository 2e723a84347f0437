"""Hints: changes of device for a few ops that save time by removing a transfer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from editor.errors import EditorError
from editor.graph.graph import Ints
from editor.graph.scopes.tree import Scopes, scopes_of
from editor.placement.costs import Costs
from editor.placement.device_profile import costs_of
from editor.placement.fallbacks import seconds_of
from editor.placement.placement import Placement, solve
from editor.placement.subgraphs.division import Boundary
from editor.placement.throughput import aims_at_throughput

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


def hints(placement: Placement, source: str = "estimate", most: int = 5, progress: Callable[[int, int], None] | None = None,
          should_stop: Callable[[], bool] = bool) -> list[Hint]:
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
        pins = {**placement.settings.pins, **{graph.op_keys[op]: devices[device].name for op in ops}}
        try:
            after = solve(graph, devices, replace(placement.settings, pins=pins), placement.constraints.capabilities,
                          should_stop)
        except EditorError:
            continue
        if should_stop():
            break
        saved = now - value(after)
        if _lacks_more(after, placement):
            continue
        if saved > max(1e-9, _LEAST_SAVING * now):
            hint = Hint(boundary.tensor, tuple(ops), devices[device].name, saved,
                        len(placement.subgraphs) - len(after.subgraphs),
                        placement.division.bytes_moved - after.division.bytes_moved, costs.estimated, throughput)
            best.setdefault(after.assignment.device.tobytes(), hint)
    return sorted(best.values(), key=lambda h: (-h.seconds, len(h.ops)))[:most]


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
    longest = sorted(placement.division.transfers, key=lambda b: (-seconds_of(placement, costs, b), -b.bytes, b.source))
    for boundary in longest[:_MAX_TRANSFERS]:
        tensor = graph.tensor_index[boundary.tensor]
        producer = int(graph.tensor_producer[tensor])
        source_device = device_of[boundary.source]
        readers = [op for op in graph.readers[tensor].tolist() if subgraph_of_op[op] >= 0]
        for target_device in {device_of[t] for t in boundary.targets} - {source_device}:
            targets = [t for t in boundary.targets if device_of[t] == target_device]
            adjacent = [([producer], target_device), ([r for r in readers if subgraph_of_op[r] in targets], source_device)]
            whole = [(placement.ops_of([boundary.source]), target_device), (placement.ops_of(targets), source_device)]
            sides = [(_in_every_block(scopes, subgraph_of_op, ops), device) for ops, device in (*adjacent, *whole)
                     if len(ops) <= _MAX_REPEATED_OPS]
            sides += [*adjacent, *whole]
            for ops, device in sides:
                able = bool(placement.constraints.able[ops, device].all())
                moves = bool((placement.assignment.device[ops] != device).any()) if ops else False
                if moves and able and (tuple(ops), device) not in seen:
                    seen.add((tuple(ops), device))
                    yield boundary, ops, device


def _in_every_block(scopes: Scopes, subgraph_of_op: Ints, ops: Sequence[int]) -> list[int]:
    """The corresponding ops in every repetition of the block, since each repetition has the same cost."""
    return sorted({other for op in ops for other in scopes.corresponding_ops(op) if subgraph_of_op[other] >= 0})
