"""What OpenVINO says it can do, and does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest
from conftest import save_net
from onnx import TensorProto, helper

import editor
from editor.execution.executor import compile_placement
from editor.execution.invented_inputs import random_inputs
from editor.runtimes.op_models import ask


def pad_model(path: Path, value_is_constant: bool) -> Path:
    info = helper.make_tensor_value_info
    inputs, weights = (
        [info("x", TensorProto.FLOAT, [2, 2])],
        [helper.make_tensor("pads", TensorProto.INT64, [4], [0, 0, 0, 1])],
    )
    if value_is_constant:
        weights.append(helper.make_tensor("value", TensorProto.FLOAT, [], [5.0]))
    else:
        inputs.append(info("value", TensorProto.FLOAT, []))
    return save_net(
        path,
        [helper.make_node("Pad", ["x", "pads", "value"], ["y"])],
        inputs,
        [info("y", TensorProto.FLOAT, [2, 3])],
        weights,
        name="pad",
    )


def test_a_pad_with_a_computed_value_is_not_placed_on_openvino(tmp_path: Path) -> None:
    path = pad_model(tmp_path / "pad.onnx", value_is_constant=False)
    compiled = openvino.Core().compile_model(path, "CPU")
    inputs = {"x": np.ones((2, 2), np.float32), "value": np.array(5, np.float32)}
    silently_wrong = compiled(inputs)[0][0, 2] != 5
    plan = editor.partition(editor.load_model(path), "HETERO:OpenVINO,CPU")
    assert (plan.affinity["y"] == "CPU") == silently_wrong, (
        "when OpenVINO has mended it, the exception can go"
    )
    assert plan.run(inputs)["y"][0, 2] == 5


def test_openvino_pads_with_constants(tmp_path: Path) -> None:
    plan = editor.partition(
        editor.load_model(pad_model(tmp_path / "pad.onnx", value_is_constant=True)),
        "HETERO:OpenVINO,CPU",
    )
    assert plan.affinity["y"] == "OpenVINO"
    assert plan.run({"x": np.ones((2, 2), np.float32)})["y"][0, 2] == 5


@pytest.mark.parametrize("mode", ["cubic", "linear"])
def test_querying_a_resize_of_constants_does_not_compute_it(mode: str, tmp_path: Path) -> None:
    """Position embeddings of a YOLOS: OpenVINO took 12 to 27 s to answer, because it folded the op while it was asked."""
    info = helper.make_tensor_value_info
    weights = [
        helper.make_tensor(
            "table", TensorProto.FLOAT, [1, 192, 32, 32], np.zeros(192 * 1024, np.float32)
        ),
        helper.make_tensor("sizes", TensorProto.INT64, [4], [1, 192, 50, 83]),
    ]
    nodes = [
        helper.make_node("Resize", ["table", "", "", "sizes"], ["positions"], mode=mode),
        helper.make_node("Add", ["x", "positions"], ["y"]),
    ]
    save_net(
        tmp_path / "yolos.onnx",
        nodes,
        [info("x", TensorProto.FLOAT, [1, 192, 50, 83])],
        [info("y", TensorProto.FLOAT, [1, 192, 50, 83])],
        weights,
        name="yolos",
    )
    loaded = editor.load_model(tmp_path / "yolos.onnx")
    queried: list[onnx.ModelProto] = []
    ask(loaded, lambda model: queried.append(model) or "")
    (probe,) = queried
    read = {
        name for node in probe.graph.node if node.op_type == "Resize" for name in node.input[:1]
    }
    assert read and read <= {value.name for value in probe.graph.input}, (
        "a constant would be folded while it is queried"
    )
    assert editor.partition(loaded, "HETERO:OpenVINO").affinity["positions"] == "OpenVINO"


def test_an_op_that_openvino_computes_wrongly_is_not_placed_on_it(tmp_path: Path) -> None:
    """OpenVINO 2026.4 leaves memory as it is where the repeats of a Tile are only known in a run."""
    info = helper.make_tensor_value_info
    path = tmp_path / "tile.onnx"
    save_net(
        path,
        [helper.make_node("Tile", ["x", "n"], ["y"])],
        [info("x", TensorProto.FLOAT, [2, 3, 4, 5]), info("n", TensorProto.INT64, [4])],
        [info("y", TensorProto.FLOAT, [4, 6, 8, 10])],
        name="tile",
        opset=13,
    )
    inputs = {"x": np.ones((2, 3, 4, 5), np.float32), "n": np.full(4, 2)}
    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    wrong = not np.array_equal(compiled(inputs)[0], np.ones((4, 6, 8, 10), np.float32))
    plan = editor.partition(editor.load_model(path), "HETERO:OpenVINO,CPU")
    assert (plan.affinity["y"] == "CPU") == wrong, (
        "when OpenVINO has mended it, another op shows that results are compared"
    )
    assert not wrong or "OpenVINO, CPU computes Tile wrongly" in str(plan.why("y"))


@pytest.mark.parametrize(
    "text",
    [
        """m (float[5,2,1] x) => (float[5,1,2,1] y) <float[1,4,1] W = {1,-2,3,-1}, float[1,4,1] R = {-1,2,1,-3}> {
            y = LSTM <hidden_size = 1> (x, W, R)
        }""",
        """m (float[2,4,3,8] x, float[2,3,4] c, float[2,3,4] s) => (float[2,4,3,8] y) {
            y = RotaryEmbedding (x, c, s)
        }""",
    ],
    ids=["LSTM", "RotaryEmbedding"],
)
def test_a_model_that_is_compiled_again_computes_the_same(tmp_path: Path, text: str) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 11, opset_import: ["": 23]> {text}')
    onnx.save(model, tmp_path / "m.onnx")
    plan = editor.partition(editor.load_model(tmp_path / "m.onnx"), "HETERO:OpenVINO.CPU,CPU")
    assert plan.affinity["y"] == "OpenVINO.CPU"
    inputs = random_inputs(plan.graph)
    first, second = (compile_placement(plan.placement).run(inputs)["y"] for _ in range(2))
    assert np.array_equal(first, second)  # OpenVINO keeps compiled models, and reads some wrongly
