"""Opens what a model file closes: local functions, and Ifs whose condition is known.

Everything above the graph sees the opened model. It is made anew from the file where its weights are needed; the graph knows
what was done.

The ops of the body of a function take the place of its calls, so that they can be placed one by one. ONNX's own inliner
(``onnx.inliner``) gives the ops names that do not tell the calls apart. Here the values and ops of a call are named after it,
``<call>/<function>/<name>``, so that calls and functions are blocks of the model.

The condition of an If is known where it follows from constants, from the sizes of the inputs, or from an input whose value was
chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import chain, count

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TypeProto,
    helper,
    numpy_helper,
)

from editor.arguments import KEEP_FUNCTIONS
from editor.errors import ModelError
from editor.graph.attributes import (
    bodies_of,
    distinct_name,
    nodes_within,
    put,
    rename_values,
    values_in,
    values_of,
)
from editor.graph.graph import Graph, element_name
from editor.graph.inference import infer_types, is_accepted
from editor.graph.static_values import EXACT_TYPES, StaticValues


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
    put(model.functions, (functions[key] for key in functions if key in called))


def _fits(model: ModelProto, function: FunctionProto) -> bool:
    """Whether the model has the opsets of a function; those that it lacks are added to it."""
    versions = {o.domain or "ai.onnx": o.version for o in model.opset_import}
    wanted = [(o.domain or "ai.onnx", o) for o in function.opset_import]
    if any(versions.get(domain, o.version) != o.version for domain, o in wanted):
        return False
    model.opset_import.extend(o for domain, o in wanted if domain not in versions)
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
        put(graph.node, self._opened(graph.node, stack))

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
        inner = [name for name in values_in(nodes) if name not in names]
        names |= {
            name: distinct_name(f"{scope}/{name}", self.names) for name in dict.fromkeys(inner)
        }
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
        others = (f"{scope}_{number}" for number in count(1))
        distinct = next(each for each in chain([scope], others) if each not in self.scopes)
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
    put(node.attribute, kept)


Branches = tuple[tuple[str, bool], ...]
"""Key of each If that was replaced, and its condition, in the order of the replacements."""
_CHOICES = {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}


def choices(model: ModelProto) -> dict[str, TypeProto.Tensor]:
    """Graph inputs of one whole number or truth value, by name: ``define`` can give them a value."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return {
        value.name: value.type.tensor_type
        for value in model.graph.input
        if value.name not in constants
        and element_name(value.type.tensor_type.elem_type) in _CHOICES
        and value.type.tensor_type.HasField("shape")
        and all(dim.dim_value == 1 for dim in value.type.tensor_type.shape.dim)
    }


def fix_choices(model: ModelProto, define: Mapping[str, int]) -> None:
    """Makes constants of the inputs whose values ``define`` gives, in place.

    Raises:
        ModelError: the type of the input has no such number.
    """
    for name, tensor_type in choices(model).items():
        if name not in define:
            continue
        dtype = helper.tensor_dtype_to_np_dtype(tensor_type.elem_type)
        value = np.array(define[name])
        if value.astype(dtype).astype(value.dtype) != value:
            kind = element_name(tensor_type.elem_type)
            raise ModelError(
                f"--define {name}={define[name]}: the input is {kind}, which has no such value"
            )
        shape = [1] * len(tensor_type.shape.dim)
        model.graph.initializer.append(
            numpy_helper.from_array(value.astype(dtype).reshape(shape), name)
        )
        put(model.graph.input, (value for value in model.graph.input if value.name != name))


def take_known_branches(model: ModelProto) -> Branches:
    """Replaces each If whose condition is known, in place, those in the branches that take its place included.

    None is replaced where ONNX Runtime then refuses the model: it is stricter about ops whose shapes it knows, and knows
    fewer in branches.
    """
    taken: list[tuple[str, bool]] = []
    opened = deepcopy(model)
    while any(node.op_type == "If" for node in opened.graph.node):
        found = tuple(_known_conditions(opened).items())
        if not found:
            break
        take_branches(opened, found)
        taken += found
    if not taken or (not is_accepted(opened) and is_accepted(model)):
        return ()
    model.CopyFrom(opened)
    return tuple(taken)


def take_branches(model: ModelProto, branches: Branches) -> None:
    """Replaces the Ifs of these keys by the branches that their conditions choose, in place."""
    for key, condition in branches:
        nodes = list(model.graph.node)
        at = next(i for i, node in enumerate(nodes) if key in node.output)
        call = nodes.pop(at)
        nodes[at:at] = _branch(model.graph, nodes, call, condition)
        put(model.graph.node, nodes)


def _known_conditions(model: ModelProto) -> dict[str, bool]:
    """Key of each If of the main graph whose condition is known -> the condition."""
    values, _ = infer_types(deepcopy(model))
    replaceable = {value.name for value in model.graph.input}
    constants = {t.name: t for t in model.graph.initializer if t.name not in replaceable}
    for name, tensor in constants.items():
        values.setdefault(name, (element_name(tensor.data_type), tuple(tensor.dims)))
    static = StaticValues(model, values, constants, EXACT_TYPES)
    found = {}
    for node in model.graph.node:
        static.compute(node)
        if node.op_type == "If" and node.domain in ("", "ai.onnx") and len(bodies_of(node)) == 2:
            key = next(filter(None, node.output), "")
            condition = static.value(node.input[0]) if node.input else None
            if key and condition is not None and condition.size == 1:
                found[key] = bool(condition.item())
    return found


def _branch(
    graph: GraphProto, others: Sequence[NodeProto], call: NodeProto, condition: bool
) -> list[NodeProto]:
    """The ops of a branch of an If; its weights are added to the graph."""
    wanted = "then_branch" if condition else "else_branch"
    scope = call.name or next(filter(None, call.output))
    body = deepcopy(next(a.g for a in call.attribute if a.name == wanted))
    outside = {tensor.name for tensor in graph.initializer}
    outside |= {sparse.values.name for sparse in graph.sparse_initializer}
    outside |= {value.name for value in (*graph.input, *graph.output)}
    outside |= set(values_in(others))
    computed = {name for node in body.node for name in node.output if name}
    names: dict[str, str] = {}
    copies = []
    for inner, result in zip(body.output, call.output, strict=False):
        if not result:
            continue
        if inner.name in computed and inner.name not in names:
            names[inner.name] = result
        else:  # a weight, a value from outside, or the same value twice
            copies.append((inner.name, result))
    for name in values_in(body.node):
        if name in outside and name not in names:
            names[name] = distinct_name(f"{scope}/{name}", outside)
    for tensor in (*body.initializer, *(sparse.values for sparse in body.sparse_initializer)):
        if tensor.name in outside:
            names[tensor.name] = distinct_name(f"{scope}/{tensor.name}", outside)
    del body.output[:]
    rename_values(body, names)
    graph.initializer.extend(body.initializer)
    graph.sparse_initializer.extend(body.sparse_initializer)
    graph.value_info.extend(body.value_info)
    return [
        *body.node,
        *(
            helper.make_node("Identity", [names.get(inner, inner)], [result], f"{result}/result")
            for inner, result in copies
        ),
    ]
