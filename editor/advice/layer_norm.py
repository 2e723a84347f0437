"""LayerNormalization by means and arithmetic."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from editor.advice.idea import Idea, integer

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
