"""Model packages, which ONNX Runtime opens here: it takes the variant of its provider, with the plan's annotations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from conftest import save_net
from onnx import TensorProto, helper

import editor
from editor.exports.onnxruntime import ANNOTATIONS

CPU: dict[str, Any] = {"name": "CPU", "backendName": "CPU"}
GPU: dict[str, Any] = {
    "name": "GPU",
    "backendName": "CUDA",
    "parameters": "unit: 1",
    "supportedNodes": "Relu",
}
WEB: dict[str, Any] = {
    "name": "Web",
    "backendName": "WebGPU",
    "device": "GPU",
    "properties": {"powerPreference": "low-power"},
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    info = [helper.make_tensor_value_info(t, TensorProto.FLOAT, [2]) for t in "xy"]
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Exp", ["a"], ["y"])]
    return save_net(tmp_path / "net.onnx", nodes, info[:1], info[1:])


def test_onnx_runtime_takes_the_variant_of_its_provider(model: Path, tmp_path: Path) -> None:
    plan = editor.partition(model, [WEB, CPU], pins={"y": "CPU"})
    other = editor.partition(model, [CPU]).save(tmp_path / "plan.json")
    folder = tmp_path / "package"
    written = plan.export("model-package", folder, plans=str(other))
    assert all(path.is_file() for path in written)
    info = ort.ModelPackage.open(str(folder)).get_info()
    (component,) = info["components"]
    found = {v["name"]: v for v in component["variants"]}
    assert {name: v["ep"] for name, v in found.items()} == {
        "webgpu-gpu": "WebGpuExecutionProvider",
        "cpu": "CPUExecutionProvider",
    }
    web = json.loads(found["webgpu-gpu"]["executor_info"]["ort"])
    assert web["provider_options"] == {"powerPreference": "low-power"}
    assert web["session_options"][ANNOTATIONS] == "WebGpuExecutionProvider(=device0); cpu(=device1)"
    context = ort.ModelPackageContext(str(folder))
    chosen = context.select_component("model", ort.ModelPackageOptions(ort.SessionOptions()))
    assert chosen.get_selected_variant_name() == "cpu"
    x = np.array([-1, 1], np.float32)
    (y,) = chosen.create_session().run(None, {"x": x})
    assert {path.name for path in folder.iterdir()} == {path.name for path in written}
    np.testing.assert_allclose(y, np.exp(np.maximum(x, 0)), rtol=1e-6)


def test_what_a_variant_cannot_be_is_refused(model: Path, tmp_path: Path) -> None:
    two = editor.partition(model, [WEB, GPU], pins={"a": "GPU"})
    with pytest.raises(editor.ExportError, match="a variant of a model package has one provider"):
        two.export("model-package", tmp_path / "out")
    plan = editor.partition(model, [CPU])
    same = plan.save(tmp_path / "plan.json")
    with pytest.raises(editor.ExportError, match="is the second plan for CPUExecutionProvider"):
        plan.export("model-package", tmp_path / "out", plans=str(same))
    assert not (tmp_path / "out").exists()
    (tmp_path / "b").mkdir()
    again = plan.save(tmp_path / "b" / "x.json"), plan.save(tmp_path / "x.json")
    web = editor.partition(model, [WEB, CPU])
    with pytest.raises(editor.ExportError, match="is the second plan for CPUExecutionProvider"):
        web.export("model-package", tmp_path / "out", plans=",".join(map(str, again)))
    changed = onnx.load(model)
    changed.graph.node[1].op_type = "Neg"
    onnx.save(changed, tmp_path / "other.onnx")
    other = editor.partition(tmp_path / "other.onnx", [CPU]).save(tmp_path / "b" / "other.json")
    with pytest.raises(editor.ExportError, match=r"'other' is of another model .*other\.onnx"):
        web.export("model-package", tmp_path / "out", plans=str(other))
    assert not (tmp_path / "out").exists()
