"""Hints: repaints that save time by removing a transfer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from editor.errors import EditorError
from editor.graph.scopes.tree import Scopes, scopes_of
from editor.placement.device_profile import costs_of
from editor.placement.placement import Placement, solve
from editor.placement.subgraphs.division import Boundary

_TRANSFERS, _TRIALS, _MOST_REPEATED = 6, 48, 500
_WORTH = 1e-3
"""Of the latency: what is saved below this share drowns in the noise of any measurement."""


@dataclass(frozen=True)
class Hint:
    """One repaint and what it would change; seconds by the costs that policies use, bytes per run."""

    tensor: str
    """The transfer that it is about."""
    ops: tuple[int, ...]
    device: str
    seconds: float
    """saved"""
    subgraphs: int
    """fewer"""
    bytes: int
    """fewer"""
    estimated: bool


def hints(placement: Placement, source: str = "estimate", most: int = 5) -> list[Hint]:
    """The repaints that save most, best first; each was solved, so its figures include everything that follows.

    Args:
        placement: what to improve.
        source: of the costs, ``estimate`` or ``measured``.
        most: how many to return.
    """
    graph, devices = placement.graph, placement.devices
    costs = costs_of(graph, devices, source)
    now = placement.price(costs).total
    found: dict[bytes, Hint] = {}
    for trial, (boundary, ops, device) in enumerate(_candidates(placement)):
        if trial >= _TRIALS:
            break
        pins = {**placement.settings.pins, **{graph.op_keys[op]: devices[device].name for op in ops}}
        try:
            after = solve(graph, devices, replace(placement.settings, pins=pins), placement.constraints.capabilities)
        except EditorError:
            continue
        saved = now - after.price(costs).total
        if saved > max(1e-9, _WORTH * now):
            hint = Hint(boundary.tensor, tuple(ops), devices[device].name, saved,
                        len(placement.subgraphs) - len(after.subgraphs),
                        placement.division.bytes_moved - after.division.bytes_moved, costs.estimated)
            found.setdefault(after.assignment.device.tobytes(), hint)
    return sorted(found.values(), key=lambda h: (-h.seconds, len(h.ops)))[:most]


def _candidates(placement: Placement) -> Iterator[tuple[Boundary, list[int], int]]:
    """For the largest transfers: one side's ops or its whole subgraph, here or in every layer, to the other side's device."""
    scopes = scopes_of(placement.graph)
    graph, part = placement.graph, placement.division.part
    number = {d.name: i for i, d in enumerate(placement.devices)}
    device_of = {s.id: number[s.device] for s in placement.subgraphs}
    seen: set[tuple[tuple[int, ...], int]] = set()
    for boundary in sorted(placement.division.transfers, key=lambda b: (-b.bytes, b.source))[:_TRANSFERS]:
        tensor = graph.tensor_index[boundary.tensor]
        maker = int(graph.tensor_producer[tensor])
        home = device_of[boundary.source]
        readers = [op for op in graph.readers[tensor].tolist() if part[op] >= 0]
        for away in {device_of[t] for t in boundary.targets} - {home}:
            targets = [t for t in boundary.targets if device_of[t] == away]
            near = [([maker], away), ([r for r in readers if part[r] in targets], home)]
            whole = [(placement.ops_of([boundary.source]), away), (placement.ops_of(targets), home)]
            sides = [(_everywhere(scopes, part, ops), device) for ops, device in (*near, *whole) if len(ops) <= _MOST_REPEATED]
            sides += [*near, *whole]
            for ops, device in sides:
                able = bool(placement.constraints.able[ops, device].all())
                if ops and able and (tuple(ops), device) not in seen:
                    seen.add((tuple(ops), device))
                    yield boundary, ops, device


def _everywhere(scopes: Scopes, part: np.ndarray[tuple[int], np.dtype[np.int64]], ops: Sequence[int]) -> list[int]:
    """The same ops in every repetition of their block: what costs in one layer costs in all."""
    return sorted({twin for op in ops for twin in scopes.corresponding_ops(op) if part[twin] >= 0})

