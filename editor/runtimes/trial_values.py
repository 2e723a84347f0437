"""Values on which an op is tried, and what counts as a wrong result."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

_SIZE = 2
"""Of a dimension that the model leaves open."""
_MAX_ELEMENTS = 1 << 24
_DATA_OPS = frozenset({
    "Abs", "Add", "BitShift", "Cast", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "MatMulInteger",
    "Max", "Min", "Mod", "Mul", "Neg", "Pow", "ReduceSum", "Sign", "Sub", "Sum", "Transpose"})
"""Ops whose whole numbers are data. Those of others are mostly positions and sizes, for which 0 is safe; a divisor of 0 is
not."""
_SHAPE_OPERANDS = {"Reshape": 1, "Expand": 1, "Resize": 3, "ConstantOfShape": 0}
"""Position of the operand that has the shape of the result."""
_OPERANDS = {("Slice", 2): 1 << 30, ("Slice", 4): 1, ("Tile", 1): 2, ("TopK", 1): 1, ("OneHot", 1): 3, ("Range", 1): 3,
             ("Range", 2): 1}
"""(type, position) of operands that are positions or sizes -> a value that does more than 0 would."""
_LOOSE = {"": 0.05, "tf32": 0.05, "bf16": 0.15, "f16": 0.05}
"""Largest difference to the largest magnitude, by precision: this is about ops that are wrong, not about rounding."""


def trial_inputs(model: ModelProto) -> dict[str, Any] | None:
    """A value for each input of a model of one op; None where an input is no tensor, or too large."""
    feeds = {}
    for info in model.graph.input:
        value = _value(info, model)
        if value is None:
            return None
        feeds[info.name] = value
    return feeds


def _value(info: ValueInfoProto, model: ModelProto) -> npt.NDArray[Any] | None:
    kind = info.type.tensor_type
    if not info.type.HasField("tensor_type") or not kind.HasField("shape") or kind.elem_type == TensorProto.STRING:
        return None
    shape = [d.dim_value if d.HasField("dim_value") else _SIZE for d in kind.shape.dim]
    if min(shape, default=0) < 0 or prod(d or 1 for d in shape) > _MAX_ELEMENTS:  # numpy refuses 0 x 2^62, too
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
    if dtype.kind in "iu":
        return _whole_numbers(info.name, model, count).astype(dtype).reshape(shape)
    return np.asarray(np.random.default_rng(count).standard_normal(count), dtype).reshape(shape)


def _whole_numbers(name: str, model: ModelProto, count: int) -> npt.NDArray[Any]:
    """Values that an op accepts for an operand of integers."""
    node = model.graph.node[-1]
    position = list(node.input).index(name) if name in node.input else -1
    if _SHAPE_OPERANDS.get(node.op_type) == position:
        result = [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim if d.HasField("dim_value")]
        if len(result) == count:
            return np.array(result)
    if (node.op_type, position) in _OPERANDS:
        return np.full(count, _OPERANDS[node.op_type, position])
    return np.arange(count) % 7 + 1 if node.op_type in _DATA_OPS else np.zeros(count)


def is_random(op_type: str, domain: str) -> bool:
    """Whether an op draws numbers."""
    try:
        schema: Any = onnx.defs.get_schema(op_type, domain)
        return bool(schema.node_determinism == schema.NodeDeterminism.NonDeterministic)
    except onnx.defs.SchemaError:
        return False


def wrong_output(expected: Any, actual: Any, precision: str) -> str:
    """What is wrong with an output; "" where it is as expected, or cannot be compared.

    Args:
        expected: a value of the reference.
        actual: the device's.
        precision: of float32 computations of the device; see ``Runtime.precision``.
    """
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return ""
    if expected.shape != actual.shape:
        return f"shape {list(actual.shape)} instead of {list(expected.shape)}"
    if expected.dtype.kind == "b":
        share = float(np.mean(expected != actual)) if expected.size else 0.0
        return f"{share:.0%} of the values are wrong" if share else ""
    if expected.dtype.kind not in "iuf" or actual.dtype.kind not in "iuf":  # numpy lacks it
        return ""
    wide, got = expected.astype(np.float64), actual.astype(np.float64)
    finite = np.isfinite(wide)
    if not finite.any():  # runtimes differ in what they make of NaN
        return ""
    if not np.isfinite(got[finite]).all():
        return "a value is not finite"
    gap, scale = float(np.max(np.abs(wide - got)[finite])), float(np.max(np.abs(wide[finite])))
    if expected.dtype.kind in "iu":  # quantised results may be rounded to the other side
        return f"off by up to {gap:g}" if gap > 1 else ""
    return f"off by up to {gap:.2g}, where values go up to {scale:.2g}" if gap > _LOOSE[precision] * scale + 1e-6 else ""
