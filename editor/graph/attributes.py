"""Reads the attributes and bodies of nodes into plain values; makes models of another version of the operator set."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from inspect import cleandoc
from typing import Any

import onnx.defs
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, version_converter

from editor.graph.graph import Attributes, element_name

_parsing = threading.Lock()
"""CPython 3.11 counts the depth of its recursion in one place for all threads, and raises SystemError where two parse."""


@lru_cache(1024)
def parse_expression(text: str) -> ast.expr:
    """The tree of an expression; callers share it and must not change it.

    Raises:
        SyntaxError: it is not valid.
        ValueError, RecursionError, MemoryError: it has NUL, or is nested too deeply.
    """
    with _parsing:
        return ast.parse(text, mode="eval").body


def bodies_of(node: NodeProto) -> list[GraphProto]:
    """The graphs in a node's attributes."""
    bodies: list[GraphProto] = []
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            bodies.append(attribute.g)
        elif attribute.type == AttributeProto.GRAPHS:
            bodies.extend(attribute.graphs)
    return bodies


def nodes_within(node: NodeProto) -> Iterator[NodeProto]:
    """Yields a node, and the nodes in its bodies."""
    yield node
    for body in bodies_of(node):
        for inner in body.node:
            yield from nodes_within(inner)


def captured_names(node: NodeProto) -> list[str]:
    """Names of outer values that the bodies of a node read, in order of first use."""
    captured: dict[str, None] = {}
    for body in bodies_of(node):
        captured.update(dict.fromkeys(_free_names(body)))
    return list(captured)


def op_reads(node: NodeProto) -> list[str]:
    """Names of all tensors that a node needs: its inputs without the omitted ones, and the captures of its bodies."""
    return [*(name for name in node.input if name), *captured_names(node)]


def _free_names(graph: GraphProto) -> list[str]:
    known = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    known |= {t.values.name for t in graph.sparse_initializer}
    known |= {name for node in graph.node for name in node.output}
    read = [n for node in graph.node for n in (*node.input, *captured_names(node)) if n]
    read += [value.name for value in graph.output]  # a body may return an outer value directly
    return list(dict.fromkeys(name for name in read if name not in known))


def rename_values(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Renames values in a graph and in the bodies of its nodes, in place."""
    if not names:
        return
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = names.get(sparse.values.name, sparse.values.name)
    for value in (*graph.input, *graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for body in bodies_of(node):
            rename_values(body, names)


def values_of(graph: GraphProto) -> Iterator[str]:
    """Names of all values of a graph and of its bodies."""
    for tensor in graph.initializer:
        yield tensor.name
    for sparse in graph.sparse_initializer:
        yield sparse.values.name
    for value in (*graph.input, *graph.output):
        yield value.name
    yield from values_in(graph.node)


def values_in(nodes: Iterable[NodeProto]) -> Iterator[str]:
    """Names of the results of nodes, and of all values of their bodies."""
    for node in nodes:
        yield from filter(None, node.output)
        for body in bodies_of(node):
            yield from values_of(body)


def put(field: Any, items: Iterable[Any]) -> None:
    """Puts items in the place of all that a repeated field of protobuf has."""
    made = list(items)
    del field[:]
    field.extend(made)


def distinct_name(name: str, taken: set[str]) -> str:
    """A name that no other value has: this one, with primes where it is taken; it is taken then."""
    while name in taken:
        name += "'"
    taken.add(name)
    return name


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
    return frozenset(
        name
        for s in _schemas()
        if s.name == op_type and s.domain == _domain(domain)
        for name in s.attributes
    )


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
    versions = [
        s
        for s in _schemas()
        if s.name == op_type and s.domain == _domain(domain) and name in s.attributes
    ]
    schema = max(
        (s for s in versions if s.since_version <= version),
        key=lambda s: s.since_version,
        default=min(versions, key=lambda s: s.since_version, default=None),
    )
    if schema is None or schema.attributes[name].default_value.type == AttributeProto.UNDEFINED:
        return None
    return attribute_value(attribute_text(schema.attributes[name].default_value))


@dataclass(frozen=True)
class Definition:
    """What ONNX says of an op type in a version of its domain."""

    name: str
    since_version: int
    documentation: str
    address: str
    """The page that has it"""
    defaults: Attributes


@cache
def definition_of(op_type: str, domain: str, version: int) -> Definition | None:
    """The definition of an op type; None where ONNX has none."""
    try:
        schema = onnx.defs.get_schema(op_type, version, _domain(domain))
    except onnx.defs.SchemaError:
        return None
    page = f"onnx_{schema.domain.replace('.', '')}_{schema.name}"
    return Definition(
        name=schema.name,
        since_version=schema.since_version,
        documentation=cleandoc(schema.doc or ""),
        address=f"https://onnx.ai/onnx/operators/{page}.html",
        defaults=tuple(
            (name, attribute_text(each.default_value))
            for name, each in sorted(schema.attributes.items())
            if each.default_value.type != AttributeProto.UNDEFINED
        ),
    )


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
        return _list([_number(v) for v in attribute.floats[: _MAX_ITEMS + 1]])
    if kind == AttributeProto.INTS:
        return _list([str(v) for v in attribute.ints[: _MAX_ITEMS + 1]])
    if kind == AttributeProto.STRINGS:
        return _list([_text(v) for v in attribute.strings[: _MAX_ITEMS + 1]])
    if kind == AttributeProto.TENSOR:
        return f"{element_name(attribute.t.data_type) or 'tensor'}[{', '.join(map(str, attribute.t.dims))}]"
    if kind == AttributeProto.GRAPH:
        return f"body of {len(attribute.g.node)} ops"
    return str(AttributeProto.AttributeType.Name(kind)).lower()


def attributes_of(node: NodeProto) -> Attributes:
    """All attributes of a node, in the node's order."""
    return tuple((a.name, attribute_text(a)) for a in node.attribute)


def at_opset(model: ModelProto, version: int) -> ModelProto | None:
    """A copy of a model whose ops are of a version; None where they are, or cannot all be.

    ONNX's converter leaves functions and bodies as they are, so that models with such cannot be.
    """
    now = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), version)
    if now == version or model.functions or any(bodies_of(node) for node in model.graph.node):
        return None
    try:
        return version_converter.convert_version(model, version)
    except RuntimeError:  # there is no way between the versions of an op
        return None
