"""Passing values between runtimes without copying where both sides allow.

Values stay in the memory of the runtime that made them: numpy array, ``OrtValue`` or
``openvino.Tensor``. A sequence is a list, an empty optional is None. Types that numpy lacks are
``ml_dtypes`` arrays with one element per item; the runtimes pack those of less than a byte, first
element in the lowest bits (ONNX IR specification, "Serializing tensors").
"""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from editor.runtimes.base import Value

Array = npt.NDArray[Any]

# Element type of ONNX -> numpy type, name of OpenVINO's type, bits.
_EXTENSIONS: dict[int, tuple[Any, str, int]] = {
    TensorProto.BFLOAT16: (ml_dtypes.bfloat16, "bf16", 16),
    TensorProto.FLOAT8E4M3FN: (ml_dtypes.float8_e4m3fn, "f8e4m3", 8),
    TensorProto.FLOAT8E4M3FNUZ: (ml_dtypes.float8_e4m3fnuz, "", 8),
    TensorProto.FLOAT8E5M2: (ml_dtypes.float8_e5m2, "f8e5m2", 8),
    TensorProto.FLOAT8E5M2FNUZ: (ml_dtypes.float8_e5m2fnuz, "", 8),
    TensorProto.FLOAT8E8M0: (ml_dtypes.float8_e8m0fnu, "f8e8m0", 8),
    TensorProto.FLOAT4E2M1: (ml_dtypes.float4_e2m1fn, "f4e2m1", 4),
    TensorProto.UINT4: (ml_dtypes.uint4, "u4", 4),
    TensorProto.INT4: (ml_dtypes.int4, "i4", 4),
    TensorProto.UINT2: (ml_dtypes.uint2, "u2", 2),
    TensorProto.INT2: (ml_dtypes.int2, "", 2),
}
_OPENVINO_CODES = {name: code for code, (_, name, _) in _EXTENSIONS.items() if name}
_CODES = {np.dtype(dtype): code for code, (dtype, _, _) in _EXTENSIONS.items()}


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
        return _openvino_to_numpy(value)
    return value


def can_be_ort_value(value: Value) -> bool:
    """ONNX Runtime builds values from numpy only for plain tensors."""
    return is_ort(value) or (is_openvino(value) and value.element_type.get_type_name() != "string") or (
        isinstance(value, np.ndarray) and value.dtype.kind not in "OUS")


def is_empty_optional(value: Value) -> bool:
    """An optional that holds nothing; ONNX Runtime crashes when such a value is looked into or passed on."""
    return value is None or (is_ort(value) and not value.has_value())


def to_ort(value: Value, place: str = "cpu", index: int = 0) -> Value:
    """An ``OrtValue`` in the memory of a device; on the CPU it shares the memory where it is contiguous.

    Args:
        value: any value but a list.
        place: ``cpu`` or ``cuda``.
        index: which of the devices of that kind.
    """
    import onnxruntime

    if is_ort(value):
        # Types that numpy lacks are kept on the CPU (onnxruntime moves them inside a run).
        if value.device_name().lower() == place or not is_numpy_type(value):
            return value
        return onnxruntime.OrtValue.ortvalue_from_numpy(value.numpy(), place, index)
    array = np.asarray(to_numpy(value))
    if array.ndim:
        array = np.ascontiguousarray(array)
    code = _CODES.get(array.dtype)
    if code is None:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array, place, index)
    made = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(array.shape), code)
    raw = _pack(array, _EXTENSIONS[code][2])
    if raw.nbytes:
        ctypes.memmove(made.data_ptr(), raw.ctypes.data, raw.nbytes)
    return made


def to_openvino(value: Value) -> Value:
    """An ``openvino.Tensor`` that shares the memory where it is contiguous and writable.

    Raises:
        TypeError: OpenVINO has no such element type.
    """
    if is_openvino(value):
        return value
    import openvino

    array = np.asarray(to_numpy(value))
    code = _CODES.get(array.dtype)
    if code is not None:
        _, name, bits = _EXTENSIONS[code]
        if not name:
            raise TypeError(f"OpenVINO has no element type {array.dtype.name}")
        made = openvino.Tensor(getattr(openvino.Type, name), openvino.Shape(array.shape))
        if array.size:
            made.data.reshape(-1).view(np.uint8)[:] = _pack(np.ascontiguousarray(array), bits)
        return made
    if array.dtype.kind in "OUS":
        return openvino.Tensor(array.astype(str))
    array = array.view(np.dtype(array.dtype.str))  # OpenVINO does not know C's long long as int64
    if array.ndim == 0 or not array.flags.c_contiguous or not array.flags.writeable:
        array = np.array(array, order="C")
    return openvino.Tensor(array, shared_memory=array.ndim > 0 and array.size > 0)


def is_numpy_type(value: Value) -> bool:
    """An ``OrtValue`` whose element type numpy has, so that its memory can be seen as an array."""
    return bool(is_ort(value) and value.has_value() and value.is_tensor() and value.data_type() != "tensor(string)"
                and value.element_type() not in _EXTENSIONS)


def nbytes(value: Value) -> int:
    """Bytes that a value takes, 0 where that is not defined."""
    if is_ort(value):
        if not value.has_value() or not value.is_tensor() or value.data_type() == "tensor(string)":
            return 0
        return int(value.tensor_size_in_bytes())
    if is_openvino(value):
        return int(value.byte_size)
    return int(getattr(value, "nbytes", 0))


def _ort_to_numpy(value: Any) -> Value:
    if not value.has_value():
        return None
    if not value.is_tensor():
        return _sequence_to_list(value)
    extension = _EXTENSIONS.get(value.element_type())
    if extension is None:
        return value.numpy()
    dtype, _, bits = extension
    shape = tuple(value.shape())
    size = -(-prod(shape) * bits // 8)
    raw = np.frombuffer(ctypes.string_at(value.data_ptr(), size) if size else b"", np.uint8)
    return _unpack(raw, np.dtype(dtype), bits, shape)


def _openvino_to_numpy(value: Any) -> Value:
    name = value.element_type.get_type_name()
    if name == "string":
        return value.str_data.astype(object)
    code = _OPENVINO_CODES.get(name)
    if code is None:
        return value.data
    dtype, _, bits = _EXTENSIONS[code]
    raw = np.array(value.data).reshape(-1).view(np.uint8)
    return _unpack(raw, np.dtype(dtype), bits, tuple(value.shape))


def _pack(array: Array, bits: int) -> npt.NDArray[np.uint8]:
    """Bytes of a contiguous array as runtimes keep them."""
    raw = array.reshape(-1).view(np.uint8)
    if bits >= 8:
        return raw
    per_byte = 8 // bits
    padded = np.zeros(-(-len(raw) // per_byte) * per_byte, np.uint8)
    padded[:len(raw)] = raw & ((1 << bits) - 1)
    shifts = np.arange(per_byte, dtype=np.uint8) * bits
    packed: npt.NDArray[np.uint8] = np.bitwise_or.reduce(padded.reshape(-1, per_byte) << shifts, axis=1).astype(np.uint8)
    return packed


def _unpack(raw: npt.NDArray[np.uint8], dtype: np.dtype[Any], bits: int, shape: tuple[int, ...]) -> Array:
    if bits >= 8:
        return raw.view(dtype).reshape(shape)
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    items: Array = ((raw[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:prod(shape)]
    if dtype.name.startswith("int"):  # ml_dtypes keeps the sign extended to the byte
        items = np.where(items >> (bits - 1), items | np.uint8(0xFF << bits & 0xFF), items).astype(np.uint8)
    return items.view(dtype).reshape(shape)


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
