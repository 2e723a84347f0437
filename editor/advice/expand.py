"""Expand by a product with ones."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from editor.advice.idea import Idea

_MOST_ONES = 1 << 24


class ExpandByMul(Idea):
    """Arithmetic repeats its operands along axes of 1."""

    title = "Expand by Mul with ones"
    types = frozenset({"Expand"})
    least_opset = 8

    def pattern(self, op: Any, x: Any, shape: Any) -> Any:
        return op.Expand(x, shape, _outputs=["y"])

    def fits(
        self, root: ir.Node, x: ir.Value | None = None, y: ir.Value | None = None, **values: Any
    ) -> bool:
        sizes = None if y is None else self.shape(y)
        return (
            sizes is not None and x is not None and self.is_float(x) and prod(sizes) <= _MOST_ONES
        )

    def rewrite(self, op: Any, x: ir.Value, shape: ir.Value, y: ir.Value) -> Any:
        ones = np.ones(self.shape(y) or (), self.facts.types[x.name or ""])
        return op.Mul(x, op.Constant(value=ir.tensor(ones)))
