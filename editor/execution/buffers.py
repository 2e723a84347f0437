"""One block of memory for the boundary tensors of a plan.

Tensors that never live at the same time share memory, so that what one subgraph wrote is still in the
cache when the next reads it. Offsets by greedy best fit, largest tensor first (Pisarchyk and Lee,
"Efficient memory management for deep neural net inference", 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from editor.execution.step import Step
from editor.runtimes.base import Value
from editor.runtimes.onnxruntime import memory_of
from editor.runtimes.values import is_numpy_type

_ALIGNMENT = 64
"""Bytes: a cache line, and what vector instructions like."""


@dataclass(frozen=True)
class Lifetime:
    """A tensor that needs memory from one step to another, both included."""

    bytes: int
    first: int
    last: int


def pack(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Offset of every tensor, and bytes in all; tensors whose lifetimes meet do not overlap."""
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    for i in sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].bytes, lifetimes[i].first)):
        mine = lifetimes[i]
        size = _padded(mine.bytes)
        busy = sorted((offsets[j], offsets[j] + _padded(lifetimes[j].bytes)) for j in placed
                      if lifetimes[j].first <= mine.last and mine.first <= lifetimes[j].last)
        best, room, end = -1, 0, 0
        for begin, finish in busy:
            gap = begin - end
            if gap >= size and (best < 0 or gap < room):
                best, room = end, gap
            end = max(end, finish)
        offsets[i] = best if best >= 0 else end
        placed.append(i)
    return offsets, max((o + _padded(t.bytes) for o, t in zip(offsets, lifetimes, strict=True)), default=0)


def pack_buffers(steps: Sequence[Step], outputs: Sequence[str]) -> None:
    """Moves the boundary tensors that ONNX Runtime makes and reads on the CPU into one block, after a first run.

    Others stay: a tensor that another runtime reads may live on as a view in that runtime's outputs.
    """
    import onnxruntime

    tensors = _movable(steps, outputs)
    places = _places(steps, tensors)
    offsets, size = pack([_lifetime([tensors[name] for name in names]) for names in places])
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    shift = -raw.ctypes.data % _ALIGNMENT
    buffers = {}
    for names, offset in zip(places, offsets, strict=True):
        for name in names:
            array = tensors[name].array
            view = raw[shift + offset:shift + offset + array.nbytes].view(array.dtype).reshape(array.shape)
            buffers[name] = onnxruntime.OrtValue.ortvalue_from_numpy(view)
    for step in steps:
        mine = {name: buffers[name] for name in step.part.outputs if name in buffers}
        if mine:
            step.executable.move_outputs(mine)


@dataclass(frozen=True)
class _Movable:
    array: np.ndarray
    first: int
    last: int
    """Steps that make it and that read it last."""


def _movable(steps: Sequence[Step], outputs: Sequence[str]) -> dict[str, _Movable]:
    """Tensors that only ONNX Runtime on the CPU sees, with the arrays that they were first put into."""
    reads: dict[str, list[int]] = {}
    for i, step in enumerate(steps):
        for name in step.part.inputs:
            reads.setdefault(name, []).append(i)
    found = {}
    for i, step in enumerate(steps):
        shared = {name for pair in step.part.in_place for name in pair}
        for name, value in zip(step.part.outputs, getattr(step.executable, "kept", ()), strict=False):
            readers = reads.get(name, [])
            plain = is_numpy_type(value) and value.device_name().lower() == "cpu"
            needed = readers or name in shared
            if name not in outputs and needed and plain and all(_on_cpu(steps[r]) for r in readers):
                found[name] = _Movable(value.numpy(), i, max(readers, default=i))
    return found


def _places(steps: Sequence[Step], tensors: Mapping[str, _Movable]) -> list[list[str]]:
    """Tensors by the memory that they share: results lie where their operands lay."""
    place = {name: [name] for name in tensors}
    for operand, result in (pair for step in steps for pair in step.part.in_place):
        if operand in tensors and result in tensors and tensors[operand].array.nbytes == tensors[result].array.nbytes:
            for name in place[result]:
                place[operand].append(name)
                place[name] = place[operand]
    return list({id(names): names for names in place.values()}.values())


def _lifetime(tensors: Sequence[_Movable]) -> Lifetime:
    return Lifetime(max(t.array.nbytes for t in tensors), min(t.first for t in tensors), max(t.last for t in tensors))


class FixedRun:
    """A plan whose every tensor has a fixed place: a run is one call per subgraph and nothing else.

    Between two runs the caches belong to the kernels: every line of Python costs microseconds then. So an array that comes
    again is not bound again, and results are looked at through views that were made once.
    """

    def __init__(self, launches: Sequence[Callable[[], None]], inputs: Mapping[str, Sequence[Any]],
                 results: Mapping[str, Value]) -> None:
        self._launches, self._inputs = launches, inputs
        self._bound: dict[str, Value] = dict.fromkeys(inputs)
        """Arrays whose memory the sessions read."""
        self._views = {name: value.numpy() for name, value in results.items()}
        self._elsewhere = {name: value for name, value in results.items()
                           if self._views[name].ctypes.data != value.data_ptr()}
        """Results in the memory of a GPU: their arrays are copies."""

    @classmethod
    def of(cls, steps: Sequence[Step], outputs: Sequence[str]) -> FixedRun | None:
        """After a first run and ``pack_buffers``; None unless all is ONNX Runtime in one memory, with fixed shapes."""
        places: dict[str, Value] = {}
        inputs: dict[str, list[Any]] = {}
        launches = []
        for step in steps:
            session: Any = step.executable
            kept = getattr(session, "kept", None)
            if not kept or step.runs_on.runtime != "onnxruntime" or memory_of(step.runs_on) != memory_of(steps[0].runs_on):
                return None
            launch = session.fix({name: places[name] for name in step.part.inputs if name in places})
            if launch is None:
                return None
            launches.append(launch)
            for name in step.part.inputs:
                if name not in places:
                    inputs.setdefault(name, []).append(step.executable)
            places.update(zip(step.part.outputs, kept, strict=True))
        if any(name not in places or not is_numpy_type(places[name]) for name in outputs):
            return None
        return cls(launches, inputs, {name: places[name] for name in outputs})

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Any]:
        """Graph outputs by name, as arrays of their own."""
        for name, value in self._bound.items():
            if inputs[name] is not value:
                self._bind(name, inputs[name])
        for launch in self._launches:
            launch()
        if self._elsewhere:
            return {name: np.array(self._elsewhere[name].numpy() if name in self._elsewhere else view)
                    for name, view in self._views.items()}
        return {name: view.copy() for name, view in self._views.items()}

    def _bind(self, name: str, value: Value) -> None:
        shared = [executable.bind(name, value) for executable in self._inputs[name]]
        self._bound[name] = value if all(shared) else None


def _on_cpu(step: Step) -> bool:
    return step.runs_on.runtime == "onnxruntime" and step.runs_on.provider == "CPUExecutionProvider"


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
