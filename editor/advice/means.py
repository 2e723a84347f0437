"""Other forms of means: LayerNormalization, ReduceMean, GlobalAveragePool."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnxscript.rewriter import MatchContext

from editor.advice.idea import Idea, known

_EPSILON = 1e-5


class LayerNormByParts(Idea):
    """The mean is taken off, the rest is divided by its root mean square, scaled and shifted."""

    title = "LayerNormalization by ReduceMean, Sub, Mul, Sqrt and Div"
    types = frozenset({"LayerNormalization"})
    least_opset = 17

    def pattern(self, op: Any, x: Any, scale: Any) -> Any:
        return op.LayerNormalization(x, scale, _allow_other_inputs=True)

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        return (
            x is not None
            and self.is_float(x)
            and self.facts.shapes.get(x.name or "") is not None
            and len([value for value in root.outputs if value.name]) == 1
        )

    def rewrite(self, op: Any, x: ir.Value, scale: ir.Value) -> Any:
        rank, given = len(self.facts.shapes[x.name or ""]), self.root.attributes
        axes = list(range(given.get_int("axis", -1) % rank, rank))
        epsilon = given.get_float("epsilon", _EPSILON)
        centred = op.Sub(x, self.reduce_mean(op, x, axes))
        variance = self.reduce_mean(op, op.Mul(centred, centred), axes)
        spread = op.Sqrt(op.Add(variance, self.like(op, x, epsilon)))
        scaled = op.Mul(op.Div(centred, spread), scale)
        bias = self.root.inputs[2] if len(self.root.inputs) > 2 else None
        return scaled if bias is None else op.Add(scaled, bias)


class LayerNormAsOne(Idea):
    """What exporters write for LayerNormalization over the last axis, as the op of opset 17."""

    title = "ReduceMean, Sub, Pow, Sqrt and Div as LayerNormalization"
    types = frozenset({"ReduceMean", "Sub", "Pow", "Sqrt", "Div", "Add", "Mul"})
    least_opset = 17

    def pattern(self, op: Any, x: Any, two: Any, epsilon: Any, scale: Any, bias: Any) -> Any:
        centred = op.Sub(x, op.ReduceMean(x, _allow_other_inputs=True, _outputs=["mean"]))
        variance = op.ReduceMean(
            op.Pow(centred, two), _allow_other_inputs=True, _outputs=["variance"]
        )
        spread = op.Sqrt(op.Add(variance, epsilon))
        return op.Add(op.Mul(op.Div(centred, spread), scale), bias)

    def check(self, context: MatchContext, **values: Any) -> bool:  # type: ignore[override]  # onnxscript calls it so
        two, epsilon = known(values.get("two")), known(values.get("epsilon"))
        shape = self.facts.shapes.get(values["x"].name or "", ())
        return (
            super().check(context)
            and len(shape) > 0
            and two is not None
            and (two == 2).all()
            and epsilon is not None
            and epsilon.size == 1
            and all(self.shape(values[name]) == shape[-1:] for name in ("scale", "bias"))
            and all(_is_of_last_axis(values[name], len(shape)) for name in ("mean", "variance"))
        )

    def rewrite(
        self, op: Any, x: ir.Value, epsilon: ir.Value, scale: ir.Value, bias: ir.Value, **_: Any
    ) -> Any:
        least = known(epsilon)
        if least is None:
            return None
        return op.LayerNormalization(x, scale, bias, axis=-1, epsilon=float(least.item()))


def _is_of_last_axis(value: ir.Value, rank: int) -> bool:
    """Whether a mean is that of the last axis, which it keeps."""
    node = value.producer()
    return node is not None and _axes(node, rank) == [rank - 1]


def _axes(mean: ir.Node, rank: int) -> list[int]:
    """The axes of a mean that keeps them, in order; none where they are not known."""
    if mean.attributes.get_int("keepdims", 1) != 1:
        return []
    axes = mean.attributes.get_ints("axes", ())
    if len(mean.inputs) > 1 and (numbers := known(mean.inputs[1])) is not None:
        axes = numbers.reshape(-1).tolist()
    return sorted(axis % rank for axis in axes)


class MeanAsPool(Idea):
    """The mean over all axes behind the channels, which stay as axes of 1."""

    title = "ReduceMean as GlobalAveragePool"
    types = frozenset({"ReduceMean"})

    def pattern(self, op: Any, x: Any) -> Any:
        return op.ReduceMean(x, _allow_other_inputs=True)

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        shape = None if x is None else self.facts.shapes.get(x.name or "")
        if x is None or shape is None or len(shape) < 3 or not self.is_float(x):
            return False
        return _axes(root, len(shape)) == list(range(2, len(shape)))

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        return op.GlobalAveragePool(x)


class PoolAsMean(Idea):
    """The same backwards."""

    title = "GlobalAveragePool as ReduceMean"
    types = frozenset({"GlobalAveragePool"})

    def pattern(self, op: Any, x: Any) -> Any:
        return op.GlobalAveragePool(x)

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        return x is not None and self.facts.shapes.get(x.name or "") is not None

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        return self.reduce_mean(op, x, range(2, len(self.facts.shapes[x.name or ""])))
