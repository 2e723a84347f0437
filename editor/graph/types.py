"""ONNX element types: short names and sizes."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from onnx import TensorProto, TypeProto

# Bits per element as stored: 4-bit and 2-bit types are packed. 0 = no fixed size (strings).
_BITS = {
    "float32": 32,
    "uint8": 8,
    "int8": 8,
    "uint16": 16,
    "int16": 16,
    "int32": 32,
    "int64": 64,
    "string": 0,
    "bool": 8,
    "float16": 16,
    "float64": 64,
    "uint32": 32,
    "uint64": 64,
    "complex64": 64,
    "complex128": 128,
    "bfloat16": 16,
    "float8e4m3fn": 8,
    "float8e4m3fnuz": 8,
    "float8e5m2": 8,
    "float8e5m2fnuz": 8,
    "uint4": 4,
    "int4": 4,
    "float4e2m1": 4,
    "float8e8m0": 8,
    "uint2": 2,
    "int2": 2,
}
_RENAMED = {"float": "float32", "double": "float64"}

UNKNOWN_BYTES = -1

Shape = tuple[int | str, ...]
"""A dimension is an int, the name of a symbol, or "?" when unknown."""


def bits_of(name: str) -> int:
    """Bits of one element as stored; 0 for types without a fixed size and for unknown names."""
    return _BITS.get(name, 0)


def element_name(elem_type: int) -> str:
    """Short name of a ``TensorProto.DataType``, "" when undefined or unknown."""
    if elem_type == TensorProto.UNDEFINED:
        return ""
    try:
        name: str = TensorProto.DataType.Name(elem_type).lower()
    except ValueError:
        return ""
    return _RENAMED.get(name, name)


@lru_cache(maxsize=64)
def element_type(name: str) -> int:
    """The ``TensorProto.DataType`` of a short name; 0 (undefined) when it is not a tensor type."""
    for original, renamed in _RENAMED.items():
        if renamed == name:
            name = original
    return int(dict(TensorProto.DataType.items()).get(name.upper(), TensorProto.UNDEFINED))


def type_name(proto: TypeProto) -> str:
    """ "float32", "sequence(float32)", "optional(...)", "map(...)"; "" when not stated."""
    kind = proto.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        name = element_name(getattr(proto, kind).elem_type)
        return f"sparse({name})" if kind == "sparse_tensor_type" else name
    if kind in ("sequence_type", "optional_type"):
        return f"{kind.removesuffix('_type')}({type_name(getattr(proto, kind).elem_type)})"
    if kind == "map_type":
        return (
            f"map({element_name(proto.map_type.key_type)},{type_name(proto.map_type.value_type)})"
        )
    return ""


def shape_of(proto: TypeProto) -> Shape | None:
    """The shape of a tensor type; None when the rank is unknown or the type is not a tensor."""
    kind = proto.WhichOneof("value")
    if kind not in ("tensor_type", "sparse_tensor_type") or not getattr(proto, kind).HasField(
        "shape"
    ):
        return None
    dims: list[int | str] = []
    for dim in getattr(proto, kind).shape.dim:
        dims.append(
            dim.dim_value
            if dim.HasField("dim_value") and dim.dim_value >= 0
            else dim.dim_param or "?"
        )
    return tuple(dims)


def byte_size(dtype: str, shape: Shape | None) -> int:
    """Bytes that a dense tensor takes; ``UNKNOWN_BYTES`` when its type or shape is unknown."""
    bits = bits_of(dtype)
    if bits == 0 or shape is None or any(not isinstance(d, int) for d in shape):
        return UNKNOWN_BYTES
    size = (prod(d for d in shape if isinstance(d, int)) * bits + 7) // 8
    return (
        size if 0 <= size < 1 << 62 else UNKNOWN_BYTES
    )  # hostile dims must not overflow int64 sums
