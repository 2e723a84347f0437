"""Converts values of ONNX Runtime, knows their memory, and grows caches where they lie, step by step."""

from __future__ import annotations

import ctypes
import logging
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
from onnx import ModelProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import OrtValue as CValue

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.graph.attributes import op_reads
from editor.graph.graph import type_proto
from editor.runtimes.base import MemorySpace, Signature, Value
from editor.runtimes.onnxruntime.cuda_streams import Mark, queue_copy, synchronize
from editor.runtimes.onnxruntime.options import reason_of
from editor.runtimes.onnxruntime.providers import CPU, CUDA
from editor.runtimes.values import (
    CODES,
    EXTENSIONS,
    ValueReader,
    pack,
    register_value_type,
    to_numpy,
    unpack,
)

HOST = MemorySpace("onnxruntime")
_NO_TENSORS = "OUS"
"""Kinds of numpy types that ONNX Runtime's Python interface does not support."""


def is_ort_value(value: Value) -> bool:
    """An ``onnxruntime.OrtValue``."""
    return type(value) is ort.OrtValue


def can_be_ort_value(value: Value) -> bool:
    """ONNX Runtime builds values only of plain tensors."""
    if is_ort_value(value):
        return True
    array = to_numpy(value)
    return isinstance(array, np.ndarray) and array.dtype.kind not in _NO_TENSORS


def to_ort(value: Value, space: MemorySpace = HOST) -> Value:
    """An ``OrtValue`` in the memory of a device; on the host it shares the memory where it is contiguous.

    Args:
        value: any value but a list.
        space: where it is to lie.
    """
    if is_ort_value(value):
        # Types that numpy lacks are kept on the host (ONNX Runtime moves them inside a run).
        return value if not is_array(value) or is_in(value, space) else moved(value, space)
    array = np.asarray(to_numpy(value))
    if array.ndim:
        array = np.ascontiguousarray(array)
    code = CODES.get(array.dtype)
    if code is None:
        return from_numpy(array, space)
    made = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), code)
    raw = pack(array, EXTENSIONS[code][1])
    if raw.nbytes:
        ctypes.memmove(made.data_ptr(), raw.ctypes.data, raw.nbytes)
    return made


def as_ort(value: Value) -> Value:
    """The value itself where it is an ``OrtValue``, in whatever memory; else one in host memory."""
    return value if is_ort_value(value) else to_ort(value)


def is_array(value: Any) -> bool:
    """A tensor whose element type numpy has, so that its memory can be seen as an array."""
    return bool(
        value.has_value()
        and value.is_tensor()
        and value.data_type() != "tensor(string)"
        and value.element_type() not in EXTENSIONS
    )


def _nbytes(value: Any) -> int:
    if not value.has_value() or not value.is_tensor() or value.data_type() == "tensor(string)":
        return 0
    return int(value.tensor_size_in_bytes())


def _to_numpy(value: Any) -> Value:
    if not value.has_value():
        return None
    if not value.is_tensor():
        return _sequence_to_list(value)
    code = value.element_type()
    if code not in EXTENSIONS:
        return on_host(value)
    shape = tuple(value.shape())
    size = -(-prod(shape) * EXTENSIONS[code][1] // 8)
    raw = np.frombuffer(ctypes.string_at(value.data_ptr(), size) if size else b"", np.uint8)
    return unpack(raw, code, shape)


def _host_view(value: Any) -> npt.NDArray[Any] | None:
    if not is_array(value) or value.device_name().lower() != HOST.kind:
        return None
    try:
        array: npt.NDArray[Any] = value.numpy()
    except ValueError:  # 0 x 2^62 elements
        return None
    return array if array.ctypes.data == value.data_ptr() else None


def _sequence_to_list(value: Any) -> Value:
    """ONNX Runtime turns a sequence into a list only at the end of a run, so run it through an Identity."""
    kind = type_proto(value.data_type())
    info = [helper.make_value_info(name, kind) for name in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "identity", info[:1], info[1:]
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 16)])
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": value})[0]


register_value_type(ort.OrtValue, ValueReader(_to_numpy, _nbytes, is_array, _host_view))


log = logging.getLogger(__name__)

_WITHOUT_NAME = frozenset({"gpu", "npu"})
_CUDA = "cuda"
_FOR_THREADS = frozenset({"cpu", _CUDA})
"""Memories that several threads may use at once. Of onnxruntime-ep-webgpu 0.4.0, values were wrong and processes crashed."""
_one_at_a_time = threading.RLock()


