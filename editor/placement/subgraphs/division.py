"""Subgraphs with what crosses their borders and what they need in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from editor.devices.device import Device
from editor.graph.graph import Bools, Graph, Ints, distinct
from editor.graph.types import UNKNOWN_BYTES


@dataclass(frozen=True)
class Memory:
    """Glow's memory figures of one subgraph, in bytes (Glow ``GraphMemInfo``)."""

    context_count: int
    total: int
    """input + output + constants, as far as sizes are known"""
    input: int
    input_count: int
    input_from_peers: int
    """Inputs made by another subgraph of the same device: a boundary, but no transfer."""
    output: int
    constants: int
    unknown: int
    """Boundary tensors whose size is not known before a run; they count 0."""
    logical_devices: tuple[int, ...]


@dataclass(frozen=True)
class Subgraph:
    """Ops of one device that run as one unit."""

    id: int
    device: str
    ops: tuple[str, ...]
    """Keys in an order of execution; constants are repeated in every subgraph that reads them."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    depends_on: tuple[int, ...]
    memory: Memory
    size: int
    """Ops without the constants."""


@dataclass(frozen=True)
class Boundary:
    """A tensor that crosses subgraphs."""

    tensor: str
    source: int
    targets: tuple[int, ...]
    to_devices: tuple[str, ...]
    """Other devices that read it: one transfer each. Empty: it stays on its device."""
    bytes: int
    """``UNKNOWN_BYTES`` (-1) when not known before a run"""
    shape: str
    type: str


@dataclass(frozen=True, eq=False)
class Division:
    """All subgraphs of a plan."""

    part: Ints
    """[op] number of the subgraph, -1 for constants"""
    subgraphs: tuple[Subgraph, ...]
    boundaries: tuple[Boundary, ...]

    @property
    def transfers(self) -> tuple[Boundary, ...]:
        """Boundary tensors that change device."""
        return tuple(b for b in self.boundaries if b.to_devices)

    @property
    def bytes_moved(self) -> int:
        """Bytes of all transfers of one run: once per tensor and device that it goes to."""
        return sum(max(b.bytes, 0) * len(b.to_devices) for b in self.boundaries)


def divide(graph: Graph, devices: Sequence[Device], device: Ints, part: Ints) -> Division:
    """Describes the subgraphs of a grouping.

    Args:
        graph: the model.
        devices: the device table.
        device: [op] index of the device.
        part: [op] number of the subgraph in an order of execution, negative for constants.
    """
    return _Divider(graph, devices, device, part).division()


class _Divider:
    def __init__(self, graph: Graph, devices: Sequence[Device], device: Ints, part: Ints) -> None:
        self.graph, self.devices, self.part = graph, devices, part
        self.count = int(part.max()) + 1 if len(part) else 0
        self.device_of_part = np.zeros(self.count, np.int64)
        self.device_of_part[part[part >= 0]] = device[part >= 0]
        producer = graph.tensor_producer
        makers_part = np.full(len(graph.tensor_names), -1, np.int64)
        made = producer >= 0
        makers_part[made] = part[producer[made]]
        self.source = makers_part
        # What is known before the first run is a constant, unless a pin gave its op a place.
        self.constant: Bools = graph.tensor_is_constant & (makers_part < 0)

    def division(self) -> Division:
        """Everything at once."""
        reads = self._reads_by_part()
        inputs: list[list[int]] = [[] for _ in range(self.count)]
        constants: list[list[int]] = [[] for _ in range(self.count)]
        targets: dict[int, list[int]] = {}
        for part, tensor in reads:
            if self.constant[tensor]:
                constants[part].append(tensor)
            elif self.source[tensor] != part:
                inputs[part].append(tensor)
                if self.source[tensor] >= 0:
                    targets.setdefault(tensor, []).append(part)
        outputs = self._outputs(targets)
        ops = self._ops()
        subgraphs = tuple(self._subgraph(p, ops[p], inputs[p], outputs[p], constants[p]) for p in range(self.count))
        boundaries = tuple(self._boundary(t, targets[t]) for t in sorted(targets, key=lambda t: (self.source[t], t)))
        return Division(self.part, subgraphs, boundaries)

    def _reads_by_part(self) -> list[tuple[int, int]]:
        """Distinct (part, tensor) pairs of all placed ops, sorted."""
        reads, width = self.graph.reads, max(len(self.graph.tensor_names), 1)
        part = self.part[reads.row_of_value]
        codes = distinct(part[part >= 0] * width + reads.values[part >= 0])
        return list(zip((codes // width).tolist(), (codes % width).tolist(), strict=True))

    def _outputs(self, targets: dict[int, list[int]]) -> list[list[int]]:
        outputs: list[list[int]] = [[] for _ in range(self.count)]
        for tensor in sorted({*targets, *self.graph.outputs.tolist()}):
            if self.source[tensor] >= 0:
                outputs[self.source[tensor]].append(tensor)
        return outputs

    def _ops(self) -> list[list[int]]:
        """Ops of each part in an order of execution, with the constants it reads."""
        graph = self.graph
        wanted: dict[int, set[int]] = {}
        constant_ops = [op for op in graph.order.tolist() if self.part[op] < 0]
        readers, results = graph.readers, graph.results
        for op in reversed(constant_ops):
            parts: set[int] = set()
            for tensor in results[op].tolist():
                if tensor < 0:
                    continue
                for reader in readers[tensor].tolist():
                    parts.update({int(self.part[reader])} if self.part[reader] >= 0 else wanted.get(reader, ()))
            wanted[op] = parts
        ops: list[list[int]] = [[] for _ in range(self.count)]
        part = self.part.tolist()
        for op in graph.order.tolist():
            if part[op] >= 0:
                ops[part[op]].append(op)
            else:
                for p in wanted[op]:
                    ops[p].append(op)
        return ops

    def _subgraph(self, part: int, ops: list[int], inputs: list[int], outputs: list[int],
                  constants: list[int]) -> Subgraph:
        graph = self.graph
        device = self.devices[self.device_of_part[part]]
        sources = sorted({int(self.source[t]) for t in inputs if self.source[t] >= 0})
        sizes = graph.tensor_bytes
        in_bytes, out_bytes, constant_bytes = (int(np.maximum(sizes[t], 0).sum()) for t in (inputs, outputs, constants))
        peers = sum(1 for t in inputs if self.source[t] >= 0
                    and self.device_of_part[self.source[t]] == self.device_of_part[part])
        index = self.device_of_part[part] if device.logical_id is None else device.logical_id
        memory = Memory(1, in_bytes + out_bytes + constant_bytes, in_bytes, len(inputs), peers, out_bytes,
                        constant_bytes, int((sizes[inputs + outputs] == UNKNOWN_BYTES).sum()), (int(index),))
        names = graph.tensor_names
        return Subgraph(part, device.name, tuple(graph.op_keys[op] for op in ops), tuple(names[t] for t in inputs),
                        tuple(names[t] for t in outputs), tuple(sources), memory,
                        int((self.part[ops] >= 0).sum()) if ops else 0)

    def _boundary(self, tensor: int, targets: list[int]) -> Boundary:
        graph, source = self.graph, int(self.source[tensor])
        home = self.device_of_part[source]
        away = sorted({int(self.device_of_part[t]) for t in targets} - {int(home)})
        return Boundary(graph.tensor_names[tensor], source, tuple(targets), tuple(self.devices[d].name for d in away),
                        int(graph.tensor_bytes[tensor]), graph.shape_label(tensor), graph.tensor_types[tensor])
