"""Estimates the work of ops, in floating-point operations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from editor.graph.graph import Graph, Ints, Shape, cached_per_graph

FUSIBLE_TYPES = frozenset(
    {
        "Relu",
        "LeakyRelu",
        "PRelu",
        "Clip",
        "Sigmoid",
        "Tanh",
        "HardSigmoid",
        "HardSwish",
        "Elu",
        "Selu",
        "Gelu",
        "Mish",
        "Swish",
        "Softplus",
        "Softsign",
        "Erf",
        "Exp",
        "Log",
        "Sqrt",
        "Pow",
        "Neg",
        "Abs",
        "Reciprocal",
        "Floor",
        "Ceil",
        "Round",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Sum",
        "Min",
        "Max",
        "Where",
        "BatchNormalization",
        "Pad",
        "Dropout",
        "Identity",
        "Cast",
        "CastLike",
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
        "QuantizeLinear",
        "DequantizeLinear",
        "ReduceMean",
    }
)
"""Element-wise ops, and ops that only describe or move data."""

RENAMING_TYPES = frozenset({"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout"})
"""Ops whose result is what they read, with another name or shape."""
OVERWRITING_TYPES = FUSIBLE_TYPES - RENAMING_TYPES - {"Transpose", "Pad", "ReduceMean"}
"""Ops that runtimes compute in the memory of what they read, where it has the right size and nothing reads it later."""


Floats = npt.NDArray[np.float64]

# Operations per output element; other ops have one.
_PER_ELEMENT = {
    "Softmax": 5,
    "LogSoftmax": 6,
    "Gelu": 8,
    "Erf": 8,
    "Tanh": 8,
    "Sigmoid": 4,
    "Exp": 4,
    "Log": 4,
    "Pow": 8,
    "Sqrt": 4,
    "HardSwish": 4,
    "Mish": 10,
    "LayerNormalization": 8,
    "InstanceNormalization": 8,
    "GroupNormalization": 8,
    "BatchNormalization": 2,
    "Resize": 8,
    "Upsample": 8,
    "LRN": 10,
}
# Ops that move or describe data without arithmetic.
_NO_WORK = frozenset(
    {
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Identity",
        "Shape",
        "Size",
        "Constant",
        "Transpose",
        "Concat",
        "Split",
        "Slice",
        "Gather",
        "GatherElements",
        "GatherND",
        "Expand",
        "Tile",
        "Pad",
        "DepthToSpace",
        "SpaceToDepth",
        "Cast",
        "ScatterND",
        "ScatterElements",
        "ConstantOfShape",
        "Dropout",
    }
)


@cached_per_graph
def op_flops(graph: Graph) -> Floats:
    """[op] floating-point operations of one run; 0 where shapes are unknown. Cached per graph."""
    flops = np.array([_flops(graph, op) for op in range(len(graph))], np.float64)
    flops.flags.writeable = False
    return flops


def op_bytes(graph: Graph, tensor_bytes: Ints | None = None) -> Floats:
    """[op] bytes read and written; tensors of unknown size count 0. ``tensor_bytes`` replaces the sizes of the model."""
    sizes = np.maximum(graph.tensor_bytes if tensor_bytes is None else tensor_bytes, 0).astype(
        np.float64
    )
    read = np.bincount(graph.op_reads.row_of_value, sizes[graph.op_reads.values], len(graph))
    made = graph.op_outputs.values >= 0
    written = np.bincount(
        graph.op_outputs.row_of_value[made], sizes[graph.op_outputs.values[made]], len(graph)
    )
    return np.asarray(read + written, np.float64)


_READS_A_PART = {
    "Gather": (0,),
    "GatherElements": (0,),
    "GatherND": (0,),
    "GatherBlockQuantized": (0,),
    "Slice": (0,),
    "EmbedLayerNormalization": (2, 3, 4),
}
"""Type -> inputs of which an op reads no more than it writes: rows of an embedding, and not the table."""


def op_traffic(graph: Graph, tensor_bytes: Ints | None = None) -> Floats:
    """[op] bytes that pass through memory in a run: ``op_bytes``, without what is not read of the inputs."""
    traffic = op_bytes(graph, tensor_bytes)
    sizes = np.maximum(graph.tensor_bytes if tensor_bytes is None else tensor_bytes, 0)
    for op, kind in enumerate(graph.op_types):
        if kind in _READS_A_PART:
            inputs, outputs = graph.op_inputs[op].tolist(), graph.op_outputs[op].tolist()
            written = max((int(sizes[t]) for t in outputs if t >= 0), default=0)
            for i in _READS_A_PART[kind]:
                if i < len(inputs) and inputs[i] >= 0:
                    traffic[op] -= max(int(sizes[inputs[i]]) - written, 0)
    return traffic


@cached_per_graph
def op_work(graph: Graph) -> Floats:
    """[op] its work in one number, by which ops of one kernel share its time: operations, and bytes times 4. Cached."""
    work = np.asarray(op_flops(graph) + 4.0 * op_traffic(graph) + 1.0, np.float64)
    work.flags.writeable = False
    return work


def work_shares(graph: Graph, ops: Sequence[int]) -> list[float]:
    """Share of each op in the time of the kernel that computes them all; the shares add up to 1."""
    if len(ops) == 1:
        return [1.0]
    work = op_work(graph)[list(ops)]
    return list((work / work.sum()).tolist())


def _flops(graph: Graph, op: int) -> float:
    kind = graph.op_types[op]
    results = [t for t in graph.op_outputs[op].tolist() if t >= 0]
    out = _elements(graph.tensor_shapes[results[0]]) if results else 0
    if kind in _NO_WORK:
        return 0.0
    shapes = [graph.tensor_shapes[t] if t >= 0 else None for t in graph.op_inputs[op].tolist()]
    if kind in ("Conv", "ConvInteger", "QLinearConv", "DeformConv"):
        weight = (
            shapes[3]
            if kind == "QLinearConv" and len(shapes) > 3
            else shapes[1]
            if len(shapes) > 1
            else None
        )
        return 2.0 * out * _each(weight, shapes[0])
    if kind == "ConvTranspose":
        return 2.0 * _elements(shapes[0]) * _each(shapes[1] if len(shapes) > 1 else None, shapes[0])
    if kind in ("MatMul", "Gemm", "MatMulInteger", "QLinearMatMul"):
        return 2.0 * out * _inner(graph, op, shapes)
    if kind in ("LSTM", "GRU", "RNN"):
        return (
            2.0
            * sum(_elements(s) for s in shapes[1:3])
            * _elements(shapes[0][:2] if shapes[0] else None)
        )
    if kind in ("MaxPool", "AveragePool", "LpPool"):
        window = next(
            (text for name, text in graph.op_attributes[op] if name == "kernel_shape"), "[1]"
        )
        return float(
            out * prod(int(d) for d in window.strip("[]").split(",") if d.strip().isdigit())
        )
    if kind.startswith("Reduce") or kind in (
        "GlobalAveragePool",
        "GlobalMaxPool",
        "ArgMax",
        "ArgMin",
    ):
        return float(_elements(shapes[0] if shapes else None))
    return float(out * _PER_ELEMENT.get(kind, 1))


def _each(weight: Shape | None, operand: Shape | None) -> int:
    """Multiplications for each element of a convolution; OpenVINO's weights begin with the number of groups."""
    if not weight:
        return 0
    return _elements(weight[2:] if operand and len(weight) == len(operand) + 1 else weight[1:])


def _inner(graph: Graph, op: int, shapes: list[Shape | None]) -> int:
    first = shapes[0] if shapes else None
    if not first:
        return 0
    transposed = ("transA", "1") in graph.op_attributes[op]
    inner = first[0] if transposed else first[-1]
    return inner if isinstance(inner, int) else 0


def _elements(shape: Shape | None) -> int:
    if shape is None or any(not isinstance(d, int) for d in shape):
        return 0
    return min(prod(d for d in shape if isinstance(d, int)), 1 << 52)
