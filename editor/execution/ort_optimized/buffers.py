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
from editor.runtimes.base import BoundExecutable, MemorySpace, Value
from editor.runtimes.registry import runtime_of
from editor.runtimes.values import host_view, is_array, to_numpy

_ALIGNMENT = 64
"""Bytes: a cache line, and what vector instructions like."""
_MAX_GROUPS = 4096
"""The smaller tensors of larger plans get memory of their own: every two groups are compared."""


def pack(sizes: Sequence[int], interferes: Bools) -> tuple[list[int], int]:
    """Offset of every tensor, and bytes in all; tensors that interfere do not overlap.

    Args:
        sizes: bytes of each.
        interferes: [tensor, tensor] the interference graph: True where both may hold values at the same time.
    """
    offsets = [0] * len(sizes)
    packed = np.zeros(len(sizes), bool)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        size = _padded(sizes[i])
        busy = sorted((offsets[j], offsets[j] + _padded(sizes[j])) for j in np.flatnonzero(interferes[i] & packed).tolist())
        best, room, end = -1, 0, 0
        for begin, finish in busy:
            gap = begin - end
            if gap >= size and (best < 0 or gap < room):
                best, room = end, gap
            end = max(end, finish)
        offsets[i] = best if best >= 0 else end
        packed[i] = True
    return offsets, max((o + _padded(size) for o, size in zip(offsets, sizes, strict=True)), default=0)


def allocate_before_run(steps: Sequence[Step], outputs: Sequence[str]) -> bool:
    """Gives the tensors of optimized parts their buffers before the first run; False where some shape is not known yet."""
    specs: dict[str, _Spec] = {}
    for step in steps:
        for info in step.part.model.graph.output:
            if info.name in outputs:
                continue
            if not step.part.optimized or not byte_size(info):
                return False
            specs[info.name] = _Spec.of(info)
    _allocate(steps, specs)
    return True


def allocate_after_run(steps: Sequence[Step], outputs: Sequence[str]) -> None:
    """Moves boundary tensors into one block of host memory, after a first run has told their shapes.

    Only those that executables with bound buffers make and read in one memory space: a tensor that another runtime
    reads may live on as a view in that runtime's outputs.
    """
    readers_of: dict[str, list[Step]] = {}
    for step in steps:
        for name in step.part.inputs:
            readers_of.setdefault(name, []).append(step)
    specs = {}
    for step in steps:
        if not isinstance(step.executable, BoundExecutable):
            continue
        space = _space(step)
        for name, value in zip(step.part.outputs, step.executable.fixed_outputs(), strict=False):
            readers = readers_of.get(name, [])
            alike = all(isinstance(r.executable, BoundExecutable) and _space(r) == space for r in readers)
            if name in outputs or not alike or not (readers or name in step.part.internal):
                continue
            view = host_view(value) if is_array(value) else None
            if view is not None:
                specs[name] = _Spec(view.shape, view.dtype)
    _allocate(steps, specs)


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


def _allocate(steps: Sequence[Step], tensors: Mapping[str, _Spec]) -> None:
    """Packs tensors into one block, and has the runtimes write there."""
    groups = sorted(_groups(steps, tensors), key=lambda names: -max(tensors[name].bytes for name in names))[:_MAX_GROUPS]
    sizes = [max(tensors[name].bytes for name in names) for names in groups]
    offsets, size = pack(sizes, Lifetimes(steps).interference(groups))
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    shift = -raw.ctypes.data % _ALIGNMENT
    buffers = {}
    for names, offset in zip(groups, offsets, strict=True):
        for name in names:
            spec = tensors[name]
            buffers[name] = raw[shift + offset:shift + offset + spec.bytes].view(spec.dtype).reshape(spec.shape)
    for step in steps:
        mine = {name: buffers[name] for name in step.part.outputs if name in buffers}
        if mine and isinstance(step.executable, BoundExecutable):  # without buffers the runtime would choose all again
            step.executable.bind_output_buffers(mine)


def _groups(steps: Sequence[Step], tensors: Mapping[str, _Spec]) -> list[list[str]]:
    """Tensors by the memory that they share: results of in-place kernels lie where their operands lay."""
    group = {name: [name] for name in tensors}
    for operand, result in (pair for step in steps for pair in step.part.in_place):
        if operand in tensors and result in tensors and tensors[operand].bytes == tensors[result].bytes:
            for name in group[result]:
                group[operand].append(name)
                group[name] = group[operand]
    return list({id(names): names for names in group.values()}.values())


class FixedRun:
    """A plan whose every tensor has a fixed buffer: a run is one call per subgraph and nothing else.

    Between two runs the caches belong to the kernels: every line of Python costs microseconds then. So an array that comes
    again is not bound again, and results are read through views that were made once.
    """

    def __init__(self, launches: Sequence[Callable[[], None]], inputs: Mapping[str, Sequence[BoundExecutable]],
                 results: Mapping[str, Value]) -> None:
        self._launches, self._inputs = launches, inputs
        self._bound: dict[str, Value] = dict.fromkeys(inputs)
        """Arrays whose memory the executables read."""
        self._results = results
        self._views = {name: host_view(value) for name, value in results.items()}
        """None for results that the host cannot see: in the memory of a GPU."""

    @classmethod
    def of(cls, steps: Sequence[Step], outputs: Sequence[str]) -> FixedRun | None:
        """After a first run, when every buffer is fixed; None unless all is in one memory space, with fixed shapes."""
        values: dict[str, Value] = {}
        inputs: dict[str, list[BoundExecutable]] = {}
        launches = []
        for step in steps:
            executable = step.executable
            if not isinstance(executable, BoundExecutable) or _space(step) != _space(steps[0]):
                return None
            fixed = executable.fixed_outputs()
            launch = executable.bind_inputs({name: values[name] for name in step.part.inputs if name in values})
            if not fixed or launch is None:
                return None
            launches.append(launch)
            for name in step.part.inputs:
                if name not in values:
                    inputs.setdefault(name, []).append(executable)
            values.update(zip(step.part.outputs, fixed, strict=True))
        if any(name not in values or not is_array(values[name]) for name in outputs):
            return None
        return cls(launches, inputs, {name: values[name] for name in outputs})

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Any]:
        """Graph outputs by name, as arrays of their own."""
        for name, value in self._bound.items():
            if inputs[name] is not value:
                self._rebind(name, inputs[name])
        for launch in self._launches:
            launch()
        return {name: view.copy() if view is not None else np.array(to_numpy(self._results[name]))
                for name, view in self._views.items()}

    def _rebind(self, name: str, value: Value) -> None:
        shared = [executable.rebind_input(name, value) for executable in self._inputs[name]]
        self._bound[name] = value if all(shared) else None


def _space(step: Step) -> MemorySpace:
    return runtime_of(step.runs_on.runtime).memory_space(step.runs_on)


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
