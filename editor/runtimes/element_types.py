"""Element types that numpy lacks: bfloat16, float8, and types of less than a byte.

In numpy they are ``ml_dtypes`` arrays with one element per item; runtimes pack those of less than a byte,
first element in the lowest bits (ONNX IR specification, "Serializing tensors").
"""

from __future__ import annotations

from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from onnx import TensorProto

Array = npt.NDArray[Any]

EXTENSIONS: dict[int, tuple[np.dtype[Any], int]] = {
    code: (np.dtype(kind), bits) for code, kind, bits in (
        (TensorProto.BFLOAT16, ml_dtypes.bfloat16, 16), (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn, 8),
        (TensorProto.FLOAT8E4M3FNUZ, ml_dtypes.float8_e4m3fnuz, 8), (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2, 8),
        (TensorProto.FLOAT8E5M2FNUZ, ml_dtypes.float8_e5m2fnuz, 8), (TensorProto.FLOAT8E8M0, ml_dtypes.float8_e8m0fnu, 8),
        (TensorProto.FLOAT4E2M1, ml_dtypes.float4_e2m1fn, 4), (TensorProto.UINT4, ml_dtypes.uint4, 4),
        (TensorProto.INT4, ml_dtypes.int4, 4), (TensorProto.UINT2, ml_dtypes.uint2, 2), (TensorProto.INT2, ml_dtypes.int2, 2))}
"""``TensorProto.DataType`` -> numpy type and bits per element."""
CODES = {dtype: code for code, (dtype, _) in EXTENSIONS.items()}
"""numpy type -> ``TensorProto.DataType``, for these types."""


def pack(array: Array, bits: int) -> npt.NDArray[np.uint8]:
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


def unpack(raw: npt.NDArray[np.uint8], code: int, shape: tuple[int, ...]) -> Array:
    """An array of packed bytes; ``code`` is its ``TensorProto.DataType``."""
    dtype, bits = EXTENSIONS[code]
    if bits >= 8:
        return raw.view(dtype).reshape(shape)
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    items: Array = ((raw[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:prod(shape)]
    if dtype.name.startswith("int"):  # ml_dtypes keeps the sign extended to the byte
        items = np.where(items >> (bits - 1), items | np.uint8(0xFF << bits & 0xFF), items).astype(np.uint8)
    return items.view(dtype).reshape(shape)
