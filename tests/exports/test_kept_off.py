"""Settings of other runtimes: what each takes, as far as it can be read back without it.

What QNN and WebGPU make of theirs is in ``qnn_cases.py`` and ``webgpu_cases.py``.
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import onnx
import pytest
from conftest import EXAMPLES, save_net
from onnx import TensorProto, helper

import editor
from editor.exports.formats import FORMATS, by_devices
from editor.exports.registry import fits
from editor.graph.graph import Graph

BOX = [{"name": "NPU"}, {"name": "CPU"}]
KNOBS = ("qnn", "webgpu", "tensorrt")


def chain(path: Path, names: list[str]) -> Path:
    """Relu, Tanh, Relu, Exp with these names."""
    kinds = ["Relu", "Tanh", "Relu", "Exp"]
    tensors = ["x", "a", "b", "c", "y"]
    nodes = [
        helper.make_node(kind, [tensors[i]], [tensors[i + 1]], name=names[i])
        for i, kind in enumerate(kinds)
    ]
    info = [helper.make_tensor_value_info(t, TensorProto.FLOAT, [2]) for t in "xy"]
    return save_net(path, nodes, info[:1], info[1:], name="chain")


def test_formats_fit_devices_of_their_runtime_or_provider() -> None:
    there = editor.load_devices("HETERO:NPU,CPU")
    assert fits("onnxruntime", there) and not fits("qnn", there) and not fits("openvino", there)
    qnn = {"name": "NPU", "backendName": "onnxruntime", "provider": "QNN"}
    assert fits("qnn", editor.load_devices([qnn]))
    assert fits("openvino", editor.load_devices("HETERO:OpenVINO.CPU"))
    hailo = editor.load_devices("HETERO:NPU(hailo8),OpenVINO.CPU")
    assert fits("hailo", hailo) and not fits("hailo", there)
    assert not fits("openvino", hailo), "its script would stop at Hailo"
    listed = re.split("[:;,] ?", by_devices())
    assert set(FORMATS) <= set(listed) and "for onnxruntime.QNN: qnn;" in by_devices()


def read(paths: list[Path]) -> dict[str, Any]:
    (path,) = [p for p in paths if p.suffix == ".json"]
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_types_of_which_none_is_on_the_device_are_kept_off_it(tmp_path: Path) -> None:
    graph = editor.load_model(chain(tmp_path / "net.onnx", ["p", "q", "r", "s"]))
    plan = editor.partition(graph, BOX, pins={"b": "CPU", "y": "CPU"})
    qnn = read(plan.export("qnn", tmp_path / "qnn"))
    assert (qnn["op_type"], "op_name" in qnn) == ({"Exp": "cpu", "Tanh": "cpu"}, False)
    tensorrt = read(plan.export("tensorrt", tmp_path / "trt"))
    assert tensorrt["provider_options"] == {
        "TensorrtExecutionProvider": {"trt_op_types_to_exclude": "Exp,Tanh"},
        "NvTensorRTRTXExecutionProvider": {"nv_op_types_to_exclude": "Exp,Tanh"},
    }
    webgpu = read(plan.export("webgpu", tmp_path / "gpu"))
    assert webgpu["executionProviders"] == [{"name": "webgpu", "forceCpuNodeNames": ["q", "s"]}]
    assert webgpu["provider_options"] == {"forceCpuNodeNames": "q\ns"}
    assert webgpu["model"] == "net.onnx"


def test_an_op_whose_type_is_on_the_device_too_is_named_or_said(tmp_path: Path) -> None:
    graph = editor.load_model(chain(tmp_path / "net.onnx", ["p", "q", "r", "s"]))
    plan = editor.partition(graph, BOX, pins={"c": "CPU"})
    with pytest.warns(UserWarning, match=r"1 op .*1 Relu.*`op_name` keeps them off"):
        qnn = read(plan.export("qnn", tmp_path / "qnn"))
    assert (qnn["op_type"], qnn["op_name"]) == ({}, {"r": "cpu"})
    with pytest.warns(UserWarning, match="told types only"):
        tensorrt = read(plan.export("tensorrt", tmp_path / "trt"))
    assert tensorrt["not_kept_off"] == ["c"]


def of_pytorch(path: Path, targets: list[str], producer: str = "pytorch") -> Path:
    """A chain whose ops say which nodes of PyTorch they are from, as `torch.onnx` writes it."""
    model = onnx.load(chain(path, ["p", "q", "r", "s"]))
    model.producer_name = producer
    for node, target in zip(model.graph.node, targets, strict=True):
        if target:
            text = (
                f"%n : [num_users=1] = call_function[target={target}](args = (%x,), kwargs = {{}})"
            )
            node.metadata_props.add(key="pkg.torch.onnx.fx_node", value=text)
    onnx.save(model, path)
    return path


ATEN = [f"torch.ops.aten.{name}.default" for name in ("relu", "tanh", "relu", "exp")]


def test_executorch_is_told_types_of_pytorch(tmp_path: Path) -> None:
    graph = editor.load_model(of_pytorch(tmp_path / "net.onnx", ATEN))
    plan = editor.partition(graph, BOX, pins={"b": "CPU", "y": "CPU"})
    found = read(plan.export("executorch", tmp_path / "out"))
    names = ["aten.exp.default", "aten.tanh.default"]
    assert found["QnnPartitioner"] == {"skip_node_op_set": names}
    assert found["CoreMLPartitioner"] == {"skip_ops_for_coreml_delegation": names}
    assert found["not_kept_off"] == []


def test_executorch_is_not_told_of_ops_whose_type_it_shall_take(tmp_path: Path) -> None:
    targets = [*ATEN[:3], "operator.getitem"]
    graph = editor.load_model(of_pytorch(tmp_path / "net.onnx", targets))
    plan = editor.partition(graph, BOX, pins={"b": "CPU", "c": "CPU", "y": "CPU"})
    with pytest.warns(UserWarning, match=r"2 ops .*1 aten.relu.default, 1 of no op of PyTorch"):
        found = read(plan.export("executorch", tmp_path / "out"))
    assert found["QnnPartitioner"] == {"skip_node_op_set": ["aten.tanh.default"]}
    assert found["not_kept_off"] == ["c", "y"]
    only = editor.partition(graph, BOX, pins={"c": "CPU"})
    with pytest.raises(editor.ExportError, match="each type has ops on NPU"):
        only.export("executorch", tmp_path / "out")


def test_executorch_needs_ops_that_say_where_they_are_from(tmp_path: Path) -> None:
    other = of_pytorch(tmp_path / "other.onnx", ATEN, "keras")
    with pytest.raises(editor.ExportError, match="programs of PyTorch, and this model is of keras"):
        editor.partition(other, BOX).export("executorch", tmp_path / "out")
    silent = of_pytorch(tmp_path / "silent.onnx", [""] * 4)
    with pytest.raises(editor.ExportError, match=r"no pkg\.torch\.onnx\.fx_node"):
        editor.partition(silent, BOX).export("executorch", tmp_path / "out")


def test_ops_without_names_get_some_in_a_copy(tmp_path: Path) -> None:
    graph = editor.load_model(chain(tmp_path / "net.onnx", ["same", "", "same", "s"]))
    plan = editor.partition(graph, BOX, pins={"b": "CPU", "y": "CPU"})
    written = plan.export("webgpu", tmp_path / "gpu")
    document = read(written)
    assert document["provider_options"] == {"forceCpuNodeNames": "b\ns"}
    copy = onnx.load(tmp_path / "gpu" / str(document["model"]))
    assert [node.name for node in copy.graph.node] == ["a", "b", "c", "s"]


@pytest.mark.parametrize("form", KNOBS)
def test_the_device_of_a_knob_can_be_named(form: str, tmp_path: Path) -> None:
    graph = editor.load_model(chain(tmp_path / "net.onnx", ["p", "q", "r", "s"]))
    plan = editor.partition(graph, BOX, pins={"b": "CPU"})
    text = json.dumps(read(plan.export(form, tmp_path / "out", device="CPU")))  # type: ignore[arg-type]  # one of a literal
    assert ("Relu" in text or '"p"' in text) and "Tanh" not in text and '"q"' not in text
    with pytest.raises(editor.ExportError, match="the plan has no device"):
        plan.export(form, tmp_path / "out", device="TPU")  # type: ignore[arg-type]  # one of a literal


def test_names_that_a_setting_cannot_have_are_refused(tmp_path: Path) -> None:
    graph = editor.load_model(chain(tmp_path / "net.onnx", ["p", "two\nlines", "r=s", "s"]))
    plan = editor.partition(graph, BOX, pins={"b": "CPU"})
    with pytest.raises(editor.ExportError, match="more than one line"):
        plan.export("webgpu", tmp_path / "out")
    with pytest.raises(editor.ExportError, match="separate Olive's assignments"):
        plan.export("olive", tmp_path / "out")


TFLITE = Path(__file__).parents[1] / "data" / "formats" / "nmp.tflite"


def outputs_of_operators(path: Path) -> list[list[str]]:
    """Tensors that each operator of a file makes, as the library of flatbuffers reads them."""
    table = pytest.importorskip("flatbuffers.table").Table
    data = bytearray(path.read_bytes())

    def number(at: int) -> int:
        return int.from_bytes(data[at : at + 4], "little")

    def vector(of: Any, slot: int) -> list[int]:
        offset = of.Offset(4 + 2 * slot)
        return [of.Vector(offset) + 4 * i for i in range(of.VectorLen(offset))]

    def tables(of: Any, slot: int) -> list[Any]:
        return [table(data, of.Indirect(at)) for at in vector(of, slot)]

    graph = tables(table(data, number(0)), 2)[0]
    names = [t.String(t.Offset(10) + t.Pos).decode() for t in tables(graph, 0)]
    return [[names[number(at)] for at in vector(operator, 2)] for operator in tables(graph, 3)]


@pytest.mark.filterwarnings("ignore:sizes assumed")
def test_operators_of_tensorflow_lite_are_numbered_as_in_the_file(tmp_path: Path) -> None:
    outputs = outputs_of_operators(TFLITE)
    number = {name: i for i, names in enumerate(outputs) for name in names}
    table = "HETERO:OpenVINO.CPU,NPU"
    graph = editor.partition(TFLITE, table).graph
    own = [key for key in graph.op_keys if key in number]
    pins = {key: "NPU" if key in own[:40] else "OpenVINO.CPU" for key in graph.op_keys}
    plan = editor.partition(TFLITE, table, pins=pins)
    placed = [key for key in own if key in plan.affinity]
    found = read(plan.export("litert", tmp_path, device="NPU"))
    kept, unknown = set(found["skip_operators"]), set(found["not_known"])
    assert found["operators"] == len(outputs)
    for key in placed:
        assert (number[key] in kept) == (plan.affinity[key] != "NPU"), key
    assert {number[key] for key in placed}.isdisjoint(unknown)
    assert len(kept) + len(unknown) < len(outputs)


@pytest.mark.filterwarnings("ignore:sizes assumed")
def test_a_range_of_operators_is_written_where_it_says_the_same(tmp_path: Path) -> None:
    table = "HETERO:OpenVINO.CPU,NPU"
    plan = editor.partition(TFLITE, table)
    keys = [plan.graph.op_keys[op] for op in plan.placement.placed_ops]
    number = {n: i for i, names in enumerate(outputs_of_operators(TFLITE)) for n in names}
    own = sorted((key for key in keys if key in number), key=number.__getitem__)
    last = next(i for i, key in enumerate(own) if "concat" in key.lower())
    two = editor.partition(
        TFLITE,
        table,
        pins=dict.fromkeys(keys, "OpenVINO.CPU") | {own[0]: "NPU", own[last]: "NPU"},
    )
    with pytest.warns(UserWarning, match="without an operator of"):
        found = read(two.export("litert", tmp_path, device="NPU"))
    assert "first_delegate_node_index" not in found
    one = editor.partition(
        TFLITE, table, pins=dict.fromkeys(keys, "OpenVINO.CPU") | {own[0]: "NPU"}
    )
    found = read(one.export("litert", tmp_path, device="NPU"))
    ends = found["first_delegate_node_index"], found["last_delegate_node_index"]
    assert ends == (number[own[0]], number[own[0]])


def test_litert_needs_a_file_of_tensorflow_lite(tmp_path: Path) -> None:
    from editor.exports.litert import operators_of

    with pytest.raises(editor.ExportError, match="numbers of operators in a TensorFlow"):
        editor.partition(chain(tmp_path / "n.onnx", list("pqrs")), BOX).export("litert", tmp_path)
    data = TFLITE.read_bytes()
    for size in (3, 40, 2000, len(data) // 2):
        (tmp_path / "cut.tflite").write_bytes(data[:size])
        with pytest.raises(editor.ExportError, match=r"cut\.tflite: its operators cannot be read"):
            operators_of(tmp_path / "cut.tflite")


def test_olive_gets_a_split_for_each_op_in_order(mobilenet: Graph, tmp_path: Path) -> None:
    keys = [mobilenet.op_keys[op] for op in mobilenet.order if not mobilenet.op_is_constant[op]]
    plan = editor.partition(mobilenet, BOX, pins=dict.fromkeys(keys[40:60], "CPU"))
    written = plan.export("olive", tmp_path)
    model = onnx.load(written[0])
    text = next(p.value for p in model.metadata_props if p.key == "split_assignments")
    # As `SplitModel` reads it.
    splits = {key: int(value) for key, value in (each.split("=") for each in text.split(";"))}
    assert sorted(set(splits.values())) == [s.id for s in plan.subgraphs]
    split_of = {output: splits.get(n.name) for n in model.graph.node for output in n.output}
    for node in model.graph.node:
        if (own := splits.get(node.name)) is not None:
            assert all(own >= before for t in node.input if (before := split_of.get(t)) is not None)
    table = [{"name": f"split {s.id}", "backendName": "CPU"} for s in plan.subgraphs]
    again, report = editor.partition(mobilenet, table).import_affinities(written[0])
    assert report.problems == ()
    assert [s.ops for s in again.subgraphs] == [s.ops for s in plan.subgraphs]


def test_olive_s_cost_model_has_the_weights_and_work_of_modules(
    mobilenet: Graph, tmp_path: Path
) -> None:
    plan = editor.partition(mobilenet, BOX)
    (path,) = [p for p in plan.export("olive", tmp_path) if p.suffix == ".csv"]
    with path.open() as file:
        rows = {row["module"]: row for row in csv.DictReader(file)}
    first = rows["model.mobilenet_v2.conv_stem.first_conv.convolution"]
    assert (first["num_params"], first["num_bytes"]) == (str(32 * 27 + 32), str(4 * (32 * 27 + 32)))
    assert int(first["num_flops"]) >= 2 * 112 * 112 * 32 * 27
    assert sum(int(row["num_params"]) for row in rows.values()) > 3_000_000


def test_splits_of_modules_are_imported_as_olive_applies_them(tmp_path: Path) -> None:
    path = chain(
        tmp_path / "net.onnx", ["/layers.0/p/Relu", "/layers.0/q/Tanh", "/layers.1/r", "s"]
    )
    model = onnx.load(path)
    model.metadata_props.add(key="split_assignments", value="layers.0=0;layers.0.q=1;layers.1=1")
    onnx.save(model, path)
    table = [{"name": f"split {i}", "backendName": "CPU"} for i in range(2)]
    plan, report = editor.partition(path, table).import_affinities(path)
    assert plan.pins == {"a": "split 0", "b": "split 1", "c": "split 1"}
    assert report.kind == "Olive split assignments"


def test_model_explorer_gets_device_time_and_reason(mobilenet: Graph, tmp_path: Path) -> None:
    plan = editor.partition(mobilenet, BOX, pins={mobilenet.op_keys[-1]: "CPU"})
    device, time, reason = (
        json.loads(path.read_text()) for path in plan.export("model-explorer", tmp_path)
    )
    for data in (device, time, reason):
        assert set(data) <= {"name", "results", "gradient"}
        assert len(data["results"]) == sum(s.size for s in plan.subgraphs)
        assert all(set(v) <= {"value", "bgColor"} for v in data["results"].values())
    last = mobilenet.op_names[-1]
    assert device["results"][last]["value"] == "CPU"
    assert reason["results"][last]["value"].startswith("pinned")
    assert [stop["stop"] for stop in time["gradient"]] == [0, 1]
    assert "estimate" in time["name"]
    assert all(result["value"] >= 0 for result in time["results"].values())


def test_model_explorer_finds_ops_of_tflite_by_their_tensors(tmp_path: Path) -> None:
    path = Path(__file__).parents[1] / "data" / "formats" / "nmp.tflite"
    with pytest.warns(UserWarning, match="sizes assumed"):
        plan = editor.partition(path, "HETERO:OpenVINO.CPU,NPU")
    data = json.loads(plan.export("model-explorer", tmp_path)[0].read_text())
    graph = plan.graph
    assert set(data["results"]) == {graph.op_keys[op] for op in plan.placement.placed_ops}


@pytest.mark.parametrize("named", [True, False])
def test_hailo_is_told_where_its_subgraphs_begin_and_end(tmp_path: Path, named: bool) -> None:
    model = onnx.load(EXAMPLES / "models" / "mobilenetv2.onnx")
    for node in model.graph.node:
        node.name = node.name if named else ""
    onnx.save(model, tmp_path / "net.onnx")
    graph = editor.load_model(tmp_path / "net.onnx")
    plan = editor.partition(graph, "HETERO:NPU(hailo8),CPU")
    found = read(plan.export("hailo", tmp_path / "out"))
    folder = tmp_path if named else tmp_path / "out"
    nodes = onnx.load(folder / found["model"]).graph.node
    by_name, maker = {n.name: n for n in nodes}, {t: n.name for n in nodes for t in n.output}
    ours = [part for part in plan.placement.subgraphs if part.device == "NPU"]
    placed = {graph.op_keys[op] for op in plan.placement.placed_ops.tolist()}
    assert [part["id"] for part in found["subgraphs"]] == [part.id for part in ours]
    for part, mine in zip(found["subgraphs"], ours, strict=True):
        start, waiting, seen = set(part["start_node_names"]), list(part["end_node_names"]), set()
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                if name not in start:
                    waiting += [maker[t] for t in by_name[name].input if t in maker]
        keys = {by_name[name].output[0] for name in seen}
        assert keys & placed == set(mine.ops) & placed and len(keys & placed) == mine.size
        assert set(part["net_input_shapes"]) == start
