"""Transpose of fewer axes, and Split by Slices."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from editor.advice.idea import Idea, integer, known, whole_numbers


class TransposeOfFewerAxes(Idea):
    """Axes that stay beside each other are one: windows of six axes are moved as four."""

    title = "Transpose of five axes and more by one of fewer"
    types = frozenset({"Transpose"})

    def pattern(self, op: Any, x: Any) -> Any:
        return op.Transpose(x, _outputs=["y"])

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        shape = None if x is None else self.shape(x)
        return shape is not None and len(shape) > 4 and len(_runs(root, len(shape))) < len(shape)

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        node, shape = y.producer(), self.shape(x)
        if node is None or shape is None:
            return None
        runs = _runs(node, len(shape))
        before = sorted(runs)
        order = [before.index(run) for run in runs]
        merged = [prod(shape[axis] for axis in run) for run in before]
        made = op.Transpose(op.Reshape(x, whole_numbers(op, merged)), perm=order)
        after = [shape[axis] for run in runs for axis in run]
        return op.Reshape(made, whole_numbers(op, after))


def _runs(node: ir.Node, rank: int) -> list[list[int]]:
    """The axes in their new order; those that follow each other before and after are one list."""
    given = node.attributes.get("perm")
    runs: list[list[int]] = []
    for axis in range(rank)[::-1] if given is None else given.as_ints():
        if runs and runs[-1][-1] == axis - 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


class SplitInTwo(Idea):
    """Each part is cut out by itself."""

    title = "Split in two by Slices"
    types = frozenset({"Split"})
    least_opset = 13
    parts = 2

    def pattern(self, op: Any, x: Any) -> Any:
        names = [f"y{i}" for i in range(self.parts)]
        return op.Split(x, _allow_other_inputs=True, _outputs=names)

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        shape = None if x is None else self.shape(x)
        return shape is not None and self._ends(root, shape) is not None

    def rewrite(self, op: Any, x: ir.Value, **values: ir.Value) -> Any:
        node, shape = values["y0"].producer(), self.shape(x)
        ends = None if node is None or shape is None else self._ends(node, shape)
        if node is None or shape is None or ends is None:
            return None
        axis = integer(node, "axis", 0) % len(shape)
        return [
            op.Slice(x, *(whole_numbers(op, [number]) for number in (start, end, axis)))
            for start, end in zip([0, *ends[:-1]], ends, strict=True)
        ]

    def _ends(self, node: ir.Node, shape: tuple[int, ...]) -> list[int] | None:
        """Where the parts end; None where that is not known."""
        size = shape[integer(node, "axis", 0) % len(shape)]
        if len(node.inputs) > 1 and node.inputs[1] is not None:
            sizes = known(node.inputs[1])
            return None if sizes is None else np.cumsum(sizes).tolist()
        each = -(-size // self.parts)
        return [min((i + 1) * each, size) for i in range(self.parts)]


class SplitInThree(SplitInTwo):
    """As queries, keys and values are."""

    title = "Split in three by Slices"
    parts = 3
