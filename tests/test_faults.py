"""Each fault that a review found, played again.

Faults of one package are tested with it; these cross packages or are seen from outside.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import EXAMPLES, ROOT, python, write_dag
from documents import documents_of_one_record, paint_at_once
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import convert_model_to_external_data

import editor
from editor.files import json_text
from editor.graph.graph import Graph
from editor.placement.fallbacks import hints
from editor.placement.filter import EXPANSIONS, expand_selection
from editor.sandbox.jobs import JobService
from editor.sandbox.worker import Channel
from editor.workspace.document import Document
from editor.workspace.history import StaleDocumentError

TWO = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}]


def run(*arguments: object, expected: int = 1) -> str:
    done = python("-m", "editor", *arguments, cwd=ROOT, timeout=120)
    assert done.returncode == expected, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def nothing(channel: Channel) -> bytes:
    return b"x" * 1000


def test_finished_jobs_leave_no_thread() -> None:
    service = JobService()
    try:
        service.run(nothing)
        before = threading.active_count()
        for _ in range(20):
            service.run(nothing)
        until = time.monotonic() + 10
        while threading.active_count() > before + 2 and time.monotonic() < until:
            time.sleep(0.05)
        assert threading.active_count() <= before + 2
    finally:
        service.close()


@pytest.fixture
def two_documents(tmp_path: Path) -> list[Document]:
    return documents_of_one_record(str(tmp_path / "workspace"), tmp_path, TWO, 12)


def test_two_documents_of_one_record_do_not_overwrite_each_other(
    two_documents: list[Document],
) -> None:
    one, other = two_documents
    for op in range(10):
        (one, other)[op % 2].paint([op], 1)
    assert len(one.store.steps(one.id)) == 11
    other.refresh()
    one.refresh()
    assert (
        set(one.placement.settings.pins)
        == set(other.placement.settings.pins)
        == {f"t{i}" for i in range(10)}
    )
    assert one.version == other.version == 10
    one.undo()
    other.paint([11], 1)
    one.refresh()
    assert set(one.placement.settings.pins) == {*(f"t{i}" for i in range(9)), "t11"}


def test_documents_painted_at_the_same_time_lose_no_stroke(two_documents: list[Document]) -> None:
    paint_at_once(two_documents, 12)
    for document in two_documents:
        assert len(document.placement.settings.pins) == 12


def test_a_change_made_from_an_old_state_is_refused_by_the_store(
    two_documents: list[Document],
) -> None:
    one, other = two_documents
    old = other.version
    one.paint([0], 1)
    with pytest.raises(StaleDocumentError, match="changed elsewhere"):
        other.store.append(other.id, 0, "late", {}, old)


def test_the_version_of_a_document_survives_a_reload(two_documents: list[Document]) -> None:
    one, _ = two_documents
    one.paint([0], 1)
    record = one.store.get(one.id)
    assert record is not None and record.version == one.version == 1


def test_a_pinned_constant_breaks_neither_hints_nor_expansion(tmp_path: Path) -> None:
    graph = editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx")
    constant = int(np.flatnonzero(graph.op_is_constant)[0])
    plan = editor.partition(graph, TWO, pins={graph.op_keys[constant]: "B"})
    for mode in EXPANSIONS:
        assert constant in expand_selection(plan.placement, [constant], mode), mode
    hints(plan.placement)


def test_rules_can_be_imported_as_a_module() -> None:
    import editor.placement.rules as rules

    assert callable(rules.parse_rules) and callable(editor.partition)


def test_a_dimension_of_minus_one_can_be_bound(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g", [info("x", 1, [1, 4])], [info("y", 1, None)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    onnx.save(model, tmp_path / "m.onnx")
    assert editor.load_model(tmp_path / "m.onnx").unbound == ("x[0]",)
    bound = editor.load_model(tmp_path / "m.onnx", {"x[0]": 3})
    assert bound.unbound == () and bound.tensor_shapes[bound.tensor_index["y"]] == (3, 4)


@pytest.mark.parametrize("bandwidth", [-1e9, 0, float("nan"), float("inf"), "fast"])
def test_the_bandwidth_of_a_link_is_checked(bandwidth: object) -> None:
    with pytest.raises(editor.DeviceTableError, match="link"):
        editor.load_devices([{"name": "GPU", "link": {"bandwidth": bandwidth}}])


@pytest.mark.parametrize("latency", [-1, float("nan"), float("inf"), "1e400"])
def test_the_latency_of_a_link_is_checked(latency: float) -> None:
    with pytest.raises(editor.DeviceTableError, match="latency"):
        editor.load_devices([{"name": "GPU", "link": {"bandwidth": 1e9, "latency": latency}}])


def external_model(path: Path) -> Path:
    """y = x + w, with w in another file."""
    weight = numpy_helper.from_array(np.arange(512, dtype=np.float32), "w")
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Add", ["x", "w"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    ends = [info(name, TensorProto.FLOAT, [512]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    convert_model_to_external_data(
        model, location="weights.data", size_threshold=0, convert_attribute=False
    )
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("data_is_linked", [True, False])
def test_a_linked_model_with_its_data_beside_the_link_runs(
    data_is_linked: bool, tmp_path: Path
) -> None:
    """The layout of model caches: links to files of other names in one folder."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    external_model(blobs / "model.onnx")
    (blobs / "model.onnx").rename(blobs / "0f1e")
    (blobs / "weights.data").rename(blobs / "2d3c" if data_is_linked else snapshot / "weights.data")
    (snapshot / "model.onnx").symlink_to("../../blobs/0f1e")
    if data_is_linked:
        (snapshot / "weights.data").symlink_to("../../blobs/2d3c")
    graph = editor.load_model(snapshot / "model.onnx")
    x = np.full(512, -2, np.float32)
    expected = np.maximum(np.arange(512, dtype=np.float32) - 2, 0)
    for devices in (TWO, "HETERO:OpenVINO,CPU", "HETERO:Interpreter"):
        plan = editor.partition(graph, devices, pins={"y": "B"} if devices is TWO else {})
        assert (plan.run({"x": x})["y"] == expected).all(), devices
        saved = editor.load_plan(plan.save(tmp_path / "plan.json"))
        assert (saved.run({"x": x})["y"] == expected).all(), (
            "a saved plan finds model and data again"
        )


