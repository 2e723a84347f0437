"""Ops that move values between channels and space, and ConvTranspose whose windows do not overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from editor.advice.idea import Idea, integer, known, whole_numbers


class _Moved(Idea):
    """By Reshape, Transpose and Reshape."""

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        shape = None if x is None else self.shape(x)
        return shape is not None and len(shape) == 4

    def moved(
        self, op: Any, x: Any, apart: list[int], order: list[int], together: list[int]
    ) -> Any:
        """The values of x in another order of axes."""
        parts = op.Transpose(op.Reshape(x, whole_numbers(op, apart)), perm=order)
        return op.Reshape(parts, whole_numbers(op, together))


class DepthToSpaceByTranspose(_Moved):
    """Both orders of the channels, ``DCR`` and ``CRD``."""

    title = "DepthToSpace by Reshape and Transpose"
    types = frozenset({"DepthToSpace"})

    def pattern(self, op: Any, x: Any) -> Any:
        return op.DepthToSpace(x, _outputs=["y"])

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        node, shape = y.producer(), self.shape(x)
        if node is None or shape is None:
            return None
        size, (batch, depth, high, wide) = integer(node, "blocksize", 1), shape
        left, mode = depth // size**2, node.attributes.get("mode")
        together = [batch, left, high * size, wide * size]
        if mode is not None and mode.as_string() == "CRD":
            apart = [batch, left, size, size, high, wide]
            return self.moved(op, x, apart, [0, 1, 4, 2, 5, 3], together)
        return self.moved(
            op, x, [batch, size, size, left, high, wide], [0, 3, 4, 1, 5, 2], together
        )


class SpaceToDepthByTranspose(_Moved):
    """The other way."""

    title = "SpaceToDepth by Reshape and Transpose"
    types = frozenset({"SpaceToDepth"})

    def pattern(self, op: Any, x: Any) -> Any:
        return op.SpaceToDepth(x, _outputs=["y"])

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        node, shape = y.producer(), self.shape(x)
        if node is None or shape is None:
            return None
        size, (batch, depth, high, wide) = integer(node, "blocksize", 1), shape
        apart = [batch, depth, high // size, size, wide // size, size]
        together = [batch, depth * size**2, high // size, wide // size]
        return self.moved(op, x, apart, [0, 3, 5, 1, 2, 4], together)


class ConvTransposeByConv(Idea):
    """A window as large as its stride writes each output once: a 1x1 convolution computes what DepthToSpace arranges."""

    title = "ConvTranspose by Conv and DepthToSpace"
    types = frozenset({"ConvTranspose"})
    least_opset = 11

    def pattern(self, op: Any, x: Any, w: Any) -> Any:
        return op.ConvTranspose(x, w, _allow_other_inputs=True, _outputs=["y"])

    def fits(
        self, root: ir.Node, x: ir.Value | None = None, w: ir.Value | None = None, **values: Any
    ) -> bool:
        weights = known(w)
        if weights is None or weights.ndim != 4 or weights.shape[2] != weights.shape[3]:
            return False
        plain = {"group": [1], "dilations": [1], "pads": [0], "output_padding": [0]}
        given = {name: value.as_ints() for name, value in _lists(root).items()}
        return (
            set(given.get("strides", [1])) == {weights.shape[2]}
            and all(set(given.get(name, only)) == set(only) for name, only in plain.items())
            and "output_shape" not in given
            and "auto_pad" not in root.attributes
        )

    def rewrite(self, op: Any, x: ir.Value, w: ir.Value, y: ir.Value) -> Any:
        weights, node = known(w), y.producer()
        if weights is None or node is None:
            return None
        into, out, size, _ = weights.shape
        each = np.ascontiguousarray(weights.reshape(into, -1).T).reshape(-1, into, 1, 1)
        depth = op.Conv(x, op.Constant(value=ir.tensor(each)))
        made = op.DepthToSpace(depth, blocksize=size, mode="CRD")
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        if bias is None:
            return made
        return op.Add(made, op.Reshape(bias, whole_numbers(op, [1, out, 1, 1])))


def _lists(node: ir.Node) -> dict[str, Any]:
    """Attributes that are whole numbers or lists of them."""
    kinds = (ir.AttributeType.INTS, ir.AttributeType.INT)
    found = {}
    for name, value in node.attributes.items():
        if value.type in kinds:
            number = value.type == ir.AttributeType.INT
            found[name] = ir.AttrInt64s(name, [value.as_int()]) if number else value
    return found
