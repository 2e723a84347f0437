"""Prices tensors that move between machines. Each direction of a link is measured (``machines.remote_profile``).

Without a measurement a round figure is assumed, and what is computed from it is an estimate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from editor.devices.device import Device, travels_as
from editor.files import cache_folder, json_text, write_atomic
from editor.graph.flops import Floats
from editor.graph.graph import Bools, Graph, Ints, bits_of

HOME = ""
"""The editor's machine: graph inputs come from there, and outputs go there."""
_MAX_BYTES = 1 << 20
_VERSION = 1


@dataclass(frozen=True)
class Wire:
    """One direction of a link: how long tensors of some sizes take, until the other side has them."""

    bytes: tuple[float, ...]
    """Increasing; the first is 0."""
    seconds: tuple[float, ...]
    date: str = ""
    """Day of the measurement; "" where the figures are assumed."""

    def seconds_for(self, sizes: Floats) -> Floats:
        """Seconds for tensors of these sizes: linear between measured sizes, and beyond the last by its slope."""
        size, seconds = np.asarray(self.bytes), np.asarray(self.seconds)
        slope = max((seconds[-1] - seconds[-2]) / (size[-1] - size[-2]), 0.0)
        inside: Floats = np.interp(sizes, size, seconds)
        result: Floats = inside + np.maximum(sizes - size[-1], 0.0) * slope
        return result

    @property
    def latency(self) -> float:
        """Seconds of a tensor without bytes."""
        return self.seconds[0]

    @property
    def bandwidth(self) -> float:
        """bytes/s of the largest size measured, its latency left out."""
        taken = self.seconds[-1] - self.seconds[0]
        return self.bytes[-1] / taken if taken > 0 else float("inf")


ASSUMED = Wire((0.0, 1.25e8), (5e-4, 1.0005))
"""1 Gbit/s and half a millisecond."""


@dataclass(frozen=True, eq=False)
class WireCosts:
    """Seconds between the machines of a device table."""

    machine: Ints
    """[device] number of its machine"""
    between: Floats
    """[tensor, from device, to machine] seconds, in the type that the device allows; 0 within one machine"""
    ends: Floats
    """[op, machine] seconds of the graph inputs that the op is the first to read, and of the graph outputs that it computes"""
    estimated: bool
    """Whether a link was not measured."""

    @property
    def is_exact(self) -> bool:
        """Whether ``entering`` tells everything: with two devices there is one way into each."""
        return len(self.machine) <= 2

    def entering(self) -> Floats:
        """[tensor, device] seconds of the way from another machine, the mean over the devices there."""
        elsewhere = (self.machine[:, None] != np.arange(self.between.shape[2])).sum(axis=0)
        result: Floats = (self.between.sum(axis=1) / np.maximum(elsewhere, 1))[:, self.machine]
        return result

    def ends_on(self) -> Floats:
        """[op, device] ``ends`` of the device's machine."""
        return self.ends[:, self.machine]

    def way(self, tensor: int, source: int, targets: Sequence[int]) -> float:
        """Seconds of one tensor from a device to others: once for each machine."""
        machines = np.unique(self.machine[list(targets)])
        return float(self.between[tensor, source, machines].sum())

    def seconds(self, device: Ints, producer: Ints, consumer: Ints, tensor: Ints) -> float:
        """Seconds of all tensors that go between machines: each once per machine that reads it.

        Args:
            device: [op] its device.
            producer: [edge] op.
            consumer: [edge] op.
            tensor: [edge] tensor.
        """
        source, target = device[producer], self.machine[device[consumer]]
        crosses = self.machine[source] != target
        ways = np.unique(np.stack([tensor[crosses], source[crosses], target[crosses]]), axis=1)
        return float(self.between[ways[0], ways[1], ways[2]].sum())


