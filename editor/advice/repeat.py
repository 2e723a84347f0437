"""Resize to whole multiples, of the nearest value."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from editor.advice.idea import Idea, whole_numbers

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
            default if (given := root.attributes.get(name)) is None else given.as_string()
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
        before, after = (None if value is None else self.shape(value) for value in (x, y))
        if before is None or after is None or len(before) != 4 or before[:2] != after[:2]:
            return None
        if any(new % old for old, new in zip(before, after, strict=True)):
            return None
        times = after[2] // before[2], after[3] // before[3]
        return times if max(times) <= _MOST else None
