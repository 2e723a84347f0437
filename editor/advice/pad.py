"""Pad by reflection as Slice and Concat."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from editor.advice.idea import Idea, known, whole_numbers


class ReflectBySlices(Idea):
    """What lies beside an edge is cut out backwards and put before it, axis by axis."""

    title = "Pad(reflect) by Slice and Concat"
    types = frozenset({"Pad"})
    least_opset = 11

    def pattern(self, op: Any, x: Any, pads: Any) -> Any:
        return op.Pad(x, pads, _allow_other_inputs=True, _outputs=["y"], mode="reflect")

    def fits(
        self, root: ir.Node, x: ir.Value | None = None, pads: ir.Value | None = None, **values: Any
    ) -> bool:
        numbers, shape = known(pads), None if x is None else self.shape(x)
        if numbers is None or shape is None or len(root.inputs) > 3:
            return False
        rank = len(shape)
        return numbers.size == 2 * rank and all(
            0 <= int(n) < shape[i % rank] for i, n in enumerate(numbers.tolist())
        )

    def rewrite(self, op: Any, x: ir.Value, pads: ir.Value, y: ir.Value) -> Any:
        numbers = known(pads)
        if numbers is None:
            return None
        rank, made = numbers.size // 2, x
        for axis in range(rank):
            before, after = int(numbers[axis]), int(numbers[axis + rank])
            parts = [made]
            if before:
                parts.insert(0, self._part(op, made, axis, before, 0))
            if after:
                parts.append(self._part(op, made, axis, -2, -2 - after))
            if len(parts) > 1:
                made = op.Concat(*parts, axis=axis)
        return op.Identity(made) if made is x else made

    def _part(self, op: Any, value: Any, axis: int, start: int, end: int) -> Any:
        lists = (whole_numbers(op, [number]) for number in (start, end, axis, -1))
        return op.Slice(value, *lists)
