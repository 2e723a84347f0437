"""Attributes of ops as short display text; text from the model is never interpreted."""

from __future__ import annotations

from onnx import AttributeProto, NodeProto

from editor.graph.graph import Attributes
from editor.graph.types import element_name

_MAX_ITEMS = 12
_MAX_TEXT = 120


def _list(values: list[str]) -> str:
    shown = ", ".join(values[:_MAX_ITEMS])
    return f"[{shown}{', …' if len(values) > _MAX_ITEMS else ''}]"


def _number(value: float) -> str:
    return f"{value:.6g}"


def _text(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"


def attribute_text(attribute: AttributeProto) -> str:
    """The value of an attribute as one line of text."""
    kind = attribute.type
    if attribute.ref_attr_name:
        return f"@{attribute.ref_attr_name}"
    if kind == AttributeProto.FLOAT:
        return _number(attribute.f)
    if kind == AttributeProto.INT:
        return str(attribute.i)
    if kind == AttributeProto.STRING:
        return _text(attribute.s)
    if kind == AttributeProto.FLOATS:
        return _list([_number(v) for v in attribute.floats[:_MAX_ITEMS + 1]])
    if kind == AttributeProto.INTS:
        return _list([str(v) for v in attribute.ints[:_MAX_ITEMS + 1]])
    if kind == AttributeProto.STRINGS:
        return _list([_text(v) for v in attribute.strings[:_MAX_ITEMS + 1]])
    if kind == AttributeProto.TENSOR:
        return f"{element_name(attribute.t.data_type) or 'tensor'}[{', '.join(map(str, attribute.t.dims))}]"
    if kind == AttributeProto.GRAPH:
        return f"body of {len(attribute.g.node)} ops"
    return str(AttributeProto.AttributeType.Name(kind)).lower()


def attributes_of(node: NodeProto) -> Attributes:
    """All attributes of a node, in the node's order."""
    return tuple((a.name, attribute_text(a)) for a in node.attribute)
