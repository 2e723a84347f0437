"""Passing values between runtimes without copying where both sides allow.

Values stay in the memory of the runtime that made them: numpy array, ``OrtValue`` or
``openvino.Tensor``. A sequence is a list, an empty optional is None.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from editor.runtimes.base import Value

Array = npt.NDArray[Any]

# Types that numpy lacks and ONNX Runtime keeps one element per byte or two (ONNX IR spec, tensor element types).
_EXTENSION_TYPES = {
    TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    TensorProto.FLOAT8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    TensorProto.FLOAT8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    TensorProto.FLOAT8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    TensorProto.FLOAT8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
}
_EXTENSION_CODES = {dtype: code for code, dtype in _EXTENSION_TYPES.items()}


def is_ort(value: Value) -> bool:
    """An ``onnxruntime.OrtValue``."""
    return type(value).__module__.startswith("onnxruntime")


def is_openvino(value: Value) -> bool:
    """An ``openvino.Tensor``."""
    return type(value).__module__.startswith("openvino")


def to_numpy(value: Value) -> Value:
    """A numpy view (or copy, where the memory cannot be shared); lists stay lists."""
    if is_ort(value):
        return _ort_to_numpy(value)
    if is_openvino(value):
        return value.data
    return value


def can_be_ort_value(value: Value) -> bool:
    """ONNX Runtime builds values from numpy only for plain tensors."""
    return is_ort(value) or is_openvino(value) or (isinstance(value, np.ndarray) and value.dtype.kind not in "OUS")


def to_ort(value: Value) -> Value:
    """An ``OrtValue`` on the CPU that shares the memory where it is contiguous."""
    if is_ort(value):
        return value
    import onnxruntime

    array = np.ascontiguousarray(to_numpy(value)) if np.ndim(to_numpy(value)) else np.asarray(to_numpy(value))
    code = _EXTENSION_CODES.get(array.dtype)
    if code is None:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    made = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(array.shape), code)
    if array.nbytes:
        ctypes.memmove(made.data_ptr(), array.ctypes.data, array.nbytes)
    return made


def to_openvino(value: Value) -> Value:
    """An ``openvino.Tensor`` that shares the memory where it is contiguous."""
    if is_openvino(value):
        return value
    import openvino

    array = to_numpy(value)
    array = array.view(np.dtype(array.dtype.str))  # OpenVINO does not know C's long long as int64
    if array.ndim == 0 or not array.flags.c_contiguous:
        array = np.array(array, order="C")
    return openvino.Tensor(array, shared_memory=array.ndim > 0 and array.size > 0)


def nbytes(value: Value) -> int:
    """Bytes that a value takes, 0 where that is not defined."""
    if is_ort(value):
        return int(value.tensor_size_in_bytes()) if value.is_tensor() and value.has_value() else 0
    if is_openvino(value):
        return int(value.byte_size)
    return int(getattr(value, "nbytes", 0))


def _ort_to_numpy(value: Any) -> Value:
    if not value.has_value():
        return None
    if not value.is_tensor():
        return _sequence_to_list(value)
    dtype = _EXTENSION_TYPES.get(value.element_type())
    if dtype is None:
        return value.numpy()
    shape = tuple(value.shape())
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if size == 0:
        return np.empty(shape, dtype)
    raw = ctypes.string_at(value.data_ptr(), size)
    return np.frombuffer(raw, dtype).reshape(shape)


def _sequence_to_list(value: Any) -> Value:
    """ONNX Runtime turns a sequence into a list only at the end of a run, so run it through an Identity."""
    import onnxruntime
    from onnx import helper

    from editor.runtimes.probe import type_proto

    kind = type_proto(value.data_type())
    info = [helper.make_value_info(name, kind) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "identity", info[:1], info[1:])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 16)])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": value})[0]
