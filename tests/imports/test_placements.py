"""Where other tools ran the ops of a model becomes pins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import python, run
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.workspace.plan import Plan

DEVICES = [
    {"name": "gpu", "backendName": "CUDA"},
    {"name": "host", "backendName": "CPU"},
    {"name": "dla", "backendName": "DLA"},
    {"name": "rt", "backendName": "TensorRT"},
]
RECORD = """
import json, sys
import numpy as np, onnxruntime as ort
model, folder = sys.argv[1:]
options = ort.SessionOptions()
options.log_severity_level = 0
options.enable_profiling, options.profile_file_prefix = True, f"{folder}/profile"
options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
session.run(None, {"x": np.ones((1, 3, 8, 8), np.float32)})
session.end_profiling()
parts = [
    {"ep_name": part.ep_name, "nodes": [{"name": n.name, "op_type": n.op_type} for n in part.get_nodes()]}
    for part in session.get_provider_graph_assignment_info()
]
json.dump(parts, open(f"{folder}/assignment.json", "w"))
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, and what ONNX Runtime says of a session of it."""
    folder = tmp_path_factory.mktemp("recorded")
    node, value = helper.make_node, helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            node("Conv", ["x", "w"], ["c"], "/m/conv, first"),
            node("Relu", ["c"], ["a"], "/m/act"),
            node("Softmax", ["a"], ["s"], "/m/Softmax"),
            node("Neg", ["s"], ["y"], "/m/Neg"),
        ],
        "g",
        [value("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "m.onnx")
    done = python("-c", RECORD, folder / "m.onnx", folder, check=True)
    (folder / "session.log").write_text(done.stderr)
    next(folder.glob("profile*.json")).rename(folder / "profile.json")
    return folder


@pytest.fixture
def plan(recorded: Path) -> Plan:
    return editor.partition(recorded / "m.onnx", DEVICES)


ALL = ("c", "a", "s", "y")


def pins(plan: Plan, path: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    imported, report = plan.import_affinities(path)
    return dict(imported.pins), report.problems


@pytest.mark.parametrize("name", ["profile.json", "session.log", "assignment.json"])
def test_what_onnx_runtime_says_of_a_session(plan: Plan, recorded: Path, name: str) -> None:
    found, problems = pins(plan, recorded / name)
    assert found == dict.fromkeys(ALL, "host")
    assert not [p for p in problems if "host" in p or "provider" in p.lower()]


def on_cuda(entry: dict[str, Any], names: tuple[str, ...]) -> None:
    if any(name in json.dumps(entry) for name in names):
        text = json.dumps(entry).replace("CPUExecutionProvider", "CUDAExecutionProvider")
        entry.update(json.loads(text))


@pytest.mark.parametrize("name", ["profile.json", "assignment.json"])
def test_ops_of_two_providers_and_fused_ones(
    plan: Plan, recorded: Path, tmp_path: Path, name: str
) -> None:
    """In the profile, the kernel of both is called after the tensor that the Relu makes."""
    entries = json.loads((recorded / name).read_text())
    for entry in entries:
        on_cuda(entry, ("conv, first", "/m/act", "a_nchwc"))
    (tmp_path / name).write_text(json.dumps(entries))
    assert pins(plan, tmp_path / name)[0] == {"c": "gpu", "a": "gpu", "s": "host", "y": "host"}


PREFIX = (
    "2026-01-01 00:00:00.1 [V:onnxruntime:, session_state.cc:1160 VerifyEachNodeIsAssignedToAnEp] "
)


def test_a_verbose_log_of_two_providers(plan: Plan, tmp_path: Path) -> None:
    lines = [
        "Node placements",
        " Node(s) placed on [CUDAExecutionProvider]. Number of nodes: 3",
        "  FusedConv (/m/conv, first)",
        "  Softmax (/m/Softmax)",
        "  MemcpyToHost (Memcpy_token_3)",
        " Node(s) placed on [CPUExecutionProvider]. Number of nodes: 1",
        "  Neg (/m/Neg)",
        "  Exp (/m/unknown)",
    ]
    path = tmp_path / "verbose.txt"
    path.write_text("\n".join(f"\x1b[0;93m{PREFIX}{line}\x1b[m" for line in lines))
    found, problems = pins(plan, path)
    assert found == {"c": "gpu", "a": "gpu", "s": "gpu", "y": "host"}
    assert problems == ("1 layer without an op of this model: '/m/unknown'",)


def test_a_provider_that_is_no_device_of_the_plan_is_reported_once(
    recorded: Path, tmp_path: Path
) -> None:
    plan = editor.partition(recorded / "m.onnx", DEVICES[:1])
    found, problems = pins(plan, recorded / "assignment.json")
    assert not found and len(problems) == 1
    assert "CPUExecutionProvider: no device of the plan" in problems[0]


DETAILED: list[Any] = [
    {
        "Name": "{ForeignNode[/m/conv, first.../m/act]}",
        "LayerType": "DLA",
        "Inputs": [],
        "Metadata": "",
    },
    {
        "Name": "__myl_SoftNeg_myl0_1",
        "LayerType": "kgen",
        "Metadata": "[ONNX Layer: /m/Softmax]\x1e[ONNX Layer: /m/Neg]",
    },
    {"Name": "Reformatting CopyNode for Output Tensor 0 to x", "LayerType": "Reformat"},
]


def test_the_layers_of_an_engine_of_tensorrt(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "layers.json"
    path.write_text(json.dumps({"Layers": DETAILED, "Bindings": ["x", "y"]}))
    found, problems = pins(plan, path)
    assert found == {"c": "dla", "a": "dla", "s": "rt", "y": "rt"}
    assert len(problems) == 1 and "Reformatting CopyNode" in problems[0]
    path.write_text(json.dumps({"Layers": ["/m/conv, first", "/m/act + /m/Softmax", "/m/Neg"]}))
    assert pins(plan, path)[0] == dict.fromkeys(ALL, "rt")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", [{"ep_name": "CPUExecutionProvider"}], "entry 1: it needs an ep_name and"),
        ("a.json", {"Layers": {}}, "Layers must be a list"),
        ("a.json", {"Layers": [3]}, "layer 1: a layer is a name or a mapping"),
        ("a.json", {"Layers": []}, "no layer"),
    ],
)
def test_damaged_files(
    plan: Plan, tmp_path: Path, name: str, content: object, message: str
) -> None:
    (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(editor.PlanError, match=message):
        plan.import_affinities(tmp_path / name)


def test_the_command_line_takes_a_profile_as_pins_where_that_is_asked_for(
    plan: Plan, recorded: Path, tmp_path: Path
) -> None:
    path = plan.save(tmp_path / "plan.json")
    arguments = ("import", str(path), str(recorded / "profile.json"))
    done = run(*arguments, "--out", str(tmp_path / "new.json"), "--pins")
    assert done.returncode == 0, done.stderr
    assert "profile of ONNX Runtime; 4 ops pinned" in done.stdout
    entries = json.loads((recorded / "profile.json").read_text())
    for entry in entries:
        on_cuda(entry, ("Softmax",))
    (tmp_path / "two.json").write_text(json.dumps(entries))
    taken = run("import", str(path), str(tmp_path / "two.json"), "--device", "host")
    assert taken.returncode == 0 and "--pins takes that as pins" in taken.stderr
    refused = run(*arguments)
    assert refused.returncode == 1 and "--pins to take only where ops ran" in refused.stderr
