"""Finds the ops whose whole numbers stay small by the graph itself: sizes, positions, counts and masks.

A device that computes int64 as int32, or float64 as float32, computes these right. A tensor is small where its values come
from shapes and from constants that fit, or where an op reads it that could not run otherwise (an index within an axis, a
size of a tensor); and what is read only as a position may be narrowed, whatever it is.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

from editor.graph.graph import Bools, Graph

WIDE = frozenset({"int32", "int64", "uint32", "uint64", "float64"})
"""Element types that devices narrow; those of 16 bits and less fit in whatever they compute in."""
_SHORT = frozenset({"bool", "int8", "uint8", "int16", "uint16", "int4", "uint4", "int2", "uint2"})
_LARGEST = 1 << 24
"""Whole numbers up to this are exact in float32."""
_MOST_ELEMENTS = 1 << 22
_BOUNDED = frozenset(
    {
        ("AffineGrid", 1),
        ("CenterCropPad", 1),
        ("ConstantOfShape", 0),
        ("Expand", 1),
        ("Gather", 1),
        ("GatherBlockQuantized", 1),
        ("GatherElements", 1),
        ("GatherND", 1),
        ("Loop", 0),
        ("OneHot", 1),
        ("Range", 1),
        ("Reshape", 1),
        ("Resize", 3),
        ("ReverseSequence", 1),
        ("Scatter", 1),
        ("ScatterElements", 1),
        ("ScatterND", 1),
        ("SequenceAt", 1),
        ("Split", 1),
        ("TensorScatter", 2),
        ("Tile", 1),
        ("TopK", 1),
        *(("EmbedLayerNormalization", i) for i in (0, 1, 8)),
        *(("GroupQueryAttention", i) for i in (5, 6)),
        *((recurrent, 4) for recurrent in ("GRU", "LSTM", "RNN")),
    }
)
"""(type, position) of operands that an op accepts only up to the size of a tensor."""
_POSITIONS = _BOUNDED | {
    ("CumSum", 1),
    ("MaxUnpool", 1),
    ("NonMaxSuppression", 2),
    ("OneHot", 0),
    ("Pad", 1),
    ("Pad", 3),
    ("Range", 0),
    ("Range", 2),
    ("RotaryEmbedding", 1),
    ("RotaryEmbedding", 3),
    ("SequenceErase", 1),
    ("SequenceInsert", 2),
    ("Slice", 1),
    ("Slice", 2),
    ("Slice", 3),
    ("Slice", 4),
    ("SplitToSequence", 1),
    ("Squeeze", 1),
    ("Trilu", 1),
    ("Unsqueeze", 1),
}
"""The same, with those that end at the end of an axis where they are larger, and numbers of axes."""
_SAME_VALUES = frozenset(
    {"Expand", "Flatten", "Identity", "ReduceMax", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
)
"""Ops whose result is within bounds only if their first operand is, before or after a cast."""
_PASSES: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(_SAME_VALUES, (0,)),
    **dict.fromkeys(("Cast", "CumSum", "Gather", "GatherElements", "GatherND"), (0,)),
    **dict.fromkeys(("Pad", "ReduceMin", "ReduceSum", "Slice", "Split", "Tile"), (0,)),
    **dict.fromkeys(("Add", "Mul", "Sub", "Max", "Min"), (0, 1)),
    "Clip": (0, 1, 2),
    "Concat": (),
    "ScatterElements": (0, 2),
    "ScatterND": (0, 2),
    "Where": (1, 2),
}
"""Op type -> operands whose values become values of the result; none named: all."""
_WITH_SMALL_OTHERS = frozenset({"Add", "Mul", "Sub", "Max", "Min", "Clip"})
_COUNTS: Mapping[str, tuple[int, ...]] = {
    "ArgMax": (0,),
    "ArgMin": (0,),
    "NonMaxSuppression": (0,),
    "NonZero": (0,),
    "Shape": (0,),
    "Size": (0,),
    "TopK": (1,),
    "Unique": (1, 2, 3),
}
"""Op type -> outputs that are sizes, counts and positions."""
_STAYS_SMALL = frozenset(_PASSES) | {
    "Abs",
    "Ceil",
    "Compress",
    "Concat",
    "ConstantOfShape",
    "DequantizeLinear",
    "Div",
    "EyeLike",
    "Floor",
    "Log",
    "Mod",
    "Neg",
    "OneHot",
    "Range",
    "ReduceMean",
    "ReduceProd",
    "Relu",
    "ReverseSequence",
    "Round",
    "Sign",
    "Sqrt",
    "Sum",
    "Trilu",
}
"""Ops whose results are of the order of their operands."""


def fitting_constants(model: ModelProto) -> frozenset[str]:
    """Names of the constants of the main graph, not those in other files, whose values fit in 24 bits."""
    found = [(t.name, t) for t in model.graph.initializer]
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "value" and attribute.HasField("t") and node.output:
                found.append((node.output[0], attribute.t))
            elif attribute.name in ("value_int", "value_ints") and node.output:
                numbers = [*attribute.ints, attribute.i]
                found.append((node.output[0], numpy_helper.from_array(np.array(numbers))))
    return frozenset(name for name, tensor in found if _fits(tensor))


def _fits(tensor: TensorProto) -> bool:
    count = int(np.prod(tensor.dims, dtype=np.float64))
    is_whole = tensor.data_type in (
        TensorProto.INT32,
        TensorProto.INT64,
        TensorProto.UINT32,
        TensorProto.UINT64,
    )
    is_real = tensor.data_type in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
    if (
        not (is_whole or is_real)
        or tensor.data_location == TensorProto.EXTERNAL
        or count > (_MOST_ELEMENTS if is_whole else 64)
    ):
        return False
    try:
        values = numpy_helper.to_array(tensor)
    except (ValueError, TypeError):  # the model is damaged: loading says so
        return False
    if not values.size:
        return True
    if not -_LARGEST <= float(values.min()) <= float(values.max()) <= _LARGEST:  # nor NaN
        return False
    return tensor.data_type != TensorProto.DOUBLE or bool(
        np.all(values == values.astype(np.float32))
    )


def keeps_values(graph: Graph, fitting: frozenset[str]) -> Bools:
    """[op] whether whole numbers and float64 that it reads and makes are kept by a device that narrows them.

    Args:
        graph: the ops.
        fitting: see ``fitting_constants``.
    """
    is_wide = np.array([kind in WIDE for kind in graph.tensor_types], bool)
    small = _small(graph, fitting, _proven(graph))
    places = _only_places(graph, small)
    for _ in range(2):  # what is read as a position only is small for the ops that follow
        small = _small(graph, fitting, small | places)
        places = _only_places(graph, small)
    fine = ~is_wide | small | places
    kept = np.zeros(len(graph), bool)
    for op in range(len(graph)):
        inputs, kind = graph.op_inputs[op].tolist(), graph.op_types[op]
        named = {
            t: (kind, p) in _POSITIONS or kind in ("Shape", "Size") for p, t in enumerate(inputs)
        }
        kept[op] = all(fine[t] or named.get(t, False) for t in graph.op_reads[op].tolist()) and all(
            t < 0 or fine[t] for t in graph.op_outputs[op].tolist()
        )
    return kept


def _proven(graph: Graph) -> Bools:
    """[tensor] whether an op reads it that could not run if it were large, or it is a mask by its name."""
    proven = np.zeros(len(graph.tensor_names), bool)
    for tensor in graph.inputs.tolist():
        proven[tensor] = "mask" in graph.tensor_names[tensor].lower()
    for op in graph.order[::-1].tolist():
        kind, inputs = graph.op_types[op], graph.op_inputs[op].tolist()
        for position, tensor in enumerate(inputs):
            if tensor >= 0 and (kind, position) in _BOUNDED:
                proven[tensor] = True
        moves = kind in _SAME_VALUES or (kind == "Cast" and _is_whole(graph, op))
        results = graph.op_outputs[op].tolist()
        if moves and inputs and inputs[0] >= 0 and results and results[0] >= 0:
            proven[inputs[0]] |= proven[results[0]]
    return proven


def _is_whole(graph: Graph, op: int) -> bool:
    """Whether a cast leads from whole numbers to whole numbers of at least 32 bits."""
    return all(
        graph.tensor_types[t] in WIDE and graph.tensor_types[t] != "float64"
        for t in (*graph.op_inputs[op].tolist(), *graph.op_outputs[op].tolist())
        if t >= 0
    )


def _small(graph: Graph, fitting: frozenset[str], known: Bools) -> Bools:
    """[tensor] whether its values fit, as far as the ops that make it show."""
    small: Bools = known | np.array(
        [
            kind in _SHORT or name in fitting
            for kind, name in zip(graph.tensor_types, graph.tensor_names, strict=True)
        ],
        bool,
    )
    for op in graph.order.tolist():
        kind, results = graph.op_types[op], graph.op_outputs[op].tolist()
        for position in _COUNTS.get(kind, ()):
            if position < len(results) and results[position] >= 0:
                small[results[position]] = True
        if kind not in _STAYS_SMALL:
            continue
        operands = graph.op_inputs[op].tolist()
        if kind == "Mod":  # the rest is smaller than the divisor
            operands = operands[1:]
        filled = any(name == "value" for name, _ in graph.op_attributes[op])
        if kind == "ConstantOfShape" and filled and graph.op_keys[op] not in fitting:
            continue
        if operands and all(
            small[t] or (kind, p) in _POSITIONS for p, t in enumerate(operands) if t >= 0
        ):
            small[[t for t in results if t >= 0]] = True
    return small


def _only_places(graph: Graph, small: Bools) -> Bools:
    """[tensor] whether everything that reads it takes it as a position, a size, a count or a mask."""
    places = np.zeros(len(graph.tensor_names), bool)
    refused = places.copy()
    refused[graph.outputs] = True
    for op in graph.order[::-1].tolist():
        kind, inputs = graph.op_types[op], graph.op_inputs[op].tolist()
        results = [t for t in graph.op_outputs[op].tolist() if t >= 0]
        passes = kind in _PASSES and all(
            (places[t] and not refused[t]) or _is_mask(graph, kind, t) for t in results
        )
        positions = _PASSES.get(kind) or range(len(inputs))
        for tensor in graph.op_reads[op].tolist():
            at = [p for p, t in enumerate(inputs) if t == tensor]
            others_fit = all(small[t] or t == tensor or t < 0 for t in inputs)
            if kind in ("Shape", "Size"):
                continue
            if at and all(
                (kind, p) in _POSITIONS
                or (passes and p in positions and (others_fit or kind not in _WITH_SMALL_OTHERS))
                for p in at
            ):
                places[tensor] = True
            else:
                refused[tensor] = True
    found: Bools = places & ~refused
    return found


def _is_mask(graph: Graph, kind: str, tensor: int) -> bool:
    """Whether a tensor is what a cast makes of a mask, for ops to read."""
    return (
        kind == "Cast"
        and graph.tensor_types[tensor] == "bool"
        and len(graph.readers[tensor]) > 0
        and tensor not in graph.outputs
    )
