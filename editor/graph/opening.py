"""Opens what a model file closes: local functions, and Ifs whose condition is known.

Everything above the graph sees the opened model. It is made anew from the file where its weights are needed; the graph knows
what was done.

The ops of the body of a function take the place of its calls, so that they can be placed one by one. ONNX's own inliner
(``onnx.inliner``) gives the ops names that do not tell the calls apart. Here the values and ops of a call are named after it,
``<call>/<function>/<name>``, so that calls and functions are blocks of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from itertools import chain

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, helper

from editor.arguments import KEEP_FUNCTIONS
from editor.errors import ModelError
from editor.graph.attributes import (
    bodies_of,
    distinct_name,
    nodes_within,
    rename_values,
    values_in,
    values_of,
)
from editor.graph.branches import choices, fix_choices, take_branches
from editor.graph.graph import Graph


def split_define(
    model: ModelProto, define: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """The sizes of ``define``, and what it chooses: values of inputs, and whether functions stay closed."""
    names = {KEEP_FUNCTIONS, *choices(model)}
    sizes = {name: size for name, size in define.items() if name not in names}
    return sizes, {name: value for name, value in define.items() if name in names}


def open_closed(model: ModelProto, chosen: Mapping[str, int]) -> None:
    """Opens local functions and makes constants of chosen inputs, in place.

    Raises:
        ModelError: an input cannot have the value that was chosen.
    """
    if chosen.get(KEEP_FUNCTIONS, 0) not in (0, 1):
        raise ModelError(
            f"--define {KEEP_FUNCTIONS}={chosen[KEEP_FUNCTIONS]}: the value must be 0 or 1"
        )
    if not chosen.get(KEEP_FUNCTIONS):
        _open_functions(model)
    fix_choices(model, chosen)


def open_again(model: ModelProto, graph: Graph) -> None:
    """Does to the file of a graph, read once more, what was done to it when the graph was made."""
    open_closed(model, graph.chosen)
    take_branches(model, graph.branches)


Key = tuple[str, str, str]
"""Domain, name and overload."""
Nodes = Iterable[NodeProto]
_DEEPEST = 64
"""Calls inside each other; those of real models are fewer than ten deep."""


def _open_functions(model: ModelProto) -> None:
    """Replaces the calls of local functions by the ops of their bodies, in place, in the bodies of other ops too.

    These stay closed: a function that calls itself or is written for another version of an opset than the model, and a call
    very deep inside others.
    """
    if not model.functions:
        return
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    opener = _Opener(model, {key: f for key, f in functions.items() if _fits(model, f)})
    opener.open(model.graph)
    called = _called(model.graph.node, functions)
    del model.functions[:]
    model.functions.extend(functions[key] for key in functions if key in called)


def _fits(model: ModelProto, function: FunctionProto) -> bool:
    """Whether the model has the opsets of a function; those that it lacks are added to it."""
    versions = {o.domain or "ai.onnx": o.version for o in model.opset_import}
    for opset in function.opset_import:
        if versions.get(opset.domain or "ai.onnx", opset.version) != opset.version:
            return False
    for opset in function.opset_import:
        if (opset.domain or "ai.onnx") not in versions:
            model.opset_import.append(opset)
    return True


def _key_of(node: NodeProto) -> Key:
    return node.domain, node.op_type, node.overload


def _called(nodes: Nodes, functions: Mapping[Key, FunctionProto]) -> set[Key]:
    """The functions that nodes need, directly or through functions."""
    called: set[Key] = set()
    waiting: list[Nodes] = [nodes]
    while waiting:
        for node in _nested(waiting.pop()):
            key = _key_of(node)
            if key in functions and key not in called:
                called.add(key)
                waiting.append(functions[key].node)
    return called


def _nested(nodes: Nodes) -> Iterator[NodeProto]:
    """Nodes and those of their bodies."""
    return chain.from_iterable(map(nodes_within, nodes))


class _Opener:
    """Opens the calls in one model, whose values keep distinct names."""

    def __init__(self, model: ModelProto, functions: Mapping[Key, FunctionProto]) -> None:
        self.functions = functions
        self.names = set(values_of(model.graph))
        self.scopes: set[str] = set()

    def open(self, graph: GraphProto, stack: tuple[Key, ...] = ()) -> None:
        """Opens the calls of a graph and of its bodies."""
        opened = list(self._opened(graph.node, stack))
        del graph.node[:]
        graph.node.extend(opened)

    def _opened(self, nodes: Nodes, stack: tuple[Key, ...]) -> Iterator[NodeProto]:
        for node in nodes:
            key = _key_of(node)
            if key in self.functions and key not in stack and len(stack) < _DEEPEST:
                yield from self._opened(self._body(self.functions[key], node), (*stack, key))
                continue
            for body in bodies_of(node):
                self.open(body, stack)
            yield node

    def _body(self, function: FunctionProto, call: NodeProto) -> list[NodeProto]:
        """The ops of a call: its operands, results and attributes in place of the function's."""
        scope = self._scope(call.name or function.name, function.name)
        operands = [*call.input, *[""] * (len(function.input) - len(call.input))]
        names = dict(zip(function.input, operands, strict=False))
        copies = []
        for formal, result in zip(function.output, call.output, strict=False):
            if formal in names and result:  # it returns an operand, or one value twice
                copies.append(helper.make_node("Identity", [names[formal]], [result]))
            elif result:
                names[formal] = result
        nodes = [deepcopy(node) for node in function.node]
        for name in values_in(nodes):
            if name not in names:
                names[name] = distinct_name(f"{scope}/{name}", self.names)
        attributes = {a.name: a for a in function.attribute_proto}
        attributes |= {a.name: a for a in call.attribute}
        for i, node in enumerate(_nested(nodes)):
            node.name = f"{scope}/{node.name or f'{node.op_type}_{i}'}"
        for i, copy in enumerate(copies):
            copy.name = f"{scope}/result_{i}"
        holder = GraphProto(node=nodes)
        rename_values(holder, names)
        for node in _nested(holder.node):
            _set_attributes(node, attributes)
        return [*holder.node, *copies]

    def _scope(self, call: str, function: str) -> str:
        tells = call.rpartition("/")[2].startswith(function)
        scope = call if tells else f"{call}/{function}"
        number, distinct = 0, scope
        while distinct in self.scopes:
            number += 1
            distinct = f"{scope}_{number}"
        self.scopes.add(distinct)
        return distinct


def _set_attributes(node: NodeProto, attributes: Mapping[str, AttributeProto]) -> None:
    """Gives a node the values of the attributes that it takes from the call; those without a value are left out."""
    if not any(attribute.ref_attr_name for attribute in node.attribute):
        return
    kept = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            kept.append(attribute)
        elif attribute.ref_attr_name in attributes:
            value = deepcopy(attributes[attribute.ref_attr_name])
            value.name = attribute.name
            kept.append(value)
    del node.attribute[:]
    node.attribute.extend(kept)
