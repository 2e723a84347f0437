"""Gelu by Erf, or by Tanh, and back."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import onnx_ir as ir
from onnxscript.rewriter import MatchContext

from editor.advice.idea import Idea, known


class GeluByParts(Idea):
    """``Gelu(x) = 0.5 x (1 + Erf(x / sqrt(2)))``, or its form with Tanh where the op has that."""

    title = "Gelu by Erf and arithmetic"
    types = frozenset({"Gelu"})
    least_opset = 20

    def pattern(self, op: Any, x: Any) -> Any:
        return op.Gelu(x, _outputs=["y"])

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        return x is not None and self.is_float(x)

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        node = y.producer()
        form = None if node is None else node.attributes.get("approximate")
        half, one = self.like(op, x, 0.5), self.like(op, x, 1.0)
        if form is not None and form.as_string() == "tanh":
            cubic = op.Mul(op.Mul(op.Mul(x, x), x), self.like(op, x, 0.044715))
            inner = op.Tanh(op.Mul(op.Add(x, cubic), self.like(op, x, sqrt(2 / pi))))
        else:
            inner = op.Erf(op.Div(x, self.like(op, x, sqrt(2))))
        return op.Mul(op.Mul(x, half), op.Add(inner, one))


class ErfByTanh(Idea):
    """``Tanh(2 / sqrt(pi) (x + 11/123 x^3))``, which differs from Erf by at most 0.0004."""

    title = "Erf by Tanh, which is close to it"
    types = frozenset({"Erf"})
    least_opset = 9

    def pattern(self, op: Any, x: Any) -> Any:
        return op.Erf(x)

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        return x is not None and self.is_float(x)

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        cubic = op.Mul(op.Mul(op.Mul(x, x), x), self.like(op, x, 11 / 123))
        return op.Tanh(op.Mul(op.Add(x, cubic), self.like(op, x, 2 / sqrt(pi))))


class GeluAsOne(Idea):
    """What exporters write for Gelu, as the op of opset 20."""

    title = "Erf and arithmetic as Gelu"
    types = frozenset({"Erf", "Div", "Add", "Mul"})
    least_opset = 20

    def pattern(self, op: Any, x: Any, root: Any, one: Any, half: Any) -> Any:
        return op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, root)), one)), half)

    def check(self, context: MatchContext, **values: Any) -> bool:  # type: ignore[override]  # onnxscript calls it so
        numbers = {"root": sqrt(2), "one": 1.0, "half": 0.5}
        return super().check(context) and all(
            (value := known(values.get(name))) is not None
            and value.size == 1
            and abs(float(value.item()) - number) < 1e-3
            for name, number in numbers.items()
        )

    def rewrite(self, op: Any, x: ir.Value, **values: Any) -> Any:
        return op.Gelu(x)
