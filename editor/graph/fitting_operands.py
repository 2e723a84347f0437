"""Values that operands of an op must have to fit its other operands: indices, lengths, sizes and positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from editor.graph.graph import Shape

Array = npt.NDArray[Any]
_FEW = 8
"""Where nothing is known."""
_LONGEST = 1024
"""Of a list of sizes."""


@dataclass(frozen=True)
class OpShapes:
    """What is known of an op before it runs."""

    type: str
    inputs: Sequence[Shape | None]
    outputs: Sequence[Shape | None]
    attributes: Mapping[str, int]
    """Those that are whole numbers"""

    def size(self, position: int, axis: int) -> int:
        """The size of an axis of an input; 0 where it is not known."""
        return _size(self.inputs, position, axis)

    def count(self, position: int) -> int:
        """The number of elements of an input; 1 where it is not known."""
        return prod(_sizes(self.inputs, position) or [1])


def _size(shapes: Sequence[Shape | None], position: int, axis: int) -> int:
    shape = shapes[position] if position < len(shapes) else None
    if shape is None or not -len(shape) <= axis < len(shape):
        return 0
    size = shape[axis]
    return size if isinstance(size, int) else 0


def _sizes(shapes: Sequence[Shape | None], position: int) -> list[int] | None:
    """A shape of which all sizes are known; else None."""
    shape = shapes[position] if position < len(shapes) else None
    if shape is None:
        return None
    found = [d for d in shape if isinstance(d, int) and d >= 0]
    return found if len(found) == len(shape) else None


_INDICES = {
    ("ArrayFeatureExtractor", 1): (0, -1),
    ("EmbedLayerNormalization", 0): (2, 0),
    ("EmbedLayerNormalization", 1): (4, 0),
    ("EmbedLayerNormalization", 8): (3, 0),
    ("Gather", 1): (0, 0),
    ("GatherBlockQuantized", 1): (0, 0),
    ("GatherElements", 1): (0, 0),
    ("RoiAlign", 2): (0, 0),
    ("RotaryEmbedding", 1): (2, 0),
    ("RotaryEmbedding", 3): (1, 0),
    ("Scatter", 1): (0, 0),
    ("ScatterElements", 1): (0, 0),
}
"""(type, position) of operands with indices -> the input and, without an attribute, the axis that they are indices of."""
_BOUNDS = {("BitShift", 1): (0, 8), ("Div", 1): (1, 8), ("Mod", 1): (1, 8), ("Pow", 1): (0, 4)}


def bounds(op: OpShapes, position: int) -> tuple[int, int] | None:
    """The least whole number that an operand may have, and the first that is too large; None where it may have any."""
    if (op.type, position) in _INDICES:
        data, axis = _INDICES[op.type, position]
        size = op.size(data, op.attributes.get("axis", op.attributes.get("gather_axis", axis)))
        return (0, size) if size else None
    if (op.type, position) == ("OneHot", 0):
        return 0, _FEW
    return _BOUNDS.get((op.type, position))


def index_tuples(op: OpShapes, position: int) -> list[int] | None:
    """The sizes that the last axis of an operand counts through, of GatherND and ScatterND."""
    if op.type not in ("GatherND", "ScatterND") or position != 1:
        return None
    sizes, width = _sizes(op.inputs, 0), op.size(1, -1)
    first = op.attributes.get("batch_dims", 0)
    return sizes[first : first + width] if sizes and width else None


_LENGTHS: Mapping[tuple[str, int], Callable[[OpShapes], int]] = {
    ("Attention", 6): lambda op: op.size(1, -2),
    ("DecoderMaskedMultiHeadAttention", 7): lambda op: op.size(5, 2),
    **{
        (kind, 4): lambda op: op.size(0, op.attributes.get("layout", 0))
        for kind in ("GRU", "LSTM", "RNN", "DynamicQuantizeLSTM")
    },
    ("ReverseSequence", 1): lambda op: op.size(0, op.attributes.get("time_axis", 0)),
}
"""(type, position) of operands that count another one -> the size that they count, of most of them."""


def lengths(op: OpShapes, position: int) -> Array | None:
    """The whole of what another operand holds, for an operand that counts it; None for others."""
    count = op.count(position)
    if op.type == "GroupQueryAttention" and position in (5, 6):
        total = op.size(0, 1) + op.size(3, 2)
        if 0 < op.size(3, 2) == _size(op.outputs, 1, 2):  # past and present share a buffer
            total = op.size(3, 2)
        return np.full(count, total - (position == 5)) if total else None
    if op.type == "MultiHeadAttention" and position == 4:
        shape = op.inputs[4] or ()
        total = op.size(1, 2 if len(op.inputs[1] or ()) == 4 else 1)
        batch = op.size(0, 0)
        if len(shape) != 1:
            return np.ones(count)
        starts = np.arange(batch + 1)
        if count == batch:
            return np.full(count, total)
        return np.concatenate([np.full(batch, total), starts * op.size(0, 1), starts * total])
    if (op.type, position) in (
        ("Attention", 3),
        ("EmbedLayerNormalization", 7),
        ("DecoderAttention", 5),
    ):
        past = op.size(4, 3) if op.type == "Attention" else 0
        return (
            np.full(count, op.size(0, 1) + past)
            if len(op.inputs[position] or ()) == 1
            else np.ones(count)
        )
    if (op.type, position) in (("RotaryEmbedding", 1), ("RotaryEmbedding", 3)):
        shape = op.inputs[position] or ()
        return (
            np.zeros(1)
            if count == 1
            else np.resize(np.arange(op.size(position, len(shape) - 1)), count)
        )
    size = _LENGTHS.get((op.type, position))
    return None if size is None else np.full(count, size(op))


_SAME_VALUES: Mapping[tuple[str, int], Callable[[OpShapes], float]] = {
    ("TopK", 1): lambda op: max((op.size(0, op.attributes.get("axis", -1)) + 1) // 2, 1),
    ("OneHot", 1): lambda op: _size(op.outputs, 0, op.attributes.get("axis", -1)) or _FEW,
    ("NonMaxSuppression", 2): lambda _: 4,
    ("Loop", 0): lambda _: 4,
    ("Pad", 1): lambda _: 0.0,
    ("Trilu", 1): lambda _: 0.0,
    ("CumSum", 1): lambda _: 0.0,
    ("SequenceAt", 1): lambda _: 0.0,
    ("SequenceErase", 1): lambda _: 0.0,
    ("SequenceInsert", 2): lambda _: 0.0,
}
"""(type, position) of operands all of whose elements have one value -> that value."""


def sizes(op: OpShapes, position: int, factor: int = 1) -> Array | None:  # noqa: PLR0912  # a case for each op
    """Sizes, ends and axes that fit the tensor which an operand is about; None for operands that are data.

    Args:
        op: the op.
        position: of the operand.
        factor: by which images grow.
    """
    kind, data, count = op.type, _sizes(op.inputs, 0), op.count(position)
    result = _sizes(op.outputs, 0)
    where = (kind, position)
    if count > _LONGEST:
        return None
    if where in (("Reshape", 1), ("Expand", 1), ("ConstantOfShape", 0)):
        if result is not None and len(result) == count:
            return np.array(result)
        if data is None or kind == "ConstantOfShape":
            return np.full(count, 2)
        fitting = [1] * (count - len(data)) + data
        if kind == "Reshape" and count < len(data):
            fitting = [*data[: count - 1], prod(data[count - 1 :])]
        return np.array(fitting if kind == "Reshape" else fitting[-count:])
    if where == ("Tile", 1):
        if result and data and len(result) == len(data) == count and all(data):
            return np.array(result) // data
        return np.ones(count)
    if where in (("Resize", 2), ("Resize", 3), ("Upsample", 1)) and data is not None:
        axes = max(len(data) - count, 0)
        known = result is not None and len(result) == len(data) and all(data)
        wanted = (
            result
            if known and result is not None
            else [d * (factor if i > 1 else 1) for i, d in enumerate(data)]
        )
        return np.array(wanted if position == 3 else np.array(wanted) / np.maximum(data, 1))[axes:]
    if kind == "Slice" and position in (1, 2, 3, 4):
        return np.array(
            [
                np.zeros(count),
                np.full(count, max(data or [1 << 30], default=0)),
                np.arange(count),
                np.ones(count),
            ][position - 1]
        )
    if kind == "Range":
        return np.full(count, (0, _size(op.outputs, 0, 0) or _FEW, 1)[position])
    if where == ("Split", 1) and data is not None:
        parts = np.full(count, op.size(0, op.attributes.get("axis", 0)) // max(count, 1))
        parts[-1:] += op.size(0, op.attributes.get("axis", 0)) - parts.sum()
        return parts
    if kind in ("Unsqueeze", "Squeeze") and position == 1:
        ones = [i for i, d in enumerate(data or []) if d == 1]
        return (
            np.array(ones[:count]) if kind == "Squeeze" and len(ones) >= count else np.arange(count)
        )
    if kind.startswith("Reduce") and position == 1:
        return np.arange(count)
    if where == ("CenterCropPad", 1) and data is not None:
        return np.array(data[:count])
    value = _SAME_VALUES.get(where)
    return None if value is None else np.full(count, value(op))
