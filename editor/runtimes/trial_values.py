"""Chooses the values on which single ops are tried, and judges what a device makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isqrt, prod
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import (
    AttributeProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from editor.graph.attributes import bodies_of, nodes_within
from editor.graph.external_data import is_external
from editor.graph.fitting_operands import OpShapes, lengths
from editor.graph.graph import shape_of

Array = npt.NDArray[Any]

_SIZE = 2
"""Of a dimension that the model leaves open."""
_MAX_ELEMENTS = 1 << 24
KEPT_BITS, ALL_BITS = 0, 64
"""Whole numbers and float64 as sizes and positions have them; and as the element type has them. Between these: the bits
that whole numbers have at most."""
_COMPARISONS = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
_BITWISE = frozenset({"BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"})
_DATA_OPS = _COMPARISONS | {
    "Abs",
    "Add",
    "BitShift",
    "Cast",
    "Div",
    "MatMulInteger",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Neg",
    "Pow",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceSum",
    "Sign",
    "Sub",
    "Sum",
    "Transpose",
}
"""Ops whose whole numbers are data. Those of others are mostly positions and sizes, for which 0 is safe; a divisor of 0 is
not."""
_MOVED = {
    **dict.fromkeys(
        (
            *("Abs", "ArgMax", "ArgMin", "Cast", "CastLike", "Compress", "DepthToSpace", "Expand"),
            *("Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Neg", "ReduceMax"),
            *("ReduceMin", "Reshape", "ReverseSequence", "Sign", "Slice", "SpaceToDepth", "Split"),
            *("Squeeze", "Tile", "TopK", "Transpose", "Trilu", "Unique", "Unsqueeze"),
        ),
        (0,),
    ),
    **dict.fromkeys(_COMPARISONS | _BITWISE, (0, 1)),
    "Clip": (0,),
    "OneHot": (2,),
    "Pad": (0, 2),
    "ScatterElements": (0, 2),
    "ScatterND": (0, 2),
    "Where": (1, 2),
}
"""Op type -> operands whose values it moves, compares or changes in sign, however large they are."""
_ALL_OPERANDS = frozenset({"Add", "Concat", "Max", "Mean", "Min", "Sub", "Sum"})
_SUMS = frozenset({"CumSum", "ReduceL1", "ReduceMean", "ReduceSum"})
_SQUARES = frozenset({"Gemm", "MatMul", "ReduceL2", "ReduceSumSquare"})
_SHAPE_OPERANDS = {"Reshape": 1, "Expand": 1, "Resize": 3, "ConstantOfShape": 0}
"""Position of the operand that has the shape of the result."""
_OPERANDS = {
    ("Slice", 2): 1 << 30,
    ("Slice", 4): 1,
    ("Tile", 1): 2,
    ("TopK", 1): 1,
    ("OneHot", 1): 3,
    ("Range", 1): 3,
    ("Range", 2): 1,
}
"""(type, position) of operands that are positions or sizes -> a value that does more than 0 would."""
_ANY_MAGNITUDE = _COMPARISONS | {
    *("Abs", "Add", "Ceil", "Clip", "Concat", "Div", "Elu", "Expand", "Flatten", "Floor", "Gather"),
    *("Identity", "LeakyRelu", "Max", "Min", "Mul", "Neg", "PRelu", "Reciprocal", "Relu"),
    *("Reshape", "Round", "Sigmoid", "Sign", "Slice", "Softsign", "Split", "Sqrt", "Squeeze"),
    *("Sub", "Sum", "Tanh", "Transpose", "Unsqueeze", "Where"),
}
"""Ops that compute each value by itself, whatever its magnitude."""
_NORMALISED = {
    **dict.fromkeys(("GroupNorm", "GroupNormalization", "InstanceNormalization"), (0,)),
    **dict.fromkeys(
        ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"), (0,)
    ),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), (0, 1)),
    "SkipGroupNorm": (0, 3),
}
"""Op type -> operands whose variance ``epsilon`` is added to."""
_SMALL = 3e-3
"""Their magnitude: the variance is then about the usual ``epsilon``, so that another one shows."""
_GRID = np.array([-1, 0, 0.4, -0.5, 1, 0.5, 1 / 3, -1.2, -9, 5, -1 / 3, 2 / 3, -2 / 3])
"""Where images are sampled."""
_ODD = _ANY_MAGNITUDE | {
    *("Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "Log", "MaxPool"),
    *("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LogSoftmax", "Mish", "Pow"),
    *("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Selu"),
    *("Softmax", "Softplus", "ThresholdedRelu"),
}
"""Ops that are tried on NaN and infinities, too."""
_LOOSE = {"": 0.05, "tf32": 0.05, "bf16": 0.15, "f16": 0.05}
"""Largest difference to the largest magnitude, by precision: this is about ops that are wrong, not about rounding."""
_FLOAT64 = 1e-9
"""The same of float64, which float32 misses by 100 times."""


def trial_inputs(model: ModelProto, bits: int = KEPT_BITS) -> dict[str, Any] | None:
    """A value for each input of a model of one op; None where an input is not a tensor, or too large.

    Args:
        model: the op is its last node.
        bits: of whole numbers that are data; results stay within the element type.
    """
    feeds = {}
    for info in model.graph.input:
        value = _value(info, model, bits)
        if value is None:
            return None
        feeds[info.name] = value
    return feeds


def odd_inputs(model: ModelProto, feeds: dict[str, Any]) -> dict[str, Any] | None:
    """The same inputs with NaN and infinities; None where there is nothing to learn from them."""
    node = model.graph.node[-1]
    if node.op_type not in _ODD:
        return None
    for name in node.input:
        value = feeds.get(name)
        if value is not None and value.dtype.kind == "f" and value.size > 3:
            odd = value.copy()
            flat = odd.reshape(-1)
            flat[0], flat[flat.size // 2], flat[-1] = np.nan, np.inf, -np.inf
            return {**feeds, name: odd}
    return None


def has_lengths(model: ModelProto) -> bool:
    """Whether an input of the op says how much of another one counts, so that no other value is known to fit."""
    shapes = _op_shapes(model)
    inputs = {value.name for value in model.graph.input}
    return any(
        name in inputs and lengths(shapes, position) is not None
        for position, name in enumerate(model.graph.node[-1].input)
    )


def narrowed_kind(model: ModelProto) -> str:
    """The widest whole numbers that the op of a model reads or makes, or float64; "" where it has neither."""
    kinds = {
        value.type.tensor_type.elem_type
        for values in (model.graph.input, model.graph.output)
        for value in values
    } | {tensor.data_type for tensor in model.graph.initializer}
    wide = {
        TensorProto.DOUBLE: "float64",
        TensorProto.INT64: "int64",
        TensorProto.UINT64: "uint64",
        TensorProto.UINT32: "uint32",
        TensorProto.INT32: "int32",
    }
    return next((name for kind, name in wide.items() if kind in kinds), "")


def _value(info: ValueInfoProto, model: ModelProto, bits: int) -> Array | None:
    kind = info.type.tensor_type
    if (
        not info.type.HasField("tensor_type")
        or not kind.HasField("shape")
        or kind.elem_type == TensorProto.STRING
    ):
        return None
    shape = [d.dim_value if d.HasField("dim_value") else _SIZE for d in kind.shape.dim]
    if (
        min(shape, default=0) < 0 or prod(d or 1 for d in shape) > _MAX_ELEMENTS
    ):  # numpy refuses 0 x 2^62, too
        return None
    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
    except KeyError:
        return None
    if dtype.kind not in "biuf":  # numpy lacks it
        return None
    count = prod(shape)
    if dtype.kind == "b":
        return np.asarray(np.arange(count) % 2 == 0).reshape(shape)
    node = model.graph.node[-1]
    position = list(node.input).index(info.name) if info.name in node.input else -1
    if dtype.kind in "iu":
        counted = lengths(_op_shapes(model), position) if position >= 0 else None
        if counted is not None and counted.size == count:
            return counted.astype(dtype).reshape(shape)
        is_data = bits or dtype.itemsize < 4  # sizes and positions have wider types
        wide = (
            _wide_numbers(model, node, position, count, dtype, bits or ALL_BITS)
            if is_data
            else None
        )
        values = _whole_numbers(model, node, position, count) if wide is None else wide
        return values.astype(dtype).reshape(shape)
    return _real_numbers(model, node, position, count, dtype, bits).reshape(shape)


def _op_shapes(model: ModelProto) -> OpShapes:
    """What a model of one op says about it."""
    node = model.graph.node[-1]
    shapes = {v.name: shape_of(v.type) for v in (*model.graph.input, *model.graph.output)}
    shapes |= {t.name: tuple(t.dims) for t in model.graph.initializer}
    for filled in model.graph.node[:-1]:  # constants like the real ones
        sizes = next(t for t in model.graph.initializer if t.name == filled.input[0])
        shapes[filled.output[0]] = tuple(numpy_helper.to_array(sizes).tolist())
    return OpShapes(
        node.op_type,
        [shapes.get(name) for name in node.input],
        [shapes.get(name) for name in node.output],
        {a.name: a.i for a in node.attribute if a.type == AttributeProto.INT},
    )


def _whole_numbers(model: ModelProto, node: NodeProto, position: int, count: int) -> Array:
    """Values that an op accepts for an operand of integers."""
    if _SHAPE_OPERANDS.get(node.op_type) == position:
        result = [
            d.dim_value
            for d in model.graph.output[0].type.tensor_type.shape.dim
            if d.HasField("dim_value")
        ]
        if len(result) == count:
            return np.array(result)
    if (node.op_type, position) in _OPERANDS:
        return np.full(count, _OPERANDS[node.op_type, position])
    return np.arange(count) % 7 + 1 if node.op_type in _DATA_OPS else np.zeros(count)


def _wide_numbers(  # noqa: PLR0912  # one branch per family of ops
    model: ModelProto,
    node: NodeProto,
    position: int,
    count: int,
    dtype: np.dtype[Any],
    bits: int,
) -> Array | None:
    """Values up to the ends of the type with results that it can hold; None where the operand is not data."""
    kind = node.op_type
    top = min(int(np.iinfo(dtype).max), (1 << bits) - 1)
    signed = bool(np.iinfo(dtype).min < 0)
    other = _largest_constant(model, node, position)
    if kind in _SUMS and position == 0:
        return _spread(top // max(count, 1), count, signed)
    if kind in _SQUARES and position < 2:
        return _spread(isqrt(top // max(count, 1)), count, signed)
    if kind == "ReduceProd" and position == 0:
        return np.array([top // 2, *[1] * (count - 1)][:count], object)
    if kind == "Mul":
        return (
            _spread(top // max(other, 8), count, signed) if position == 0 else _few(count, top, 7)
        )
    if kind in ("Div", "Mod"):
        return _spread(top, count, signed) if position == 0 else _few(count, top, isqrt(top))
    if kind == "Pow":
        largest = int(top ** (1 / max(other or 3, 1)))
        return (
            _spread(max(largest - 1, 1), count, signed) if position == 0 else np.arange(count) % 4
        )
    if kind == "BitShift" and position == 0:
        return _spread(top, count, False)
    if kind in _COMPARISONS:
        values = _spread(top - 1, count, signed)
        if position:  # equal, only just not, and in another order where the upper bits are lost
            pick = np.arange(count) % 8
            near = np.array([0, -1, 0, 1, 0, 1, 0, -1], object)[pick]
            values = np.where(np.abs(values) > 4, values + near, values)
            values = np.where(pick == 0, 7, np.where(pick == 7, top - 1, values))
        return values
    if kind in ("ArgMax", "ArgMin"):
        half = top // 2 + 1
        low = [-1, 1 - half, -half] if signed else []
        return np.resize(np.array([1, *low, half - 1, half, 2], object), count)
    if kind in _ALL_OPERANDS:
        room = 1 if kind in ("Concat", "Max", "Min") else 2 * len(node.input)
        values = _spread(max(top // room - 1, 1), count, signed)
        if kind == "Sub" and not signed:  # nothing below 0
            return values // 3 if position else values // 3 + top // 2
        return values[::-1] if position % 2 else values
    if position not in _MOVED.get(kind, ()):
        return None
    if kind == "Cast":
        top = min(top, _largest(node))
    values = _spread(top, count, signed and not (kind == "Cast" and _target(node).kind == "u"))
    return values[::-1] if position == 1 else values


def _spread(top: int, count: int, signed: bool) -> Array:
    """Large and small whole numbers, every second of them negative where the type has these."""
    top = max(top, 1)
    found = [top, top - 1, 1, top // 3 * 2 + 1, 5, top // 7, 2, top // 2 + 1, 7, top // 5]
    values = np.array(found, object)[np.arange(count) % len(found)]
    signs = np.where(np.arange(count) // 2 % 2, -1, 1) if signed else 1
    result: Array = values * signs
    return result


def _few(count: int, top: int, largest: int) -> Array:
    """Small factors and divisors, and one that is larger."""
    found = [3, 2, 7, max(min(largest, top), 1), 1, 5, 11, 13]
    values: Array = np.minimum(np.array(found, object), max(largest, 1))[
        np.arange(count) % len(found)
    ]
    return values


def _largest_constant(model: ModelProto, node: NodeProto, position: int) -> int:
    """The largest magnitude among the other operands that are constants; 0 where there is none."""
    others = {name for i, name in enumerate(node.input) if i != position}
    largest = 0
    for tensor in model.graph.initializer:
        if tensor.name in others and tensor.data_type != TensorProto.STRING:
            values = numpy_helper.to_array(tensor)
            if values.size and values.dtype.kind in "iuf":
                extremes = [abs(float(values.max())), abs(float(values.min()))]
                largest = max(largest, int(min(max(extremes), 2.0**63)))
    return largest


def _target(node: NodeProto) -> np.dtype[Any]:
    code = next((a.i for a in node.attribute if a.name == "to"), TensorProto.FLOAT)
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(code))
    except KeyError:
        return np.dtype(np.float32)


def _largest(node: NodeProto) -> int:
    """What the result of a cast can hold."""
    target = _target(node)
    if target.kind in "iu":
        return int(np.iinfo(target).max)
    return 65_504 if target.itemsize < 4 and target.kind != "b" else 1 << 64


def _real_numbers(  # noqa: PLR0912  # one branch per family of ops
    model: ModelProto, node: NodeProto, position: int, count: int, dtype: np.dtype[Any], bits: int
) -> Array:
    """Normally distributed numbers; with zeros, large and tiny ones where an op computes each value by itself."""
    if (
        node.op_type == "GridSample" and position == 1
    ):  # between pixels, at the edge and far outside, too
        return np.resize(_GRID, count).astype(dtype)
    if position in _NORMALISED.get(node.op_type, ()):
        random = np.random.default_rng([count, position + 1])
        return np.asarray(random.standard_normal(count) * _SMALL, dtype)
    values = np.random.default_rng(count).standard_normal(count)
    if not bits:
        return np.asarray(values, dtype)
    kind, half = node.op_type, dtype.itemsize < 4
    exact = dtype.itemsize == 8 and bits == ALL_BITS
    pick = np.arange(count)
    if kind not in _COMPARISONS:  # two operands with the same values would hide most faults
        values = np.random.default_rng([count, position + 1]).standard_normal(count)
    values = np.abs(values) * np.where(pick % 3 == 1, -1, 1)
    if kind in ("ReduceLogSum", "Pow") and position == 0:
        values = np.abs(values)
    elif kind in ("Acos", "Asin", "Atanh"):
        values = values / 8
    elif kind == "Acosh":
        values = 1 + np.abs(values)
    elif kind == "Clip" and position == 0:
        limit = min(_largest_constant(model, node, position), 60_000)
        values = np.where(pick % 2, values * max(limit, 2) / 3, np.abs(values) * max(limit, 2) / 3)
    elif kind == "Cast":
        target = _target(node)
        if target.kind in "iu":
            info = np.iinfo(target)
            most = 60_000.0 if half else 2.0 ** min(bits, 62)
            high = min(float(info.max) / 1.5, most)
            low = max(float(info.min) / 1.5, -high)
            found = [high, low, 3.7, 0.0, -0.0, high / 7, 1.5, low / 3]
            values = np.array(found)[pick % len(found)]
        elif not half and target.itemsize >= 4:
            values = np.where(pick % 5 == 3, values * 1e30, values)
    elif kind == "IsInf" and exact:
        values = values * 1e300
    elif kind in _COMPARISONS and exact and position:  # what differs in float64 only
        values = values * (1 + 1e-12 * (pick % 3 - 1))
    elif kind in _ANY_MAGNITUDE and position in (0, *_MOVED.get(kind, ())):
        large, tiny = (64.0, 2.0**-12) if half else (1e6, 1e-12)
        if exact:
            large, tiny = 1e12, 1e-60 if kind in ("Sign", "Reciprocal") else tiny
        found = [1.0, 1.0, large, 1.0, 1.0, tiny, 1.0, 0.0, 1.0, -0.0, 1.0]
        values = values * np.array(found)[pick % len(found)]
    return np.asarray(values, dtype)


def is_random(node: NodeProto, constants: Mapping[str, TensorProto] = MappingProxyType({})) -> bool:
    """Whether an op draws numbers, itself or in a body; a Dropout only in training, which may be known from a constant."""
    for each in nodes_within(node):
        try:
            schema: Any = onnx.defs.get_schema(each.op_type, each.domain)
        except onnx.defs.SchemaError:
            continue
        if bodies_of(each) or schema.node_determinism != schema.NodeDeterminism.NonDeterministic:
            continue  # ONNX calls an op with bodies so whatever they hold
        if each.op_type != "Dropout":
            return True
        training = next(iter(each.input[2:]), "")
        known = constants.get(training)
        if training and (known is None or is_external(known) or numpy_helper.to_array(known).any()):
            return True
    return False


def wrong_output(
    expected: Any, actual: Any, precision: str, op_type: str = "", bits: int = KEPT_BITS
) -> str:
    """Returns the fault of an output; "" where it is as expected, or cannot be compared.

    Args:
        expected: a value of the reference.
        actual: the device's.
        precision: of float32 computations of the device; see ``Runtime.precision``.
        op_type: what made it; quantised results may be rounded to the other side.
        bits: see ``trial_inputs``; with all of them whole numbers are exact and float64 is float64.
    """
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return ""
    if expected.shape != actual.shape:
        return f"shape {list(actual.shape)} instead of {list(expected.shape)}"
    if expected.dtype.kind == "b":
        share = float(np.mean(expected != actual)) if expected.size else 0.0
        return f"{share:.0%} of the values are wrong" if share else ""
    numbers = expected.dtype.kind in "iuf" and actual.dtype.kind in "iuf"  # else numpy lacks it
    if not numbers or not expected.size:
        return ""
    if expected.dtype.kind in "iu":
        if bits and expected.dtype.itemsize >= 4:
            gap = int(np.max(np.abs(expected.astype(object) - actual.astype(object))))
            return f"off by up to {gap}" if gap else ""
        off = float(np.max(np.abs(expected.astype(np.float64) - actual.astype(np.float64))))
        rounds = not bits or "Quant" in op_type or "QLinear" in op_type
        return f"off by up to {off:g}" if off > (1 if rounds else 0) else ""
    wide, got = expected.astype(np.float64), actual.astype(np.float64)
    finite = np.isfinite(wide)
    if not finite.any():  # runtimes differ in what they make of NaN
        return ""
    if not np.isfinite(got[finite]).all():
        return "a value is not finite"
    wide, got = wide[finite], got[finite]
    scale = float(np.max(np.abs(wide)))
    exact = bits == ALL_BITS and expected.dtype.itemsize == 8
    tolerance = _FLOAT64 if exact else _LOOSE[precision]
    gaps = np.abs(wide - got)
    if bits and op_type in _ANY_MAGNITUDE:  # each value by itself, small ones beside large ones
        wrong = gaps > tolerance * np.abs(wide) + 1e-3 * tolerance * min(scale, 1.0)
    else:
        wrong = gaps > tolerance * scale + (0 if exact else 1e-6)
    if not wrong.any():
        return ""
    return f"off by up to {np.max(gaps[wrong]):.2g}, where values go up to {scale:.2g}"


def makes_another_of_nan(expected: Sequence[Any], actual: Sequence[Any]) -> str:
    """What a device makes of NaN and infinities that the reference does not, as a verb with its object; "" where nothing."""
    for reference, got in zip(expected, actual, strict=True):
        arrays = isinstance(reference, np.ndarray) and isinstance(got, np.ndarray)
        if not arrays or reference.shape != got.shape:
            continue
        if reference.dtype.kind == "f" and got.dtype.kind == "f":
            if (np.isnan(reference) & ~np.isnan(got)).any():
                return "drops NaN"
            differs = np.isnan(reference) != np.isnan(got)
            differs |= np.isinf(reference) != np.isinf(got)
        elif reference.dtype.kind == "b":
            differs = reference != got
        else:
            continue
        if differs.any():
            return "makes something else of NaN or infinity"
    return ""
