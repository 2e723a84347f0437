"""Values of attributes: read back from their display text, and the defaults of ONNX."""

from __future__ import annotations

import ast
from functools import cache
from typing import Any

import onnx.defs
from onnx import AttributeProto

from editor.graph.attributes import attribute_text
from editor.graph.syntax import parse_expression


def attribute_value(text: str) -> Any:
    """The value of an attribute's display text: number, tuple of numbers, or text."""
    try:
        value = ast.literal_eval(parse_expression(text.lstrip(" \t")))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return text
    if isinstance(value, list):
        return tuple(value)
    return value if isinstance(value, int | float) else text


@cache
def attribute_names(op_type: str, domain: str) -> frozenset[str]:
    """Names of the attributes of an op type in any version of its domain."""
    return frozenset(name for s in _schemas() if s.name == op_type and s.domain == _domain(domain) for name in s.attributes)


@cache
def all_attribute_names() -> frozenset[str]:
    """Names of the attributes of all ops of ONNX."""
    return frozenset(name for schema in _schemas() for name in schema.attributes)


@cache
def _schemas() -> tuple[onnx.defs.OpSchema, ...]:
    return tuple(onnx.defs.get_all_schemas_with_history())


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


@cache
def attribute_default(op_type: str, domain: str, version: int, name: str) -> Any:
    """The default of an attribute; that of a later version where this one does not have the attribute yet."""
    versions = [s for s in _schemas() if s.name == op_type and s.domain == _domain(domain) and name in s.attributes]
    schema = max((s for s in versions if s.since_version <= version), key=lambda s: s.since_version,
                 default=min(versions, key=lambda s: s.since_version, default=None))
    if schema is None or schema.attributes[name].default_value.type == AttributeProto.UNDEFINED:
        return None
    return attribute_value(attribute_text(schema.attributes[name].default_value))
