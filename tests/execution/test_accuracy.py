"""``editor accuracy``: where a plan loses accuracy."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import run
from onnx import helper, numpy_helper, parser
from onnxruntime.quantization import QuantFormat, quantize_static
from residual_net import Images, residual_net

import editor
from editor.errors import EditorError, ExecutionError
from editor.execution.invented_inputs import random_inputs
from editor.execution.measure.mismatch import PlanValues, unsplit_values

TWO = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}]
ORDER = ["c1", "r1", "c2", "s", "r2", "y"]


@pytest.fixture
def net(tmp_path: Path) -> Path:
    mean = helper.make_node("GlobalAveragePool", ["r2"], ["y"], "mean")
    return residual_net(tmp_path / "net.onnx", mean, "batch", [8, 1, 1])


@pytest.fixture
def spoiled(net: Path) -> Path:
    """The same with another second weight."""
    model = onnx.load(net)
    weight = next(t for t in model.graph.initializer if t.name == "w2")
    values = numpy_helper.to_array(weight).copy()
    values[0] *= 3
    weight.CopyFrom(numpy_helper.from_array(values, "w2"))
    onnx.save(model, net.with_name("spoiled.onnx"))
    return net.with_name("spoiled.onnx")


def plan_of(path: Path, devices: Any = "HETERO:CPU", **pins: str) -> editor.Plan:
    return editor.partition(editor.load_model(path, {"batch": 1}), devices, pins=pins)


def by_name(found: editor.Accuracy) -> dict[str, editor.TensorError]:
    return {one.tensor: one for one in found.tensors}


def test_a_plan_that_computes_as_the_unsplit_model_is_within_its_tolerances(net: Path) -> None:
    found = plan_of(net, TWO, c2="B").accuracy()
    assert [one.tensor for one in found.tensors] == ["r1", "c2", "y"]
    assert [one.device for one in found.tensors] == ["A", "B", "A"]
    assert found.within_tolerance
    assert found.first is None
    assert found.outputs == ("y",)
    assert all(one.snr > 100 and one.cosine == pytest.approx(1) for one in found.tensors)


def test_every_tensor_is_captured_as_the_unsplit_model_has_it(net: Path) -> None:
    plan = plan_of(net, TWO, c2="B")
    found = plan.accuracy(every_tensor=True)
    assert [one.tensor for one in found.tensors] == ORDER
    assert found.within_tolerance
    inputs = random_inputs(plan.graph)
    ours = PlanValues(plan.placement, inputs).of(ORDER)
    theirs = unsplit_values(plan.graph, plan.devices[0], inputs, ORDER)
    for name in ORDER:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-4, atol=1e-4)


def test_the_op_that_is_at_fault_is_told_from_those_that_inherit(net: Path, spoiled: Path) -> None:
    found = plan_of(spoiled).accuracy(net, every_tensor=True)
    errors = by_name(found)
    assert found.first is not None
    assert (found.first.key, found.first.origin) == ("c2", "grown")
    assert [one.tensor for one in found.grown] == ["c2"]
    assert [errors[name].origin for name in ("c1", "r1")] == ["none", "none"]
    assert [errors[name].origin for name in ("s", "r2", "y")] == ["inherited"] * 3
    assert errors["s"].inherited == errors["c2"].noise > 0.1
    assert errors["c2"].cosine < 0.99


def test_the_figures_are_those_of_their_definitions(net: Path) -> None:
    plan = plan_of(net)
    inputs = dict(random_inputs(plan.graph))
    right = plan.run(inputs)["y"]
    given = right + np.linspace(-0.1, 0.3, right.size, dtype=np.float32).reshape(right.shape)
    (error,) = plan.accuracy({"y": given}, inputs).tensors
    gap = right.astype(np.float64) - given
    noise = np.linalg.norm(gap) / np.linalg.norm(given.astype(np.float64))
    assert error.noise == pytest.approx(noise)
    assert error.snr == pytest.approx(-20 * np.log10(noise))
    assert error.relative == pytest.approx(np.abs(gap).max() / np.abs(given).max())
    cosine = (right * given).sum() / np.linalg.norm(right) / np.linalg.norm(given)
    assert error.cosine == pytest.approx(cosine, rel=1e-5)
    assert not error.ok
    assert plan.accuracy({"y": given}, inputs, tolerance=0.9).within_tolerance


def test_given_values_of_inner_tensors_are_compared(net: Path) -> None:
    plan = plan_of(net)
    inputs = dict(random_inputs(plan.graph))
    values = unsplit_values(plan.graph, plan.devices[0], inputs, ["s", "y"])
    values["s"] = values["s"] + 1
    found = by_name(plan.accuracy(values, inputs))
    assert set(found) == {"s", "y"}
    assert not found["s"].ok
    assert found["y"].ok


@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
def test_a_quantised_model_is_compared_with_its_float_original(
    net: Path, tmp_path: Path, form: QuantFormat
) -> None:
    """Activations that the quantiser dropped or fused are looked for where they are."""
    quantize_static(str(net), str(tmp_path / "int8.onnx"), Images(8), quant_format=form)
    plan = plan_of(tmp_path / "int8.onnx")
    found = plan.accuracy(net, every_tensor=True)
    assert "y" in by_name(found)
    assert {"r1", "c2"} <= {one.reference for one in found.tensors}
    assert all(one.snr > 15 for one in found.tensors), found.tensors
    assert any("int8" in note for note in found.notes)
    assert found.reference.startswith(str(net))


def test_a_quantised_model_whose_scale_is_wrong_is_found_out(net: Path, tmp_path: Path) -> None:
    out = tmp_path / "int8.onnx"
    quantize_static(str(net), str(out), Images(8), quant_format=QuantFormat.QDQ)
    model = onnx.load(out)
    scale = next(t for t in model.graph.initializer if t.name == "r1_scale")
    scale.CopyFrom(
        numpy_helper.from_array(numpy_helper.to_array(scale) * np.float32(0.1), "r1_scale")
    )
    onnx.save(model, out)
    found = plan_of(out).accuracy(net, every_tensor=True, tolerance=0.3)
    assert found.first is not None
    assert (found.first.type, found.first.origin) == ("QuantizeLinear", "grown")
    assert found.first.reference == "r1"


def test_a_half_precision_ir_is_compared_with_onnx(net: Path, tmp_path: Path) -> None:
    ov = pytest.importorskip("openvino")
    model = ov.convert_model(net, input=[("x", [1, 3, 16, 16])])
    ov.save_model(model, tmp_path / "half.xml", compress_to_fp16=True)
    plan = editor.partition(tmp_path / "half.xml", "HETERO:OpenVINO.CPU")
    own = plan.accuracy(every_tensor=True)
    assert own.within_tolerance
    assert "OpenVINO" in own.reference
    found = by_name(plan.accuracy(net, every_tensor=True))
    assert set(found) >= {"c1", "r1", "c2", "s", "r2"}
    assert all(one.snr > 55 for one in found.values())
    assert found["c1"].noise > 0


def test_a_planned_device_has_the_errors_of_its_stand_in_and_that_is_said(net: Path) -> None:
    table = [
        {"name": "NPU", "backendName": "NPU", "supportedNodes": "Conv"},
        {"name": "CPU", "backendName": "CPU"},
    ]
    found = plan_of(net, table).accuracy()
    assert any(
        note.startswith("NPU: planned, so that its ops ran on ONNX Runtime") for note in found.notes
    )
    assert {one.device for one in found.tensors} == {"NPU", "CPU"}


def test_one_subgraph_has_only_outputs_and_random_tensors_are_left_out(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["":17]> g (float[8] x) => (float[8] y, float[8] z) {
        r = RandomNormalLike(x)  y = Abs(r)  a = Neg(x)  z = Exp(a) }"""
    onnx.save(parser.parse_model(text), tmp_path / "m.onnx")
    plan = editor.partition(tmp_path / "m.onnx", "HETERO:CPU")
    found = plan.accuracy()
    assert [one.tensor for one in found.tensors] == ["z"]
    assert any("one subgraph" in note for note in found.notes)
    assert any("1 tensor not compared: they depend on random" in note for note in found.notes)
    assert set(by_name(plan.accuracy(every_tensor=True))) == {"a", "z"}


