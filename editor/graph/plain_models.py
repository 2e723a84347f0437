"""Which models any process may read and probe, because their size bounds what that needs. See ``editor.sandbox``.

A model is plain when all its ops are known to take time by their number and their operands only. Ops whose cost
depends on values, such as Range, and bodies and functions, which multiply, make it one for a process that can be killed.
"""

from __future__ import annotations

import math
import re

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from editor.graph.graph import Attributes, Graph

PLAIN_BYTES = 16 << 20
"""Larger files are not even parsed in a process that may not be killed: protobuf needs up to 50 times their size."""
_MAX_OPS = 20_000
_MAX_OPERANDS = 64
_LONGEST_LIST = 1 << 24
_MAX_FILLED = 512 << 20
"""Bytes of constants that a runtime may be given to judge the ops that read them."""

_COMPUTE = frozenset(
    {
        "Abs",
        "Acos",
        "Acosh",
        "Add",
        "And",
        "ArgMax",
        "ArgMin",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "AveragePool",
        "BatchNormalization",
        "Cast",
        "CastLike",
        "Ceil",
        "Celu",
        "Clip",
        "Constant",
        "Conv",
        "ConvTranspose",
        "Cos",
        "Cosh",
        "DequantizeLinear",
        "Div",
        "Dropout",
        "Elu",
        "Equal",
        "Erf",
        "Exp",
        "Flatten",
        "Floor",
        "Gelu",
        "Gemm",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "Greater",
        "GreaterOrEqual",
        "HardSigmoid",
        "HardSwish",
        "Hardmax",
        "Identity",
        "InstanceNormalization",
        "LRN",
        "LayerNormalization",
        "LeakyRelu",
        "Less",
        "LessOrEqual",
        "Log",
        "LogSoftmax",
        "MatMul",
        "Max",
        "MaxPool",
        "Mean",
        "Min",
        "Mish",
        "Mod",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "PRelu",
        "Pow",
        "QuantizeLinear",
        "Reciprocal",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
        "Softmax",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Sub",
        "Sum",
        "Tan",
        "Tanh",
        "Transpose",
        "Where",
        "Xor",
    }
)
"""Shape inference looks at the dimensions of their operands."""
_OF_SHAPES = frozenset(
    {
        "Concat",
        "Expand",
        "Gather",
        "GatherElements",
        "GatherND",
        "Reshape",
        "ScatterND",
        "Shape",
        "Size",
        "Slice",
        "Split",
        "Squeeze",
        "Unsqueeze",
    }
)
"""A chain of them can make values of any length in shape inference; alone, as in a probe, it cannot."""
_JOINS = "Concat"
_FROM_LISTS = frozenset({"Reshape", "ConstantOfShape"})
"""The rank of their result is the length of an operand."""
_DIVISORS = frozenset(
    {"group", "kernel_shape", "strides", "dilations", "num_outputs", "size", "block_size"}
)
_NOT_POSITIVE = re.compile(r"-|\b0\b")
_INTEGERS = frozenset({TensorProto.INT64, TensorProto.INT32})


def is_plain(model: ModelProto) -> bool:
    """Whether any process may infer the shapes of a model; its file has at most ``PLAIN_BYTES``."""
    graph = model.graph
    if model.functions or len(graph.node) > _MAX_OPS or not all(map(_is_short, graph.initializer)):
        return False
    if any(map(_is_huge, graph.input)) and any(n.op_type in _FROM_LISTS for n in graph.node):
        return False
    allowed = _COMPUTE | {"Reshape", "Resize", "Upsample", "ConstantOfShape"}
    if not _has_integers(graph):  # then there are no values that Concat could make longer
        allowed |= {_JOINS}
    return all(_is_plain_node(node) and node.op_type in allowed for node in graph.node)


def has_plain_ops(graph: Graph) -> bool:
    """Whether any process may ask a runtime about the ops of a graph, one by one."""
    if (
        len(graph) > _MAX_OPS
        or not graph.is_onnx
        or graph.op_is_atomic.any()
        or any(domain not in ("", "ai.onnx") for domain in graph.op_domains)
    ):
        return False
    if not set(graph.op_types) <= _COMPUTE | _OF_SHAPES or any(
        map(_has_odd_sizes, set(graph.op_attributes))
    ):
        return False
    operands = np.diff(graph.op_inputs.ptr)
    constants = graph.tensor_bytes[graph.tensor_is_constant]
    return bool(
        operands.max(initial=0) <= _MAX_OPERANDS and constants[constants > 0].sum() <= _MAX_FILLED
    )


def _has_odd_sizes(attributes: Attributes) -> bool:
    """Whether an attribute that a runtime may divide by is 0 or negative."""
    return any(name in _DIVISORS and _NOT_POSITIVE.search(text) for name, text in attributes)


def _is_plain_node(node: NodeProto) -> bool:
    return (
        node.domain in ("", "ai.onnx")
        and len(node.input) <= _MAX_OPERANDS
        and len(node.output) <= _MAX_OPERANDS
        and all(_is_plain_attribute(node, attribute) for attribute in node.attribute)
    )


def _is_plain_attribute(node: NodeProto, attribute: AttributeProto) -> bool:
    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        return False
    if (
        attribute.name == "value"
        and node.op_type == "ConstantOfShape"
        and attribute.t.data_type in _INTEGERS
    ):
        return False  # shape inference would write the integers down
    return len(attribute.ints) <= _MAX_OPERANDS and (
        attribute.type != AttributeProto.TENSOR or _is_short(attribute.t)
    )


def _is_short(tensor: TensorProto) -> bool:
    """Whether a tensor cannot state a shape of very many dimensions."""
    return (
        tensor.data_type not in _INTEGERS
        or len(tensor.dims) != 1
        or tensor.dims[0] <= _MAX_OPERANDS
    )


def _is_huge(value: ValueInfoProto) -> bool:
    """Whether a tensor, taken as a list of sizes, would make a shape of very many dimensions."""
    dims = value.type.tensor_type.shape.dim
    return bool(math.prod(max(dim.dim_value, 1) for dim in dims) > _LONGEST_LIST)


def _has_integers(graph: GraphProto) -> bool:
    return any(t.data_type in _INTEGERS and len(t.dims) <= 1 for t in graph.initializer) or any(
        node.op_type in ("Constant", "Cast", "CastLike") for node in graph.node
    )
