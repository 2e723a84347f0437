"""Other forms of ops that move, repeat or cut out values: Transpose, DepthToSpace, Split, Pad, Resize, Expand, Gather."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from editor.advice.idea import Idea, UnaryIdea, known, whole_numbers


class TransposeOfFewerAxes(UnaryIdea):
    """Axes that stay beside each other are one: windows of six axes are moved as four."""

    title = "Transpose of five axes and more by one of fewer"
    types = frozenset({"Transpose"})

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        shape = self.shape(x)
        return shape is not None and len(shape) > 4 and len(_runs(root, len(shape))) < len(shape)

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        shape = self.shape(x)
        if shape is None:
            return None
        runs = _runs(self.root, len(shape))
        before = sorted(runs)
        order = [before.index(run) for run in runs]
        merged = [prod(shape[axis] for axis in run) for run in before]
        made = op.Transpose(op.Reshape(x, whole_numbers(op, merged)), perm=order)
        after = [shape[axis] for run in runs for axis in run]
        return op.Reshape(made, whole_numbers(op, after))


def _runs(node: ir.Node, rank: int) -> list[list[int]]:
    """The axes in their new order; those that follow each other before and after are one list."""
    runs: list[list[int]] = []
    for axis in node.attributes.get_ints("perm", range(rank)[::-1]):
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
        shape = self.shape(x)
        return shape is not None and self._ends(root, shape) is not None

    def rewrite(self, op: Any, x: ir.Value, **values: ir.Value) -> Any:
        shape = self.shape(x)
        ends = None if shape is None else self._ends(self.root, shape)
        if shape is None or ends is None:
            return None
        axis = self.root.attributes.get_int("axis", 0) % len(shape)
        return [
            op.Slice(x, *(whole_numbers(op, [number]) for number in (start, end, axis)))
            for start, end in zip([0, *ends[:-1]], ends, strict=True)
        ]

    def _ends(self, node: ir.Node, shape: tuple[int, ...]) -> list[int] | None:
        """Where the parts end; None where that is not known."""
        size = shape[node.attributes.get_int("axis", 0) % len(shape)]
        if len(node.inputs) > 1 and node.inputs[1] is not None:
            sizes = known(node.inputs[1])
            return None if sizes is None else np.cumsum(sizes).tolist()
        each = -(-size // self.parts)
        return [min((i + 1) * each, size) for i in range(self.parts)]


class SplitInThree(SplitInTwo):
    """As queries, keys and values are."""

    title = "Split in three by Slices"
    parts = 3


class _Moved(UnaryIdea):
    """By Reshape, Transpose and Reshape."""

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        return len(self.shape(x) or ()) == 4

    def block(self, x: ir.Value) -> tuple[int, tuple[int, ...]]:
        """The size of the blocks, and the four sizes of x."""
        return self.root.attributes.get_int("blocksize", 1), self.shape(x) or ()

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

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        size, (batch, depth, high, wide) = self.block(x)
        left = depth // size**2
        together = [batch, left, high * size, wide * size]
        apart, order = [batch, size, size, left, high, wide], [0, 3, 4, 1, 5, 2]
        if self.root.attributes.get_string("mode") == "CRD":
            apart, order = [batch, left, size, size, high, wide], [0, 1, 4, 2, 5, 3]
        return self.moved(op, x, apart, order, together)


class SpaceToDepthByTranspose(_Moved):
    """The other way."""

    title = "SpaceToDepth by Reshape and Transpose"
    types = frozenset({"SpaceToDepth"})

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        size, (batch, depth, high, wide) = self.block(x)
        apart = [batch, depth, high // size, size, wide // size, size]
        together = [batch, depth * size**2, high // size, wide // size]
        return self.moved(op, x, apart, [0, 3, 5, 1, 2, 4], together)


class ReflectBySlices(Idea):
    """What lies beside an edge is cut out backwards and put before it, axis by axis."""

    title = "Pad(reflect) by Slice and Concat"
    types = frozenset({"Pad"})
    least_opset = 11

    def pattern(self, op: Any, x: Any, pads: Any) -> Any:
        return op.Pad(x, pads, _allow_other_inputs=True, mode="reflect")

    def fits(
        self, root: ir.Node, x: ir.Value | None = None, pads: ir.Value | None = None, **values: Any
    ) -> bool:
        numbers, shape = known(pads), self.shape(x)
        if numbers is None or shape is None or len(root.inputs) > 3:
            return False
        rank = len(shape)
        return numbers.size == 2 * rank and all(
            0 <= int(n) < shape[i % rank] for i, n in enumerate(numbers.tolist())
        )

    def rewrite(self, op: Any, x: ir.Value, pads: ir.Value) -> Any:
        numbers = known(pads)
        if numbers is None:
            return None
        rank, made = numbers.size // 2, x
        for axis in range(rank):
            before, after = int(numbers[axis]), int(numbers[axis + rank])
            parts = [self._part(op, made, axis, before, 0)] if before else []
            parts += [made, *([self._part(op, made, axis, -2, -2 - after)] if after else [])]
            made = op.Concat(*parts, axis=axis) if len(parts) > 1 else made
        return op.Identity(made) if made is x else made

    def _part(self, op: Any, value: Any, axis: int, start: int, end: int) -> Any:
        lists = (whole_numbers(op, [number]) for number in (start, end, axis, -1))
        return op.Slice(value, *lists)


_SAME = {("asymmetric", "floor"), ("half_pixel", "round_prefer_floor")}
"""Coordinates and roundings by which each value is repeated."""
_MOST = 16


class ResizeByRepeat(Idea):
    """Each row, and then each column, is put beside itself."""

    title = "Resize(nearest) by Reshape and Concat"
    types = frozenset({"Resize", "Upsample"})
    least_opset = 11

    def pattern(self, op: Any, x: Any) -> Any:
        return op.Resize(x, _allow_other_inputs=True, _outputs=["y"])

    def fits(
        self, root: ir.Node, x: ir.Value | None = None, y: ir.Value | None = None, **values: Any
    ) -> bool:
        names = ("mode", "coordinate_transformation_mode", "nearest_mode")
        defaults = ("nearest", "half_pixel", "round_prefer_floor")
        mode, coordinates, rounding = (
            root.attributes.get_string(name, default)
            for name, default in zip(names, defaults, strict=True)
        )
        return (
            mode == "nearest"
            and (coordinates, rounding) in _SAME
            and self._times(x, y) is not None
            and "axes" not in root.attributes
        )

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        shape, times = self.shape(x), self._times(x, y)
        if shape is None or times is None:
            return None
        batch, depth, high, wide = shape
        rows, columns = times
        made = op.Reshape(x, whole_numbers(op, [batch * depth, high, 1, wide]))
        made = op.Concat(*[made] * rows, axis=2)
        made = op.Reshape(made, whole_numbers(op, [batch * depth, high * rows, wide, 1]))
        made = op.Concat(*[made] * columns, axis=3)
        return op.Reshape(made, whole_numbers(op, [batch, depth, high * rows, wide * columns]))

    def _times(self, x: ir.Value | None, y: ir.Value | None) -> tuple[int, int] | None:
        """How often rows and columns are repeated; None where that is not a whole number."""
        before, after = self.shape(x), self.shape(y)
        if before is None or after is None or len(before) != 4 or before[:2] != after[:2]:
            return None
        if any(new % old for old, new in zip(before, after, strict=True)):
            return None
        times = after[2] // before[2], after[3] // before[3]
        return times if max(times) <= _MOST else None


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
        sizes = self.shape(y)
        return sizes is not None and self.is_float(x) and prod(sizes) <= _MOST_ONES

    def rewrite(self, op: Any, x: ir.Value, shape: ir.Value, y: ir.Value) -> Any:
        ones = np.ones(self.shape(y) or (), self.facts.types[x.name or ""])
        return op.Mul(x, op.Constant(value=ir.tensor(ones)))


class NarrowIndices(Idea):
    """Indices below 2**31 mean the same in 32 bits; constant ones are stored so, others are cast."""

    title = "int64 indices of Gather as int32"
    types = frozenset({"Gather"})

    def pattern(self, op: Any, data: Any, indices: Any) -> Any:
        return op.Gather(data, indices)

    def fits(
        self, root: ir.Node, data: ir.Value | None = None, indices: ir.Value | None = None, **_: Any
    ) -> bool:
        shape = self.shape(data)
        kind = "" if indices is None else self.facts.types.get(indices.name or "", "")
        return kind == "int64" and shape is not None and max(shape, default=0) < 2**31

    def rewrite(self, op: Any, data: ir.Value, indices: ir.Value) -> Any:
        numbers = known(indices)
        narrow = (
            op.Cast(indices, to=ir.DataType.INT32.value)
            if numbers is None
            else op.Constant(value=ir.tensor(numbers.astype(np.int32)))
        )
        return op.Gather(data, narrow, axis=self.root.attributes.get_int("axis", 0))
