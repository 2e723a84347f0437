"""``openvino.Tensor``: made from other values, and read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import openvino as ov
from onnx import TensorProto

from editor.runtimes.base import Value
from editor.runtimes.element_types import CODES, EXTENSIONS, pack, unpack
from editor.runtimes.values import ValueReader, register_value_type, to_numpy

_TYPE_NAMES: dict[int, str] = {
    TensorProto.BFLOAT16: "bf16", TensorProto.FLOAT8E4M3FN: "f8e4m3", TensorProto.FLOAT8E5M2: "f8e5m2",
    TensorProto.FLOAT8E8M0: "f8e8m0", TensorProto.FLOAT4E2M1: "f4e2m1", TensorProto.UINT4: "u4", TensorProto.INT4: "i4",
    TensorProto.UINT2: "u2",
}
"""OpenVINO's names of the element types that numpy lacks; it has no others."""
_CODES = {name: code for code, name in _TYPE_NAMES.items()}


def to_openvino(value: Value) -> Value:
    """An ``openvino.Tensor`` that shares the memory where it is contiguous and writable.

    Raises:
        TypeError: OpenVINO has no such element type.
    """
    if type(value) is ov.Tensor:
        return value
    array = np.asarray(to_numpy(value))
    code = CODES.get(array.dtype)
    if code is not None:
        name = _TYPE_NAMES.get(code)
        if name is None:
            raise TypeError(f"OpenVINO has no element type {array.dtype.name}")
        made = ov.Tensor(getattr(ov.Type, name), ov.Shape(array.shape))
        if array.size:
            made.data.reshape(-1).view(np.uint8)[:] = pack(np.ascontiguousarray(array), EXTENSIONS[code][1])
        return made
    if array.dtype.kind in "OUS":
        return ov.Tensor(array.astype(str))
    array = array.view(np.dtype(array.dtype.str))  # OpenVINO does not know C's long long as int64
    if array.ndim == 0 or not array.flags.c_contiguous or not array.flags.writeable:
        array = np.array(array, order="C")
    return ov.Tensor(array, shared_memory=array.ndim > 0 and array.size > 0)


def _to_numpy(value: Any) -> Value:
    name = value.element_type.get_type_name()
    if name == "string":
        return value.str_data.astype(object)
    code = _CODES.get(name)
    if code is None:
        return value.data
    return unpack(np.array(value.data).reshape(-1).view(np.uint8), code, tuple(value.shape))


def _is_array(value: Any) -> bool:
    name = value.element_type.get_type_name()
    return name != "string" and name not in _CODES


def _host_view(value: Any) -> npt.NDArray[Any] | None:
    return value.data if _is_array(value) else None


register_value_type(ov.Tensor, ValueReader(_to_numpy, lambda value: int(value.byte_size), _is_array, _host_view))