def wire_costs(graph: Graph, devices: Sequence[Device]) -> WireCosts | None:
    """Returns the costs of wires for a table; None where all devices are on the editor's machine."""
    machines = list(dict.fromkeys(d.machine for d in devices))
    if machines == [HOME]:
        return None
    known = load_wires()
    used = set[bool]()

    def wire(source: str, target: str) -> Wire:
        found = known.get((source, target))
        used.add(found is None)
        return found or ASSUMED

    sizes = wire_bytes(graph, "")
    between = np.zeros((len(sizes), len(devices), len(machines)))
    ends = np.zeros((len(graph), len(machines)))
    inside = ~graph.op_is_constant
    for i, target in enumerate(machines):
        for d, device in enumerate(devices):
            if device.machine != target:
                between[:, d, i] = wire(device.machine, target).seconds_for(
                    wire_bytes(graph, device.wire_type)
                )
        if target != HOME:
            ends[:, i] = _first_reads(
                graph, inside, wire(HOME, target).seconds_for(sizes)
            ) + _last_writes(graph, wire(target, HOME).seconds_for(sizes))
    number = np.array([machines.index(d.machine) for d in devices], np.int64)
    return WireCosts(number, between, ends, True in used)


def wire_bytes(graph: Graph, wire_type: str) -> Floats:
    """[tensor] bytes on a wire, 0 where unknown; ``wire_type`` is the narrower type that the device allows, or ""."""
    sizes = np.maximum(graph.tensor_bytes, 0).astype(np.float64)
    if wire_type:
        for kind in set(graph.tensor_types):
            travels = travels_as(kind, wire_type)
            if travels != kind:
                sizes[np.array(graph.tensor_types) == kind] *= bits_of(travels) / bits_of(kind)
    return sizes


def wire_name(source: str, target: str) -> str:
    """The name of the wire between two machines, such as ``edge -> server``; "" is the editor's machine."""
    return f"{_machine(source)} -> {_machine(target)}"


def _machine(name: str) -> str:
    return name or "this machine"


def _first_reads(graph: Graph, inside: Bools, seconds: Floats) -> Floats:
    """[op] seconds of the graph inputs that it is the first to read."""
    result = np.zeros(len(graph))
    for tensor in graph.inputs.tolist():
        readers = [op for op in graph.readers[tensor].tolist() if inside[op]]
        if readers:
            result[min(readers)] += seconds[tensor]
    return result


def _last_writes(graph: Graph, seconds: Floats) -> Floats:
    """[op] seconds of the graph outputs that it computes."""
    result = np.zeros(len(graph))
    for tensor in graph.outputs.tolist():
        if graph.tensor_producer[tensor] >= 0:
            result[graph.tensor_producer[tensor]] += seconds[tensor]
    return result


def wires_path() -> Path:
    """Where measured links are kept."""
    return cache_folder("wires") / "wires.json"


def load_wires() -> dict[tuple[str, str], Wire]:
    """(from machine, to machine) -> link, as last measured; without damaged entries."""
    try:
        if wires_path().stat().st_size > _MAX_BYTES:
            return {}
        document = json.loads(wires_path().read_text(encoding="utf-8"))
        entries = document["wires"] if document["version"] == _VERSION else []
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    found = {}
    for entry in entries:
        try:
            wire = Wire(
                tuple(map(float, entry["bytes"])),
                tuple(map(float, entry["seconds"])),
                str(entry["date"]),
            )
            if (
                len(wire.bytes) == len(wire.seconds) >= 2
                and all(np.diff(wire.bytes) > 0)
                and np.isfinite(wire.seconds).all()
            ):
                found[str(entry["from"]), str(entry["to"])] = wire
        except (ValueError, KeyError, TypeError):
            continue
    return found


def save_wires(wires: Mapping[tuple[str, str], Wire]) -> Path:
    """Keeps measured links, in place of former ones between the same machines; returns the file."""
    entries = [
        {"from": source, "to": target, **asdict(wire)}
        for (source, target), wire in sorted({**load_wires(), **wires}.items())
    ]
    return write_atomic(wires_path(), json_text({"version": _VERSION, "wires": entries}))
