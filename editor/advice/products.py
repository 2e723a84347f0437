"""Other forms of products: Gemm, and ConvTranspose whose windows do not overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from editor.advice.idea import Idea, known, whole_numbers


class GemmByParts(Idea):
    """``Gemm(a, b, c) = alpha a b + beta c``."""

    title = "Gemm by MatMul and Add"
    types = frozenset({"Gemm"})
    least_opset = 9

    def pattern(self, op: Any, a: Any, b: Any) -> Any:
        return op.Gemm(a, b, _allow_other_inputs=True)

    def fits(self, root: ir.Node, a: ir.Value | None = None, **values: Any) -> bool:
        return a is not None and self.is_float(a)

    def rewrite(self, op: Any, a: ir.Value, b: ir.Value) -> Any:
        given, inputs = self.root.attributes, self.root.inputs
        left = op.Transpose(a, perm=[1, 0]) if given.get_int("transA", 0) else a
        right = op.Transpose(b, perm=[1, 0]) if given.get_int("transB", 0) else b
        product = self._scaled(op, op.MatMul(left, right), a, given.get_float("alpha", 1.0))
        added = inputs[2] if len(inputs) > 2 else None
        if added is None:
            return product
        return op.Add(product, self._scaled(op, added, a, given.get_float("beta", 1.0)))

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


class ConvTransposeByConv(Idea):
    """A window as large as its stride writes each output once: a 1x1 convolution computes what DepthToSpace arranges."""

    title = "ConvTranspose by Conv and DepthToSpace"
    types = frozenset({"ConvTranspose"})
    least_opset = 11

    def pattern(self, op: Any, x: Any, w: Any) -> Any:
        return op.ConvTranspose(x, w, _allow_other_inputs=True)

    def fits(
        self, root: ir.Node, x: ir.Value | None = None, w: ir.Value | None = None, **values: Any
    ) -> bool:
        weights = known(w)
        if weights is None or weights.ndim != 4 or weights.shape[2] != weights.shape[3]:
            return False
        plain = {"group": [1], "dilations": [1], "pads": [0], "output_padding": [0]}
        given = _lists(root)
        return (
            set(given.get("strides", [1])) == {weights.shape[2]}
            and all(set(given.get(name, only)) == set(only) for name, only in plain.items())
            and "output_shape" not in given
            and "auto_pad" not in root.attributes
        )

    def rewrite(self, op: Any, x: ir.Value, w: ir.Value) -> Any:
        weights, inputs = known(w), self.root.inputs
        if weights is None:
            return None
        into, out, size, _ = weights.shape
        each = np.ascontiguousarray(weights.reshape(into, -1).T).reshape(-1, into, 1, 1)
        depth = op.Conv(x, op.Constant(value=ir.tensor(each)))
        made = op.DepthToSpace(depth, blocksize=size, mode="CRD")
        bias = inputs[2] if len(inputs) > 2 else None
        if bias is None:
            return made
        return op.Add(made, op.Reshape(bias, whole_numbers(op, [1, out, 1, 1])))


def _lists(node: ir.Node) -> dict[str, Sequence[int]]:
    """Attributes that are whole numbers or lists of them."""
    found: dict[str, Sequence[int]] = {}
    for name, value in node.attributes.items():
        if value.type == ir.AttributeType.INTS:
            found[name] = value.as_ints()
        elif value.type == ir.AttributeType.INT:
            found[name] = [value.as_int()]
    return found
