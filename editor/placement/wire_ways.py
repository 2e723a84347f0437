"""What a plan sends over each wire between machines in one run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from editor.devices.device import travels_as
from editor.placement.costs import Costs
from editor.placement.placement import Placement
from editor.placement.wires import wire_bytes, wire_name


@dataclass(frozen=True)
class LinkUsage:
    """All boundary tensors that go over one wire; graph inputs and outputs are not among them."""

    name: str
    """Such as ``edge -> server``."""
    tensors: int
    bytes: int
    """Of the tensors; those of unknown size are not counted."""
    sent: int
    """Bytes on the wire: fewer where tensors travel in a narrower type."""
    travel_as: tuple[str, ...]
    """The narrower types."""
    seconds: float
    """By the costs."""


def link_usage(placement: Placement, costs: Costs) -> list[LinkUsage]:
    """The wires of a plan, each tensor once per machine that reads it, in the order of the subgraphs."""
    graph, devices = placement.graph, placement.devices
    found: dict[str, LinkUsage] = {}
    if costs.wires is None:
        return []
    for transfer in placement.division.transfers:
        source = placement.device_number(placement.subgraphs[transfer.source].device)
        tensor, sender = graph.tensor_index[transfer.tensor], devices[source]
        sent = int(wire_bytes(graph, sender.wire_type)[tensor])
        kind = graph.tensor_types[tensor]
        travels = travels_as(kind, sender.wire_type)
        readers = {
            devices[number].machine: number
            for number in map(placement.device_number, transfer.to_devices)
        }
        for machine, reader in readers.items():
            if machine == sender.machine:
                continue
            name = wire_name(sender.machine, machine)
            way = found.get(name) or LinkUsage(name, 0, 0, 0, (), 0.0)
            found[name] = replace(
                way,
                tensors=way.tensors + 1,
                bytes=way.bytes + max(transfer.bytes, 0),
                sent=way.sent + sent,
                travel_as=tuple(sorted({*way.travel_as, *([travels] if travels != kind else [])})),
                seconds=way.seconds + costs.wires.way(tensor, source, [reader]),
            )
    return list(found.values())
