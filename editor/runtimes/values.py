"""Looks at values of any runtime: their types, sizes and numpy views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from editor.errors import ExecutionError
from editor.runtimes.base import Value

Array = npt.NDArray[Any]

EXTENSIONS: dict[int, tuple[np.dtype[Any], int]] = {
    code: (np.dtype(kind), bits)
    for code, kind, bits in (
        (TensorProto.BFLOAT16, ml_dtypes.bfloat16, 16),
        (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn, 8),
        (TensorProto.FLOAT8E4M3FNUZ, ml_dtypes.float8_e4m3fnuz, 8),
        (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2, 8),
        (TensorProto.FLOAT8E5M2FNUZ, ml_dtypes.float8_e5m2fnuz, 8),
        (TensorProto.FLOAT8E8M0, ml_dtypes.float8_e8m0fnu, 8),
        (TensorProto.FLOAT4E2M1, ml_dtypes.float4_e2m1fn, 4),
        (TensorProto.UINT4, ml_dtypes.uint4, 4),
        (TensorProto.INT4, ml_dtypes.int4, 4),
        (TensorProto.UINT2, ml_dtypes.uint2, 2),
        (TensorProto.INT2, ml_dtypes.int2, 2),
    )
}
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
    padded[: len(raw)] = raw & ((1 << bits) - 1)
    shifts = np.arange(per_byte, dtype=np.uint8) * bits
    packed: npt.NDArray[np.uint8] = np.bitwise_or.reduce(
        padded.reshape(-1, per_byte) << shifts, axis=1
    ).astype(np.uint8)
    return packed


def unpack(raw: npt.NDArray[np.uint8], code: int, shape: tuple[int, ...]) -> Array:
    """An array of packed bytes; ``code`` is its ``TensorProto.DataType``."""
    dtype, bits = EXTENSIONS[code]
    if bits >= 8:
        return raw.view(dtype).reshape(shape)
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    items: Array = ((raw[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[: prod(shape)]
    if dtype.name.startswith("int"):  # ml_dtypes keeps the sign extended to the byte
        items = np.where(items >> (bits - 1), items | np.uint8(0xFF << bits & 0xFF), items).astype(
            np.uint8
        )
    return items.view(dtype).reshape(shape)


@dataclass(frozen=True)
class ValueReader:
    """How values of one type are read."""

    to_numpy: Callable[[Any], Value]
    """A view where the memory can be shared, else a copy; lists stay lists."""
    nbytes: Callable[[Any], int]
    """0 where that is not defined."""
    is_array: Callable[[Any], bool]
    """A tensor of an element type that numpy has."""
    host_view: Callable[[Any], npt.NDArray[Any] | None]
    """An array in the same memory; None where it cannot be seen from the host."""


_readers: dict[type, ValueReader] = {}


def register_value_type(kind: type, reader: ValueReader) -> None:
    """Registers the functions that read the values of a runtime."""
    _readers[kind] = reader


def to_numpy(value: Value) -> Value:
    """A numpy view (or copy, where the memory cannot be shared); lists stay lists.

    Raises:
        ExecutionError: a string tensor holds bytes that are not text.
    """
    reader = _readers.get(type(value))
    try:
        return reader.to_numpy(value) if reader else value
    except UnicodeDecodeError as error:
        raise ExecutionError(
            f"a string of the model is not UTF-8 and cannot be read: byte 0x{error.object[error.start]:02x} "
            f"at position {error.start}"
        ) from error
    except ValueError as error:  # 0 x 2^62 elements, which a runtime takes and numpy does not
        raise ExecutionError(f"a value of the model cannot be read: {error}") from error


def is_value(value: object) -> bool:
    """Whether a runtime registered how values of this type are read."""
    return type(value) in _readers


def nbytes(value: Value) -> int:
    """Bytes that a value takes, 0 where that is not defined."""
    reader = _readers.get(type(value))
    return reader.nbytes(value) if reader else int(getattr(value, "nbytes", 0))


def is_array(value: Value) -> bool:
    """A tensor whose element type numpy has."""
    reader = _readers.get(type(value))
    return (
        reader.is_array(value)
        if reader
        else isinstance(value, np.ndarray) and value.dtype.kind not in "OUSV"
    )


def host_view(value: Value) -> npt.NDArray[Any] | None:
    """An array in the memory of a value; None where its memory cannot be seen from the host."""
    reader = _readers.get(type(value))
    return reader.host_view(value) if reader else value if isinstance(value, np.ndarray) else None
