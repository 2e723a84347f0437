"""Fixes the sizes of dimensions that a model states, and proposes those that it leaves open.

Exporters compute the targets of a Reshape from ``Shape`` ops. Once the sizes of the inputs are fixed, these ops read nothing,
and what is computed from their results is constant: ONNX Runtime and OpenVINO evaluate it when they load the model. Placed as
work, such a chain of small integers makes a transfer of the whole tensor, and falls off every accelerator.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from math import prod

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from editor.graph.asked_types import infer_types
from editor.graph.graph import Graph, Ints
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


SIZES = {
    "batch": 1,
    "sequence": 128,
    "past": 127,
    "total": 128,
    "image": 224,
    "channels": 3,
    "unknown": 1,
}
"""What a dimension stands for -> its size."""
_PATTERNS = (
    (r"past.*\+|total|kv_?len|max_?len", "total"),
    (r"past|cache|memory_?len", "past"),
    (r"batch|^b$|^n$|^none$|num_?images|beam", "batch"),
    (r"height|width|^h$|^w$|image_?size|pixels", "image"),
    (r"channel|^c$", "channels"),
    (r"seq|length|tokens?|^t$|^s$|^l$|time|frames", "sequence"),
)
_UNNAMED = re.compile(r"(?P<input>.*)\[(?P<axis>\d+)\]", re.DOTALL)


def proposed_sizes(graph: Graph) -> dict[str, int]:
    """A size for each symbol without one: 1 for batches, 128 for sequences, 127 for what a decoder has seen, 224 for images.

    A decoder with a past reads one new token. Symbols that nothing is known of get 1.
    """
    places = _places(graph)
    meaning = {
        name: _by_name(name) or _by_place(*places.get(name, ("", 0, 0, "")))
        for name in graph.unbound
    }
    one_token = "past" in meaning.values()
    return {
        name: 1 if one_token and what == "sequence" else SIZES[what]
        for name, what in meaning.items()
    }


def sizes_text(sizes: Mapping[str, int]) -> str:
    """E.g. "batch=1, sequence=128"."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _by_name(name: str) -> str:
    if _UNNAMED.fullmatch(name):
        return ""
    text = name.lower().removesuffix("_size").removesuffix("_dim")
    return next((what for pattern, what in _PATTERNS if re.search(pattern, text)), "")


def _by_place(kind: str, rank: int, axis: int, tensor: str) -> str:
    """By the axis of an input without a name: images have four axes, token ids are whole numbers with two."""
    if axis == 0:
        return "batch"
    if rank == 4:
        return "channels" if axis == 1 else "image"
    if rank in (2, 3) and axis == 1 and (kind.startswith("int") or rank == 3 or "mask" in tensor):
        return "sequence"
    return "unknown"


def _places(graph: Graph) -> dict[str, tuple[str, int, int, str]]:
    """Symbol -> type, rank and axis of the first input that has it, and that input's name."""
    found: dict[str, tuple[str, int, int, str]] = {}
    for tensor in graph.inputs.tolist():
        name, shape = graph.tensor_names[tensor], graph.tensor_shapes[tensor] or ()
        for axis, size in enumerate(shape):
            if not isinstance(size, int) or size < 0:
                for symbol in (str(size), f"{name}[{axis}]"):
                    found.setdefault(symbol, (graph.tensor_types[tensor], len(shape), axis, name))
    return found