def test_tensors_beyond_the_limit_of_one_pass_are_compared_in_several(net: Path) -> None:
    from editor.execution.measure.accuracy import measure_accuracy, unsplit_reference

    plan = plan_of(net, TWO, c2="B")
    inputs = random_inputs(plan.graph)
    passes: list[int] = []
    found = measure_accuracy(
        plan.placement,
        inputs,
        unsplit_reference(plan.placement, inputs),
        every_tensor=True,
        progress=lambda *said: passes.append(said[1]),
        limit=1,
    )
    assert passes == [6] * 6
    assert [one.tensor for one in found.tensors] == ORDER


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"nowhere": np.zeros(1, np.float32)},
            "'nowhere' is no tensor that the model computes .* y",
        ),
        (
            {"y": np.zeros((1, 9, 1, 1), np.float32)},
            "'y' has the shape 1x9x1x1, and the model makes 1x8x1x1",
        ),
        ({}, "has no values"),
    ],
)
def test_values_of_another_model_are_refused(net: Path, values: dict[str, Any], said: str) -> None:
    plan = plan_of(net)
    with pytest.raises(ExecutionError, match=said):
        plan.accuracy(values, random_inputs(plan.graph))


def test_a_reference_that_is_another_model_is_refused(net: Path, tmp_path: Path) -> None:
    form = '<ir_version: 8, opset_import: ["":17]> g (float[{}] {}) => (bool[{}] q) {{ q = IsNaN({}) }}'
    for name, (size, read) in {
        "input": ("1,3,16,16", "i"),
        "size": ("4", "x"),
        "alien": ("1,3,16,16", "x"),
    }.items():
        onnx.save(
            parser.parse_model(form.format(size, read, size, read)), tmp_path / f"{name}.onnx"
        )
    plan = plan_of(net)
    with pytest.raises(EditorError, match="has the input 'i', and .* has x"):
        plan.accuracy(tmp_path / "input.onnx")
    with pytest.raises(EditorError, match="takes other inputs"):
        plan.accuracy(tmp_path / "size.onnx")
    with pytest.raises(EditorError, match="no tensor in common"):
        plan.accuracy(tmp_path / "alien.onnx")
    with pytest.raises(EditorError, match="are of certain inputs"):
        plan.accuracy({"y": np.zeros((1, 8, 1, 1), np.float32)})
    with pytest.raises(EditorError, match="tolerance must be"):
        plan.accuracy(tolerance=-1)


