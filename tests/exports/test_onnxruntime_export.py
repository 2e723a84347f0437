"""What is exported for ONNX Runtime is loaded by it, and its script says where ops really are."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import onnx
import onnxruntime
import pytest
from conftest import EXAMPLES, ODDITIES, python, run
from onnx import TensorProto, helper
from painted import TWINS, painted

import editor
from editor.exports.onnxruntime import name_patterns
from editor.graph.graph import Graph


def test_onnx_runtime_accepts_the_annotations(mobilenet: Graph, tmp_path: Path) -> None:
    plan = painted(mobilenet, TWINS)
    plan.export("onnxruntime", tmp_path)
    done = python(tmp_path / "mobilenetv2_onnxruntime.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 ops are not on the device of the plan" in done.stdout
    back, report = editor.partition(mobilenet, TWINS).import_affinities(
        tmp_path / "mobilenetv2_annotated.onnx"
    )
    assert back.affinity == plan.affinity and not report.problems


def test_the_script_says_which_ops_onnx_runtime_does_not_run_where_the_plan_has_them(
    mobilenet: Graph, tmp_path: Path
) -> None:
    """OpenVINO is not a device of this session: its ops run on the CPU, which is not the plan."""
    table = [
        {
            "name": "OpenVINO",
            "backendName": "openvino",
            "nonSupportedNodes": "Gemm, GlobalAveragePool",
        },
        {"name": "CPU", "backendName": "onnxruntime"},
    ]
    plan = editor.partition(mobilenet, table)
    with pytest.warns(UserWarning, match="runs the ops of OpenVINO on CPUExecutionProvider"):
        plan.export("onnxruntime", tmp_path)
    done = python(tmp_path / "mobilenetv2_onnxruntime.py")
    assert done.returncode == 1
    assert re.search(r"[1-9]\d* ops are not on the device of the plan", done.stdout)
    assert "CPUExecutionProvider instead of OpenVINO" in done.stdout


def test_onnx_runtime_accepts_assignment_by_names(mobilenet: Graph, tmp_path: Path) -> None:
    plan = painted(mobilenet, TWINS)
    plan.save(tmp_path / "plan.json")
    done = run(
        "export",
        str(tmp_path / "plan.json"),
        "--to",
        "onnxruntime",
        "--option",
        "assignment=names",
        "--out",
        str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "mobilenetv2_session.json").read_text())
    assert set(document["session"]) == {"session.name_based_layer_assignment"}
    named = onnx.load(tmp_path / document["model"])
    assert [n.name for n in named.graph.node] == list(mobilenet.op_names)
    done = python(tmp_path / "mobilenetv2_onnxruntime.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 ops are not on the device of the plan" in done.stdout
    back, report = editor.partition(mobilenet, TWINS).import_affinities(
        tmp_path / "mobilenetv2_session.json"
    )
    assert back.affinity == plan.affinity and not report.problems and report.how["name"] == 100


def longest_match(name: str, settings: str) -> set[str]:
    """ONNX Runtime's rule: the longest pattern that the name contains."""
    rules = [
        (pattern.strip(), target.strip())
        for entry in settings.split(";")
        for target, _, patterns in [entry.rstrip(") ").partition("(")]
        for pattern in patterns.split(",")
    ]
    longest = max((len(p) for p, _ in rules if p in name), default=-1)
    return {target for p, target in rules if p in name and len(p) == longest}


@pytest.mark.parametrize("name", ["mobilenetv2", "resnet50", "whisper-tiny-decoder"])
def test_name_patterns_assign_the_devices_of_the_plan(name: str, tmp_path: Path) -> None:
    graph = editor.load_model(EXAMPLES / "models" / f"{name}.onnx")
    graph = (
        editor.load_model(graph.path, dict.fromkeys(graph.unbound, 8)) if graph.unbound else graph
    )
    table = [{"name": "GPU", "backendName": "GPU"}, {"name": "CPU", "backendName": "CPU"}]
    plan = painted(graph, table, 10, 60)
    plan.export("onnxruntime", tmp_path, assignment="names")
    settings = json.loads((tmp_path / f"{name}_session.json").read_text())["session"][
        "session.name_based_layer_assignment"
    ]
    assert len(settings) <= 8192
    for op, key in enumerate(graph.op_keys):
        if not graph.op_is_constant[op]:
            assert longest_match(graph.op_names[op], settings) == {plan.affinity[key].lower()}


