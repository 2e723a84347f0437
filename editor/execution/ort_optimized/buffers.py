"""Packs the tensors of a plan into one block of memory.

Tensors with disjoint lifetimes share memory, so that a subgraph's outputs are still in the cache when the
next subgraph reads them. Offsets by greedy best fit, largest tensor first (Pisarchyk and Lee, "Efficient
memory management for deep neural net inference", 2020).
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
"""Bytes of a cache line; vector instructions are fastest at this alignment."""
_MAX_GROUPS = 4096
"""Most groups to pack, because every pair is compared; the smallest others keep separate buffers."""


def pack(sizes: Sequence[int], interferes: Bools) -> tuple[list[int], int]:
    """[tensor] byte offset, and total bytes; tensors that interfere do not overlap.

    Args:
        sizes: [tensor] bytes.
        interferes: [tensor, tensor] the interference graph: True where lifetimes may overlap.
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
    """Allocates buffers before the first run; False where that is impossible, because a shape is unknown."""
    specs: dict[str, _Spec] = {}
    for step in steps:
        for info in step.submodel.model.graph.output:
            if info.name in outputs:
                continue
            if not step.submodel.optimized or not byte_size(info):
                return False
            specs[info.name] = _Spec.of(info)
    _allocate(steps, specs)
    return True


def allocate_after_run(steps: Sequence[Step], outputs: Sequence[str]) -> None:
    """Moves boundary tensors into one block of host memory; the first run has determined their shapes.

    Only tensors that bound executables of one memory space produce and read: another runtime may return a view of
    its input as an output.
    """
    readers_of: dict[str, list[Step]] = {}
    for step in steps:
        for name in step.submodel.inputs:
            readers_of.setdefault(name, []).append(step)
    specs = {}
    for step in steps:
        if not isinstance(step.executable, BoundExecutable):
            continue
        space = _space(step)
        for name, value in zip(step.submodel.outputs, step.executable.fixed_outputs(), strict=False):
            readers = readers_of.get(name, [])
            same_space = all(isinstance(r.executable, BoundExecutable) and _space(r) == space for r in readers)
            if name in outputs or not same_space or not (readers or name in step.submodel.internal):
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
    """Packs tensors into one block and binds them as output buffers."""
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
        own = {name: buffers[name] for name in step.submodel.outputs if name in buffers}
        if own and isinstance(step.executable, BoundExecutable):  # an empty mapping would reset the buffers
            step.executable.bind_output_buffers(own)


def _groups(steps: Sequence[Step], tensors: Mapping[str, _Spec]) -> list[list[str]]:
    """Groups of tensors with one buffer: the result of an in-place kernel has the buffer of its operand."""
    group = {name: [name] for name in tensors}
    for operand, result in (pair for step in steps for pair in step.submodel.in_place):
        if operand in tensors and result in tensors and tensors[operand].bytes == tensors[result].bytes:
            for name in group[result]:
                group[operand].append(name)
                group[name] = group[operand]
    return list({id(names): names for names in group.values()}.values())


class FixedRun:
    """A plan in which every tensor has a fixed buffer, so that a run is one call per subgraph.

    Each line of Python costs microseconds when its data is not in the cache. So an input array that is already bound
    is not bound a second time, and results are read through views created once.
    """

    def __init__(self, launches: Sequence[Callable[[], None]], inputs: Mapping[str, Sequence[BoundExecutable]],
                 results: Mapping[str, Value]) -> None:
        self._launches, self._inputs = launches, inputs
        self._bound: dict[str, Value] = dict.fromkeys(inputs)
        """Input name -> array whose memory the executables read; None when they hold a copy."""
        self._results = results
        self._views = {name: host_view(value) for name, value in results.items()}
        """Output name -> view of it; None for results in device memory."""

    @classmethod
    def of(cls, steps: Sequence[Step], outputs: Sequence[str]) -> FixedRun | None:
        """The fixed run of steps that have run once; None unless all buffers are fixed and in one memory space."""
        values: dict[str, Value] = {}
        inputs: dict[str, list[BoundExecutable]] = {}
        launches = []
        for step in steps:
            executable = step.executable
            if not isinstance(executable, BoundExecutable) or _space(step) != _space(steps[0]):
                return None
            fixed = executable.fixed_outputs()
            launch = executable.bind_inputs({name: values[name] for name in step.submodel.inputs if name in values})
            if not fixed or launch is None:
                return None
            launches.append(launch)
            for name in step.submodel.inputs:
                if name not in values:
                    inputs.setdefault(name, []).append(executable)
            values.update(zip(step.submodel.outputs, fixed, strict=True))
        if any(name not in values or not is_array(values[name]) for name in outputs):
            return None
        return cls(launches, inputs, {name: values[name] for name in outputs})

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Any]:
        """Runs the plan; returns copies of the graph outputs by name."""
        for name, value in self._bound.items():
            if inputs[name] is not value:
                self._rebind(name, inputs[name])
        for launch in self._launches:
            launch()
        return {name: view.copy() if view is not None else to_numpy(self._results[name])
                for name, view in self._views.items()}

    def _rebind(self, name: str, value: Value) -> None:
        shared = [executable.rebind_input(name, value) for executable in self._inputs[name]]
        self._bound[name] = value if all(shared) else None


def _space(step: Step) -> MemorySpace:
    return runtime_of(step.runs_on.runtime).memory_space(step.runs_on)


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
