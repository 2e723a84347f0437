"""A chain of products whose weights are all that it has to keep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from conftest import save_net
from onnx import TensorProto, helper, numpy_helper


def weighted_chain(path: Path, layers: int, side: int) -> Path:
    """Writes ``layers`` MatMuls, each with a float32 weight of ``side`` times ``side``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [64, side]) for n in ("x", "y")]
    rng = np.random.default_rng(layers)
    weights = [
        numpy_helper.from_array(rng.standard_normal((side, side)).astype(np.float32), f"w{i}")
        for i in range(layers)
    ]
    names = ["x", *(f"h{i}" for i in range(layers - 1)), "y"]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(layers)]
    return save_net(path, nodes, info[:1], info[1:], weights, name=path.stem, ir_version=9)
