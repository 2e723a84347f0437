"""ONNX files become graphs, or a message that names the cause."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from bombs import BOMBS
from conftest import EXAMPLES, MANIFEST, ODDITIES, ROOT, python, save_net, write_dag
from decoders import fused_decoder
from onnx import TensorProto, helper

import editor
from editor.graph.graph import byte_size
from editor.graph.layout.layered import draw
from editor.graph.model_file import read_model
from editor.graph.plain_models import is_plain
from editor.graph.states import states_of

REFUSED = {
    "duplicate_io.onnx": "declared twice",
    "external_absolute_path.onnx": "outside the model's folder",
    "external_path_traversal.onnx": "outside the model's folder",
    "external_url.onnx": "network address",
    "external_is_itself.onnx": "the model file itself",
    "external_bad_numbers.onnx": "tensor 'w'",
    "git_lfs_pointer.onnx": "git lfs pull",
    "gzipped.onnx": "gzip",
    "html_error_page.onnx": "HTML page",
    "json_model.onnx": "JSON",
    "no_graph.onnx": "damaged",
    "output_not_made.onnx": "no op produces",
    "protobuf_deep_nesting.onnx": "damaged",
    "random_bytes.onnx": "not an ONNX model",
    "tensor_made_twice.onnx": "two producers",
    "text_renamed.onnx": "not an ONNX model",
    "trailing_garbage.onnx": "damaged",
    "truncated.onnx": "cut short",
}


@pytest.mark.parametrize("name", sorted(p.name for p in ODDITIES.glob("*.onnx")))
def test_every_unusual_model_loads_or_is_refused_with_a_reason(name: str) -> None:
    if name in REFUSED:
        with pytest.raises(editor.ModelError) as error:
            editor.load_model(ODDITIES / name)
        assert REFUSED[name] in str(error.value)
        assert name in str(error.value)
    else:
        graph = editor.load_model(ODDITIES / name)
        assert len(set(graph.op_keys)) == len(graph)
        assert sorted(graph.order.tolist()) == list(range(len(graph)))


def test_keys_are_first_non_empty_outputs() -> None:
    graph = editor.load_model(ODDITIES / "unnamed_nodes.onnx")
    assert all(key and not key.startswith("#") for key in graph.op_keys)
    assert graph.op_names == ("",) * len(graph)
    assert [graph.key_index[k] for k in graph.op_keys] == list(range(len(graph)))


def test_bound_symbols_determine_shapes() -> None:
    path = EXAMPLES / "models" / "resnet50.onnx"
    assert editor.load_model(path).unbound == ("batch",)
    graph = editor.load_model(path, {"batch": 3})
    assert graph.unbound == ()
    assert graph.tensor_shapes[graph.inputs[0]] == (3, 3, 224, 224)
    assert graph.tensor_shapes[graph.outputs[0]] == (3, 1000)
    assert graph.tensor_bytes[graph.outputs[0]] == 3 * 1000 * 4


def test_a_dimension_without_a_name_can_be_bound(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(
        helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    )
    onnx.save(model, tmp_path / "m.onnx")
    assert editor.load_model(tmp_path / "m.onnx").unbound == ("x[0]",)
    bound = editor.load_model(tmp_path / "m.onnx", {"x[0]": 7})
    assert bound.tensor_shapes[bound.outputs[0]] == (7, 4)


def test_symbolic_sums_are_evaluated(tmp_path: Path) -> None:
    info = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [d, 4])
        for n, d in (("x", "past"), ("y", "past + 1"))
    ]
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Neg", ["y"], ["b"])]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("a", "b")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", info, outputs)), tmp_path / "m.onnx")
    graph = editor.load_model(tmp_path / "m.onnx", {"past": 5})
    assert graph.tensor_shapes[graph.tensor_index["b"]] == (6, 4)
    assert graph.unbound == ()


def test_wrong_defines_are_refused() -> None:
    with pytest.raises(editor.ModelError, match="no such symbol"):
        editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx", {"batch": 1})
    with pytest.raises(editor.ModelError, match="whole number"):
        editor.load_model(EXAMPLES / "models" / "resnet50.onnx", {"batch": -1})


def test_ops_that_compute_weights_are_constants(mobilenet: editor.Graph) -> None:
    constants = {mobilenet.op_types[op] for op in np.flatnonzero(mobilenet.op_is_constant)}
    assert constants == {"Mul", "Mod", "Sub"}
    assert set(np.array(mobilenet.op_types)[~mobilenet.op_is_constant]) == {
        "Conv",
        "Clip",
        "Add",
        "ReduceMean",
        "Reshape",
        "Gemm",
    }


def test_a_constant_graph_output_has_its_own_device() -> None:
    graph = editor.load_model(ODDITIES / "no_inputs.onnx")
    for tensor in graph.outputs.tolist():
        assert not graph.op_is_constant[graph.tensor_producer[tensor]]


@pytest.mark.parametrize(
    "name", ["if_outer_capture", "loop_outer_capture", "scan_outer_capture", "nested_if_in_loop"]
)
def test_captures_of_bodies_are_reads(name: str) -> None:
    graph = editor.load_model(ODDITIES / f"{name}.onnx")
    atomic = np.flatnonzero(graph.op_is_atomic).tolist()
    assert atomic
    captured = [
        set(graph.op_reads[op].tolist()) - set(graph.op_inputs[op].tolist()) for op in atomic
    ]
    assert any(captured)


def test_nodes_out_of_order_are_sorted() -> None:
    graph = editor.load_model(ODDITIES / "nodes_in_reverse_order.onnx")
    place = {op: i for i, op in enumerate(graph.order.tolist())}
    assert all(
        place[p] < place[c] for p, c, _ in zip(*(e.tolist() for e in graph.edges), strict=True)
    )
    assert graph.order.tolist() != list(range(len(graph)))


def test_the_error_names_a_cycle(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], "first"),
        helper.make_node("Neg", ["a"], ["b"], "second"),
    ]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in ("x", "b")]
    onnx.save(
        helper.make_model(helper.make_graph(nodes, "g", info[:1], info[1:])), tmp_path / "m.onnx"
    )
    with pytest.raises(editor.ModelError, match="cycle"):
        editor.load_model(tmp_path / "m.onnx")


def test_missing_files_empty_files_and_folders_are_errors(tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").touch()
    (tmp_path / "folder").mkdir()
    for path, cause in (
        (tmp_path / "no.onnx", "no such file"),
        (tmp_path / "empty.onnx", "empty"),
        (tmp_path, "empty.onnx: the file is empty"),
        (tmp_path / "folder", "a folder without an ONNX file"),
    ):
        with pytest.raises(editor.ModelError, match=cause):
            editor.load_model(path)


def test_a_folder_with_one_model_is_that_model(tmp_path: Path) -> None:
    made = fused_decoder(tmp_path / "folder")
    graph = editor.load_model(made.parent)
    assert (graph.path, len(graph)) == (made, len(editor.load_model(made)))
    assert {state.source for state in states_of(graph)} == {"genai_config.json"}
    shutil.copy(made, made.with_name("another.onnx"))
    with pytest.raises(editor.ModelError, match=r"a folder of 2 models; name one .*another\.onnx"):
        editor.load_model(made.parent)


def test_packed_types_have_packed_sizes() -> None:
    assert byte_size("int4", (3, 3)) == 5
    assert byte_size("float32", (2, 3)) == 24
    assert byte_size("bool", ()) == 1
    assert byte_size("float16", (0, 7)) == 0
    assert (
        byte_size("string", (2,))
        == byte_size("float32", ("n",))
        == byte_size("float32", None)
        == -1
    )


def test_a_model_of_three_gigabytes_opens_without_reading_its_weights(tmp_path: Path) -> None:
    weight = TensorProto(
        name="w",
        data_type=TensorProto.FLOAT,
        dims=[1 << 15, 24576],
        data_location=TensorProto.EXTERNAL,
    )
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", str(3 << 30))):
        weight.external_data.add(key=key, value=value)
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(3 << 30)  # sparse: takes no room on disk
    x, y = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, d])
        for n, d in (("x", 1 << 15), ("y", 24576))
    )
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    onnx.save(
        helper.make_model(helper.make_graph([node], "g", [x], [y], [weight]), ir_version=8),
        tmp_path / "m.onnx",
    )
    plan = editor.partition(
        editor.load_model(tmp_path / "m.onnx"), "HETERO:NPU,OpenCL", policy="optimal"
    )
    assert plan.subgraphs[0].memory.constants == 3 << 30


def test_names_of_the_pack_are_known() -> None:
    assert set(REFUSED) <= {p.name for p in ODDITIES.glob("*.onnx")} <= set(MANIFEST)


def test_drawing_has_no_overlaps_and_flows_down(whisper: editor.Graph) -> None:
    visible = np.flatnonzero(~whisper.op_is_constant)
    number = np.full(len(whisper), -1)
    number[visible] = np.arange(len(visible))
    source, target, _ = whisper.edges
    shown = (number[source] >= 0) & (number[target] >= 0)
    drawing = draw(len(visible), number[source[shown]], number[target[shown]], 128.0)
    assert (drawing.y[number[target[shown]]] > drawing.y[number[source[shown]]]).all()
    for y in np.unique(drawing.y):
        row = np.sort(drawing.x[drawing.y == y])
        assert (np.diff(row) >= 128.0).all()


def test_models_that_any_process_may_read_are_told_from_others() -> None:
    plain = {
        path.stem: is_plain(read_model(path))
        for path in sorted((EXAMPLES / "models").glob("*.onnx"))
    }
    assert plain == {
        "fcn-resnet101": True,
        "mobilenetv2": True,
        "resnet50": True,
        "whisper-tiny-decoder": False,
    }
    refused = {"far_opset", "many_dims"}  # before anybody asks whether they are plain
    assert not [name for name, make in BOMBS.items() if name not in refused and is_plain(make())]


def test_sizes_that_leave_nothing_for_a_convolution_are_noted(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    weight = onnx.numpy_helper.from_array(np.ones((4, 3, 16, 16), np.float32), "w")
    node = helper.make_node("Conv", ["x", "w"], ["patches"], "embed", strides=[16, 16])
    save_net(
        tmp_path / "m.onnx",
        [node],
        [value("x", TensorProto.FLOAT, [1, 3, "height", 64])],
        [value("patches", TensorProto.FLOAT, None)],
        [weight],
    )
    assert editor.load_model(tmp_path / "m.onnx", {"height": 32}).notes == ()
    assert editor.load_model(tmp_path / "m.onnx", {"height": 10}).notes == (
        "Conv embed cannot read 1x3x10x64: these sizes are too small for the model",
    )


def test_weights_that_are_not_there_are_noted(tmp_path: Path) -> None:
    model = onnx.load(EXAMPLES / "models" / "mobilenetv2.onnx")
    onnx.save(
        model,
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=16,
    )
    assert editor.load_model(tmp_path / "m.onnx").notes == ()
    (tmp_path / "weights.bin").unlink()
    (note,) = editor.load_model(tmp_path / "m.onnx").notes
    assert note.startswith("the weights in weights.bin are not here")
    done = python(
        "-m",
        "editor",
        "partition",
        tmp_path / "m.onnx",
        "--devices",
        "HETERO:CPU",
        "--out",
        tmp_path,
        cwd=ROOT,
    )
    assert done.returncode == 0 and "note: the weights in weights.bin are not here" in done.stderr


def test_files_that_are_probably_meant_and_files_of_onnx_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnxruntime

    (tmp_path / "Sub").mkdir()
    model = write_dag(tmp_path / "Sub" / "Model.onnx", [[], [0]])
    monkeypatch.chdir(tmp_path)
    for given in ("Sub/model.ONNX", "Sub\\model.onnx", "Sub\\Model.onnx"):
        with pytest.raises(editor.ModelError, match=r"no such file; there is Sub/Model\.onnx"):
            editor.load_model(given)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "m.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    with pytest.raises(editor.ModelError, match=r"own format \(\.ort\); use the \.onnx file"):
        editor.load_model(tmp_path / "m.ort")
