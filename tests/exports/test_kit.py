"""A kit measures the ops of a device on a machine without the editor, and its result is imported."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import EXAMPLES, ODDITIES, ROOT, python, save_net, write_dag
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import convert_model_to_external_data

import editor
from editor.errors import EditorError
from editor.exports.kit import MOST_PIECES, groups_of, kit_note, pieces_of
from editor.kinds import Kind
from editor.placement.device_profile import (
    DeviceProfile,
    basis_of,
    costs_of,
    load_profile,
    save_profile,
)
from editor.workspace.plan import Plan

NPU = [{"name": "NPU", "backendName": "NPU"}, {"name": "CPU", "backendName": "CPU"}]
SMALL = Path(__file__).parents[1] / "data" / "profiles" / "small.onnx"
START = """import runpy, sys
sys.path.append(sys.argv[1])
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a script with the packages of one folder only: Python is started without site-packages."""


@pytest.fixture(autouse=True)
def no_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def plan_of(model: Path, devices: list[dict[str, str]] = NPU) -> Plan:
    return editor.partition(
        editor.load_model(model, {"batch": 1} if model.stem == "resnet50" else {}), devices
    )


def kit_of(plan: Plan, folder: Path, **options: str) -> dict[str, Any]:
    plan.write_kit(folder, **options)
    document: dict[str, Any] = json.loads((folder / "kit.json").read_text())
    return document


def bare(folder: Path, runtime: str) -> Path:
    """A folder of packages that has numpy and one runtime, and nothing else."""
    folder.mkdir(exist_ok=True)
    for name in ("numpy", runtime):
        package = Path(__import__(name).__file__ or "").parent
        (folder / name).symlink_to(package)
        libraries = package.with_name(f"{name}.libs")
        if libraries.exists():
            (folder / libraries.name).symlink_to(libraries)
    return folder


def started(kit: Path, packages: Path, *arguments: str) -> subprocess.Popen[str]:
    """The kit, started on a machine that has only these packages."""
    python = Path(sys.executable).resolve()  # not that of the virtual environment
    return subprocess.Popen(
        [python, "-I", "-S", "-c", START, packages, kit / "run.py", *arguments],
        text=True,
        cwd="/",
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def run(kit: Path, packages: Path, *arguments: str) -> tuple[str, dict[str, Any]]:
    process = started(kit, packages, *arguments)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 0, printed
    return printed, json.loads((kit / "profile.json").read_text())


def test_a_kit_has_every_op_of_the_device_in_one_group(tmp_path: Path) -> None:
    plan = plan_of(EXAMPLES / "models" / "resnet50.onnx")
    kit = kit_of(plan, tmp_path)
    keys = [key for group in kit["groups"] for key in group["ops"].values()]
    assert sorted(keys) == sorted(
        k for op, k in enumerate(plan.graph.op_keys) if not plan.graph.op_is_constant[op]
    )
    assert (
        kit["device"] == "NPU"
        and len(kit["wholes"]) == 1
        and len(kit["wholes"][0]["ops"]) == len(keys)
    )
    used = {group["model"] for group in kit["groups"]}
    assert (
        len(used) < len(kit["groups"]) < len(keys)
    )  # repeated blocks are measured once, activations with their convolution


def test_all_models_of_a_kit_share_one_file_of_weights(tmp_path: Path) -> None:
    kit_of(plan_of(EXAMPLES / "models" / "resnet50.onnx"), tmp_path)
    files = [
        path for path in tmp_path.iterdir() if path.suffix not in (".onnx", ".json", ".py", ".md")
    ]
    assert [path.name for path in files] == ["weights.bin"]
    places: dict[str, tuple[int, int]] = {}
    for path in tmp_path.glob("*.onnx"):
        onnx.checker.check_model(str(path))
        assert path.stat().st_size < 200_000
        for tensor in onnx.load(path, load_external_data=False).graph.initializer:
            if tensor.data_location == TensorProto.EXTERNAL:
                entries = {entry.key: entry.value for entry in tensor.external_data}
                assert entries["location"] == "weights.bin"
                place = int(entries["offset"]), int(entries["length"])
                assert places.setdefault(tensor.name, place) == place
    spans = sorted(places.values())
    assert all(a + size <= b for (a, size), (b, _) in pairwise(spans))
    assert files[0].stat().st_size == sum(spans[-1])


def test_weights_in_other_files_are_taken_along(tmp_path: Path) -> None:
    model = onnx.load(SMALL)
    convert_model_to_external_data(model, location="all.data", size_threshold=0)
    (tmp_path / "m").mkdir()
    onnx.save(model, tmp_path / "m" / "m.onnx")
    kit_of(plan_of(tmp_path / "m" / "m.onnx"), tmp_path / "kit")
    moved, original = onnx.load(tmp_path / "kit" / "whole_0.onnx"), onnx.load(SMALL)
    values = {t.name: numpy_helper.to_array(t) for t in original.graph.initializer}
    assert len(moved.graph.initializer) == len(values)
    for tensor in moved.graph.initializer:
        assert np.array_equal(numpy_helper.to_array(tensor), values[tensor.name])
    assert not (tmp_path / "kit" / "all.data").exists()


def test_a_group_computes_what_the_model_computes(tmp_path: Path) -> None:
    import onnxruntime as ort

    kit = kit_of(plan_of(SMALL), tmp_path)
    whole = ort.InferenceSession(str(tmp_path / kit["models"][kit["wholes"][0]["model"]]["file"]))
    original = ort.InferenceSession(str(SMALL))
    x = np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)
    assert np.allclose(whole.run(None, {"x": x})[0], original.run(None, {"x": x})[0], atol=1e-6)
    known = {"x": x}
    for group in kit["groups"]:
        model = kit["models"][group["model"]]
        session = ort.InferenceSession(str(tmp_path / model["file"]))
        names = [output.name for output in session.get_outputs()]
        feeds = {spec["name"]: known[spec["name"]] for spec in model["inputs"]}
        known.update(zip(names, session.run(None, feeds), strict=True))
    assert np.allclose(known["y"], original.run(None, {"x": x})[0], atol=1e-5)


def test_groups_are_chains_that_wait_for_nothing_of_their_own(tmp_path: Path) -> None:
    """A diamond: one branch may join its begin only where nothing else reads that."""
    path = write_dag(
        tmp_path / "m.onnx", [[], [0], [0], [1, 2], [3]], ["Neg", "Relu", "Relu", "Sum", "Relu"]
    )
    plan = editor.partition(editor.load_model(path), NPU)
    groups = groups_of(plan.placement, plan.devices[0])
    assert [list(s.ops) for s in groups.subgraphs if s.device == "NPU"] in (
        [["t0"], ["t1"], ["t2", "t3", "t4"]],
        [["t0"], ["t2"], ["t1", "t3", "t4"]],
    )
    for subgraph in groups.subgraphs:
        assert all(before < subgraph.id for before in subgraph.depends_on)


def test_a_whole_is_cut_into_pieces_that_follow_each_other() -> None:
    plan = plan_of(EXAMPLES / "models" / "resnet50.onnx")
    pieces = pieces_of(plan.placement, plan.devices[0])
    assert len(pieces.subgraphs) == MOST_PIECES
    assert all(before < piece.id for piece in pieces.subgraphs for before in piece.depends_on)
    sizes = [piece.size for piece in pieces.subgraphs]
    assert max(sizes) - min(sizes) <= 1 and sum(sizes) == len(plan.placement.placed_ops)
    small = plan_of(SMALL)
    assert len(pieces_of(small.placement, small.devices[0]).subgraphs) == 2


def test_equal_work_is_one_file_and_other_shape_values_are_not(tmp_path: Path) -> None:
    value, node = helper.make_tensor_value_info, helper.make_node
    nodes, weights, last = [], [], "x"
    for i, shape in enumerate(([2, 8], [4, 4], [2, 8], [4, 4])):
        weights.append(numpy_helper.from_array(np.array(shape, np.int64), f"s{i}"))
        nodes += [
            node("Reshape", [last, f"s{i}"], [f"r{i}"], f"r{i}"),
            node("Softmax", [f"r{i}"], [f"m{i}"], f"m{i}", axis=1),
        ]
        last = f"m{i}"
    ends = [value("x", TensorProto.FLOAT, [4, 4])], [value(last, TensorProto.FLOAT, [4, 4])]
    save_net(tmp_path / "m.onnx", nodes, *ends, weights)
    kit = kit_of(plan_of(tmp_path / "m.onnx"), tmp_path / "kit")
    files = {key: group["model"] for group in kit["groups"] for key in group["ops"].values()}
    assert files["m0"] == files["m2"] != files["m1"]  # each with the Reshape behind it


def test_the_script_is_for_old_pythons_and_imports_nothing_of_the_editor(tmp_path: Path) -> None:
    kit_of(plan_of(SMALL), tmp_path)
    tree = ast.parse((tmp_path / "run.py").read_text(), feature_version=(3, 8))
    imported = {
        name.partition(".")[0]
        for n in ast.walk(tree)
        for name in (
            [alias.name for alias in n.names]
            if isinstance(n, ast.Import)
            else [n.module or ""]
            if isinstance(n, ast.ImportFrom)
            else []
        )
    }
    runtimes = {"onnxruntime", "onnxruntime_extensions", "openvino"}
    assert imported - set(sys.stdlib_module_names) == {"numpy"} | runtimes


def test_a_kit_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    plan = plan_of(SMALL)
    for name in ("a", "b"):
        plan.write_kit(tmp_path / name)
    first, second = (
        {p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("a", "b")
    )
    assert first == second


@pytest.mark.parametrize(
    ("devices", "options", "message"),
    [
        (NPU, {"device": "GPU"}, "unknown device 'GPU' .*NPU, CPU"),
        (NPU, {"runtime": "tvm"}, "unknown runtime 'tvm'"),
        (NPU[1:], {}, "no planned device; say which device"),
        ([*NPU, {"name": "X", "backendName": "MYRIAD"}], {}, "2 planned devices; say which device"),
    ],
)
def test_a_kit_that_cannot_be_made_says_why(
    tmp_path: Path, devices: list[dict[str, str]], options: dict[str, str], message: str
) -> None:
    with pytest.raises(EditorError, match=message):
        plan_of(SMALL, devices).write_kit(tmp_path / "kit", **options)
    assert not (tmp_path / "kit").exists() or not list((tmp_path / "kit").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_a_kit_measures_with_numpy_and_one_runtime_and_its_result_makes_predictions(
    tmp_path: Path, runtime: str
) -> None:
    plan = plan_of(EXAMPLES / "models" / "resnet50.onnx")
    kit_of(plan, tmp_path / "kit")
    printed, profile = run(
        tmp_path / "kit",
        bare(tmp_path / "packages", runtime),
        "--seconds",
        "8",
        "--machine",
        "board 7",
    )
    assert (
        profile["runtime"] == runtime and not profile["failed"] and profile["machine"] == "board 7"
    )
    assert profile["precision"] == ("f32" if runtime == "openvino" else ""), (
        "as the editor computes"
    )
    (whole,) = profile["wholes"]
    assert (
        whole["seconds"] > 0
        and whole["layers"]
        and whole["scale"]
        == pytest.approx(
            (whole["seconds"] - profile["links"]["launch_seconds"]) / whole["sum_of_groups"]
        )
    )
    assert f"scale {whole['scale']:.2f}" in printed and whole["cut_seconds"] is not None
    target = profile["target"]
    assert f"these are times of {target}, not of NPU" in printed.splitlines()[-2]

    plan, report = plan.import_profile(tmp_path / "kit" / "profile.json")
    assert not report.without and report.share > 0.9 and report.device == "NPU"
    with pytest.raises(EditorError, match="another model or other sizes"):
        plan_of(SMALL).import_profile(tmp_path / "kit" / "profile.json")
    imported = load_profile(plan.graph, plan.devices[0])
    assert imported is not None and imported.has_links and imported.has_launch
    assert imported.launch_seconds == max(whole["cut_seconds"], profile["links"]["launch_seconds"])
    assert imported.total == pytest.approx(whole["seconds"], rel=0.2)
    seconds = dict.fromkeys(plan.graph.op_keys, 1e-3)
    save_profile(
        plan.graph, plan.devices[1], DeviceProfile("CPU", 1.0, seconds, {}, (), 0, 0, 0, 0, 0, 1)
    )
    costs = costs_of(plan.graph, plan.devices, "measured")
    basis = basis_of(costs, "measured")
    assert (
        basis.kind is Kind.PREDICTION
        and "board 7" in basis.detail
        and f"measured on {target}, not on NPU" in basis.detail
        and "estimated" not in str(basis)
    )


def test_a_kit_measures_with_the_properties_of_the_device(tmp_path: Path) -> None:
    """It measured in bf16 what the editor computes in float32."""
    properties = {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": "2"}
    table: list[dict[str, Any]] = [
        {"name": "CPU", "backendName": "OpenVINO.CPU", "properties": properties}
    ]
    plan = editor.partition(editor.load_model(SMALL), table)
    kit = kit_of(plan, tmp_path / "kit", device="CPU")
    assert kit["properties"] == table[0]["properties"] and kit["properties_of"] == "openvino"
    _, profile = run(tmp_path / "kit", bare(tmp_path / "packages", "openvino"), "--seconds", "1")
    assert profile["properties"] == table[0]["properties"] and profile["precision"] == "f32"
    _, report = plan.import_profile(tmp_path / "kit" / "profile.json")
    assert not any("other properties" in note for note in report.notes)
    assert " CPU in f32 on " in report.origin
    other = editor.partition(plan.graph, [{**table[0], "properties": {"NUM_STREAMS": "1"}}])
    _, report = other.import_profile(tmp_path / "kit" / "profile.json")
    assert any("other properties than CPU has in the table" in note for note in report.notes)


@pytest.mark.slow
def test_a_kit_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    kit = kit_of(plan_of(EXAMPLES / "models" / "mobilenetv2.onnx"), tmp_path / "kit")
    packages = bare(tmp_path / "packages", "onnxruntime")
    process = started(tmp_path / "kit", packages, "--seconds", "20")
    file = tmp_path / "kit" / "results-onnxruntime-CPUExecutionProvider.jsonl"

    def measured() -> list[str]:
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if line.startswith('{"what": "model') and line.endswith("}")]

    until = time.monotonic() + 60
    while len(measured()) < 4 and time.monotonic() < until and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    before = measured()
    assert len(before) >= 4 and not (tmp_path / "kit" / "profile.json").exists()
    with open(file, "a") as cut:
        cut.write('{"what": "model 2')
    _, profile = run(tmp_path / "kit", packages, "--seconds", "2")
    after = measured()
    assert after[: len(before)] == before and not profile["failed"]
    names = [json.loads(line)["what"] for line in after]
    assert (
        len(names)
        == len(set(names))
        == len({g["model"] for g in kit["groups"]}) + len(kit["wholes"][0]["pieces"])
    )


@pytest.mark.slow
def test_what_ends_the_process_twice_or_is_refused_is_left_out_and_listed(tmp_path: Path) -> None:
    plan = plan_of(ODDITIES / "custom_op.onnx")
    kit = kit_of(plan, tmp_path / "kit")
    packages = bare(tmp_path / "packages", "onnxruntime")
    _, profile = run(tmp_path / "kit", packages, "--seconds", "0.5")
    failed = {key for entry in profile["failed"] for key in entry["ops"].values()}
    graph = plan.graph
    custom = {
        graph.op_keys[op] for op in range(len(graph)) if graph.op_domains[op] not in ("", "ai.onnx")
    }
    assert (
        failed > custom and profile["groups"]
    )  # and what reads its results, whose shapes nobody knows
    reasons = {key: entry["reason"] for entry in profile["failed"] for key in entry["ops"].values()}
    assert (
        "is not a registered function/op" in reasons["b"]
        and "is unknown before a run" in reasons["y"]
    )
    _, report = plan.import_profile(tmp_path / "kit" / "profile.json")
    assert set(report.without) == failed and any("not measured" in note for note in report.notes)

    number = next(
        group["model"] for group in kit["groups"] if set(group["ops"].values()).isdisjoint(failed)
    )
    (tmp_path / "kit" / "profile.json").unlink()
    file = next((tmp_path / "kit").glob("results-*.jsonl"))
    kept = [
        line for line in file.read_text().splitlines() if f'"what": "model {number}"' not in line
    ]
    file.write_text("\n".join([*kept, f'{{"begin": "model {number}"}}']) + "\n")
    _, profile = run(tmp_path / "kit", packages)
    assert any(
        "the process ended while it was measured" in entry["reason"] for entry in profile["failed"]
    )


@pytest.mark.slow
def test_the_commands_write_a_kit_and_import_its_result(tmp_path: Path) -> None:
    def command(*arguments: object, status: int = 0) -> str:
        done = python("-m", "editor", *arguments, cwd=ROOT, timeout=120)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    (tmp_path / "npu.yaml").write_text("- {name: NPU, backendName: NPU}\n")
    plan_of(SMALL, NPU[:1]).save(tmp_path / "plan" / "plan.json")
    assert "groups of ops" in command(
        "kit", tmp_path / "plan" / "plan.json", "--out", tmp_path / "kit"
    )
    run(tmp_path / "kit", bare(tmp_path / "packages", "onnxruntime"), "--seconds", "0.5")
    printed = command(
        "import",
        tmp_path / "plan" / "plan.json",
        tmp_path / "kit" / "profile.json",
        "--machine",
        "board 7",
    )
    assert "NPU: kit with onnxruntime" in printed and "11 of 11 ops" in printed
    profile = SMALL.with_name("tensorrt.json")
    printed = command(
        "partition",
        SMALL,
        "--devices",
        tmp_path / "npu.yaml",
        "--policy",
        "optimal",
        "--profile",
        f"NPU={profile}",
        "--out",
        tmp_path / "best",
    )
    assert "(prediction from imported profile (NPU: TensorRT trtexec, 20" in printed
    assert "transfers and launches estimated" in printed
    assert "--out PLAN" in command(
        "import", tmp_path / "plan" / "plan.json", tmp_path / "plan" / "plan.json", status=1
    )


def test_a_kit_without_ops_says_why_the_device_refuses_them(tmp_path: Path) -> None:
    plan = plan_of(
        SMALL, [{"name": "NPU", "preset": "edgetpu"}, {"name": "CPU", "backendName": "CPU"}]
    )
    why = (
        r"NPU can run no op .*: it refuses \d+ of \d+ ops because: float32; this device takes int8"
    )
    with pytest.raises(EditorError, match=why):
        plan.write_kit(tmp_path / "kit")


def test_a_kit_explains_itself_to_who_finds_it(tmp_path: Path) -> None:
    plan = plan_of(SMALL)
    names = {path.name for path in plan.write_kit(tmp_path, runtime="openvino")}
    text = (tmp_path / "README.md").read_text()
    assert "--runtime openvino --target NPU\n" in text and "only the CPU is measured" in text
    assert (
        text.startswith(f"# Measures {plan.graph.name} for NPU\n")
        and "numpy, and OpenVINO;" in text
    )
    for pattern in re.findall(r"`([a-z_*]+\.[a-z*]+)`", text):
        assert pattern == "profile.json" or any(fnmatch(name, pattern) for name in names), pattern


@pytest.mark.parametrize(
    ("entry", "command"),
    [
        ({"backendName": "QNN"}, "--runtime onnxruntime --target QNNExecutionProvider"),
        ({"backendName": "OpenVINO.GPU"}, "--runtime openvino --target GPU"),
        ({"backendName": "Hailo"}, ""),
    ],
)
def test_a_kit_says_what_the_device_is_called_where_that_is_known(
    tmp_path: Path, entry: dict[str, str], command: str
) -> None:
    plan = plan_of(SMALL, [{"name": "card", **entry}, {"name": "CPU", "backendName": "CPU"}])
    plan.write_kit(tmp_path, "card")
    text = (tmp_path / "README.md").read_text()
    assert f"    python run.py {command}".rstrip() + "\n" in text
    assert ("times too" in text) == (not command) == bool(kit_note(plan.devices[0]))
    assert command or "card (Hailo) neither" in text


def test_a_kit_states_the_whole_numbers_that_its_models_take(tmp_path: Path) -> None:
    text = """
    <ir_version: 8, opset_import: ["": 18]>
    m (float[2,6] x, int64[2] size) => (float[a,b] y) { z = Relu (x)
        y = Reshape (z, size) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    plan = plan_of(tmp_path / "m.onnx")
    kit = kit_of(plan, tmp_path / "kit")
    stated = [spec for entry in kit["models"] for spec in entry["inputs"] if spec["name"] == "size"]
    assert stated and all(spec["values"] == [2, 6] for spec in stated)
    run(tmp_path / "kit", bare(tmp_path / "packages", "onnxruntime"), "--seconds", "0.1")
