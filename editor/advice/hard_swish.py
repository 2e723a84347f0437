"""HardSwish by HardSigmoid and Mul, and back."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from editor.advice.idea import Idea


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
        found = {name: node.attributes.get(name) for name in ("alpha", "beta")}
        alpha, beta = (None if a is None else a.as_float() for a in found.values())
        return alpha is not None and abs(alpha - 1 / 6) < 1e-6 and beta in (None, 0.5)

    def rewrite(self, op: Any, x: ir.Value, **values: Any) -> Any:
        return op.HardSwish(x)
