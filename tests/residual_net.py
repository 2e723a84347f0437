"""A small convolutional net with a sum around its second convolution, and images to quantise it with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader


class Images(CalibrationDataReader):  # type: ignore[misc, no-any-unimported]  # it has no types
    """Some invented images."""

    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(0)
        shape = (1, 3, 16, 16)
        self.left = [rng.standard_normal(shape).astype(np.float32) for _ in range(count)]

    def get_next(self) -> dict[str, Any] | None:
        return {"x": self.left.pop()} if self.left else None


def residual_net(path: Path, last: NodeProto, batch: int | str, result: list[int]) -> Path:
    """Two convolutions with activations, a sum around the second one, and ``last`` from r2 to y, of this shape each."""
    node, value, rng = helper.make_node, helper.make_tensor_value_info, np.random.default_rng(1)

    def weight(name: str, *shape: int) -> TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)

    graph = helper.make_graph(
        [
            node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
            node("Relu", ["c1"], ["r1"], "relu1"),
            node("Conv", ["r1", "w2", "b2"], ["c2"], "conv2", pads=[1, 1, 1, 1]),
            node("Add", ["c2", "r1"], ["s"], "sum"),
            node("Relu", ["s"], ["r2"], "relu2"),
            last,
        ],
        "g",
        [value("x", TensorProto.FLOAT, [batch, 3, 16, 16])],
        [value("y", TensorProto.FLOAT, [batch, *result])],
        [weight("w1", 8, 3, 3, 3), weight("b1", 8), weight("w2", 8, 8, 3, 3), weight("b2", 8)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, path)
    return path
