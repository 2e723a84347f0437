"""Tells how much memory a run takes on each device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from editor.devices.device import Device
from editor.devices.published import assumed_bytes
from editor.graph.flops import OVERWRITING_TYPES, RENAMING_TYPES, Floats
from editor.graph.graph import Bools, Graph, Ints, distinct, mask_of, numbers_at
from editor.graph.states import states_of
from editor.groups import grouped
from editor.runtimes.base import MemoryOverhead
from editor.runtimes.registry import runtime_of
from editor.text import human_bytes, joined


def weight_bytes(graph: Graph, placed: Ints) -> Floats:
    """[op] bytes of the constants that an op reads; a shared constant counts only for its first reader.

    The sum over a device's ops equals the constants of that device, or is less where two devices share
    a constant.
    """
    is_placed = mask_of(len(graph), placed)
    size = np.zeros(len(graph))
    constant = graph.tensor_is_constant
    readers = graph.readers
    for tensor in np.flatnonzero(constant & (graph.tensor_bytes > 0)).tolist():
        first = next((op for op in readers[tensor].tolist() if is_placed[op]), None)
        if first is not None:
            size[first] += graph.tensor_bytes[tensor]
    return size


def weight_shrinkage(graph: Graph, devices: Sequence[Device], size: Floats) -> Floats:
    """[device] bytes of the model's weights per byte that they take there: 1, or more where float counts as int8.

    Args:
        size: [op] bytes as ``weight_bytes`` returns them.
    """
    constant = graph.tensor_is_constant & (graph.tensor_bytes > 0)
    there = [float(assumed_bytes(graph, d.published.assumes)[constant].sum()) for d in devices]
    total = float(graph.tensor_bytes[constant].sum())
    return np.array([total / t if t and size.any() else 1.0 for t in there])


def heaviest(graph: Graph, ops: Bools, size: Floats, count: int = 5) -> list[str]:
    """Names of the ops with the largest constants, with their bytes."""
    order = np.argsort(-np.where(ops, size, -1.0), kind="stable")[:count]
    return [
        f"{graph.display_name(op)} ({human_bytes(int(size[op]))})"
        for op in order.tolist()
        if ops[op] and size[op] > 0
    ]


INNER, BOUNDARY, COPY, INPUT, OUTPUT = (
    "inside a subgraph",
    "boundary",
    "copy of a boundary tensor",
    "input",
    "output",
)


@dataclass(frozen=True)
class HeldTensor:
    """A tensor in a device's memory at the moment of its peak."""

    tensor: str
    kind: str
    """INNER, BOUNDARY, COPY, INPUT or OUTPUT"""
    bytes: int
    first: int
    """Op after whose start it is held, -1 where it is an input of the model"""
    last: int
    """Op until whose end it is held"""


@dataclass(frozen=True, eq=False)
class DeviceMemory:
    """The memory of one device over a run, in bytes."""

    device: str
    limit: int | None
    constants: int
    live: Ints
    """[moment] tensors beside the constants, while the op of that moment runs"""
    unknown: int
    """Tensors whose size is not known before a run; they count 0."""
    ops: int
    subgraphs: int
    apart: int
    """Most tensors of each subgraph at once, for all subgraphs together"""
    overhead: MemoryOverhead
    """What the runtime takes beside constants and tensors"""

    @property
    def at_rest(self) -> int:
        """What the device's runtime keeps from run to run: weights as often as it has them, compiled ops, what each
        subgraph has of its own, and the tensors of subgraphs that do not share memory."""
        if not self.ops:
            return 0
        own = self.overhead
        tensors = 0 if own.shares_tensors else own.tensor_copies * self.apart
        return int(
            own.weight_copies * self.constants
            + own.bytes_per_op * self.ops
            + own.bytes_per_subgraph * self.subgraphs
            + own.first_bytes
            + tensors
        )

    @property
    def in_run(self) -> Floats:
        """[moment] what its runtime takes for tensors beside that."""
        own = self.overhead
        return np.asarray(
            self.live * (own.tensor_copies if own.shares_tensors else 0.0), np.float64
        )

    @property
    def moment(self) -> int:
        """When most is held; -1 where the device holds nothing but constants."""
        return int(self.live.argmax()) if len(self.live) and self.live.any() else -1

    @property
    def peak(self) -> int:
        """Most bytes at once."""
        return self.constants + (int(self.live.max()) if len(self.live) else 0)

    @property
    def is_over(self) -> bool:
        """Whether the device has less memory than that."""
        return self.limit is not None and self.peak > self.limit


