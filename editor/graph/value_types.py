"""Types of values: between the editor's names, protobuf, and what ONNX Runtime writes."""

from __future__ import annotations

import re

from onnx import TypeProto, ValueInfoProto, helper

from editor.graph.graph import Shape, element_type


def make_value_info(name: str, kind: str, shape: Shape | None) -> ValueInfoProto:
    """Declares a value of any type; "?" dimensions stay open."""
    dims = None if shape is None else [None if d == "?" else d for d in shape]
    if "(" not in kind:
        return helper.make_tensor_value_info(name, element_type(kind), dims)
    return helper.make_value_info(name, _type_proto(kind))


def _type_proto(kind: str) -> TypeProto:
    outer, _, rest = kind.partition("(")
    inner = rest.removesuffix(")")
    if outer == "sequence":
        return helper.make_sequence_type_proto(_type_proto(inner))
    if outer == "optional":
        return helper.make_optional_type_proto(_type_proto(inner))
    if outer == "map":
        key, _, value = inner.partition(",")
        return helper.make_map_type_proto(element_type(key), _type_proto(value))
    if outer == "sparse":
        return helper.make_sparse_tensor_type_proto(element_type(inner), None)
    return helper.make_tensor_type_proto(element_type(kind), None)


def type_proto(ort_type: str) -> TypeProto:
    """A type as ONNX Runtime writes it: ``tensor(float)``, ``seq(tensor(int64))``, ``map(int64,tensor(float))``."""
    plain = re.sub(
        r"tensor\((\w+)\)",
        lambda m: {"float": "float32", "double": "float64"}.get(m[1], m[1]),
        ort_type,
    )
    return _type_proto(plain.replace("seq(", "sequence("))
