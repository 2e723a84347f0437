"""``OrtValue``: made from other values, and read."""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
from onnx import helper

from editor.runtimes.base import MemorySpace, Value
from editor.runtimes.element_types import CODES, EXTENSIONS, pack, unpack
from editor.runtimes.onnxruntime.memory_spaces import from_numpy, is_in, moved, on_host
from editor.runtimes.probe import type_proto
from editor.runtimes.values import ValueReader, register_value_type, to_numpy

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
    return bool(value.has_value() and value.is_tensor() and value.data_type() != "tensor(string)"
                and value.element_type() not in EXTENSIONS)


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
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "identity", info[:1], info[1:])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 16)])
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": value})[0]


register_value_type(ort.OrtValue, ValueReader(_to_numpy, _nbytes, is_array, _host_view))
