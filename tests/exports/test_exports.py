"""Files that leave: DOT, partition.log, plan.json."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path

import graphviz
import pytest
from conftest import EXAMPLES, GOLDEN, ODDITIES, python

import editor
from editor.exports.dot import (
    DEVICE_COLOURS,
    affinity_dot,
    dag_dot,
    render,
    subgraph_colours,
    subgraphs_dot,
    text_colour,
)
from editor.exports.registry import export_notes
from editor.graph.graph import Graph
from editor.runtimes.base import Capability

AB = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}]


def drawn(text: str) -> dict[str, object]:
    """What the ``dot`` program understands of a file."""
    done = subprocess.run(
        ["dot", "-Tdot_json"], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_dot_files_equal_the_stored_ones(dag: Callable[..., Graph]) -> None:
    plan = editor.partition(dag([[], [0], [0], [1, 2]]), AB, pins={"t1": "B"})
    assert affinity_dot(plan.placement) == (GOLDEN / "diamond_affinity.dot").read_text()
    assert subgraphs_dot(plan.placement) == (GOLDEN / "diamond_subgraphs.dot").read_text()


@pytest.mark.parametrize(
    "name",
    [
        "nasty_names",
        "nasty_symbols",
        "invalid_utf8_name",
        "unnamed_nodes",
        "zero_nodes",
        "metadata_everywhere",
        "if_outer_capture",
        "input_is_output",
        "duplicate_node_names",
    ],
)
def test_dot_accepts_any_name(name: str) -> None:
    graph = editor.load_model(ODDITIES / f"{name}.onnx")
    if graph.unbound:
        graph = editor.load_model(ODDITIES / f"{name}.onnx", dict.fromkeys(graph.unbound, 2))
    table = [{"name": 'A"<b>\\', "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}]
    plan = editor.partition(
        graph,
        table,
        pins={k: "B" for i, k in enumerate(graph.op_keys) if i % 2 and not graph.op_is_constant[i]},
    )
    for text in (affinity_dot(plan.placement), subgraphs_dot(plan.placement)):
        graphviz.Source(text)
        nodes = [o for o in drawn(text).get("objects", []) if str(o["name"]).startswith("op")]  # type: ignore[attr-defined]
        assert len(nodes) == int((plan.placement.division.subgraph_of_op >= 0).sum())
        for node in nodes:
            op = int(node["name"][2:])
            assert node["device"].replace("\\\\", "\\") == plan.affinity[graph.op_keys[op]]
            assert int(node["subgraph"]) == plan.placement.division.subgraph_of_op[op]


def test_dot_has_an_edge_per_tensor_with_its_shape(mobilenet: Graph) -> None:
    text = affinity_dot(
        editor.partition(mobilenet, EXAMPLES / "devices" / "runtimes.yaml").placement
    )
    labels = [e["label"] for e in drawn(text)["edges"]]  # type: ignore[attr-defined]
    assert "1x3x224x224" in labels and "1x1000" in labels and "ConstantOfShape" not in text


def test_edges_of_dot_say_what_they_transfer_and_in_what_size(mobilenet: Graph) -> None:
    """Transfers are solid and what stays on its device is dashed, as on the page; sizes are as they travel."""
    table = [{"name": "NPU", "backendName": "NPU", "assumes": "int8"}, {"name": "CPU"}]
    able = [Capability.everything(mobilenet)] * 2
    mean = next(
        key
        for key, kind in zip(mobilenet.op_keys, mobilenet.op_types, strict=True)
        if kind == "ReduceMean"
    )
    plan = editor.partition(mobilenet, table, capabilities=able, pins={mean: "CPU"})
    assert len(plan.placement.division.transfers) == 2
    for text in (affinity_dot(plan.placement), subgraphs_dot(plan.placement)):
        sent = [e for e in drawn(text)["edges"] if e.get("transfer") == "true"]  # type: ignore[attr-defined]
        boundaries = plan.placement.boundaries
        assert [e["tensor"] for e in sent] == [b.tensor for b in boundaries]
        assert [int(e["bytes"]) for e in sent] == [b.bytes for b in boundaries]
        assert all("style" not in e and e["penwidth"] == "2" for e in sent)
        assert sent[0]["label"].endswith("\\nfloat32 as int8 1x1280x7x7\\n62.72 kB")
        assert "solid, thick: transfer to another device" in text
    (edge, _) = drawn(dag_dot(plan.placement))["edges"]  # type: ignore[attr-defined]
    assert (edge["bytes"], edge["transfer"]) == ("62720", "true")
    alone = editor.partition(mobilenet, table, capabilities=able)
    assert "solid, thick" not in subgraphs_dot(alone.placement), "there is no such edge"


def test_dot_can_be_coloured_by_level(dag: Callable[..., Graph], tmp_path: Path) -> None:
    table = [
        {"name": n, "backendName": "CPU", "unit": u} for n, u in (("a", 0), ("b", 1), ("c", 1))
    ]
    plan = editor.partition(dag([[], [0], [1]]), table, pins={"t1": "b", "t2": "c"})
    fills = {}
    for colour_by in ("affinity", "unit"):
        text = plan.export("dot", tmp_path, colour_by=colour_by)[0].read_text()
        fills[colour_by] = [
            o["fillcolor"] for o in drawn(text)["objects"] if str(o["name"]).startswith("op")
        ]  # type: ignore[attr-defined]
    assert len(set(fills["affinity"])) == 3 and len(set(fills["unit"])) == 2
    assert fills["unit"][1] == fills["unit"][2]
    with pytest.raises(
        editor.ExportError,
        match="colour_by cannot be 'mood'; choose one of: affinity, device, unit, codegen",
    ):
        plan.export("dot", tmp_path, colour_by="mood")


def test_svg_is_rendered_and_a_missing_graphviz_explained(
    dag: Callable[..., Graph], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = editor.partition(dag([[], [0]]), AB).export("dot", tmp_path)[0]
    assert "<svg" in render(path).read_text()
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(editor.ExportError, match="Graphviz is not installed.*apt install graphviz"):
        render(path)


def test_plan_json_round_trip(whisper: Graph, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    shutil.copy(whisper.path, folder / "w.onnx")
    graph = editor.load_model(folder / "w.onnx", {"batch": 1, "sequence": 8})
    softmax = next(k for i, k in enumerate(graph.op_keys) if graph.op_types[i] == "Softmax")
    plan = editor.partition(
        graph, EXAMPLES / "devices" / "runtimes.yaml", pins={softmax: "Interpreter"}
    )
    path = plan.save(tmp_path / "plans" / "plan.json")
    document = json.loads(path.read_text())
    assert document["format"] == "hetero-editor/plan" and document["version"] == 1
    assert document["model"]["path"] == "../models/w.onnx"
    assert document["model"]["define"] == {"batch": 1, "sequence": 8}
    again = editor.load_plan(path)
    assert (
        again.affinity == plan.affinity
        and again.subgraphs == plan.subgraphs
        and again.pins == plan.pins
    )
    assert again.sha256 == plan.sha256
    assert again.to_json(path) == path.read_text()


def test_a_plan_from_another_machine_keeps_its_affinities(mobilenet: Graph, tmp_path: Path) -> None:
    path = editor.partition(mobilenet, AB).save(tmp_path / "plan.json")
    document = json.loads(path.read_text())
    document["affinities"]["logits"] = "B"
    path.write_text(json.dumps(document))
    assert editor.load_plan(path).affinity["logits"] == "B"


def test_the_error_for_a_damaged_plan_names_the_fault(mobilenet: Graph, tmp_path: Path) -> None:
    good = json.loads(editor.partition(mobilenet, AB).save(tmp_path / "plan.json").read_text())

    def refused(change: dict[str, object] | str, cause: str) -> None:
        text = change if isinstance(change, str) else json.dumps(good | change)
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(editor.EditorError, match=cause):
            editor.load_plan(tmp_path / "bad.json")

    refused('{"format": ', r"bad.json: not valid JSON \(Expecting value in line 1\)")
    refused({"format": "other"}, "not a plan of Hetero Editor")
    refused({"version": 99}, "version 99")
    refused({"model": good["model"] | {"path": "gone.onnx"}}, "is not there")
    refused({"model": good["model"] | {"sha256": "0" * 64}}, "changed since the plan was made")
    refused({"pins": {"nothing": "A"}}, "no op with the key 'nothing'")
    refused({"devices": [{"name": "Warp9"}]}, "unknown device")
    refused({"pins": 3}, "damaged plan")
    with pytest.raises(editor.PlanError, match="no such file"):
        editor.load_plan(tmp_path / "none.json")


def test_an_unknown_format_and_an_unwritable_folder_are_errors(
    mobilenet: Graph, tmp_path: Path
) -> None:
    plan = editor.partition(mobilenet, AB)
    with pytest.raises(editor.ExportError, match="unknown export format 'xml'"):
        plan.export("xml", tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(editor.ExportError, match="cannot be written"):
        plan.export("dot", tmp_path / "file")


def test_colours_are_distinct_and_readable() -> None:
    assert len(set(DEVICE_COLOURS)) == len(DEVICE_COLOURS)
    assert text_colour("#000000") == "#ffffff" and text_colour("#F0E442") == "#000000"
    chain = {i: (i - 1,) for i in range(1, 40)}
    colours = subgraph_colours(40, chain)
    assert all(a != b for a, b in itertools.pairwise(colours))


@pytest.mark.parametrize("form", ["onnxruntime", "openvino"])
def test_an_export_for_a_device_that_the_tool_does_not_know_says_so(
    mobilenet: Graph, form: str, tmp_path: Path
) -> None:
    with pytest.warns(UserWarning, match=r"knows no device Hailo \(NPU\): "):
        editor.partition(mobilenet, "HETERO:NPU(hailo8),CPU").export(form, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        editor.partition(mobilenet, "HETERO:GPU,CPU").export(form, tmp_path)


def test_forced_ops_and_memory_limits_stand_in_the_report(mobilenet: Graph, tmp_path: Path) -> None:
    """Forced ops hid in the figures: the fallbacks were gone, and the latency was better."""
    table = [{"name": "NPU", "nonSupportedNodes": "Gemm", "memory": "1MB"}, {"name": "CPU"}]
    gemm = mobilenet.op_keys[mobilenet.op_types.index("Gemm")]
    plan = editor.partition(mobilenet, table, pins={gemm: "NPU"}, forced=frozenset({gemm}))
    assert [mobilenet.op_keys[op] for op in plan.placement.forced_ops] == [gemm]
    text = plan.export("md", tmp_path)[0].read_text()
    assert (
        "**1 op forced onto a device that cannot run them.**" in text
        and "MB of 1 MB **over**" in text
    )
    assert json.loads(plan.export("json", tmp_path)[0].read_text())["totals"]["forced"] == 1


def test_properties_of_devices_stand_in_the_reports(mobilenet: Graph, tmp_path: Path) -> None:
    """All times may come from a precision that no report named."""
    table = [
        {
            "name": "CPU",
            "backendName": "OpenVINO.CPU",
            "properties": {"INFERENCE_PRECISION_HINT": "bf16"},
        }
    ]
    plan = editor.partition(mobilenet, table)
    assert ", INFERENCE_PRECISION_HINT=bf16 |" in plan.export("md", tmp_path)[0].read_text()
    report = json.loads(plan.export("json", tmp_path)[0].read_text())
    assert report["devices"][0]["properties"] == {"INFERENCE_PRECISION_HINT": "bf16"}
    assert "INFERENCE_PRECISION_HINT" in plan.export("html", tmp_path)[0].read_text()


def test_the_script_for_onnx_runtime_opens_the_model_with_the_sizes_of_the_plan(
    tmp_path: Path,
) -> None:
    graph = editor.load_model(EXAMPLES / "models" / "resnet50.onnx", {"batch": 3})
    editor.partition(graph, "HETERO:CPU").export("onnxruntime", tmp_path)
    look = (
        "import resnet50_onnxruntime as r; print([o.shape[0] for o in r.open_session().get_outputs()], "
        "[i.shape[0] for i in r.open_session().get_inputs()])"
    )
    done = python("-c", look, cwd=tmp_path, check=True)
    assert done.stdout.strip() == "[3] [3]"


def test_every_gpu_of_a_plan_has_its_number_in_the_split(
    dag: Callable[..., Graph], tmp_path: Path
) -> None:
    """Both were "CUDAExecutionProvider", which is card 0."""
    gpu = {"backendName": "onnxruntime", "provider": "CUDAExecutionProvider"}
    table = [
        {"name": "G0", **gpu, "unit": "0"},
        {"name": "G1", **gpu, "unit": "1"},
        {"name": "CPU"},
    ]
    plan = editor.partition(dag([[], [0], [1]]), table, pins={"t0": "G0", "t1": "G1", "t2": "CPU"})
    plan.export("split", tmp_path)
    steps = json.loads((tmp_path / "manifest.json").read_text())["subgraphs"]
    assert [(s["provider"][:4], s.get("device_id")) for s in steps] == [
        ("CUDA", 0),
        ("CUDA", 1),
        ("CPUE", None),
    ]
    with pytest.warns(UserWarning, match="G0 and G1 are one for it"):
        plan.export("onnxruntime", tmp_path)


def test_an_export_that_does_not_keep_the_split_says_so(mobilenet: Graph, tmp_path: Path) -> None:
    """A split over two runtimes on the CPU was one device in OpenVINO's script."""
    half = [key for op, key in enumerate(mobilenet.op_keys) if not mobilenet.op_is_constant[op]][
        :50
    ]
    plan = editor.partition(
        mobilenet,
        [{"name": "A", "backendName": "openvino"}, {"name": "B", "backendName": "onnxruntime"}],
        pins=dict.fromkeys(half, "B"),
    )
    with pytest.warns(UserWarning, match="OpenVINO runs A and B both as its CPU"):
        plan.export("openvino", tmp_path / "openvino")
    assert export_notes(plan.placement, "split") == []


def test_split_and_tvm_say_what_they_do_with_a_device_that_they_do_not_have(
    mobilenet: Graph,
) -> None:
    """An NPU's ops went to the processor without a word."""
    table = [{"name": "NPU", "preset": "hailo8"}, {"name": "CPU"}]
    placement = editor.partition(mobilenet, table).placement
    assert placement.op_counts["NPU"] > 0
    assert export_notes(placement, "split") == [
        "these files are run by ONNX Runtime: it runs the ops of NPU on CPUExecutionProvider"
    ]
    assert export_notes(placement, "tvm") == [
        "TVM's target for the ops of NPU is llvm, which is the processor: give the device a property `target`"
    ]
    chosen = editor.partition(
        mobilenet, [{**table[0], "properties": {"target": "cuda"}}, table[1]]
    ).placement
    assert export_notes(chosen, "tvm") == []
