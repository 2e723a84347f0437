"""The interpreter computes as ONNX defines its ops, where the package's reference evaluator does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import save_net
from onnx import TensorProto, helper, numpy_helper

import editor

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Array = np.ndarray[Any, Any]


def same_as_onnx_runtime(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    feeds: Mapping[str, Array],
    weights: Mapping[str, Array],
    opset: int,
) -> None:
    names = [name for name in nodes[-1].output if name]
    save_net(
        path,
        nodes,
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in feeds.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in names],
        [numpy_helper.from_array(w, n) for n, w in weights.items()],
        opset=opset,
    )
    found = editor.partition(path, "HETERO:Interpreter").run(dict(feeds))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for name, right in zip(names, session.run(names, dict(feeds)), strict=True):
        assert found[name].shape == right.shape and found[name].dtype == right.dtype
        np.testing.assert_allclose(found[name], right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [7, 9, 13, 14, 15])
@pytest.mark.parametrize(
    "attributes", [{}, {"momentum": 0.9, "epsilon": 1e-3}], ids=["plain", "set"]
)
def test_a_normalization_uses_its_statistics_and_not_those_of_the_batch(
    tmp_path: Path, opset: int, attributes: dict[str, float]
) -> None:
    rng = np.random.default_rng(0)
    weights = {name: rng.random(3).astype(np.float32) + 1 for name in ("s", "b", "m", "v")}
    node = helper.make_node("BatchNormalization", ["x", *weights], ["y"], **attributes)
    x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    same_as_onnx_runtime(tmp_path / "m.onnx", [node], {"x": x}, weights, opset)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_elements_are_gathered_along_any_axis_of_a_part(tmp_path: Path, axis: int) -> None:
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    indices = np.array([[[0, -1, 2], [1, 1, 0]], [[2, 0, -2], [0, 0, 1]]])
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=axis)
    same_as_onnx_runtime(tmp_path / "m.onnx", [node], {"x": x}, {"i": indices}, 13)


@pytest.mark.parametrize("condition", ["", "c"])
@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 3)], ids=str)
def test_a_loop_stacks_what_it_scans(
    tmp_path: Path, shape: tuple[int, ...], condition: str
) -> None:
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["goes_on"]),
            helper.make_node("Add", ["before", "x"], ["after"]),
            helper.make_node("Neg", ["after"], ["seen"]),
        ],
        "body",
        [value("i", INT, []), value("going", BOOL, []), value("before", FLOAT, shape)],
        [value("goes_on", BOOL, []), value("after", FLOAT, shape), value("seen", FLOAT, shape)],
    )
    node = helper.make_node("Loop", ["n", condition, "x"], ["last", "all"], body=body)
    weights = {"n": np.array(3), "c": np.array(True)}
    used = {name: weights[name] for name in ("n", condition) if name}
    x = np.full(shape, 2, np.float32)
    same_as_onnx_runtime(tmp_path / "m.onnx", [node], {"x": x}, used, 17)
