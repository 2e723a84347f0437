"""Runs the steps of one sequence over caches that grow where they lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import ModelProto

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.graph.attributes import op_reads
from editor.runtimes.base import MemorySpace, Signature, Value
from editor.runtimes.onnxruntime.options import reason_of
from editor.runtimes.onnxruntime.providers import CPU, CUDA
from editor.runtimes.onnxruntime.values import HOST, as_ort, bind_output, to_ort

_CACHES = ((3, 1), (4, 2))
"""Inputs and outputs of GroupQueryAttention that are the keys and values of all tokens so far."""


def caches_of(model: ModelProto, device: Device) -> dict[str, str]:
    """Input -> output: caches with one op, which adds to them where both are the same memory, with room behind the tokens.

    How many tokens are there, GroupQueryAttention reads from the mask; an op that read it from the size of the cache would
    count the room. None of devices other than CPU and CUDA.
    """
    if device.provider not in (CPU, CUDA):
        return {}
    graph = model.graph
    read = Counter(name for node in graph.node for name in op_reads(node))
    ends = {value.name for value in (*graph.input, *graph.output)}
    pairs = {
        node.input[past]: node.output[present]
        for node in graph.node
        if (node.domain, node.op_type) == ("com.microsoft", "GroupQueryAttention")
        for past, present in _CACHES
        if past < len(node.input) and present < len(node.output)
    }
    return {
        past: present
        for past, present in pairs.items()
        if {past, present} <= ends and read[past] == 1 and not read[present]
    }


_LENGTH = 2
"""The axis along which a cache grows."""


def with_room(model: ModelProto, caches: Collection[str]) -> bytes:
    """A model as ONNX Runtime reads it, which takes these inputs of any length: with room they are longer than declared."""
    sizes = {
        value.name: value.type.tensor_type.shape.dim[_LENGTH]
        for value in model.graph.input
        if value.name in caches and len(value.type.tensor_type.shape.dim) > _LENGTH
    }
    fixed = {name: dim.dim_value for name, dim in sizes.items() if dim.HasField("dim_value")}
    for name in fixed:
        sizes[name].ClearField("dim_value")
    try:
        return bytes(model.SerializeToString())
    finally:  # a copy would take the weights a second time
        for name, size in fixed.items():
            sizes[name].dim_value = size


_PLAIN = "biuf"
"""Kinds of numpy types that ONNX Runtime takes as they are."""


class GrowingRun:
    """The runs of one sequence: its caches stay bound, and each run binds the rest.

    Args:
        session: of ONNX Runtime.
        signature: of the sub-model.
        where: for messages.
        outputs: input -> output of the caches.
        caches: input -> memory with room for all tokens of the sequence.
        options: of each run.
        space: where the session reads them; what lies elsewhere is copied there once.
    """

    def __init__(
        self,
        session: Any,
        signature: Signature,
        where: str,
        outputs: Mapping[str, str],
        caches: Mapping[str, Value],
        options: ort.RunOptions,
        space: MemorySpace = HOST,
    ) -> None:
        self._session, self._where, self._options = session, where, options
        self._binding = session.io_binding()
        self._caches = [to_ort(value, space) for value in caches.values()]
        self._held: dict[str, Value] = {}
        """Other values whose memory is bound, and not held by the binding"""
        for name, value in zip(caches, self._caches, strict=True):
            self._binding.bind_ortvalue_input(name, value)
            self._binding.bind_ortvalue_output(outputs[name], value)
        grown = {outputs[name] for name in caches}
        self._reads = [name for name in signature.inputs if name not in caches]
        self._makes = [name for name in signature.outputs if name not in grown]

    def __call__(self, inputs: Sequence[Value]) -> list[Value]:
        """The other outputs, in new memory, from the other inputs."""
        binding, first = self._binding, len(self._caches)
        try:
            for name, value in zip(self._reads, inputs, strict=True):
                if isinstance(value, np.ndarray) and value.dtype.kind in _PLAIN:
                    binding.bind_cpu_input(name, value)
                else:
                    self._held[name] = as_ort(value)
                    binding.bind_ortvalue_input(name, self._held[name])
            for name in self._makes:
                bind_output(binding, name, HOST)
            self._session.run_with_iobinding(binding, self._options)
        except Exception as error:  # ONNX Runtime's errors have no base class of their own
            raise ExecutionError(f"{self._where}: {reason_of(error)}") from error
        made = binding.get_outputs_as_ortvaluevector()
        return [ort.OrtValue(made[first + i]) for i in range(len(self._makes))]