@pytest.mark.parametrize(
    ("model", "cause"),
    [
        ("unnamed_nodes", "op .* has no name. Use assignment=annotations"),
        ("duplicate_node_names", "shares the name"),
        ("nasty_names", "do not allow this placement"),
    ],
)
def test_names_that_do_not_allow_it_are_refused(model: str, cause: str, tmp_path: Path) -> None:
    graph = editor.load_model(ODDITIES / f"{model}.onnx")
    with pytest.raises(editor.ExportError, match=cause):
        editor.partition(graph, TWINS).export("onnxruntime", tmp_path, assignment="names")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "targets",
    [
        {"a": "cpu", "ab": "gpu", "b": "cpu", "bab": "cpu"},
        {"x/1": "cpu", "x/10": "gpu", "y/x/1": "gpu", "x": "gpu"},
        {"a b": "cpu", "a ": "gpu"},
        {"a,1": "cpu", "a,2": "cpu"},
        {"a,1": "cpu", "a,2": "gpu"},
        {"=a": "cpu", "a": "gpu"},
    ],
)
def test_name_patterns_are_correct_or_none(targets: dict[str, str]) -> None:
    patterns = name_patterns(targets, 8192)
    if any("," in name for name in targets):
        assert patterns == ({"a": "cpu"} if len(set(targets.values())) == 1 else None)
    elif patterns is not None:
        for name, target in targets.items():
            longest = max(len(p) for p in patterns if p in name)
            assert {patterns[p] for p in patterns if p in name and len(p) == longest} == {target}
    assert patterns is not None or any(set(",= ") & set(name) for name in targets)


def test_the_memory_budget_has_the_format_of_the_setting(mobilenet: Graph, tmp_path: Path) -> None:
    table = [
        {"name": "GPU", "backendName": "GPU", "memory": "8MiB"},
        {"name": "CPU", "backendName": "CPU"},
    ]
    painted(mobilenet, table).export("onnxruntime", tmp_path)
    session = json.loads((tmp_path / "mobilenetv2_session.json").read_text())["session"]
    assert session["session.resource_cuda_partitioning_settings"] == "8192,"
    options = onnxruntime.SessionOptions()
    for key, value in session.items():
        options.add_session_config_entry(key, value)
    onnxruntime.InferenceSession(
        str(tmp_path / "mobilenetv2_annotated.onnx"), options, providers=["CPUExecutionProvider"]
    )
    options.add_session_config_entry(
        "session.resource_cuda_partitioning_settings", "8MiB,"
    )  # it does look at the value
    with pytest.raises(Exception, match="parse"):
        onnxruntime.InferenceSession(
            str(tmp_path / "mobilenetv2_annotated.onnx"),
            options,
            providers=["CPUExecutionProvider"],
        )
    painted(mobilenet, table).export("onnxruntime", tmp_path, budget="no")
    assert len(json.loads((tmp_path / "mobilenetv2_session.json").read_text())["session"]) == 1


def test_a_planned_device_that_onnx_runtime_has_no_provider_for_is_noted(
    mobilenet: Graph, tmp_path: Path
) -> None:
    """The script listed ops on the wrong device, after an export that had warned of nothing."""
    plan = editor.partition(mobilenet, [{"name": "NPU"}, {"name": "CPU"}])
    with pytest.warns(
        UserWarning, match=r"ONNX Runtime knows no device NPU .*: .* its ops run on another device"
    ):
        plan.export("onnxruntime", tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        editor.partition(mobilenet, [{"name": "GPU"}, {"name": "CPU"}]).export(
            "onnxruntime", tmp_path / "gpu"
        )


def test_the_session_has_the_sizes_of_sums_too(tmp_path: Path) -> None:
    inputs = {"a": ["past"], "b": ["new"], "c": ["past + new"]}
    net = helper.make_graph(
        [helper.make_node("Neg", [name], [f"{name}_out"]) for name in inputs],
        "net",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in inputs.items()],
        [helper.make_tensor_value_info(f"{n}_out", TensorProto.FLOAT, None) for n in inputs],
    )
    onnx.save(helper.make_model(net, ir_version=8), tmp_path / "m.onnx")
    graph = editor.load_model(tmp_path / "m.onnx", {"past": 4, "past + new": 7})
    editor.partition(graph, "HETERO:CPU").export("onnxruntime", tmp_path)
    session = json.loads((tmp_path / "m_session.json").read_text())
    assert session["sizes"] == {"new": 3, "past": 4, "past + new": 7}