@dataclass(frozen=True, eq=False)
class _Intervals:
    """[interval] when a tensor is in a device's memory."""

    device: Ints
    tensor: Ints
    first: Ints
    last: Ints
    bytes: Ints
    kind: Sequence[str]


@dataclass(frozen=True, eq=False)
class RunMemory:
    """The memory of all devices over one run."""

    graph: Graph
    ops: Ints
    """[moment] the op that runs; subgraphs run one after the other"""
    devices: tuple[DeviceMemory, ...]
    shared: tuple[tuple[int, ...], ...]
    """Devices (indices) of one memory, where there are several"""
    host: frozenset[int]
    """Devices (indices) that compute in host memory"""
    _intervals: _Intervals

    def __repr__(self) -> str:
        """A line for each device; all that is held would be many pages."""
        lines = [
            f"{d.device}: peak {human_bytes(d.peak)}{f' of {human_bytes(d.limit)}' if d.limit is not None else ''}, "
            f"{human_bytes(d.constants)} of it constants"
            for d in self.devices
        ]
        return "\n".join(["RunMemory", *lines])

    @cached_property
    def peaks(self) -> dict[str, int]:
        """Device name -> most bytes at once."""
        return {d.device: d.peak for d in self.devices}

    @property
    def over(self) -> list[str]:
        """Devices that have less memory than they need."""
        return [d.device for d in self.devices if d.is_over]

    @property
    def has_room(self) -> bool:
        """Whether every device has room for what it has to hold, and for what its runtime is known to add."""
        return not self.over and not self.over_with_runtimes

    def peak_of(self, devices: Sequence[int]) -> int:
        """Most bytes at once of several devices together, for devices of one memory."""
        live = sum((self.devices[d].live for d in devices), np.zeros(len(self.ops), np.int64))
        return sum(self.devices[d].constants for d in devices) + (
            int(live.max()) if len(live) else 0
        )

    def taken_by(self, devices: Sequence[int]) -> int:
        """Bytes that a process takes for devices of one memory: ``peak_of``, and what runtimes are known to take beside it.

        An estimate, from what they took for other models. Devices with memory of their own take some of the host's too.
        """
        tensors = sum((self.devices[d].in_run for d in devices), np.zeros(len(self.ops)))
        own = sum(self.devices[d].at_rest for d in devices) + (
            int(tensors.max()) if len(tensors) else 0
        )
        of_others = sum(
            d.overhead.host_bytes
            for i, d in enumerate(self.devices)
            if d.ops and i not in self.host
        )
        return own + (
            of_others if self.host.intersection(d for d in devices if self.devices[d].ops) else 0
        )

    def added_by_runtime(self, device: int) -> int:
        """Bytes that the runtime of a device is known to take beside its peak, estimated; 0 where that is not known."""
        memory = self.devices[device]
        return 0 if memory.overhead == MemoryOverhead() else self.taken_by([device]) - memory.peak

    @cached_property
    def over_with_runtimes(self) -> str:
        """Devices that have room for their peak, but not for what their runtimes add: "about 66.13 MB of 60 MB on A"."""
        return joined(
            [
                f"about {human_bytes(d.peak + self.added_by_runtime(i))} of {human_bytes(d.limit)} on {d.device}"
                for i, d in enumerate(self.devices)
                if d.limit is not None and d.peak <= d.limit < d.peak + self.added_by_runtime(i)
            ]
        )

    def at_peak(self, device: int) -> tuple[HeldTensor, ...]:
        """The tensors that a device holds at its peak beside its constants, the largest first."""
        moment, held = self.devices[device].moment, self._intervals
        if moment < 0:
            return ()
        there = np.flatnonzero(
            (held.device == device)
            & (held.first <= moment)
            & (held.last >= moment)
            & (held.bytes > 0)
        )
        names = self.graph.tensor_names
        found = [
            HeldTensor(
                names[held.tensor[i]],
                held.kind[i],
                int(held.bytes[i]),
                -1 if held.kind[i] == INPUT else int(self.ops[held.first[i]]),
                int(self.ops[held.last[i]]),
            )
            for i in there.tolist()
        ]
        return tuple(sorted(found, key=lambda each: (-each.bytes, each.tensor)))


def run_memory(
    graph: Graph, devices: Sequence[Device], device: Ints, subgraph_of_op: Ints
) -> RunMemory:
    """The memory over a run of a division.

    Args:
        graph: the model.
        devices: the device table.
        device: [op] index of the device.
        subgraph_of_op: [op] number of the subgraph in topological order, negative for constants.
    """
    return _Timeline(graph, devices, device, subgraph_of_op).memory()


