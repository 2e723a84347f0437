"""LayerNormalization by means and arithmetic, and back."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnxscript.rewriter import MatchContext

from editor.advice.idea import Idea, integer, known

_EPSILON = 1e-5


class LayerNormByParts(Idea):
    """The mean is taken off, the rest is divided by its root mean square, scaled and shifted."""

    title = "LayerNormalization by ReduceMean, Sub, Mul, Sqrt and Div"
    types = frozenset({"LayerNormalization"})
    least_opset = 17

    def pattern(self, op: Any, x: Any, scale: Any) -> Any:
        return op.LayerNormalization(x, scale, _allow_other_inputs=True, _outputs=["y"])

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        return (
            x is not None
            and self.is_float(x)
            and self.facts.shapes.get(x.name or "") is not None
            and len([value for value in root.outputs if value.name]) == 1
        )

    def rewrite(self, op: Any, x: ir.Value, scale: ir.Value, y: ir.Value) -> Any:
        node = y.producer()
        if node is None:
            return None
        rank = len(self.facts.shapes[x.name or ""])
        axes = list(range(integer(node, "axis", -1) % rank, rank))
        given = node.attributes.get("epsilon")
        epsilon = _EPSILON if given is None else given.as_float()
        centred = op.Sub(x, self.reduce_mean(op, x, axes))
        variance = self.reduce_mean(op, op.Mul(centred, centred), axes)
        spread = op.Sqrt(op.Add(variance, self.like(op, x, epsilon)))
        scaled = op.Mul(op.Div(centred, spread), scale)
        bias = node.inputs[2] if len(node.inputs) > 2 else None
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
    if node is None or integer(node, "keepdims", 1) != 1:
        return False
    given = node.attributes.get("axes")
    axes = [] if given is None else list(given.as_ints())
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        numbers = known(node.inputs[1])
        axes = [] if numbers is None else numbers.tolist()
    return [axis % rank for axis in axes] == [rank - 1]