def exclusive(kind: str) -> AbstractContextManager[object]:
    """Held while a run or a copy uses a memory that only one thread may use at a time."""
    return nullcontext() if kind in _FOR_THREADS else _one_at_a_time


def kind_of(device_name: str, vendor: int) -> str:
    """The kind of a memory space from what ONNX Runtime says about a value in it."""
    name = device_name.lower()
    return f"{name}:{vendor}" if name in _WITHOUT_NAME else name


def is_in(value: Any, space: MemorySpace) -> bool:
    """Whether an ``OrtValue`` is in a memory space."""
    if value.device_name().lower() != space.kind.partition(":")[0]:
        return False
    return space.is_host or _index_of(value, space.index) == space.index


def _index_of(value: Any, default: int) -> int:
    """The number of the device that holds a value; ``default`` where it cannot be asked for it."""
    try:
        return int(value.__dlpack_device__()[1])
    except (
        RuntimeError,
        ValueError,
        TypeError,
        BufferError,
    ):  # memory that other libraries cannot address
        return default


def moved(value: Any, space: MemorySpace) -> Value:
    """A copy of an ``OrtValue`` in another memory: directly between two devices where that is possible, else through the host.

    A copy between two GPUs of CUDA is queued; see ``cuda_streams``.
    """
    kind = value.device_name().lower()
    if not space.is_host and kind != "cpu":
        made = _allocated(value.shape(), value.element_type(), space)
        if kind == space.kind == _CUDA and queue_copy(
            _index_of(value, 0),
            value.data_ptr(),
            space.index,
            made.data_ptr(),
            value.tensor_size_in_bytes(),
            mark_of(value),
        ):
            return made
        try:
            with exclusive(space.kind):
                ort.copy_tensors([value], [made])
            return made
        except Exception as error:  # noqa: BLE001  # ONNX Runtime's errors have no base class of their own
            log.debug("no direct copy to %s: %s", space, error)
    return from_numpy(on_host(value), space)


def on_host(value: Any) -> np.ndarray[Any, Any]:
    """The values of a tensor in any memory, once they are computed."""
    kind = value.device_name().lower()
    if kind != HOST.kind or mark_of(value) is not None:
        wait_for(value)
    with exclusive(kind):
        array: np.ndarray[Any, Any] = value.numpy()
    return array


def wait_for(value: Any) -> None:
    """Waits until a value in the memory of a GPU of CUDA is computed; reading one of other devices waits by itself."""
    if (mark := mark_of(value)) is not None:
        mark.wait()
    elif value.device_name().lower() == _CUDA:
        synchronize(_index_of(value, 0))


def set_mark(value: Any, mark: Mark) -> None:
    """Says by when an ``OrtValue`` is computed."""
    value.computed_by = mark


def mark_of(value: Any) -> Mark | None:
    """By when an ``OrtValue`` is computed, where that is known."""
    mark: Mark | None = getattr(value, "computed_by", None)
    return mark


def from_numpy(array: np.ndarray[Any, Any], space: MemorySpace) -> Any:
    """An ``OrtValue`` with the values of an array; on the host it shares the memory."""
    with exclusive(space.kind):
        made = CValue.ortvalue_from_numpy(array, device_of(space))
    return ort.OrtValue(made, array if space.is_host else None)


def _allocated(shape: Any, element_type: int, space: MemorySpace) -> Any:
    name, vendor = _name_and_vendor(space)
    with exclusive(space.kind):
        return ort.OrtValue.ortvalue_from_shape_and_type(
            list(shape), element_type, name, space.index, vendor
        )


def bind_output(binding: Any, name: str, space: MemorySpace) -> None:
    """Lets a session allocate an output in a memory space."""
    # The public method takes no vendor, and makes the device anew each time.
    try:
        inner = binding._iobinding
        device = device_of(space)
    except AttributeError:
        raise ExecutionError(
            f"onnxruntime {ort.__version__} cannot bind outputs in the memory of {_name_and_vendor(space)[0]}; install 1.32"
        ) from None
    inner.bind_output(name, device)


@cache
def device_of(space: MemorySpace) -> Any:
    """A memory space as ONNX Runtime's C interface knows it."""
    kind, vendor = _name_and_vendor(space)
    return ort.OrtDevice.make(kind, space.index, vendor)._get_c_device()


def _name_and_vendor(space: MemorySpace) -> tuple[str, int]:
    name, _, vendor = space.kind.partition(":")
    return name, int(vendor) if vendor else -1


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
