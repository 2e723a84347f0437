"""Gemm by Transpose, MatMul and arithmetic; MatMul and Add as Gemm."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from editor.advice.idea import Idea, integer


class GemmByParts(Idea):
    """``Gemm(a, b, c) = alpha a b + beta c``."""

    title = "Gemm by MatMul and Add"
    types = frozenset({"Gemm"})
    least_opset = 9

    def pattern(self, op: Any, a: Any, b: Any) -> Any:
        return op.Gemm(a, b, _allow_other_inputs=True, _outputs=["y"])

    def fits(self, root: ir.Node, a: ir.Value | None = None, **values: Any) -> bool:
        return a is not None and self.is_float(a)

    def rewrite(self, op: Any, a: ir.Value, b: ir.Value, y: ir.Value) -> Any:
        node = y.producer()
        if node is None:
            return None
        left = op.Transpose(a, perm=[1, 0]) if integer(node, "transA", 0) else a
        right = op.Transpose(b, perm=[1, 0]) if integer(node, "transB", 0) else b
        product = self._scaled(op, op.MatMul(left, right), a, _factor(node, "alpha"))
        added = node.inputs[2] if len(node.inputs) > 2 else None
        if added is None:
            return product
        return op.Add(product, self._scaled(op, added, a, _factor(node, "beta")))

    def _scaled(self, op: Any, value: Any, like: ir.Value, factor: float) -> Any:
        return value if factor == 1 else op.Mul(value, self.like(op, like, factor))


class MatMulAddAsGemm(Idea):
    """Of matrices, with something to add that repeats along their axes."""

    title = "MatMul and Add as Gemm"
    types = frozenset({"MatMul", "Add"})
    least_opset = 9

    def pattern(self, op: Any, a: Any, b: Any, c: Any) -> Any:
        return op.Add(op.MatMul(a, b), c)

    def fits(self, root: ir.Node, **values: Any) -> bool:
        shapes = [self.shape(values[name]) for name in ("a", "b", "c")]
        a, b, c = shapes
        if a is None or b is None or c is None or not self.is_float(values["a"]):
            return False
        if len(a) != 2 or len(b) != 2 or len(c) > 2:
            return False
        result = (a[0], b[1])
        return all(size in (1, result[-i]) for i, size in enumerate(reversed(c), 1))

    def rewrite(self, op: Any, a: ir.Value, b: ir.Value, c: ir.Value) -> Any:
        return op.Gemm(a, b, c)


def _factor(node: ir.Node, name: str) -> float:
    attribute = node.attributes.get(name)
    return 1.0 if attribute is None else float(attribute.as_float())
