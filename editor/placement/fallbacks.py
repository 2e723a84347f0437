"""Fallbacks: ops that a device earlier in the table cannot run, grouped by device, reason and op type.

The order of a device table is a wish: an op belongs on the first device. Where a device refuses an op, and the op runs on
a later one, that is a fallback. Ops that a pin or a rule placed are where somebody wanted them, and are none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from editor.graph.graph import Ints
from editor.graph.scopes.tree import Scopes, scopes_of
from editor.placement.costs import Costs, boundary_seconds, price
from editor.placement.placement import Placement
from editor.placement.subgraphs.division import Boundary
from editor.placement.subgraphs.registry import grouping_of
from editor.text import human_seconds


@dataclass(frozen=True)
class Fallback:
    """Ops of one type that one device refuses for one reason, with what that costs in one run."""

    wanted: str
    """The device that refuses them."""
    reason: str
    op_type: str
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
    """What a run takes longer because of them, if all other fallbacks were where they were wanted; negative where they are
    faster here. Fallbacks beside each other share transfers: they do not add up."""
    source: str
    """Address of the document that says so; "" where a runtime or the device table says it."""

    @property
    def lost(self) -> str:
        """The seconds in words."""
        return human_seconds(self.seconds) if self.seconds > 0 else "none, faster here"


def fallbacks(placement: Placement, costs: Costs) -> list[Fallback]:
    """All fallbacks, the most expensive first."""
    graph, constraints, devices = placement.graph, placement.constraints, placement.devices
    device = placement.assignment.device
    groups: dict[tuple[int, str, str], list[int]] = {}
    for op in placement.placed_ops.tolist():
        refusing = np.flatnonzero(~constraints.allowed[op, :device[op]])
        if len(refusing) and graph.op_keys[op] not in placement.settings.pins and op not in constraints.ruled:
            wanted = int(refusing[0])
            groups.setdefault((wanted, constraints.reason(op, wanted), graph.type_label(op)), []).append(op)
    scopes = scopes_of(graph)
    where_wanted = device.copy()
    for (wanted, _, _), ops in groups.items():
        where_wanted[ops] = wanted
    without = _seconds(placement, costs, where_wanted) if groups else 0.0
    found = []
    for (wanted, reason, op_type), ops in groups.items():
        alone = where_wanted.copy()
        alone[ops] = device[ops]
        found.append(Fallback(
            devices[wanted].name, reason, op_type, tuple(ops), _names(placement, ops), _layers(scopes, ops),
            len(np.unique(placement.division.subgraph_of_op[ops])), _moved(placement, ops),
            _seconds(placement, costs, alone) - without, _source(placement, ops[0], wanted)))
    return sorted(found, key=lambda f: (-f.seconds, -len(f.ops), f.wanted, f.op_type))


def _source(placement: Placement, op: int, wanted: int) -> str:
    """The document that says why; lists of the device table are somebody's own."""
    published = placement.constraints.capabilities[wanted].reasons[op]
    return placement.devices[wanted].published.source if published else ""


def seconds_without(placement: Placement, costs: Costs, found: Iterable[Fallback]) -> float:
    """Seconds of a run if the wanted devices took all these ops, everything else being the same."""
    device = placement.assignment.device.copy()
    for fallback in found:
        device[list(fallback.ops)] = placement.device_number(fallback.wanted)
    return _seconds(placement, costs, device)


def _seconds(placement: Placement, costs: Costs, device: Ints) -> float:
    """Seconds of a run with the ops on these devices."""
    graph, placed = placement.graph, placement.placed_ops
    groups = grouping_of(placement.settings.subgraphs)(graph, device, np.sort(placed))
    return price(graph, costs, device, placed, groups).total


def chosen_elsewhere(placement: Placement) -> dict[str, int]:
    """Device -> number of ops that may run there, and that the policy put on a later device; by the first such device."""
    constraints, found = placement.constraints, dict[str, int]()
    for op in placement.placed_ops.tolist():
        able = np.flatnonzero(constraints.allowed[op, :placement.assignment.device[op]])
        if len(able) and placement.graph.op_keys[op] not in placement.settings.pins and op not in constraints.ruled:
            name = placement.devices[int(able[0])].name
            found[name] = found.get(name, 0) + 1
    return found


def seconds_of(placement: Placement, costs: Costs, transfer: Boundary) -> float:
    """Seconds of a boundary tensor to all other devices that read it."""
    source = placement.device_number(placement.subgraphs[transfer.source].device)
    return boundary_seconds(placement.graph, costs, transfer.tensor, source,
                            [placement.device_number(name) for name in transfer.to_devices])


def _names(placement: Placement, ops: list[int]) -> tuple[str, ...]:
    used = np.unique(placement.assignment.device[ops]).tolist()
    return tuple(placement.devices[d].name for d in used)


def _layers(scopes: Scopes, ops: Iterable[int]) -> int:
    """Number of the model's layers (its outermost repeated blocks) that some ops are in."""
    found = {number for op in ops if op in scopes.of_op for number in scopes.ancestors(scopes.of_op[op])
             if number in scopes.repeated}
    return len(found)


def _touching(placement: Placement, ops: list[int]) -> list[int]:
    """Positions of the transfers whose tensor the ops read or make."""
    graph, chosen = placement.graph, set(ops)
    found = []
    for i, transfer in enumerate(placement.division.transfers):
        tensor = graph.tensor_index[transfer.tensor]
        if int(graph.tensor_producer[tensor]) in chosen or not chosen.isdisjoint(graph.readers[tensor].tolist()):
            found.append(i)
    return found


def _moved(placement: Placement, ops: list[int]) -> int:
    transfers = placement.division.transfers
    return sum(max(transfers[i].bytes, 0) * len(transfers[i].to_devices) for i in _touching(placement, ops))
