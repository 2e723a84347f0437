"""Finds the ops that only read sizes which the inputs fix: they are constants.

Exporters compute the targets of a Reshape from ``Shape`` ops. Once the sizes of the inputs are fixed, these ops read nothing,
and what is computed from their results is constant: ONNX Runtime and OpenVINO evaluate it when they load the model. Placed as
work, such a chain of small integers makes a transfer of the whole tensor, and falls off every accelerator.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from editor.graph.graph import Graph, Ints
from editor.graph.inference import infer_types
from editor.graph.static_values import ROOTS, is_static


def fixed_sizes(model: ModelProto, replaceable: Collection[str]) -> set[str]:
    """Outputs of ops that read only sizes, where these follow from the sizes of the model's inputs.

    Args:
        model: nodes in topological order; what it declares of other tensors than inputs is not relied on, it may be wrong.
        replaceable: initializers that a run may replace.
    """
    readers = [
        node
        for node in model.graph.node
        if _reads_a_size(node) and node.input[0] not in replaceable
    ]
    if not readers:
        return set()
    undeclared = ModelProto()
    undeclared.CopyFrom(model)
    undeclared.graph.ClearField("value_info")
    for output in undeclared.graph.output:
        output.ClearField("type")
    inferred, _ = infer_types(undeclared)
    sizes = {t.name for t in model.graph.initializer}
    return {
        node.output[0]
        for node in readers
        if node.input[0] in sizes or is_static(inferred.get(node.input[0]))
    }


def _reads_a_size(node: NodeProto) -> bool:
    return (
        node.op_type in ROOTS
        and node.domain in ("", "ai.onnx")
        and len(node.input) == 1
        and len(node.output) == 1
        and bool(node.input[0] and node.output[0])
    )


def size_of(graph: Graph, source: ModelProto, op: int) -> Ints:
    """The result of an op that reads a fixed size (``Graph.op_is_size``)."""
    node = source.graph.node[op]
    sizes = np.array(graph.tensor_shapes[int(graph.op_inputs[op][0])], np.int64)
    if node.op_type == "Size":
        return np.array(prod(sizes.tolist()), np.int64)
    ends = {a.name: a.i for a in node.attribute}
    return sizes[ends.get("start", 0) : ends.get("end", len(sizes))]


def node_of(graph: Graph, source: ModelProto, op: int) -> NodeProto:
    """The node of an op in the model file, or a Constant in place of one that reads a fixed size."""
    node: NodeProto = source.graph.node[op]
    if graph.op_is_size[op]:
        value = numpy_helper.from_array(size_of(graph, source, op))
        node = helper.make_node("Constant", [], [node.output[0]], node.name, value=value)
    return node
