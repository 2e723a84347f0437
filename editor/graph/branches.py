"""Puts a branch in the place of an If whose condition is known, so that the ops of the branch can be placed.

A condition is known where it follows from constants, from the sizes of the inputs, or from an input whose value was chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TypeProto, helper, numpy_helper

from editor.errors import ModelError
from editor.graph.asked_types import infer_types, is_accepted
from editor.graph.attributes import bodies_of, distinct_name, rename_values, values_in
from editor.graph.graph import element_name
from editor.graph.static_values import EXACT_TYPES, StaticValues

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
        kept = [value for value in model.graph.input if value.name != name]
        del model.graph.input[:]
        model.graph.input.extend(kept)


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
        del model.graph.node[:]
        model.graph.node.extend(nodes)


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
