"""Other forms of activations: Clip, Gelu and Erf, HardSwish, Mish."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import onnx_ir as ir
from onnxscript.rewriter import MatchContext

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


class GeluByParts(Idea):
    """``Gelu(x) = 0.5 x (1 + Erf(x / sqrt(2)))``, or its form with Tanh where the op has that."""

    title = "Gelu by Erf and arithmetic"
    types = frozenset({"Gelu"})
    least_opset = 20

    def pattern(self, op: Any, x: Any) -> Any:
        return op.Gelu(x)

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        return x is not None and self.is_float(x)

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        half, one = self.like(op, x, 0.5), self.like(op, x, 1.0)
        if self.root.attributes.get_string("approximate") == "tanh":
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


class HardSwishByParts(Idea):
    """``HardSwish(x) = x * HardSigmoid(x)``."""

    title = "HardSwish by HardSigmoid and Mul"
    types = frozenset({"HardSwish"})
    least_opset = 14

    def pattern(self, op: Any, x: Any) -> Any:
        return op.HardSwish(x)

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        return op.Mul(x, op.HardSigmoid(x, alpha=1.0 / 6.0, beta=0.5))


class HardSwishAsOne(Idea):
    """The same backwards."""

    title = "HardSigmoid and Mul as HardSwish"
    types = frozenset({"HardSigmoid", "Mul"})
    least_opset = 14

    def pattern(self, op: Any, x: Any) -> Any:
        return op.Mul(x, op.HardSigmoid(x, _outputs=["gate"]))

    def fits(self, root: ir.Node, gate: ir.Value | None = None, **values: Any) -> bool:
        node = None if gate is None else gate.producer()
        if node is None:
            return False
        alpha, beta = (node.attributes.get_float(name) for name in ("alpha", "beta"))
        return alpha is not None and abs(alpha - 1 / 6) < 1e-6 and beta in (None, 0.5)

    def rewrite(self, op: Any, x: ir.Value, **values: Any) -> Any:
        return op.HardSwish(x)


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
