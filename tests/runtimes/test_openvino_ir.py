"""OpenVINO IR, and what OpenVINO's front ends make of TFLite: opened, placed, split, run and exported."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from conftest import EXAMPLES, python
from decoders import HEADS, SIZE
from foreign_models import computed, frozen_graph, paddle_program
from ir_nets import (
    NETS,
    chain,
    decoder,
    named,
    quantised,
    save,
    with_branches,
    with_int4_weights,
    with_state,
)
from openvino import opset13 as ops

import editor
from editor.execution.cut import Cutter, cut
from editor.execution.invented_inputs import random_inputs
from editor.graph.flops import op_flops
from editor.graph.front_ends import _convert, source_of
from editor.graph.graph import shape_of
from editor.graph.openvino_ir import is_ir
from editor.graph.scopes.tree import scopes_of
from editor.graph.states import states_of
from editor.placement.state_memory import state_memory
from editor.workspace.layouts import (
    BY_OPENVINO,
    of_other_tools,
    ready_made,
    reasons_of_difference,
)

TFLITE = Path(__file__).parents[1] / "data" / "formats" / "nmp.tflite"
TWO = [
    {"name": "A", "backendName": "OpenVINO.CPU"},
    {"name": "B", "backendName": "OpenVINO.CPU"},
]


def converted(name: str, folder: Path, **shapes: list[int]) -> Path:
    """A bundled ONNX model as IR; ``shapes`` fixes inputs."""
    model = ov.Core().read_model(EXAMPLES / "models" / f"{name}.onnx")
    if shapes:
        model.reshape(shapes)
    return save(model, folder / f"{name}.xml")


def placed_keys(plan: editor.Plan) -> list[str]:
    graph = plan.graph
    return [key for op, key in enumerate(graph.op_keys) if not graph.op_is_constant[op]]


def by_openvino(path: Path, inputs: dict[str, Any]) -> list[Any]:
    """What OpenVINO computes by itself, in float32."""
    hints = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    return list(ov.Core().compile_model(path, "CPU", hints)(inputs).values())


@pytest.mark.parametrize("net", NETS, ids=lambda net: net.__name__)
def test_every_cut_of_an_ir_computes_what_openvino_does(
    net: Callable[[], Any], tmp_path: Path
) -> None:
    path = save(net(), tmp_path / "net.xml")
    plan = editor.partition(path, TWO)
    inputs = dict(random_inputs(plan.graph))
    expected = by_openvino(path, inputs)
    keys = placed_keys(plan)
    for start in range(len(keys)):
        split = plan.repin(dict.fromkeys(keys[start:], "B"))
        assert len(split.subgraphs) >= (2 if start else 1)
        for _ in range(2):  # a state begins anew in each run
            for value, right in zip(split.run(inputs).values(), expected, strict=True):
                assert value.shape == right.shape
                # Cut off its FakeQuantize a convolution is computed in float: a tie may be rounded to the next step.
                step = 16 / 255 if net is quantised and start else 0
                assert np.abs(value.astype(np.float64) - right).max() <= step * 1.001
        assert split.successor is None


@pytest.mark.parametrize("version", ["IR_V10", "IR_V11"])
def test_layers_have_their_names_types_shapes_and_work(version: str, tmp_path: Path) -> None:
    graph = editor.load_model(save(chain(), tmp_path / "net.xml", version))
    assert (graph.source, graph.op_names) == ("openvino", ("relu", "product", "y"))
    assert graph.op_keys == ("relu", "product", "y")
    assert [graph.type_label(op) for op in range(3)] == ["ReLU", "MatMul", "Tanh"]
    assert graph.op_types == ("Relu", "MatMul", "Tanh")
    assert [graph.shape_label(t) for t in (*graph.inputs, *graph.outputs)] == ["2x4", "2x4"]
    assert op_flops(graph)[1] == 2 * 2 * 4 * 4
    assert int(graph.tensor_bytes[graph.tensor_is_constant].sum()) == 64


def test_an_ir_says_of_a_network_what_its_onnx_says(tmp_path: Path) -> None:
    path = converted("mobilenetv2", tmp_path)
    graph = editor.load_model(path)
    onnx = editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx")
    assert op_flops(graph)[~graph.op_is_constant].sum() == pytest.approx(
        op_flops(onnx)[~onnx.op_is_constant].sum(), rel=0.05
    )
    kinds = [kind for op, kind in enumerate(graph.op_types) if not graph.op_is_constant[op]]
    assert kinds.count("Conv") == onnx.op_types.count("Conv")
    plan = editor.partition(
        graph, TWO, policy="rules", rules=[{"type": "Conv", "to": "A"}, {"type": "*", "to": "B"}]
    )
    assert plan.placement.op_counts["A"] == kinds.count("Conv")
    x = {"pixel_values": np.random.default_rng(0).random((1, 3, 224, 224), np.float32)}
    assert np.allclose(plan.run(x)["logits"], by_openvino(path, x)[0], atol=1e-5)


@pytest.mark.parametrize("name", ["mobilenetv2", "resnet50"])
def test_an_ir_of_an_onnx_file_has_its_blocks(name: str, tmp_path: Path) -> None:
    """A convolution that OpenVINO divides was a block of its own, and so were weights that are computed."""
    graphs = (converted(name, tmp_path), EXAMPLES / "models" / f"{name}.onnx")
    blocks = [{scope.path for scope in scopes_of(editor.load_model(g)).scopes} for g in graphs]
    assert blocks[0] == blocks[1]
    assert len(blocks[0]) > 100
    assert not any(path[-1] in ("weight", "bias") for path in blocks[0] if path)


def test_open_sizes_are_chosen_and_openvino_infers_the_rest(tmp_path: Path) -> None:
    path = converted("resnet50", tmp_path)
    graph = editor.load_model(path)
    assert graph.unbound == ("pixel_values[0]",)
    graph = editor.load_model(path, {"pixel_values[0]": 3})
    assert graph.tensor_shapes[graph.outputs[0]] == (3, 1000)
    assert (graph.tensor_bytes[graph.op_outputs.values] >= 0).all()
    x = ops.parameter([ov.Dimension(), 4], ov.Type.f32, name="x")
    fixed = ops.reshape(x, ops.constant(np.array([2, 8])), False)
    path = save(ov.Model([named(ops.relu(fixed), "y")], [x], "net"), tmp_path / "net.xml")
    with pytest.raises(editor.ModelError, match=r"cannot have the sizes x\[0\]=3"):
        editor.load_model(path, {"x[0]": 3})


def test_other_devices_are_planned_and_say_why(tmp_path: Path) -> None:
    plan = editor.partition(save(chain(), tmp_path / "net.xml"), "HETERO:CPU,OpenVINO.CPU")
    cpu, real = plan.devices
    assert (cpu.planned, real.planned) == (True, False)
    assert "OpenVINO IR" in cpu.description
    x = np.ones((2, 4), np.float32)
    split = plan.repin({"product": "OpenVINO.CPU"})
    assert np.array_equal(split.run({"x": x})["y"], by_openvino(tmp_path / "net.xml", {"x": x})[0])


def test_what_openvino_cannot_run_is_refused_with_its_reason(tmp_path: Path) -> None:
    path = save(chain(), tmp_path / "net.xml")
    text = path.read_text()
    path.write_text(text.replace('type="Tanh"', 'type="NoSuchLayer"'))
    plan = editor.partition(path, "HETERO:OpenVINO.CPU,NPU")
    assert set(plan.affinity.values()) == {"NPU"}
    assert "NoSuchLayer" in str(plan.why("y"))


def test_states_are_read_and_set_on_one_device(tmp_path: Path) -> None:
    plan = editor.partition(save(with_state(), tmp_path / "net.xml"), TWO)
    (pair,) = plan.graph.state_pairs
    read, write = (plan.graph.op_keys[op] for op in pair)
    moved = plan.repin({read: "B"})
    assert moved.affinity[write] == "B"
    with pytest.raises(editor.PinError, match="one state"):
        plan.repin({read: "A", write: "B"})


def test_a_decoder_with_its_cache_inside_is_split_and_generates(tmp_path: Path) -> None:
    """A run begins without a past, and has the sizes of that; tokens go on from it, over any cut."""
    path = save(decoder(tmp_path), tmp_path / "decoder.xml")
    graph = editor.load_model(path, {"batch": 1, "sequence": 6})
    placed = [op for op in range(len(graph)) if not graph.op_is_constant[op]]
    made = [
        int(t) for op in placed for t in graph.op_outputs[op] if graph.op_layers[op] != "Assign"
    ]
    assert not any("?" in graph.shape_label(tensor) for tensor in made)
    assert {(state.axis, state.inside) for state in states_of(graph)} == {(2, True)}

    prompt, new = list(range(1, 14)), 6
    hints = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    request = ov.Core().compile_model(path, "CPU", hints).create_infer_request()
    ids, past, logits = prompt, 0, []
    for _ in range(new):
        past += len(ids)
        mask, beam = np.ones((1, past), np.int64), np.zeros(1, np.int32)
        found = request.infer(
            {"input_ids": np.array([ids]), "attention_mask": mask, "beam_idx": beam}
        )
        logits.append(found["logits"][0, -1].copy())
        ids = [int(logits[-1].argmax())]

    plan = editor.partition(graph, TWO)
    inputs, keys = dict(random_inputs(graph)), [graph.op_keys[op] for op in placed]
    expected = by_openvino(path, inputs)
    for start in range(0, len(keys), 11):
        split = plan.repin(dict.fromkeys(keys[start : start + 9], "B"))
        assert len(split.subgraphs) > 1
        for value, right in zip(split.run(inputs).values(), expected, strict=True):
            assert np.abs(value - right).max() == 0
        # A size of 0 in what a part reads ended the process while OpenVINO compiled parts of 16 layers of 1,024.
        parts = [part for part in cut(split.placement, Cutter.open(graph)) if part is not None]
        read = [shape_of(value.type) for part in parts for value in part.model.graph.input]
        assert None not in read and not any(0 in (shape or ()) for shape in read)
        for _ in range(2):  # a sequence begins anew
            answer = split.generate(prompt, new)
            assert np.allclose(np.array(answer.logits), logits, atol=1e-6), keys[start]
    answer = plan.generate(prompt, new)
    assert np.array_equal(np.array(answer.logits), logits)
    assert plan.generate(prompt, new).tokens == answer.tokens


def test_a_state_that_begins_with_values_generates_in_one_piece_only(tmp_path: Path) -> None:
    ids = named(ops.parameter([1, 1], ov.Type.i64), "input_ids")
    table = ops.constant(np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32))
    x = ops.gather(table, ops.reshape(ids, ops.constant([1]), False), ops.constant(np.int64(0)))
    before = ops.read_value(ops.constant(np.full((1, 4), 5, np.float32)), "s", ov.Type.f32, [1, 4])
    total = named(ops.add(x, before), "total")
    logits = named(ops.matmul(total, table, False, True), "logits")
    model = ov.Model([ops.result(logits)], [ops.assign(total, "s")], [ids], "sum")
    plan = editor.partition(save(model, tmp_path / "sum.xml"), TWO)
    answer = plan.generate([3], 2)
    weights = table.data
    assert np.allclose(answer.logits[0], (weights[3] + 5) @ weights.T, atol=1e-5)
    after = weights[3] + weights[answer.tokens[0]] + 5
    assert np.allclose(answer.logits[1], after @ weights.T, atol=1e-5)
    with pytest.raises(editor.ExecutionError, match="assign all ops to one device"):
        plan.repin({"logits": "B"}).generate([3], 2)


def test_the_cache_inside_of_an_ir_takes_memory(tmp_path: Path) -> None:
    path = save(decoder(tmp_path), tmp_path / "decoder.xml")
    plan = editor.partition(editor.load_model(path, {"batch": 1, "sequence": 6}), TWO)
    (kept,) = state_memory(plan.placement)
    assert (kept.device, kept.states, kept.context) == ("A", 4, 6)
    assert kept.bytes_per_token == 4 * HEADS * SIZE * 4


def test_bodies_are_atomic_and_their_layers_are_found(tmp_path: Path) -> None:
    plan = editor.partition(save(with_branches(), tmp_path / "net.xml"), TWO)
    graph = plan.graph
    (either,) = np.flatnonzero(graph.op_is_atomic).tolist()
    assert graph.op_types[either] == "If"
    inner = {(op.body, op.op_type) for op in graph.inner_ops}
    assert {("then_branch", "Exp"), ("else_branch", "Negative")} <= inner
    name = next(op.name for op in graph.inner_ops if op.op_type == "Exp")
    assert "placed as one op" in plan.why(name).because


def test_the_export_keeps_the_ir_and_its_script_sets_the_affinities(tmp_path: Path) -> None:
    path = converted("mobilenetv2", tmp_path)
    plan = editor.partition(path, TWO)
    keys = placed_keys(plan)
    plan = plan.repin(dict.fromkeys(keys[20:40], "B"))
    with pytest.warns(UserWarning, match="both as its CPU"):
        written = plan.export("openvino", tmp_path / "out")
    assert [file.name for file in written] == [
        "mobilenetv2.xml",
        "mobilenetv2.bin",
        "mobilenetv2.affinities.json",
        "mobilenetv2_openvino.py",
    ]
    model = ov.Core().read_model(written[0])
    assert model.get_rt_info(["hetero_editor", "affinities"]).astype(str) == written[2].name
    sidecar = json.loads(written[2].read_text())
    friendly = {op.get_friendly_name() for op in model.get_ordered_ops()}
    assert set(sidecar["affinities"]) <= friendly
    # The device of the export is OpenVINO's; that of the plan is told apart by the script's own means.
    sidecar["affinities"] = {
        plan.graph.op_names[plan.graph.key_index[key]]: device
        for key, device in plan.affinity.items()
    }
    written[2].write_text(json.dumps(sidecar))
    code = (
        "import mobilenetv2_openvino as made; model, _ = made.annotated(); "
        "print({o.get_friendly_name(): o.get_rt_info()['affinity'].astype(str) for o in model.get_ordered_ops()})"
    )
    done = python("-c", code, cwd=tmp_path / "out", check=True)
    set_there = eval(done.stdout)  # a dict of texts that this test printed
    assert all(set_there[name] == device for name, device in sidecar["affinities"].items())
    with pytest.raises(editor.ExportError, match="--to openvino"):
        plan.export("split", tmp_path / "split")


@pytest.mark.parametrize(
    "net", [*NETS, "mobilenetv2"], ids=lambda net: getattr(net, "__name__", net)
)
def test_parts_of_an_ir_run_without_the_editor(net: Any, tmp_path: Path) -> None:
    path = converted(net, tmp_path) if isinstance(net, str) else save(net(), tmp_path / "net.xml")
    plan = editor.partition(path, TWO)
    keys = placed_keys(plan)
    plan = plan.repin(dict.fromkeys(keys[len(keys) // 3 : len(keys) // 2], "B"))
    written = plan.export("split-ir", tmp_path / "out")
    inputs = dict(random_inputs(plan.graph))
    np.savez(tmp_path / "in.npz", **inputs)
    run = [sys.executable, "run.py", tmp_path / "in.npz", tmp_path / "out.npz"]
    done = subprocess.run(run, cwd=tmp_path / "out", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run[2:] = ["--random"]
    said = subprocess.run(run, cwd=tmp_path / "out", capture_output=True, text=True, check=True)
    names = [plan.graph.tensor_names[t] for t in plan.graph.outputs.tolist()]
    assert [line.split()[0] for line in said.stdout.splitlines()] == names
    expected = plan.run(inputs)
    found = np.load(tmp_path / "out.npz")
    assert set(found) == set(expected)
    assert all(np.array_equal(found[name], value) for name, value in expected.items())
    parts = [ov.Core().read_model(file) for file in written if file.suffix == ".xml"]
    assert len(parts) == len(plan.subgraphs)
    origin = parts[0].get_rt_info(["hetero_editor", "made_by"]).astype(str)
    assert plan.sha256 in origin


def test_parts_for_a_device_that_is_not_here_run_on_the_cpu_and_say_so(tmp_path: Path) -> None:
    plan = editor.partition(save(chain(), tmp_path / "net.xml"), "HETERO:GPU,OpenVINO.CPU")
    plan = plan.repin({"product": "OpenVINO.CPU"})
    plan.export("split-ir", tmp_path / "out")
    code = "import numpy, run; print(run.Split().run({'x': numpy.ones((2, 4), numpy.float32)}))"
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, cwd=tmp_path / "out", capture_output=True, text=True, check=True)
    assert "OpenVINO has no GPU here; subgraph 0 runs on the CPU" in done.stderr


def test_a_plan_of_an_ir_is_saved_opened_and_drawn(tmp_path: Path) -> None:
    plan = editor.partition(save(chain(), tmp_path / "net.xml"), TWO, pins={"product": "B"})
    plan.save(tmp_path / "plan.json")
    stored = json.loads((tmp_path / "plan.json").read_text())
    assert stored["model"]["format"] == "openvino"
    again = editor.load_plan(tmp_path / "plan.json")
    assert again.affinity == plan.affinity
    (tmp_path / "dot").mkdir()
    written = plan.export("dot", tmp_path / "dot")
    affinity = next(file for file in written if file.name == "hetero_affinity_net.dot")
    imported, report = editor.partition(plan.graph, TWO).import_affinities(affinity)
    assert (imported.affinity, report.problems) == (plan.affinity, ())


def test_profiles_say_the_time_of_each_layer(tmp_path: Path) -> None:
    from editor.execution.measure.profile import profile_here

    plan = editor.partition(converted("mobilenetv2", tmp_path), TWO)
    found = profile_here(plan.graph, plan.devices[:1], 0.5, 0)["A"]
    assert not isinstance(found, str)
    assert len(found.seconds) > 100


BAD = {
    "an entity": (lambda text: text.replace("<net ", '<!DOCTYPE a [<!ENTITY b "c">]><net ', 1), "document type"),
    "a weight outside the bin": (lambda text: text.replace('offset="0" size="64"', 'offset="900" size="64"'), "has 64"),
    "a cycle": (lambda text: text.replace('from-layer="0" from-port="0"', 'from-layer="3" from-port="2"'), "cycle"),
    "a giant dimension": (lambda text: text.replace("<dim>4</dim>", f"<dim>{2**63}</dim>"), "dimension"),
    "an old version": (lambda text: text.replace('version="11"', 'version="7"'), "version 7"),
    "no edges": (lambda text: text[: text.index("<edges>")] + "</net>", "no edge goes to port 0"),
    "an edge from nowhere": (lambda text: text.replace('from-layer="0"', 'from-layer="77"'), "layer 77"),
    "a cut file": (lambda text: text[:900], "damaged or cut short"),
    "an unknown type": (lambda text: text.replace('element_type="f32"', 'element_type="q9"'), "element type 'q9'"),
    "equal ids": (lambda text: text.replace('id="1" name', 'id="0" name'), "same id"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_bad_ir_is_one_sentence(what: str, tmp_path: Path) -> None:
    path = save(chain(), tmp_path / "net.xml")
    change, said = BAD[what]
    changed = change(path.read_text())
    assert changed != path.read_text()
    path.write_text(changed)
    with pytest.raises(editor.ModelError, match=said) as error:
        editor.partition(path, TWO)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_bodies_a_thousand_deep_are_refused(tmp_path: Path) -> None:
    deep = '<layer id="0" name="l" type="If" version="opset8"><then_body><layers>' * 1000
    path = tmp_path / "deep.xml"
    path.write_text(
        f'<?xml version="1.0"?><net name="n" version="11"><layers>{deep}'
        + "</layers></then_body></layer>" * 1000
        + "</layers></net>"
    )
    with pytest.raises(editor.LimitError, match="inside each other"):
        editor.load_model(path)


def test_an_ir_without_its_weights_opens_and_says_so(tmp_path: Path) -> None:
    path = save(chain(), tmp_path / "net.xml")
    path.with_suffix(".bin").unlink()
    graph = editor.load_model(path)
    assert "net.bin" in graph.notes[0]
    plan = editor.partition(graph, "HETERO:OpenVINO.CPU,NPU")
    assert set(plan.affinity.values()) == {"NPU"}
    with pytest.raises(editor.ExecutionError, match=r"net\.bin"):
        plan.run({"x": np.ones((2, 4), np.float32)})


def test_an_onnx_file_cannot_pass_as_an_ir(tmp_path: Path) -> None:
    import onnx
    from onnx import helper

    info = helper.make_tensor_value_info("x", 1, [1])
    node = helper.make_node("Assign", ["x"], ["y"], domain="openvino")
    graph = helper.make_graph([node], "g", [info], [helper.make_tensor_value_info("y", 1, [1])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("openvino", 11)])
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(editor.ModelError, match="not for ONNX files"):
        editor.load_model(tmp_path / "net.onnx")


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    path = save(chain(), tmp_path / "net.xml")
    plan = editor.partition(path, TWO)
    path.write_text(path.read_text().replace("product", "produkt"))
    with pytest.raises(editor.ExecutionError, match="changed since it was opened"):
        plan.run({"x": np.ones((2, 4), np.float32)})


def test_tflite_opens_by_way_of_openvino_and_computes_the_same(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    shutil.copy(TFLITE, path)
    graph = editor.load_model(path)
    assert (graph.source, graph.name, graph.path) == ("tflite", "model", path)
    name = graph.tensor_names[graph.inputs[0]]
    assert name == "serving_default_input_2:0"
    blocks = {scope.path for scope in scopes_of(graph).scopes}
    assert ("model_1", "cq_t2010v2_1", "conv1d_2") in blocks
    assert not any(";" in part for path in blocks for part in path)
    with pytest.warns(UserWarning, match="sizes assumed"):
        plan = editor.partition(path, TWO)
    keys = placed_keys(plan)
    split = plan.repin(dict.fromkeys(keys[60:120], "B"))
    assert len(split.subgraphs) > 1
    x = {name: np.random.default_rng(0).standard_normal((1, 43844, 1)).astype(np.float32)}
    expected = by_openvino(path, x)
    for value, right in zip(split.run(x).values(), expected, strict=True):
        assert np.allclose(value, right, atol=1e-5)
    split.save(tmp_path / "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text())["model"]["format"] == "tflite"
    assert editor.load_plan(tmp_path / "plan.json").affinity == split.affinity


FOREIGN = {
    "tensorflow": (frozen_graph, "net.pb", "a frozen TensorFlow graph"),
    "paddle": (paddle_program, "net.pdmodel", "a PaddlePaddle model"),
}


@pytest.mark.parametrize("source", FOREIGN)
def test_whole_models_of_tensorflow_and_paddle_compute_what_they_say(
    source: str, tmp_path: Path
) -> None:
    make, name, _ = FOREIGN[source]
    path = make(tmp_path / name)
    graph = editor.load_model(path)
    assert (graph.source, graph.name, graph.path) == (source, "net", path)
    assert {"probs", "images"} == {
        graph.tensor_names[t].removesuffix(":0") for t in (*graph.inputs, *graph.outputs)
    }
    (batch,) = graph.unbound
    plan = editor.partition(editor.load_model(path, {batch: 2}), TWO)
    images = np.random.default_rng(1).standard_normal((2, 6, 6, 2)).astype(np.float32)
    given = images if source == "tensorflow" else images.transpose(0, 3, 1, 2).copy()
    keys = placed_keys(plan)
    kinds = {plan.graph.op_types[plan.graph.key_index[key]] for key in keys}
    assert {"Conv", "Add", "Relu", "ReduceMean", "MatMul", "Softmax"} <= kinds
    assert plan.affinity.keys() >= {k for k in ("head/MatMul:0", "conv.out") if k in keys}
    for start in range(len(keys)):
        split = plan.repin(dict.fromkeys(keys[start:], "B"))
        (probs,) = split.run({graph.tensor_names[graph.inputs[0]]: given}).values()
        assert np.allclose(probs, computed(images), atol=1e-6)
    split.save(tmp_path / "plan.json")
    assert editor.load_plan(tmp_path / "plan.json").affinity == split.affinity


@pytest.mark.parametrize("source", FOREIGN)
def test_names_of_a_converted_model_do_not_depend_on_what_was_read_before(
    source: str, tmp_path: Path
) -> None:
    """OpenVINO numbers the layers that it makes in the order of the process; plans name ops by these numbers."""
    make, name, _ = FOREIGN[source]
    path = make(tmp_path / name)
    found = source_of(path)
    assert found is not None
    for target in ("one.xml", "two.xml"):
        _convert(path, found, tmp_path / target)
        ov.Core().read_model(EXAMPLES / "models" / "mobilenetv2.onnx")
    texts = [re.sub(' id="[^"]*"', "", (tmp_path / t).read_text()) for t in ("one.xml", "two.xml")]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("source", FOREIGN)
@pytest.mark.parametrize("fault", ["cut", "foreign"])
def test_damaged_models_of_tensorflow_and_paddle_are_one_sentence(
    fault: str, source: str, tmp_path: Path
) -> None:
    make, name, title = FOREIGN[source]
    path = make(tmp_path / name)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] if fault == "cut" else b"PK" + bytes(200))
    with pytest.raises(editor.ModelError, match=f"{title}, which OpenVINO cannot read") as error:
        editor.load_model(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_a_paddle_model_without_its_weights_says_so(tmp_path: Path) -> None:
    path = paddle_program(tmp_path / "net.pdmodel")
    path.with_suffix(".pdiparams").unlink()
    with pytest.raises(editor.ModelError, match=r"pdiparams"):
        editor.load_model(path)


def test_damaged_and_foreign_files_are_named(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.tflite"
    damaged.write_bytes(TFLITE.read_bytes()[:5000])
    with pytest.raises(editor.EditorError, match=r"damaged\.tflite"):
        editor.load_model(damaged)
    graph = tmp_path / "frozen.pb"
    graph.write_bytes(b"\x0a\x07garbage")
    with pytest.raises(editor.ModelError, match="TensorFlow graph, which OpenVINO cannot read"):
        editor.load_model(graph)
    for name, said in {
        "model.gguf": "llama.cpp",
        "model.safetensors": "no graph",
        "model.pt": "runs code",
        "model.h5": "Keras",
        "model.mlmodel": "Core ML",
        "model.engine": "TensorRT",
        "net.bin": "name the .xml",
    }.items():
        (tmp_path / name).write_bytes(b"\0" * 64)
        with pytest.raises(editor.ModelError, match=said):
            editor.load_model(tmp_path / name)


def test_modules_of_pytorch_are_in_the_names_of_layers(tmp_path: Path) -> None:
    model = chain()
    for op in model.get_ops():
        if op.get_friendly_name() in ("relu", "product"):
            op.set_friendly_name(f"__module.layers.{len(op.get_friendly_name())}/aten::x/Op")
    graph = editor.load_model(save(model, tmp_path / "net.xml"))
    assert graph.op_modules == ("layers.4", "layers.7", "")


def test_weights_of_a_converted_model_stay_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"of somebody else")
    variables = tmp_path / "net" / "variables"
    variables.mkdir(parents=True)
    (tmp_path / "net" / "saved_model.pb").write_bytes(b"\x0a\x00")
    (variables / "variables.index").symlink_to(tmp_path / "secret")
    with pytest.raises(editor.ModelError, match="outside the model's folder"):
        editor.load_model(tmp_path / "net")


def test_an_ir_is_told_by_its_content() -> None:
    assert is_ir(b'\xef\xbb\xbf<?xml version="1.0"?>\n<net name="a" version="11">')
    assert not is_ir(b'<?xml version="1.0"?><svg/>')
    assert not is_ir(b"\x08\x07\x12\x04")


@pytest.mark.parametrize("net", [chain, with_int4_weights], ids=lambda net: net.__name__)
def test_npuw_compiles_the_groups_of_its_plan(net: Callable[[], Any], tmp_path: Path) -> None:
    path = save(net(), tmp_path / "net.xml")
    plan = editor.partition(path, TWO)
    keys = placed_keys(plan)
    plan = plan.repin(dict.fromkeys(keys[1:], "B"))
    written = plan.export("npuw", tmp_path / "out")
    x = dict(random_inputs(plan.graph))
    cache = tmp_path / "cache"
    cache.mkdir()
    code = (
        f"import net_npuw as made; compiled = made.compile_model(properties={{'NPUW_CACHE_DIR': {str(cache)!r}}})\n"
        "import numpy, pathlib; "
        f"numpy.save('out.npy', compiled(dict(numpy.load({str(tmp_path / 'in.npz')!r})))[0])"
    )
    np.savez(tmp_path / "in.npz", **x)
    environment = {**os.environ, "NPUW_DEVICES": "CPU"}
    run = [sys.executable, "-c", code]
    subprocess.run(run, cwd=tmp_path / "out", check=True, env=environment)
    assert len(list(cache.rglob("*.blob"))) == len(plan.subgraphs) == 2
    expected = by_openvino(path, x)[0]
    assert np.allclose(np.load(tmp_path / "out" / "out.npy"), expected, atol=0.02)  # NPUW: bf16
    again, report = editor.partition(path, TWO).import_affinities(written[0])
    assert (again.affinity, report.problems) == (plan.affinity, ())
    written[0].write_text(written[0].read_text().replace("relu", "relo").replace("Relu", "Relo"))
    failed = subprocess.run(
        run, check=False, cwd=tmp_path / "out", env=environment, capture_output=True, text=True
    )
    assert failed.returncode == 1
    assert "the plan lacks the layer" in failed.stderr


def test_an_onnx_model_has_no_npuw_plan(tmp_path: Path) -> None:
    plan = editor.partition(EXAMPLES / "models" / "mobilenetv2.onnx", "HETERO:CPU")
    with pytest.raises(editor.ExportError, match="make IR of it"):
        plan.export("npuw", tmp_path)


def two_chains() -> Any:
    x, z = (ops.parameter([2, 4], ov.Type.f32, name=name) for name in "xz")
    ends = [named(ops.tanh(ops.relu(x)), "y"), named(ops.exp(ops.relu(z)), "w")]
    return ov.Model(ends, [x, z], "two_chains")


@pytest.mark.parametrize("form", ["xml", "onnx"])
def test_openvino_itself_is_a_layout_with_the_reasons_of_each_difference(
    form: str, tmp_path: Path
) -> None:
    """A table may forbid a device an op that it can run: HETERO knows no table, and takes the first device that claims it."""
    path = EXAMPLES / "models" / "mobilenetv2.onnx"
    if form == "xml":
        path = save(two_chains(), tmp_path / "net.xml")
    kind, key = ("Tanh", "w") if form == "xml" else ("Conv", "logits")
    table = [{**TWO[0], "nonSupportedNodes": kind}, TWO[1]]
    plan = editor.partition(path, table, pins={key: "B"})
    (found,) = ready_made(plan.placement, [BY_OPENVINO])
    assert found.placement is not None, found.problem
    compiled = ov.Core().compile_model(path, "HETERO:CPU")
    count = compiled.get_property("HETERO_NUMBER_OF_SUBMODELS")
    assert len(found.placement.subgraphs) == count
    assert found.placement.op_counts["A"] == len(placed_keys(plan))
    reasons = {
        frozenset(plan.graph.op_types[op] for op in few): reason
        for reason, few in reasons_of_difference(plan.placement, found.placement)
    }
    assert reasons[frozenset({kind})] == (
        f"on B, there on A: A: the device table excludes {kind} on A by its Block-list (nonSupportedNodes)"
    )
    assert list(reasons.values()).count("on B, there on A: pinned") == 1
    assert of_other_tools(plan.placement)[0].name == BY_OPENVINO


def test_a_report_compares_with_what_openvino_itself_does(tmp_path: Path) -> None:
    plan = editor.partition(save(chain(), tmp_path / "net.xml"), TWO, pins={"product": "B"})
    (page,) = plan.export("html", tmp_path / "out", compare="tools")
    text = page.read_text()
    assert BY_OPENVINO in text
    assert "(simulated)" in text and "OpenVINO HETERO rule" not in text


def test_plans_without_devices_of_openvino_do_not_ask_it(tmp_path: Path) -> None:
    plan = editor.partition(EXAMPLES / "models" / "mobilenetv2.onnx", "HETERO:GPU,CPU")
    assert BY_OPENVINO not in {one.name for one in ready_made(plan.placement)}


def test_a_model_that_openvino_cannot_read_has_no_layout_and_says_why(tmp_path: Path) -> None:
    path = save(chain(), tmp_path / "net.xml")
    path.write_text(path.read_text().replace('type="Tanh"', 'type="NoSuchLayer"'))
    plan = editor.partition(path, "HETERO:OpenVINO.CPU,NPU")
    (found,) = ready_made(plan.placement, [BY_OPENVINO])
    assert found.placement is None
    assert "NoSuchLayer" in found.problem


@pytest.mark.parametrize("net", [chain, with_branches, two_chains], ids=lambda net: net.__name__)
@pytest.mark.parametrize("what", ["affinity", "subgraphs"])
def test_a_dump_of_openvino_is_imported(
    net: Callable[[], Any], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = net()
    path = save(model, tmp_path / "net.xml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENVINO_HETERO_VISUALIZE", "1")
    ov.Core().compile_model(path, "HETERO:CPU", {})
    dump = tmp_path / f"hetero_{what}_{model.get_friendly_name()}.dot"  # bodies have their own
    table = [
        {"name": "A", "backendName": "OpenVINO.CPU"},
        {"name": "CPU", "backendName": "OpenVINO.CPU"},
    ]
    plan, report = editor.partition(path, table).import_affinities(dump)
    placed = placed_keys(plan)
    assert ({plan.affinity[key] for key in placed}, report.problems) == ({"CPU"}, ())
    assert set(plan.pins) == set(placed)