def test_data_outside_the_folders_of_a_linked_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "links").mkdir()
    external_model(tmp_path / "real" / "model.onnx")
    (tmp_path / "secret").write_bytes(b"0" * 4096)
    (tmp_path / "real" / "weights.data").unlink()
    (tmp_path / "links" / "weights.data").symlink_to(tmp_path / "secret")
    (tmp_path / "links" / "model.onnx").symlink_to(tmp_path / "real" / "model.onnx")
    with pytest.raises(editor.ModelError, match="outside the model's folder"):
        editor.load_model(tmp_path / "links" / "model.onnx")


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    graph = editor.load_model(write_dag(folder / "net.onnx", [[], [0], [1]]))
    return editor.partition(graph, TWO).save(folder / "plan.json")


def test_damaged_files_are_messages_on_the_command_line(plan_file: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "whole.npz", x=np.zeros(4, np.float32))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:60])
    assert "not an .npz file" in run("run", plan_file, "--inputs", tmp_path / "cut.npz")

    document = json.loads(plan_file.read_text())
    damaged = plan_file.with_name("damaged.json")
    damaged.write_text(json.dumps({**document, "affinities": []}))
    assert "damaged plan" in run("why", damaged, "t0")

    (tmp_path / "net_session.json").write_text(
        json.dumps(
            {"format": "hetero-editor/onnxruntime", "nodes": {"n0": ["x"]}, "devices": {"d": {}}}
        )
    )
    assert "none of its 1 entries" in run(
        "import", plan_file, tmp_path / "net_session.json", "--out", tmp_path / "o.json"
    )
    (tmp_path / "model.json").write_text(json.dumps({"format": "hetero-editor/plan", "model": "x"}))
    assert "mapping of ops to devices" in run(
        "import", plan_file, tmp_path / "model.json", "--out", tmp_path / "o.json"
    )


def test_a_list_of_names_is_no_device_table() -> None:
    with pytest.raises(editor.DeviceTableError, match="HETERO:GPU,CPU"):
        editor.load_devices(["CPU"])  # type: ignore[list-item]


def test_a_misspelt_policy_option_is_named(dag: Callable[..., Graph]) -> None:
    with pytest.raises(editor.EditorError, match="'objectiv'; did you mean 'objective'"):
        editor.partition(
            dag([[], [0]]), TWO, policy="optimal", policy_options={"objectiv": "latency"}
        )


def test_infinite_differences_become_null_in_json() -> None:
    text = json_text({"difference": {"max_absolute": float("inf"), "outputs": [float("nan"), 1.0]}})
    assert json.loads(text, parse_constant=pytest.fail) == {
        "difference": {"max_absolute": None, "outputs": [None, 1.0]}
    }


def test_an_unknown_option_of_an_export_lists_the_others_readably(
    plan_file: Path, tmp_path: Path
) -> None:
    said = run("export", plan_file, "--to", "dot", "--option", "color=x", "--out", tmp_path)
    assert "choose one of: colour_by, dag" in said


def test_functions_that_expand_without_end_are_refused_at_once(tmp_path: Path) -> None:
    functions, opsets = [], [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    for level in range(50):
        kind, domain = (f"F{level - 1}", "local") if level else ("Neg", "")
        names = ["x", *(f"y{i}" for i in range(9)), "y"]
        nodes = [helper.make_node(kind, [a], [b], domain=domain) for a, b in pairwise(names)]
        functions.append(helper.make_function("local", f"F{level}", ["x"], ["y"], nodes, opsets))
    info = helper.make_tensor_value_info
    call = helper.make_node("F49", ["x"], ["y"], domain="local")
    graph = helper.make_graph([call], "g", [info("x", 1, [4])], [info("y", 1, [4])])
    onnx.save(
        helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=9),
        tmp_path / "bomb.onnx",
    )
    assert "functions call each other" in run(
        "partition", tmp_path / "bomb.onnx", "--devices", "HETERO:CPU", "--out", tmp_path
    )


def test_an_import_reads_the_plan_that_it_changes(
    tmp_path: Path, two_documents: list[Document]
) -> None:
    """A stroke of another document, made while the import is read, is kept."""
    one, other = two_documents
    (tmp_path / "a.csv").write_text("op,device\nt1,B\n")
    other.paint([0], 1)
    one.import_affinities(tmp_path / "a.csv", "a.csv")
    other.refresh()
    assert set(other.placement.settings.pins) == {"t0", "t1"}
