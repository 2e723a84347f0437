"""``editor audit``: where a configuration really runs the ops of a model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from conftest import EXAMPLES, ROOT, run
from onnx import TensorProto, helper, numpy_helper, parser

import editor
from editor.arguments import parse_requirement
from editor.errors import EditorError
from editor.workspace.audits import _result, text_of

MODEL = EXAMPLES / "models" / "mobilenetv2.onnx"
CPU = "CPUExecutionProvider"
UNNAMED = """<ir_version: 8, opset_import: ["":17]>
g (float[2,3] x, bool c) => (float[2,3] y) {
 e = Erf(x)
 t = Tanh(e)
 [i] r = If <
   then_branch = a () => (float[2,3] z) { [one] z = Relu(t) },
   else_branch = b () => (float[2,3] w) { [two] w = Neg(t) }>(c)
 q = Softplus(r)
 [s] n = Identity(q)
 [u] y = Sigmoid(n)
}"""
"""Nodes without names, with bodies, and one that the optimiser removes."""


@pytest.fixture
def unnamed(tmp_path: Path) -> Path:
    onnx.save(parser.parse_model(UNNAMED), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def conv(tmp_path: Path) -> Path:
    """Two convolutions with activations that ONNX Runtime fuses, and an open batch."""
    node, value = helper.make_node, helper.make_tensor_value_info
    weight = numpy_helper.from_array(np.ones((3, 3, 3, 3), np.float32), "w")
    graph = helper.make_graph(
        [
            node("Conv", ["x", "w"], ["c"], "conv"),
            node("Relu", ["c"], ["r"], "relu"),
            node("Neg", ["r"], ["y"], "neg"),
        ],
        "g",
        [value("x", TensorProto.FLOAT, ["batch", 3, 16, 16])],
        [value("y", TensorProto.FLOAT, None)],
        [weight],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, tmp_path / "conv.onnx")
    return tmp_path / "conv.onnx"


def test_every_recorded_op_is_where_the_session_has_it() -> None:
    found = editor.audit(MODEL, "CPU")
    options = ort.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = ort.InferenceSession(str(MODEL), options, providers=[CPU])
    recorded = sum(len(p.get_nodes()) for p in session.get_provider_graph_assignment_info())
    assert sum(op.state == "placed" for op in found.ops) == recorded
    assert found.shares[0].ops_share == found.shares[0].time_share == 1.0
    assert (found.kind, found.subgraphs, found.crossings, found.copies) == ("estimate", 1, (), None)


def test_a_provider_that_is_not_here_runs_nothing_and_that_is_said() -> None:
    found = editor.audit(MODEL, ["CUDA", "CPU"])
    cuda, cpu = found.shares
    assert (cuda.device, cuda.here, cuda.ops, cuda.time_share) == ("CUDA", False, 0, 0.0)
    assert cpu.ops_share == 1.0
    assert len(found.astray) == cpu.ops
    assert {op.reason for op in found.astray} == {"CUDAExecutionProvider is not on this machine"}
    assert any("ignores it" in text and "CUDAExecutionProvider" in text for text in found.unchecked)


def test_the_cpu_behind_other_providers_is_said() -> None:
    found = editor.audit(MODEL, "CUDA")
    assert [share.device for share in found.shares] == ["CUDA", "CPU"]
    assert any(text.startswith("the CPU was added") for text in found.unchecked)


def test_nodes_without_a_name_of_their_own_are_told_apart(unnamed: Path) -> None:
    found = editor.audit(unnamed, "CPU")
    states = {op.key: op.state for op in found.ops}
    assert states == {
        "e": "placed",
        "t": "placed",
        "r": "placed",
        "q": "placed",
        "n": "removed or fused",
        "y": "placed",
    }
    assert found.removed == 1
    assert any(text.startswith("2 nodes inside bodies") for text in found.unchecked)


def test_measured_shares_say_so_and_sum_to_one(unnamed: Path) -> None:
    found = editor.audit(unnamed, "CPU", seconds=0.1)
    assert found.kind == "measurement"
    assert found.copies == 0
    assert found.shares[0].seconds > 0
    assert found.shares[0].time_share == 1.0
    assert any("were invented" in text for text in found.unchecked)


def test_the_actual_placement_opens_as_a_plan(unnamed: Path, tmp_path: Path) -> None:
    path = editor.audit(unnamed, "CUDA,CPU").plan.save(tmp_path / "plan.json")
    plan = editor.load_plan(path)
    assert set(plan.affinity.values()) == {"CPU"}
    assert set(plan.pins) == {"e", "t", "r", "q", "n", "y"}
    x = {"x": np.ones((2, 3), np.float32), "c": np.array(True)}
    expected = ort.InferenceSession(str(unnamed), providers=[CPU]).run(None, x)
    np.testing.assert_allclose(plan.run(x)["y"], expected[0], rtol=1e-5)


def test_a_session_is_audited_as_it_is(conv: Path) -> None:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_prepacking", "1")
    session = ort.InferenceSession(str(conv), options, providers=[CPU])
    found = editor.audit(session, seconds=0.05)
    assert [op.state for op in found.ops] == ["placed"] * 3
    assert found.kind == "measurement"
    assert session.get_session_options().enable_profiling is False
    with pytest.raises(EditorError, match="only the session"):
        editor.audit(session, "CPU")


def test_a_session_that_records_is_asked_itself(conv: Path) -> None:
    options = ort.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    found = editor.audit(ort.InferenceSession(str(conv), options, providers=[CPU]))
    assert all(op.state == "placed" for op in found.ops)


def test_nodes_without_a_name_of_a_session(unnamed: Path, tmp_path: Path) -> None:
    found = editor.audit(ort.InferenceSession(str(unnamed), providers=[CPU]))
    assert [op.key for op in found.ops if op.actual] == ["e", "t", "r", "q", "y"]
    model = onnx.load(unnamed)
    weight = numpy_helper.from_array(np.ones((2, 3), np.float32), "bias")
    model.graph.initializer.append(weight)
    model.graph.node[0].CopyFrom(helper.make_node("Add", ["x", "bias"], ["e"]))
    path = tmp_path / "large.onnx"
    onnx.save(model, path, save_as_external_data=True, location="large.data", size_threshold=0)
    found = editor.audit(ort.InferenceSession(str(path), providers=[CPU]))
    assert [op.key for op in found.ops if op.actual] == ["r", "y"]
    assert any(text.startswith("3 nodes without a name") for text in found.unchecked)
    whole = editor.audit(path, "CPU")
    assert [op.key for op in whole.ops if op.actual] == ["e", "t", "r", "q", "y"]


def test_a_session_of_bytes_has_no_file(conv: Path) -> None:
    session = ort.InferenceSession(conv.read_bytes(), providers=[CPU])
    with pytest.raises(EditorError, match="made of bytes"):
        editor.audit(session)
    with pytest.raises(EditorError, match=r"a path, or an onnxruntime\.InferenceSession"):
        editor.audit(7)


def test_doubled_names_are_refused_as_the_runtime_refuses_them(tmp_path: Path) -> None:
    text = UNNAMED.replace("q = Softplus", "[i] q = Softplus")
    onnx.save(parser.parse_model(text), tmp_path / "m.onnx")
    with pytest.raises(EditorError, match="two nodes with same node name"):
        editor.audit(tmp_path / "m.onnx", "CPU")


def test_sizes_of_open_dimensions_are_stated(conv: Path) -> None:
    assumed = editor.audit(conv, "CPU")
    assert any(text.startswith("sizes assumed") for text in assumed.unchecked)
    given = editor.audit(conv, "CPU", define={"batch": 4})
    assert not any(text.startswith("sizes assumed") for text in given.unchecked)
    assert given.shares[0].seconds > assumed.shares[0].seconds


def test_options_of_a_session_are_passed_and_dangerous_ones_are_not(
    conv: Path, tmp_path: Path
) -> None:
    file = tmp_path / "options.json"
    target = tmp_path / "stolen.onnx"
    file.write_text(
        json.dumps(
            {
                "providers": ["CPU"],
                "graph_optimization_level": "ORT_DISABLE_ALL",
                "intra_op_num_threads": 1,
                "free_dimension_overrides": {"batch": 2},
                "session.disable_prepacking": "1",
                "optimized_model_filepath": str(target),
                "custom_ops_library": "/tmp/evil.so",
                "config_entries": {"ep.context_file_path": str(target), "ep.context_enable": "1"},
            }
        )
    )
    found = editor.audit(conv, session_options=file)
    assert not target.exists()
    said = "\n".join(found.unchecked)
    for name in ("optimized_model_filepath", "custom_ops_library", "ep.context_file_path"):
        assert name in said
    for name in ("graph_optimization_level", "disable_prepacking", "intra_op_num_threads"):
        assert name not in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graph_optimization_level": 7}, "must be one of ORT_DISABLE_ALL"),
        ({"intra_op_num_threads": "all"}, "must be a whole number"),
        ({"enable_mem_pattern": 1}, "must be true or false"),
        ({"config_entries": ["a"]}, "must be a mapping"),
        ({"provider_options": ["cuda"]}, "must be a mapping"),
        ({"providers": "CPU"}, "must be a list of names"),
        ({"session.disable_prepacking": []}, "must be text or a number"),
    ],
)
def test_wrong_options_are_named(conv: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(EditorError, match=message):
        editor.audit(conv, "CPU", session_options=options)


def test_unknown_providers_are_an_error(conv: Path) -> None:
    with pytest.raises(EditorError, match="no execution provider that is known"):
        editor.audit(conv, "CUDDA,CPU")
    with pytest.raises(EditorError, match="which providers"):
        editor.audit(conv)


def test_hetero_of_openvino(conv: Path, tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino")
    for path in (conv, tmp_path / "conv.xml"):
        if path.suffix == ".xml":
            openvino.save_model(openvino.Core().read_model(conv), path, compress_to_fp16=False)
        found = editor.audit(path, hetero="CPU")
        assert "OpenVINO" in found.runtime
        assert found.shares[0].ops_share == 1.0
        assert sum(op.state == "placed" for op in found.ops) >= 3
        with pytest.raises(EditorError, match="does not start on this machine"):
            editor.audit(path, hetero="MYRIAD,CPU")
    with pytest.raises(EditorError, match="with --hetero"):
        editor.audit(tmp_path / "conv.xml", "CPU")


GENAI = {
    "model": {
        "decoder": {
            "filename": "conv.onnx",
            "session_options": {
                "log_id": "onnxruntime-genai",
                "provider_options": [
                    {"cuda": {"enable_cuda_graph": "0", "user_compute_stream": "1"}}
                ],
            },
            "pipeline": [
                {"first": {"filename": "conv.onnx", "session_options": {"provider_options": []}}},
                {"second": {"filename": "conv.onnx"}},
            ],
        }
    }
}


def test_a_folder_of_genai(conv: Path) -> None:
    (conv.parent / "genai_config.json").write_text(json.dumps(GENAI))
    whole, first, second = editor.audit_genai(conv.parent)
    assert [s.device for s in whole.shares] == ["CUDA", "CPU"]
    assert any("user_compute_stream" in text for text in whole.unchecked)
    assert [s.device for s in first.shares] == ["CPU"]
    assert [s.device for s in second.shares] == ["CUDA", "CPU"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "must be a mapping"),
        ('{"model": {}}', "names no model file"),
        ('{"model": {"decoder": {"filename": "../conv.onnx"}}}', "leads out of the folder"),
        ('{"model": {"decoder": {"filename": "/etc/passwd"}}}', "leads out of the folder"),
        ('{"model": {"decoder": {"filename": "gone.onnx"}}}', "no such file"),
    ],
)
def test_wrong_folders_of_genai(conv: Path, config: str, message: str) -> None:
    (conv.parent / "genai_config.json").write_text(config)
    with pytest.raises(EditorError, match=message):
        editor.audit_genai(conv.parent)


def test_a_record_of_two_providers(conv: Path) -> None:
    """What a GPU that is not here would have recorded: shares, crossings, reasons and the plan follow from the record."""
    graph = editor.load_model(conv, {"batch": 1})
    devices = editor.load_devices(
        [
            {"name": "first", "backendName": "CPU", "nonSupportedNodes": "Neg"},
            {"name": "second", "backendName": "CPU"},
        ]
    )
    placed = {"c": "first", "r": "first", "y": "second"}
    found = _result(graph, devices, "a record", placed, frozenset({"r"}), None, 2, [])
    assert [(op.key, op.actual, op.state) for op in found.ops] == [
        ("c", "first", "placed"),
        ("r", "", "removed or fused"),
        ("y", "second", "placed"),
    ]
    assert [op.key for op in found.astray] == ["y"]
    assert "nodes" not in found.astray[0].reason
    assert "excludes Neg on first" in found.astray[0].reason
    assert [(c.tensor, c.source, c.readers) for c in found.crossings] == [
        ("r", "first", ("second",))
    ]
    assert found.crossings[0].bytes == 3 * 14 * 14 * 4
    assert found.plan.affinity == placed
    assert found.subgraphs == 2
    assert found.shares[0].ops_share == pytest.approx(1 / 2)
    assert sum(share.time_share for share in found.shares) == pytest.approx(1)
    assert "2 copying nodes" in text_of(found)
    for text, met in (
        ("first >= 50% of ops", True),
        ("first >= 51% of ops", False),
        ("CPU >= 100% of time", True),  # a label of both
    ):
        requirement = parse_requirement(text)
        assert requirement is not None
        assert found.meets(requirement) is met
    unknown = parse_requirement("NPU >= 1% ops")
    assert unknown is not None
    with pytest.raises(EditorError, match="has no device 'NPU'"):
        found.meets(unknown)


def test_a_record_that_contradicts_the_editor_is_kept_and_said(conv: Path) -> None:
    graph = editor.load_model(conv, {"batch": 1})
    devices = editor.load_devices(
        [{"name": "only", "backendName": "CPU", "nonSupportedNodes": "Neg"}]
    )
    notes: list[str] = []
    found = _result(graph, devices, "a record", {"y": "only"}, frozenset(), None, None, notes)
    assert found.plan.affinity["y"] == "only"
    assert any("would not have put them" in text and "'y'" in text for text in found.unchecked)


@pytest.mark.parametrize(
    "text",
    ["GPU > 95% of time", "GPU >= 95 of time", "GPU >= 195% of time", ">= 5% of ops", "", "a"],
)
def test_requirements_that_are_none(text: str) -> None:
    assert parse_requirement(text) is None


def test_the_command_line_has_stable_statuses(conv: Path, tmp_path: Path) -> None:
    model = str(conv)
    met = run("audit", model, "--providers", "CPU", "--require", "CPU >= 95% of time")
    assert (met.returncode, met.stderr.count("Traceback")) == (0, 0)
    assert "met" in met.stdout
    unmet = run(
        *("audit", model, "--providers", "CUDA,CPU", "--require", "GPU >= 95% of time"),
        *("--require", "CPU >= 1% of ops", "--json", "--out", str(tmp_path / "plan.json")),
    )
    assert unmet.returncode == 3
    document = json.loads(unmet.stdout)
    assert document["met"] is False
    assert [r["met"] for r in document["audits"][0]["requirements"]] == [False, True]
    assert (tmp_path / "plan.json").is_file()
    assert run("audit", model, "--providers", "CPU", "--require", "lots").returncode == 2
    assert run("audit", "gone.onnx", "--providers", "CPU").returncode == 1
    assert run("audit", "--providers", "CPU").returncode == 1


def test_webgpu_in_software_is_really_audited(software_gpu: None, tmp_path: Path) -> None:
    """A second device that this machine has, in a process of its own, for its driver is found by variables."""
    onnx.save(
        parser.parse_model(
            """<ir_version: 8, opset_import: ["":17]>
            g (float[2,3] x) => (float[2,3] y) { [a] e = Relu(x) [b] n = IsNaN(e) [c] f = Cast<to = 1>(n) [d] y = Add(f, e) }"""
        ),
        tmp_path / "m.onnx",
    )
    done = run(
        *("audit", str(tmp_path / "m.onnx"), "--providers", "WebGPU,CPU", "--seconds", "0.1"),
        *("--json", "--require", "WebGPU >= 100% of ops"),
    )
    assert done.returncode == 3, done.stderr
    (found,) = json.loads(done.stdout)["audits"]
    where = {op["key"]: op["actual"] for op in found["ops"]}
    assert (where["e"], where["n"]) == ("WebGPU", "CPU")
    assert {c["tensor"] for c in found["crossings"]} >= {"e"}
    assert found["copies"] >= 1
    reasons = {op["key"]: op["reason"] for op in found["ops"]}
    assert "IsNaN" in reasons["n"]


def test_options_that_are_trusted_are_passed(conv: Path, tmp_path: Path) -> None:
    """Without ``--trust`` an entry that is not known is left out, and said."""
    file = tmp_path / "options.json"
    file.write_text(json.dumps({"config_entries": {"session.no_such_entry": "1"}}))
    call = ("audit", str(conv), "--providers", "CPU", "--session-options", str(file))
    assert "session.no_such_entry" in run(*call).stderr
    trusted = run(*call, "--trust")
    assert (trusted.returncode, "session.no_such_entry" in trusted.stderr) == (0, False)


def test_an_audit_imports_no_patterns() -> None:
    code = "import sys, editor.commands.audit_commands; assert 'onnxscript' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
