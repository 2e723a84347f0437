"""A plugin execution provider that compiles quantised subgraphs: QNN, on the simulator of the Hexagon NPU in its package."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from conftest import EXAMPLES
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.version_converter import convert_version

import editor
from editor.errors import ExecutionError
from editor.execution.compiled_plan import CompiledPlan
from editor.execution.executor import compile_placement
from editor.placement.placement import Placement
from editor.runtimes.compile_cache import compile_folder
from editor.runtimes.onnxruntime.plugins import ep_device, plugin_devices

STEP = 0.05
"""Of the quantisation."""
X = {"x": np.random.default_rng(1).standard_normal((1, 4, 16, 16)).astype(np.float32)}


def quantised() -> ModelProto:
    """A quantised Conv and Relu, and an Erf that the NPU does not have."""
    rng = np.random.default_rng(0)
    number = helper.make_tensor
    constants = [
        number("s", TensorProto.FLOAT, [], [STEP]),
        number("ws", TensorProto.FLOAT, [], [0.01]),
        number("bs", TensorProto.FLOAT, [], [STEP * 0.01]),
        number("z", TensorProto.UINT8, [], [128]),
        number("z32", TensorProto.INT32, [], [0]),
        numpy_helper.from_array(rng.integers(100, 156, (8, 4, 3, 3), dtype=np.uint8), "w"),
        numpy_helper.from_array(rng.integers(-200, 200, 8, dtype=np.int32), "b"),
    ]
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        node("DequantizeLinear", ["w", "ws", "z"], ["wd"]),
        node("DequantizeLinear", ["b", "bs", "z32"], ["bd"]),
        node("Conv", ["xd", "wd", "bd"], ["c"], pads=[1] * 4),
        node("QuantizeLinear", ["c", "s", "z"], ["cq"]),
        node("DequantizeLinear", ["cq", "s", "z"], ["cd"]),
        node("MaxPool", ["cd"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("QuantizeLinear", ["p", "s", "z"], ["pq"]),
        node("DequantizeLinear", ["pq", "s", "z"], ["pd"]),
        node("Erf", ["pd"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "quantised",
        [info("x", TensorProto.FLOAT, [1, 4, 16, 16])],
        [info("y", TensorProto.FLOAT, [1, 8, 8, 8])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("net") / "quantised.onnx"
    onnx.save(quantised(), path)
    return path


def device_of(plan: editor.Plan) -> dict[str, str]:
    placement = plan.placement
    return {
        key: placement.devices[d].name
        for key, d in zip(
            placement.graph.op_keys, placement.assignment.device.tolist(), strict=True
        )
    }


def kept(placement: Placement) -> CompiledPlan:
    return compile_placement(placement)


def test_the_simulated_npu_is_found_and_says_that_it_is_simulated() -> None:
    (device,) = editor.load_devices("HETERO:QNN")
    assert device.present and device.provider == "QNNExecutionProvider"
    (here,) = [d for d in editor.available_devices() if d.provider == device.provider]
    assert here.hardware.startswith("Hexagon NPU, simulated on ")


def test_ops_are_asked_about_with_their_neighbours(net: Path) -> None:
    plan = editor.partition(editor.load_model(net), "HETERO:QNN,CPU")
    where = device_of(plan)
    assert {where[key] for key in ("xd", "c", "cq", "cd", "p", "pq", "pd")} == {"QNN"}
    assert where["xq"] == where["y"] == "CPU"
    graph = plan.placement.graph
    assert "leaves Erf to CPU" in plan.placement.constraints.inability(graph.key_index["y"], 0)


def test_the_plan_runs_on_it_within_a_step_of_the_quantisation(net: Path) -> None:
    graph = editor.load_model(net)
    result = editor.partition(graph, "HETERO:QNN,CPU").run(X)["y"]
    # Not ONNX Runtime's CPU: without VNNI its sums of eight-bit products saturate.
    whole = ReferenceEvaluator(convert_version(onnx.load(net), 21))
    (expected,) = whole.run(None, X)
    assert np.abs(expected).max() > 0 and np.abs(result - expected).max() <= 2 * STEP


def test_an_op_that_it_refuses_is_named_and_not_run_elsewhere(net: Path) -> None:
    plan = editor.partition(
        editor.load_model(net), "HETERO:QNN,CPU", pins={"y": "QNN"}, forced=frozenset({"y"})
    )
    with pytest.raises(ExecutionError, match="Erf.*given to CPUExecutionProvider"):
        plan.run(X)


def test_what_was_compiled_is_loaded_the_next_time_and_compiled_again_when_it_is_damaged(
    net: Path,
) -> None:
    placement = editor.partition(editor.load_model(net), "HETERO:QNN,CPU").placement
    folder = compile_folder("onnxruntime")
    assert folder is not None
    expected = kept(placement).run(X)["y"]
    (context,) = folder.glob("*.onnx")
    assert [n.op_type for n in onnx.load(context).graph.node].count("EPContext") == 1
    written = context.stat().st_mtime_ns
    assert (
        np.array_equal(kept(placement).run(X)["y"], expected)
        and context.stat().st_mtime_ns == written
    )
    context.write_bytes(b"damaged")
    assert np.array_equal(kept(placement).run(X)["y"], expected)
    assert onnx.load(context).graph.node


def test_weights_that_ops_compute_are_folded_before_the_npu_is_asked() -> None:
    """It was given them as ops of its own, and did not answer within 18 s."""
    plan = editor.partition(
        editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx"), "HETERO:QNN,CPU"
    )
    assert plan.placement.op_counts == {"QNN": 100, "CPU": 0}


def test_types_of_the_export_stay_on_the_cpu(net: Path, tmp_path: Path) -> None:
    """Names are for versions after 2.7."""
    plan = editor.partition(
        editor.load_model(net), "HETERO:QNN,CPU", pins={"p": "CPU"}, forced=frozenset({"p"})
    )
    with pytest.warns(UserWarning, match="`op_name`"):  # of the quantisation around it
        paths = plan.export("qnn", tmp_path)
    affinity = next(path for path in paths if path.name.endswith(".op_affinity.json"))
    assert json.loads(affinity.read_text())["op_type"] == {"Erf": "cpu", "MaxPool": "cpu"}
    (device,) = [d for d in plugin_devices() if d.provider == "QNNExecutionProvider"]

    def on_qnn(settings: dict[str, str]) -> set[str]:
        options = ort.SessionOptions()
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        options.add_provider_for_devices([ep_device(device)], {"backend_type": "htp", **settings})
        session = ort.InferenceSession(net, options)
        return {
            node.op_type
            for part in session.get_provider_graph_assignment_info()
            if part.ep_name == "QNNExecutionProvider"
            for node in part.get_nodes()
        }

    assert {"Conv", "MaxPool"} <= on_qnn({})
    found = on_qnn({"op_affinity": str(affinity)})
    assert "Conv" in found and "MaxPool" not in found
    with pytest.raises(Exception, match="could not be opened"):
        on_qnn({"op_affinity": str(tmp_path / "missing.json")})