class _Timeline:
    """Moments are positions in the order of execution."""

    def __init__(
        self, graph: Graph, devices: Sequence[Device], device: Ints, subgraph_of_op: Ints
    ) -> None:
        self.graph, self.devices, self.subgraph_of_op = graph, devices, subgraph_of_op
        placed = np.flatnonzero(subgraph_of_op >= 0)
        self.ops: Ints = placed[np.lexsort((graph.rank[placed], subgraph_of_op[placed]))]
        self.moment = numbers_at(len(graph), self.ops, np.arange(len(self.ops)))
        count = int(subgraph_of_op.max()) + 1 if len(placed) else 0
        self.begin, self.end = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.home = np.zeros(count, np.int64)
        number = subgraph_of_op[self.ops]
        self.begin[number[::-1]] = np.arange(len(self.ops))[::-1]
        self.end[number] = np.arange(len(self.ops))
        self.home[number] = device[self.ops]
        self.sizes = [assumed_bytes(graph, d.published.assumes) for d in devices]
        self.memory_of_device, self.in_host_memory = _memories(devices)
        producer = graph.tensor_producer
        self.source = numbers_at(
            len(graph.tensor_names), producer >= 0, subgraph_of_op[producer[producer >= 0]]
        )
        self.constant: Bools = graph.tensor_is_constant & (self.source < 0)

    def memory(self) -> RunMemory:
        """All figures."""
        reads = self.graph.op_reads
        op, tensor = reads.row_of_value, reads.values
        real = (self.subgraph_of_op[op] >= 0) & (tensor >= 0)
        op, tensor = op[real], tensor[real]
        held = self._intervals(op[~self.constant[tensor]], tensor[~self.constant[tensor]])
        constants = self._constants(op[self.constant[tensor]], tensor[self.constant[tensor]])
        live = np.zeros((len(self.devices), len(self.ops) + 1), np.int64)
        np.add.at(live, (held.device, held.first), np.maximum(held.bytes, 0))
        np.add.at(live, (held.device, held.last + 1), -np.maximum(held.bytes, 0))
        live = live.cumsum(axis=1)[:, :-1]
        unknown = np.bincount(held.device[held.bytes < 0], minlength=len(self.devices))
        ops = np.bincount(self.home[self.subgraph_of_op[self.ops]], minlength=len(self.devices))
        subgraphs = np.bincount(self.home, minlength=len(self.devices))
        apart = [0] * len(self.devices)
        for begin, end, home in zip(
            self.begin.tolist(), self.end.tolist(), self.home.tolist(), strict=True
        ):
            apart[home] += int(live[home, begin : end + 1].max())
        found = tuple(
            DeviceMemory(
                d.name,
                d.memory,
                constants[i],
                live[i],
                int(unknown[i]),
                int(ops[i]),
                int(subgraphs[i]),
                apart[i],
                runtime_of(d.runtime).memory_overhead(d) if d.present else MemoryOverhead(),
            )
            for i, d in enumerate(self.devices)
        )
        shared = grouped((memory, i) for i, memory in enumerate(self.memory_of_device))
        return RunMemory(
            self.graph,
            self.ops,
            found,
            tuple(tuple(s) for s in shared.values() if len(s) > 1),
            self.in_host_memory,
            held,
        )

    def _constants(self, op: Ints, tensor: Ints) -> list[int]:
        """[device] bytes of the constants that its ops read, each once."""
        width = max(len(self.graph.tensor_names), 1)
        codes = distinct(self.home[self.subgraph_of_op[op]] * width + tensor)
        return [
            int(np.maximum(self.sizes[d][codes[codes // width == d] % width], 0).sum())
            for d in range(len(self.devices))
        ]

    def _intervals(self, op: Ints, tensor: Ints) -> _Intervals:
        """When each tensor is in each memory, from all reads by ops."""
        graph, count = self.graph, len(self.graph.tensor_names)
        reader = self.subgraph_of_op[op]
        crosses = self.source[tensor] != reader
        until = np.where(crosses, self.end[reader], self.moment[op]) if len(op) else op
        boundary = np.zeros(count, bool)
        boundary[tensor[crosses]] = True
        output = mask_of(count, graph.outputs)
        produced = np.flatnonzero((self.source >= 0) & ~self.constant)
        first = numbers_at(count, produced, self.moment[graph.tensor_producer[produced]])
        last = first.copy()
        np.maximum.at(last, tensor, until)
        last[output & (first >= 0)] = len(self.ops) - 1
        home = numbers_at(count, produced, self.home[self.source[produced]])
        kept: Bools = boundary | output
        own = self._without_shared(produced, first, last, kept)
        kinds = [OUTPUT if output[t] else BOUNDARY if kept[t] else INNER for t in own.tolist()]
        bytes_at_home = np.array(
            [self.sizes[d][t] for d, t in zip(home[own].tolist(), own.tolist(), strict=True)],
            np.int64,
        )
        away, at, begins, ends = self._arrivals(tensor[crosses], reader[crosses], home)
        kinds += [INPUT if home[t] < 0 else COPY for t in away.tolist()]
        bytes_away = np.array(
            [self.sizes[d][t] for d, t in zip(at.tolist(), away.tolist(), strict=True)], np.int64
        )
        return _Intervals(
            np.append(home[own], at),
            np.append(own, away),
            np.append(first[own], begins),
            np.append(last[own], ends),
            np.append(bytes_at_home, bytes_away),
            kinds,
        )

    def _arrivals(self, tensor: Ints, reader: Ints, home: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Tensor, device, first and last moment of what a memory gets from another one, or from the caller.

        It counts for the first device of that memory that reads it.
        """
        memory = np.append(self.memory_of_device, -1)  # -1: of the caller
        elsewhere = memory[home[tensor]] != memory[self.home[reader]]
        tensor, reader = tensor[elsewhere], reader[elsewhere]
        width = max(len(self.devices), 1)
        codes, which = np.unique(tensor * width + memory[self.home[reader]], return_inverse=True)
        first, last = (
            np.full(len(codes), len(self.home), np.int64),
            np.full(len(codes), -1, np.int64),
        )
        np.minimum.at(first, which, reader)
        np.maximum.at(last, which, reader)
        until = self.end[last]
        # The caller keeps a state until the step has made all of the next one.
        until[np.isin(codes // width, _states(self.graph))] = len(self.ops) - 1
        return codes // width, self.home[first], self.begin[first], until

    def _without_shared(self, produced: Ints, first: Ints, last: Ints, kept: Bools) -> Ints:
        """The tensors with memory of their own. Those that take over another's extend its life in ``last``."""
        graph, size = self.graph, self.graph.tensor_bytes
        may_share = np.array(
            [t in RENAMING_TYPES or t in OVERWRITING_TYPES for t in graph.op_types], bool
        )
        owner = np.arange(len(graph.tensor_names))
        shares = np.zeros(len(graph.tensor_names), bool)
        for op in self.ops[may_share[self.ops]].tolist():
            outputs = [t for t in graph.op_outputs[op].tolist() if t >= 0]
            if not outputs:
                continue
            result, renames = outputs[0], graph.op_types[op] in RENAMING_TYPES
            operands = [t for t in graph.op_inputs[op].tolist() if t >= 0]
            for operand in operands[:1] if renames else operands:
                source = int(owner[operand])
                inside = self.source[operand] == self.source[result] and not self.constant[operand]
                free = (
                    last[operand] == self.moment[op]
                    and last[source] <= self.moment[op]
                    and not kept[source]
                )
                if (
                    inside
                    and size[operand] == size[result]
                    and (free or (renames and not kept[result]))
                ):
                    owner[result], shares[result] = source, True
                    last[source] = max(last[source], last[result])
                    kept[source] |= kept[result]
                    break
        return produced[~shares[produced]]


_states_of_graph: WeakKeyDictionary[Graph, Ints] = WeakKeyDictionary()


def _states(graph: Graph) -> Ints:
    """Numbers of the inputs that are states."""
    if (found := _states_of_graph.get(graph)) is None:
        names = [state.input for state in states_of(graph) if not state.inside]
        found = np.array([graph.tensor_index[name] for name in names], np.int64)
        _states_of_graph[graph] = found
    return found


def _memories(devices: Sequence[Device]) -> tuple[Ints, frozenset[int]]:
    """[device] number of its memory, and the devices in host memory. Devices of this process share the host's; a planned
    device has one of its own."""
    numbers: dict[object, int] = {}
    found = []
    for device in devices:
        if not device.present:
            key: object = device.name
        else:
            space = runtime_of(device.runtime).memory_space(device)
            key = "host" if space.is_host else (space.runtime, space.kind, space.index)
        found.append(numbers.setdefault(key, len(numbers)))
    host = numbers.get("host", -1)
    return np.array(found, np.int64), frozenset(
        i for i, number in enumerate(found) if number == host
    )
