"""Models as exporters write them: weights in branches and Constant nodes, and what only ``onnx.checker`` refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import editor
from editor.exports.formats import ExportForm
from editor.graph.external_data import all_tensors, entry_of, is_external

SIZE = 64
_DEVICES = [{"name": "A", "backendName": "CPU"}, {"name": "OV", "backendName": "openvino"}]
_LOADED: tuple[ExportForm, ...] = ("onnx", "onnxruntime", "openvino", "tvm", "split")


def value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, SIZE])


def weight(name: str, factor: float = 1.0) -> TensorProto:
    values = np.random.default_rng(0).standard_normal((SIZE, SIZE)).astype(np.float32)
    return numpy_helper.from_array(values * np.float32(factor / SIZE), name)


def model_of(*nodes: onnx.NodeProto, weights: tuple[TensorProto, ...] = ()) -> ModelProto:
    return helper.make_model(
        helper.make_graph(nodes, "g", [value("x")], [value("y")], weights),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )


def in_branches() -> ModelProto:
    """One branch has its weight as an initializer, the other in a Constant node."""
    node = helper.make_node
    then_branch = helper.make_graph(
        [node("MatMul", ["b", "w1"], ["p"])], "then", [], [value("p")], [weight("w1")]
    )
    else_branch = helper.make_graph(
        [
            node("Constant", [], ["w2"], value=weight("", 2)),
            node("MatMul", ["b", "w2"], ["q"]),
        ],
        "else",
        [],
        [value("q")],
    )
    return model_of(
        node("Relu", ["x"], ["b"]),
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["c"]),
        node("If", ["c"], ["i"], then_branch=then_branch, else_branch=else_branch),
        node("Abs", ["i"], ["y"]),
        weights=(numpy_helper.from_array(np.array(0, np.float32), "zero"),),
    )


def in_constants() -> ModelProto:
    node = helper.make_node
    return model_of(
        node("Constant", [], ["w"], value=weight("")),
        node("MatMul", ["x", "w"], ["b"]),
        node("Abs", ["b"], ["y"]),
    )


def move_outside(model: ModelProto, path: Path) -> None:
    """Writes a model with its large tensors, wherever they are, in ``w.bin``."""
    data = b""
    for tensor in all_tensors(model):
        if tensor.HasField("raw_data") and len(tensor.raw_data) > SIZE:
            entries = {"location": "w.bin", "offset": len(data), "length": len(tensor.raw_data)}
            data += tensor.raw_data
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, entry in entries.items():
                tensor.external_data.add(key=key, value=str(entry))
    path.with_name("w.bin").write_bytes(data)
    path.write_bytes(model.SerializeToString())


def results_of(path: Path, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    result: np.ndarray = session.run(None, {"x": x})[0]
    return result


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("made", [in_branches, in_constants])
@pytest.mark.parametrize("device", ["A", "OV"])
def test_weights_in_branches_and_constants(
    tmp_path: Path, made: Callable[[], ModelProto], outside: bool, device: str
) -> None:
    model = made()
    path = tmp_path / "m.onnx"
    if outside:
        move_outside(model, path)
        assert any(is_external(t) for t in all_tensors(onnx.load(path, load_external_data=False)))
    else:
        onnx.save(model, path)
    graph = editor.load_model(path)
    key = next(key for key in ("i", "b") if key in graph.key_index)
    plan = editor.partition(
        graph, _DEVICES, pins={key: device, "y": "A" if device == "OV" else "OV"}
    )
    for sign in (1, -1):
        x = np.full((1, SIZE), sign, np.float32)
        expected = results_of(path, x)
        np.testing.assert_allclose(plan.run({"x": x})["y"], expected, rtol=1e-3, atol=1e-5)
        for form in _LOADED:
            out = tmp_path / form
            models = [p for p in plan.export(form, out) if p.suffix == ".onnx"]
            for copy in models:
                loaded = onnx.load(copy, load_external_data=False)
                for tensor in filter(is_external, all_tensors(loaded)):
                    assert (out / entry_of(tensor, "location")).is_file()
            if form != "split":
                np.testing.assert_allclose(results_of(models[0], x), expected, rtol=1e-5)


def unsorted_nodes(model: ModelProto) -> None:
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def no_name(model: ModelProto) -> None:
    model.graph.name = ""


def untyped_output(model: ModelProto) -> None:
    model.graph.output[0].ClearField("type")


@pytest.mark.parametrize("spoil", [unsorted_nodes, no_name, untyped_output])
def test_every_export_takes_what_only_the_checker_refuses(
    tmp_path: Path, spoil: Callable[[ModelProto], None]
) -> None:
    model = model_of(helper.make_node("Neg", ["x"], ["b"]), helper.make_node("Relu", ["b"], ["y"]))
    spoil(model)
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(model)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    plan = editor.partition(path, _DEVICES, pins={"b": "OV"})
    x = np.linspace(-1, 1, SIZE, dtype=np.float32)[None]
    for form in _LOADED:
        for copy in plan.export(form, tmp_path / form):
            if copy.suffix == ".onnx" and form != "split":
                np.testing.assert_array_equal(results_of(copy, x), np.maximum(-x, 0))


@pytest.mark.parametrize("name", ["block/" * 60, 'a "b" & c &amp; d\\e <f>', "…" * 200])
def test_names_of_any_length_come_back_from_dot(tmp_path: Path, name: str) -> None:
    node = helper.make_node
    model = model_of(node("Neg", ["x"], [f"{name}1"]), node("Abs", [f"{name}1"], ["y"]))
    onnx.save(model, tmp_path / "m.onnx")
    plan = editor.partition(tmp_path / "m.onnx", _DEVICES, pins={f"{name}1": "OV", "y": "A"})
    dump = next(p for p in plan.export("dot", tmp_path) if "affinity" in p.name)
    imported, report = editor.partition(tmp_path / "m.onnx", _DEVICES).import_affinities(dump)
    assert imported.affinity == plan.affinity and not report.problems


def test_an_export_says_that_openvino_cannot_read_the_model(tmp_path: Path) -> None:
    node = helper.make_node
    model = model_of(
        node("Neg", ["x"], ["b"]), node("Binarizer", ["b"], ["y"], domain="ai.onnx.ml")
    )
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    onnx.save(model, tmp_path / "m.onnx")
    plan = editor.partition(tmp_path / "m.onnx", _DEVICES, pins={"b": "OV", "y": "A"})
    cause = (
        "the script cannot load this model: OpenVINO: no conversion rule for ai.onnx.ml.Binarizer"
    )
    with pytest.warns(UserWarning, match=cause):
        plan.export("openvino", tmp_path / "out")
    sidecar = json.loads((tmp_path / "out" / "m.affinities.json").read_text())
    assert sidecar["problem"].startswith(cause)
    imported, _ = editor.partition(tmp_path / "m.onnx", _DEVICES).import_affinities(
        tmp_path / "out" / "m.affinities.json"
    )
    assert imported.affinity == plan.affinity
