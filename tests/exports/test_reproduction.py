"""``editor advise --repro``: one op as a model of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from conftest import EXAMPLES, python, run
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.errors import ExportError
from editor.exports.reproduction import SMALL

DEVICES = [
    {"name": "npu", "backendName": "CPU", "nonSupportedNodes": "Conv, Add"},
    {"name": "cpu", "backendName": "CPU"},
]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A convolution with large weights in another file, a sum with a small constant, an op without a name."""
    node, value = helper.make_node, helper.make_tensor_value_info
    weight = np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype(np.float32)
    assert weight.nbytes > SMALL
    graph = helper.make_graph(
        [
            node("Conv", ["x", "w"], ["c"], "the|conv`<b>\n", pads=[1, 1, 1, 1]),
            node("Add", ["c", "one"], ["a"]),
            node("Constant", [], ["k"], value=numpy_helper.from_array(np.float32(2), "v")),
            node("Sqrt", ["k"], ["root"]),
            node("Mul", ["a", "root"], ["y"], "scale"),
        ],
        "g",
        [value("x", TensorProto.FLOAT, [1, 64, 8, 8])],
        [value("y", TensorProto.FLOAT, [1, 64, 8, 8])],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.float32(1), "one")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "m.onnx"
    onnx.save(made, path, save_as_external_data=True, location="m.data", size_threshold=1024)
    return path


def test_a_refused_op_is_a_model_that_runs_alone(model: Path, tmp_path: Path) -> None:
    plan = editor.partition(model, DEVICES)
    out = tmp_path / "out"
    found = plan.write_reproduction("c", out)
    assert (found.key, found.type, found.device) == ("c", "Conv", "npu")
    assert "excludes Conv on npu" in found.reason
    assert found.random_weights == ("w",)
    made = onnx.load(out / "model.onnx")
    onnx.checker.check_model(made)
    (conv,) = made.graph.node
    assert (conv.op_type, conv.name) == ("Conv", "the|conv`<b>\n")
    (weight,) = made.graph.initializer
    assert list(weight.dims) == [64, 64, 3, 3]
    original = onnx.load(model).graph.initializer[0]
    assert (numpy_helper.to_array(weight) != numpy_helper.to_array(original)).any()
    session = ort.InferenceSession(str(out / "model.onnx"), providers=["CPUExecutionProvider"])
    outputs = session.run(None, dict(np.load(out / "inputs.npz")))
    np.testing.assert_allclose(outputs[0], np.load(out / "expected.npz")["c"], rtol=1e-5)
    readme = (out / "README.md").read_text()
    assert "`w` | random weight | float32 | 64x64x3x3" in readme
    assert "are random" in readme
    assert "excludes Conv on npu" in readme
    assert not re.search(r"conv`<b>", readme)


def test_the_script_of_the_readme_runs(model: Path, tmp_path: Path) -> None:
    devices = {"openvino": "OpenVINO.CPU"} if _has_openvino() else {}
    for runtime, backend in {"onnxruntime": "CPU", **devices}.items():
        table = [{"name": "d", "backendName": backend, "nonSupportedNodes": "Conv"}, DEVICES[1]]
        out = tmp_path / runtime
        editor.partition(model, table).write_reproduction("c", out)
        code = (out / "README.md").read_text().split("```python\n")[1].split("```")[0]
        assert runtime in code
        done = python("-c", code, cwd=out)
        assert done.returncode == 0, done.stderr
        difference = re.search(r"^c largest difference: (\S+)", done.stdout, re.MULTILINE)
        assert difference is not None
        assert float(difference[1]) < 0.1  # OpenVINO computes in bf16 where the CPU has it


def _has_openvino() -> bool:
    return any(d.runtime == "openvino" for d in editor.available_devices())


def test_small_constants_are_the_real_ones(model: Path, tmp_path: Path) -> None:
    plan = editor.partition(model, DEVICES)
    found = plan.write_reproduction("a", tmp_path / "sum")
    assert found.random_weights == ()
    made = onnx.load(tmp_path / "sum" / "model.onnx")
    assert {t.name: float(numpy_helper.to_array(t)) for t in made.graph.initializer} == {"one": 1.0}
    scaled = plan.write_reproduction("scale", tmp_path / "mul", device="cpu")
    assert (scaled.device, scaled.reason) == ("cpu", "")
    (root,) = onnx.load(tmp_path / "mul" / "model.onnx").graph.initializer
    assert float(numpy_helper.to_array(root)) == pytest.approx(2**0.5)
    assert "takes the op where it is alone" in (tmp_path / "mul" / "README.md").read_text()


def test_what_cannot_be_written_is_said(model: Path, tmp_path: Path) -> None:
    plan = editor.partition(model, DEVICES)
    for key, device, message in (
        ("nothing", "", "no op 'nothing'"),
        ("root", "", "computed of constants before a run"),
        ("c", "tpu", "unknown device 'tpu'"),
    ):
        with pytest.raises(ExportError, match=message):
            plan.write_reproduction(key, tmp_path / "out", device)
    assert not (tmp_path / "out").exists()


def test_layers_of_openvino_are_said_to_be_left_out(model: Path, tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino")
    openvino.save_model(openvino.Core().read_model(model), tmp_path / "m.xml")
    plan = editor.partition(tmp_path / "m.xml", [{"name": "ov", "backendName": "openvino"}])
    with pytest.raises(ExportError, match="not of OpenVINO's layers"):
        plan.write_reproduction(next(iter(plan.affinity)), tmp_path / "out")


def test_the_command_line(tmp_path: Path) -> None:
    path = EXAMPLES / "models" / "mobilenetv2.onnx"
    plan = editor.partition(path, "HETERO:NPU(edgetpu),CPU").save(tmp_path / "plan.json")
    done = run("advise", str(plan), "--repro", "n4", "--out", str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["type"], document["device"]) == ("Clip", "NPU")
    assert "int8" in document["reason"]
    assert all(Path(name).is_file() for name in document["paths"])
    wrong = run("advise", str(plan), "--repro", "gone", "--out", str(tmp_path / "out"))
    assert (wrong.returncode, "Traceback" in wrong.stderr) == (1, False)
