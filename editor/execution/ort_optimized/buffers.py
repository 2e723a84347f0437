"""One block of memory for the tensors of a plan.

Tensors that never live at the same time share memory, so that what one subgraph wrote is still in the
cache when the next reads it. Offsets by greedy best fit, largest tensor first (Pisarchyk and Lee,
"Efficient memory management for deep neural net inference", 2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ValueInfoProto, helper

from editor.execution.compile.step import Step
from editor.execution.ort_optimized.internal_tensors import byte_size
from editor.execution.ort_optimized.lifetimes import Lifetimes
from editor.graph.graph import Bools
from editor.runtimes.base import Value
from editor.runtimes.onnxruntime import memory_of
from editor.runtimes.values import is_numpy_type

_ALIGNMENT = 64
"""Bytes: a cache line, and what vector instructions like."""
_MAX_PLACES = 4096
"""The smaller tensors of larger plans lie by themselves: every two places are compared."""


def pack(sizes: Sequence[int], meet: Bools) -> tuple[list[int], int]:
    """Offset of every tensor, and bytes in all; tensors that meet do not overlap.

    Args:
        sizes: bytes of each.
        meet: [tensor, tensor] True where both may hold values at the same time.
    """
    offsets = [0] * len(sizes)
    placed = np.zeros(len(sizes), bool)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        size = _padded(sizes[i])
        busy = sorted((offsets[j], offsets[j] + _padded(sizes[j])) for j in np.flatnonzero(meet[i] & placed).tolist())
        best, room, end = -1, 0, 0
        for begin, finish in busy:
            gap = begin - end
            if gap >= size and (best < 0 or gap < room):
                best, room = end, gap
            end = max(end, finish)
        offsets[i] = best if best >= 0 else end
        placed[i] = True
    return offsets, max((o + _padded(size) for o, size in zip(offsets, sizes, strict=True)), default=0)


def place_outputs(steps: Sequence[Step], outputs: Sequence[str]) -> bool:
    """Gives the tensors of optimised parts their places before the first run; False where some shape is not known yet."""
    specs: dict[str, _Spec] = {}
    for step in steps:
        for info in step.part.model.graph.output:
            if info.name in outputs:
                continue
            if not step.part.optimised or not byte_size(info):
                return False
            specs[info.name] = _Spec.of(info)
    _move(steps, specs)
    return True


def move_outputs(steps: Sequence[Step], outputs: Sequence[str]) -> None:
    """Moves the boundary tensors that ONNX Runtime makes and reads on the CPU into one block, after a first run.

    Others stay: a tensor that another runtime reads may live on as a view in that runtime's outputs.
    """
    reads: dict[str, list[Step]] = {}
    for step in steps:
        for name in step.part.inputs:
            reads.setdefault(name, []).append(step)
    specs = {}
    for step in steps:
        for name, value in zip(step.part.outputs, getattr(step.executable, "kept", ()), strict=False):
            readers = reads.get(name, [])
            plain = is_numpy_type(value) and value.device_name().lower() == "cpu"
            if name not in outputs and plain and (readers or name in step.part.inner) and all(map(_on_cpu, readers)):
                array = value.numpy()
                specs[name] = _Spec(array.shape, array.dtype)
    _move(steps, specs)


@dataclass(frozen=True)
class _Spec:
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, info: ValueInfoProto) -> _Spec:
        kind = info.type.tensor_type
        return cls(tuple(d.dim_value for d in kind.shape.dim), helper.tensor_dtype_to_np_dtype(kind.elem_type))

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def _move(steps: Sequence[Step], tensors: Mapping[str, _Spec]) -> None:
    """Lays tensors into one block, and has the runtimes write there."""
    import onnxruntime

    places = sorted(_places(steps, tensors), key=lambda names: -max(tensors[name].bytes for name in names))[:_MAX_PLACES]
    offsets, size = pack([max(tensors[name].bytes for name in names) for names in places], Lifetimes(steps).meetings(places))
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    shift = -raw.ctypes.data % _ALIGNMENT
    buffers = {}
    for names, offset in zip(places, offsets, strict=True):
        for name in names:
            spec = tensors[name]
            view = raw[shift + offset:shift + offset + spec.bytes].view(spec.dtype).reshape(spec.shape)
            buffers[name] = onnxruntime.OrtValue.ortvalue_from_numpy(view)
    for step in steps:
        mine = {name: buffers[name] for name in step.part.outputs if name in buffers}
        if mine:  # none would give all places back
            step.executable.move_outputs(mine)


def _places(steps: Sequence[Step], tensors: Mapping[str, _Spec]) -> list[list[str]]:
    """Tensors by the memory that they share: results lie where their operands lay."""
    place = {name: [name] for name in tensors}
    for operand, result in (pair for step in steps for pair in step.part.in_place):
        if operand in tensors and result in tensors and tensors[operand].bytes == tensors[result].bytes:
            for name in place[result]:
                place[operand].append(name)
                place[name] = place[operand]
    return list({id(names): names for names in place.values()}.values())


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
        """After a first run, when all has its place; None unless all is ONNX Runtime in one memory, with fixed shapes."""
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
