"""ReduceMean over the axes of an image as GlobalAveragePool, and back."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from editor.advice.idea import Idea, integer, known


class MeanAsPool(Idea):
    """The mean over all axes behind the channels, which stay as axes of 1."""

    title = "ReduceMean as GlobalAveragePool"
    types = frozenset({"ReduceMean"})

    def pattern(self, op: Any, x: Any) -> Any:
        return op.ReduceMean(x, _allow_other_inputs=True, _outputs=["y"])

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        shape = None if x is None else self.facts.shapes.get(x.name or "")
        if x is None or shape is None or len(shape) < 3 or not self.is_float(x):
            return False
        axes: list[int] = []
        if "axes" in root.attributes:
            axes = list(root.attributes["axes"].as_ints())
        elif len(root.inputs) > 1 and (numbers := known(root.inputs[1])) is not None:
            axes = [int(n) for n in numbers.reshape(-1)]
        wanted = list(range(2, len(shape)))
        return integer(root, "keepdims", 1) == 1 and sorted(a % len(shape) for a in axes) == wanted

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        return op.GlobalAveragePool(x)


class PoolAsMean(Idea):
    """The same backwards."""

    title = "GlobalAveragePool as ReduceMean"
    types = frozenset({"GlobalAveragePool"})

    def pattern(self, op: Any, x: Any) -> Any:
        return op.GlobalAveragePool(x)

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        return x is not None and self.facts.shapes.get(x.name or "") is not None

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        return self.reduce_mean(op, x, range(2, len(self.facts.shapes[x.name or ""])))
