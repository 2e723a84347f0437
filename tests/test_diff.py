"""``editor diff``: two versions of a model side by side."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from conftest import EXAMPLES, run
from onnx import TensorProto, helper, numpy_helper, parser, version_converter
from onnxruntime.quantization import QuantFormat, quantize_static
from residual_net import Images, residual_net

import editor
from editor.errors import EditorError
from editor.workspace.diffs import text_of

MODEL = EXAMPLES / "models" / "mobilenetv2.onnx"


@pytest.fixture
def conv(tmp_path: Path) -> Path:
    mean = helper.make_node("ReduceMean", ["r2"], ["y"], "mean", axes=[2, 3], keepdims=0)
    return residual_net(tmp_path / "conv.onnx", mean, 1, [8])


def optimised(path: Path, level: ort.GraphOptimizationLevel) -> Path:
    """What ONNX Runtime makes of a model."""
    options, out = ort.SessionOptions(), path.with_name(f"{level.name}.onnx")
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(out)
    ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return out


def names(ops: tuple[editor.DiffOp, ...]) -> set[str]:
    return {op.name for op in ops}


def test_a_model_and_itself_are_the_same() -> None:
    found = editor.diff(MODEL, MODEL, "HETERO:CPU")
    assert found.same
    assert found.seconds[0] == found.seconds[1]
    assert {pair.how for pair in found.pairs} == {"name"}
    assert "nothing came, went or changed" in text_of(found)


def test_folded_constants_are_no_difference(tmp_path: Path) -> None:
    """MobileNet's weights are made by constant ops, which ONNX Runtime evaluates."""
    out = tmp_path / "folded.onnx"
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(out)
    ort.InferenceSession(str(MODEL), options, providers=["CPUExecutionProvider"])
    found = editor.diff(MODEL, out, None)
    assert found.same
    assert found.constants[0] > found.constants[1] == 0


def test_fused_ops_are_those_that_they_were_made_of(conv: Path) -> None:
    found = editor.diff(conv, optimised(conv, ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED))
    assert not found.came
    assert {pair.type for pair in found.changed} == {("Conv", "com.microsoft::FusedConv")}
    assert {op.type for op in found.went} <= {"Relu", "Add"}
    assert all(op.into for op in found.went)
    pair = next(pair for pair in found.pairs if pair.name[0] == "conv1")
    assert ("attribute", "activation", "", "'Relu'") in [
        (c.what, c.name, c.before, c.after) for c in pair.changes
    ]
    assert not pair.weights


def test_reordered_weights_are_not_called_changed_values(conv: Path) -> None:
    level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    found = editor.diff(conv, optimised(conv, level), None)
    convs = [pair for pair in found.pairs if pair.type[0] == "Conv"]
    if {pair.type[1] for pair in convs} == {"Conv"}:
        pytest.skip("this ONNX Runtime keeps the layout on this machine")
    assert len(convs) == 2
    changes = [w for pair in convs for w in pair.weights if w.before == w.after]
    assert all(w.same_in_another_order for w in changes)


@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
def test_a_quantised_model_is_matched_with_its_float_original(
    conv: Path, tmp_path: Path, form: QuantFormat
) -> None:
    out = tmp_path / "int8.onnx"
    quantize_static(str(conv), str(out), Images(2), quant_format=form, per_channel=True)
    found = editor.diff(conv, out, None)
    convs = {pair.name[0]: pair for pair in found.pairs if pair.type[0] == "Conv"}
    assert set(convs) == {"conv1", "conv2"}
    for pair in convs.values():
        weight = next(w for w in pair.weights if w.input == "W")
        assert weight.relative is not None
        assert 0 < weight.relative < 0.02
    assert {op.type for op in found.came} <= {"QuantizeLinear", "DequantizeLinear"}


def test_another_opset_is_no_change_of_the_ops(conv: Path, tmp_path: Path) -> None:
    """ReduceMean has its axes as an attribute in opset 17, as an input in 21."""
    onnx.save(version_converter.convert_version(onnx.load(conv), 21), tmp_path / "21.onnx")
    found = editor.diff(conv, tmp_path / "21.onnx", None)
    assert not (found.came or found.went or found.changed)
    assert "opset ai.onnx 17 -> 21" in text_of(found)


def test_what_changed_is_said_with_its_size(conv: Path, tmp_path: Path) -> None:
    model = onnx.load(conv)
    weights = {t.name: t for t in model.graph.initializer}
    values = numpy_helper.to_array(weights["w2"]) * 1.01
    weights["w2"].CopyFrom(numpy_helper.from_array(values.astype(np.float32), "w2"))
    model.graph.node[1].op_type = "Sigmoid"
    model.graph.node[5].attribute[1].i = 1  # keepdims
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 1, 1])
    )
    onnx.save(model, tmp_path / "b.onnx")
    found = editor.diff(conv, tmp_path / "b.onnx", None)
    changed = {pair.name[0]: pair for pair in found.changed}
    assert set(changed) == {"relu1", "conv2", "mean"}
    assert str(changed["relu1"].changes[0]) == "type Relu -> Sigmoid"
    assert changed["conv2"].weights[0].relative == pytest.approx(0.01, rel=1e-3)
    assert {c.what for c in changed["mean"].changes} == {"attribute", "shape"}
    assert [str(change) for change in found.ends] == ["output y float32 1x8 -> float32 1x8x1x1"]
    assert not (found.came or found.went)