def test_the_command_writes_what_it_says(net: Path, spoiled: Path, tmp_path: Path) -> None:
    plan = plan_of(spoiled).save(tmp_path / "plan.json")
    done = run(
        *("accuracy", str(plan), "--reference", str(net), "--every-tensor"),
        *("--csv", str(tmp_path / "a.csv"), "--json"),
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["format"], document["first"]) == ("hetero-editor/accuracy", "c2")
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert [row["tensor"] for row in rows] == ORDER
    assert [row["origin"] for row in rows][2:4] == ["grown", "inherited"]
    text = run("accuracy", str(plan), "--reference", str(net), "--every-tensor").stdout
    assert "first outside its tolerance: c2 of conv2 (Conv) on CPU" in text
    assert "grown here; " in text
    assert "\ngrown: more than 2 times the noise of what the op reads\n" in text


def test_values_come_from_a_file_or_a_folder(net: Path, tmp_path: Path) -> None:
    made = plan_of(net)
    plan = str(made.save(tmp_path / "plan.json"))
    inputs = dict(random_inputs(made.graph))
    np.savez(tmp_path / "in.npz", **inputs)
    outputs = made.run(inputs)
    np.savez(tmp_path / "out.npz", **outputs)
    (tmp_path / "out").mkdir()
    np.save(tmp_path / "out" / "y.npy", outputs["y"])
    np.save(tmp_path / "lone.npy", outputs["y"])
    for good in ("out.npz", "out"):
        done = run(
            "accuracy",
            plan,
            "--inputs",
            str(tmp_path / "in.npz"),
            "--reference-outputs",
            str(tmp_path / good),
        )
        assert "all are within their tolerances" in done.stdout, done.stderr
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04nothing")
    for bad, said in {
        "bad.npz": "cannot be read as an .npz file",
        "lone.npy": "one array without a name",
        "gone.npz": "no such file",
    }.items():
        done = run(
            "accuracy",
            plan,
            "--inputs",
            str(tmp_path / "in.npz"),
            "--reference-outputs",
            str(tmp_path / bad),
        )
        assert done.returncode == 1
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    done = run("accuracy", plan, "--reference-outputs", str(tmp_path / "out.npz"))
    assert "name them with --inputs" in done.stderr
