"""Subgraphs, their boundary tensors and their memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from editor.devices.device import Device
from editor.devices.published import assumed_bytes
from editor.graph.graph import UNKNOWN_BYTES, Bools, Graph, Ints, distinct
from editor.groups import grouped
from editor.text import human_bytes, pluralize


@dataclass(frozen=True)
class Memory:
    """Glow's memory figures of one subgraph, in bytes (Glow ``GraphMemInfo``)."""

    context_count: int
    total: int
    """input + output + constants, as far as sizes are known"""
    input: int
    input_count: int
    input_from_peers: int
    """Inputs that another subgraph of the same device produces: boundary tensors without a transfer."""
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
    """Keys in topological order; every subgraph that reads a constant contains it."""
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
    """Other devices that read the tensor: one transfer each. Empty when it stays on its device."""
    bytes: int
    """``UNKNOWN_BYTES`` (-1) when not known before a run"""
    shape: str
    type: str
    counted_as: str = ""
    """The type that ``bytes`` are of, where a device on either side plans float tensors in another one; "" else"""

    @property
    def type_text(self) -> str:
        """E.g. "float32", "float32 as int8", "?"."""
        return f"{self.type or '?'}{f' as {self.counted_as}' if self.counted_as else ''}"


@dataclass(frozen=True, eq=False)
class Division:
    """All subgraphs of a plan."""

    subgraph_of_op: Ints
    """[op] number of the subgraph, -1 for constants"""
    subgraphs: tuple[Subgraph, ...]
    boundaries: tuple[Boundary, ...]

    @property
    def transfers(self) -> tuple[Boundary, ...]:
        """Boundary tensors that another device reads."""
        return tuple(b for b in self.boundaries if b.to_devices)

    @property
    def transfer_count(self) -> int:
        """Transfers of one run: each tensor once per destination device."""
        return sum(len(b.to_devices) for b in self.boundaries)

    @property
    def bytes_moved(self) -> int:
        """Bytes of all transfers of one run: each tensor once per destination device."""
        return sum(max(b.bytes, 0) * len(b.to_devices) for b in self.boundaries)

    @property
    def unknown_transfers(self) -> int:
        """Tensors that other devices read and whose size is not known before a run; ``bytes_moved`` has 0 for them."""
        return sum(1 for b in self.transfers if b.bytes < 0)

    @property
    def moved_text(self) -> str:
        """``bytes_moved`` in words: "1.2 MB", "1.2 MB and 3 tensors of unknown size"."""
        return moved_in_words(self.bytes_moved, self.unknown_transfers)


def moved_in_words(size: int, unknown: int) -> str:
    """Bytes, and how many tensors of unknown size come beside them: "1.2 MB and 3 tensors of unknown size"."""
    beside = f" and {pluralize(unknown, 'tensor')} of unknown size" if unknown else ""
    return human_bytes(size) + beside


def divide(graph: Graph, devices: Sequence[Device], device: Ints, subgraph_of_op: Ints) -> Division:
    """Returns the subgraphs of a grouping with their boundary tensors and memory.

    Args:
        graph: the model.
        devices: the device table.
        device: [op] index of the device.
        subgraph_of_op: [op] number of the subgraph in topological order, negative for constants.
    """
    return _Divider(graph, devices, device, subgraph_of_op).division()


