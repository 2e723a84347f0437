"""Mish by Softplus, Tanh and Mul, and back."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from editor.advice.idea import Idea


class MishByParts(Idea):
    """``Mish(x) = x * Tanh(Softplus(x))``."""

    title = "Mish by Softplus, Tanh and Mul"
    types = frozenset({"Mish"})
    least_opset = 18

    def pattern(self, op: Any, x: Any) -> Any:
        return op.Mish(x)

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        return op.Mul(x, op.Tanh(op.Softplus(x)))


class MishAsOne(Idea):
    """The same backwards."""

    title = "Softplus, Tanh and Mul as Mish"
    types = frozenset({"Softplus", "Tanh", "Mul"})
    least_opset = 18

    def pattern(self, op: Any, x: Any) -> Any:
        return op.Mul(x, op.Tanh(op.Softplus(x)))

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        return op.Mish(x)
