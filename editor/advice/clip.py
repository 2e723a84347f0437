"""Clip with constant limits by Max and Min, or by Relu and Min."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from editor.advice.idea import Idea, known


class ClipByMinMax(Idea):
    """``Clip(x, a, b) = Min(Max(x, a), b)``; a lower limit of 0 is Relu."""

    title = "Clip by Relu or Max, and Min"
    types = frozenset({"Clip"})
    least_opset = 12

    def pattern(self, op: Any, x: Any, low: Any, high: Any) -> Any:
        return op.Clip(x, low, high)

    def fits(self, root: ir.Node, x: ir.Value | None = None, **limits: Any) -> bool:
        return x is not None and self.is_float(x) and None not in limits.values()

    def rewrite(self, op: Any, x: ir.Value, low: ir.Value, high: ir.Value) -> Any:
        least = known(low)
        is_zero = least is not None and least.size == 1 and float(least.item()) == 0.0
        return op.Min(op.Relu(x) if is_zero else op.Max(x, low), high)