def test_both_are_placed_on_the_same_devices_with_the_kind_of_their_times(conv: Path) -> None:
    fused = optimised(conv, ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED)
    table = [
        {"name": "NPU", "backendName": "NPU", "supportedNodes": "Conv,Relu,Add"},
        {"name": "CPU", "backendName": "CPU"},
    ]
    found = editor.diff(conv, fused, table)
    assert found.kinds == ("estimate", "estimate")
    before, after = (plan.placement.op_counts for plan in found.plans if plan is not None)
    assert before["NPU"] == 5
    assert after["NPU"] < 5
    moved = {pair.type for pair in found.moved}
    assert ("Conv", "com.microsoft::FusedConv") in moved
    text = text_of(found)
    assert f"NPU: 5 ops -> {after['NPU']} op" in text
    assert "(estimate)" in text


def test_a_model_that_the_devices_cannot_run_is_compared_all_the_same(conv: Path) -> None:
    table = [{"name": "NPU", "backendName": "NPU", "supportedNodes": "Conv,Relu,Add,ReduceMean"}]
    fused = optimised(conv, ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED)
    found = editor.diff(conv, fused, table)
    assert found.plans[0] is not None
    assert found.plans[1] is None
    assert any("is not placed" in note for note in found.notes)
    assert "not placed" in text_of(found)


def test_an_ir_is_compared_with_the_onnx_file_that_it_was_made_of(
    conv: Path, tmp_path: Path
) -> None:
    ov = pytest.importorskip("openvino")
    ov.save_model(ov.convert_model(conv), tmp_path / "m.xml", compress_to_fp16=False)
    ov.save_model(ov.convert_model(conv), tmp_path / "half.xml", compress_to_fp16=True)
    found = editor.diff(conv, tmp_path / "m.xml", None)
    assert {"conv1", "conv2", "relu1", "relu2"} <= {pair.name[0] for pair in found.pairs}
    assert any("formats" in note for note in found.notes)
    halved = editor.diff(tmp_path / "m.xml", tmp_path / "half.xml", None)
    assert not (halved.came or halved.went)
    parts = [w.relative for pair in halved.changed for w in pair.weights]
    assert parts
    assert all(part is not None and part < 1e-3 for part in parts)


def test_open_sizes_are_the_same_in_both(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["":17]> g (float[n,4] x) => (float[n,4] y) {{ {} }}'
    bodies = {"a": "y = Neg(x)", "b": "t = Neg(x) y = Abs(t)"}
    for name, body in bodies.items():
        onnx.save(parser.parse_model(text.format(body)), tmp_path / f"{name}.onnx")
    found = editor.diff(tmp_path / "a.onnx", tmp_path / "b.onnx", None, define={"n": 3})
    assert not found.ends
    assert [op.type for op in found.came] == ["Abs"]
    assumed = editor.diff(tmp_path / "a.onnx", tmp_path / "b.onnx", None)
    assert any(note.startswith("sizes assumed: n=") for note in assumed.notes)
    with pytest.raises(EditorError, match="no such symbol"):
        editor.diff(tmp_path / "a.onnx", tmp_path / "b.onnx", None, define={"m": 3})


def test_the_command_writes_what_it_says(conv: Path, tmp_path: Path) -> None:
    fused = optimised(conv, ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED)
    done = run(
        *("diff", str(conv), str(fused), "--devices", "HETERO:CPU"),
        *("--json", "--out", str(tmp_path / "out")),
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["format"], document["same"]) == ("hetero-editor/diff", False)
    assert json.loads((tmp_path / "out" / "diff.json").read_text()) == document
    rows = list(csv.DictReader((tmp_path / "out" / "diff.csv").read_text().splitlines()))
    assert len(rows) == len(document["pairs"]) + len(document["went"]) + len(document["came"])
    assert {row["state"] for row in rows} == {"same", "changed", "went"}
    for name in ("before", "after"):
        assert editor.load_plan(tmp_path / "out" / f"{name}.json").subgraphs


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("{conv}", "missing.onnx"), "missing.onnx: no such file"),
        (("{conv}", "{text}"), "not an ONNX model"),
        (("{conv}", "{other}", "--devices", "none"), "no op in common"),
        (("{conv}", "{conv}", "--out", "x.txt"), "ends in .json or .csv, or a folder"),
        (("{conv}", "{conv}", "--devices", "HETERO:NOWHERE,"), "error: "),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(
    conv: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "text.onnx").write_text("no model")
    other = (
        '<ir_version: 8, opset_import: ["":17]> g (int64[2] q) => (bool[2] z) { z = Cast<to=9>(q) }'
    )
    onnx.save(parser.parse_model(other), tmp_path / "other.onnx")
    places = {"conv": conv, "text": tmp_path / "text.onnx", "other": tmp_path / "other.onnx"}
    done = run("diff", *(one.format(**places) for one in arguments))
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
