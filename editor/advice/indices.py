"""Indices of 64 bits as 32 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from editor.advice.idea import Idea, known


class NarrowIndices(Idea):
    """Indices below 2**31 mean the same in 32 bits; constant ones are stored so, others are cast."""

    title = "int64 indices of Gather as int32"
    types = frozenset({"Gather"})

    def pattern(self, op: Any, data: Any, indices: Any) -> Any:
        return op.Gather(data, indices, _outputs=["y"])

    def fits(
        self, root: ir.Node, data: ir.Value | None = None, indices: ir.Value | None = None, **_: Any
    ) -> bool:
        shape = None if data is None else self.shape(data)
        kind = "" if indices is None else self.facts.types.get(indices.name or "", "")
        return kind == "int64" and shape is not None and max(shape, default=0) < 2**31

    def rewrite(self, op: Any, data: ir.Value, indices: ir.Value, y: ir.Value) -> Any:
        node, numbers = y.producer(), known(indices)
        narrow = (
            op.Cast(indices, to=ir.DataType.INT32.value)
            if numbers is None
            else op.Constant(value=ir.tensor(numbers.astype(np.int32)))
        )
        axis = (
            0 if node is None or "axis" not in node.attributes else node.attributes["axis"].as_int()
        )
        return op.Gather(data, narrow, axis=axis)