class _Divider:
    def __init__(
        self, graph: Graph, devices: Sequence[Device], device: Ints, subgraph_of_op: Ints
    ) -> None:
        self.graph, self.devices, self.subgraph_of_op = graph, devices, subgraph_of_op
        self.count = int(subgraph_of_op.max()) + 1 if len(subgraph_of_op) else 0
        self.device_of_subgraph = np.zeros(self.count, np.int64)
        self.device_of_subgraph[subgraph_of_op[subgraph_of_op >= 0]] = device[subgraph_of_op >= 0]
        producer = graph.tensor_producer
        self.source = np.full(len(graph.tensor_names), -1, np.int64)
        has_producer = producer >= 0
        self.source[has_producer] = subgraph_of_op[producer[has_producer]]
        # A pinned constant belongs to a subgraph, so its value crosses boundaries as a tensor.
        self.constant: Bools = graph.tensor_is_constant & (self.source < 0)

    def division(self) -> Division:
        """All subgraphs and boundary tensors."""
        reads = self._reads_by_subgraph()
        inputs: list[list[int]] = [[] for _ in range(self.count)]
        constants: list[list[int]] = [[] for _ in range(self.count)]
        targets: dict[int, list[int]] = {}
        for subgraph, tensor in reads:
            if self.constant[tensor]:
                constants[subgraph].append(tensor)
            elif self.source[tensor] != subgraph:
                inputs[subgraph].append(tensor)
                if self.source[tensor] >= 0:
                    targets.setdefault(tensor, []).append(subgraph)
        outputs = self._outputs(targets)
        ops = self._ops()
        subgraphs = tuple(
            self._subgraph(p, ops[p], inputs[p], outputs.get(p, []), constants[p])
            for p in range(self.count)
        )
        boundaries = tuple(
            self._boundary(t, targets[t])
            for t in sorted(targets, key=lambda t: (self.source[t], t))
        )
        return Division(self.subgraph_of_op, subgraphs, boundaries)

    def _reads_by_subgraph(self) -> list[tuple[int, int]]:
        """Distinct (subgraph, tensor) pairs of all reads, sorted."""
        reads, width = self.graph.op_reads, max(len(self.graph.tensor_names), 1)
        subgraph = self.subgraph_of_op[reads.row_of_value]
        codes = distinct(subgraph[subgraph >= 0] * width + reads.values[subgraph >= 0])
        return list(zip((codes // width).tolist(), (codes % width).tolist(), strict=True))

    def _outputs(self, targets: dict[int, list[int]]) -> dict[int, list[int]]:
        tensors = sorted({*targets, *self.graph.outputs.tolist()})
        return grouped((int(self.source[t]), t) for t in tensors if self.source[t] >= 0)

    def _ops(self) -> list[list[int]]:
        """[subgraph] its ops in topological order, with the constants that it reads."""
        graph = self.graph
        reading_subgraphs: dict[int, set[int]] = {}
        constant_ops = [op for op in graph.order.tolist() if self.subgraph_of_op[op] < 0]
        readers, results = graph.readers, graph.op_outputs
        for op in reversed(constant_ops):
            subgraphs: set[int] = set()
            for tensor in results[op].tolist():
                if tensor < 0:
                    continue
                for reader in readers[tensor].tolist():
                    own = int(self.subgraph_of_op[reader])
                    subgraphs.update({own} if own >= 0 else reading_subgraphs.get(reader, ()))
            reading_subgraphs[op] = subgraphs
        ops: list[list[int]] = [[] for _ in range(self.count)]
        subgraph_of_op = self.subgraph_of_op.tolist()
        for op in graph.order.tolist():
            if subgraph_of_op[op] >= 0:
                ops[subgraph_of_op[op]].append(op)
            else:
                for subgraph in reading_subgraphs[op]:
                    ops[subgraph].append(op)
        return ops

    def _subgraph(
        self,
        number: int,
        ops: list[int],
        inputs: list[int],
        outputs: list[int],
        constants: list[int],
    ) -> Subgraph:
        graph = self.graph
        device = self.devices[self.device_of_subgraph[number]]
        sources = sorted({int(self.source[t]) for t in inputs if self.source[t] >= 0})
        sizes = assumed_bytes(graph, device.published.assumes)
        in_bytes, out_bytes, constant_bytes = (
            int(np.maximum(sizes[t], 0).sum()) for t in (inputs, outputs, constants)
        )
        peers = sum(
            1
            for t in inputs
            if self.source[t] >= 0
            and self.device_of_subgraph[self.source[t]] == self.device_of_subgraph[number]
        )
        index = self.device_of_subgraph[number] if device.logical_id is None else device.logical_id
        memory = Memory(
            1,
            in_bytes + out_bytes + constant_bytes,
            in_bytes,
            len(inputs),
            peers,
            out_bytes,
            constant_bytes,
            int((sizes[inputs + outputs] == UNKNOWN_BYTES).sum()),
            (int(index),),
        )
        names = graph.tensor_names
        return Subgraph(
            number,
            device.name,
            tuple(graph.op_keys[op] for op in ops),
            tuple(names[t] for t in inputs),
            tuple(names[t] for t in outputs),
            tuple(sources),
            memory,
            int((self.subgraph_of_op[ops] >= 0).sum()) if ops else 0,
        )

    def _boundary(self, tensor: int, targets: list[int]) -> Boundary:
        graph, source = self.graph, int(self.source[tensor])
        source_device = self.device_of_subgraph[source]
        other_devices = sorted(
            {int(self.device_of_subgraph[t]) for t in targets} - {int(source_device)}
        )
        moved, counted_as = self._moved(tensor, [int(source_device), *other_devices])
        return Boundary(
            graph.tensor_names[tensor],
            source,
            tuple(targets),
            tuple(self.devices[d].name for d in other_devices),
            moved,
            graph.shape_label(tensor),
            graph.tensor_types[tensor],
            counted_as,
        )

    def _moved(self, tensor: int, devices: Sequence[int]) -> tuple[int, str]:
        """Bytes of a boundary tensor, of the smallest form that a device on either side plans it in; and that form."""
        own = int(self.graph.tensor_bytes[tensor])
        forms = {self.devices[d].published.assumes for d in devices}
        size, form = min((int(assumed_bytes(self.graph, form)[tensor]), form) for form in forms)
        return size, form if size != own else ""
