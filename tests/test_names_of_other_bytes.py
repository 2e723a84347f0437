"""Files whose names are not UTF-8: used where that is possible, and refused in words elsewhere."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import ROOT, python, run, write_dag
from onnx import helper, numpy_helper

import editor
from editor.errors import DeviceTableError, EditorError, ModelError, PlanError
from editor.web.app_state import AppState
from editor.web.open_request import OpenRequest

ODD = os.fsdecode(b"caf\xe9")


@pytest.fixture
def odd_folder(tmp_path: Path) -> Path:
    """A folder with a model, whose name is not UTF-8."""
    folder = tmp_path / ODD
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    write_dag(folder / "net.onnx", [[], [0]])
    return folder


def test_the_page_refuses_them_and_goes_on(odd_folder: Path, state: AppState) -> None:
    (odd_folder.parent / "net.onnx").write_bytes((odd_folder / "net.onnx").read_bytes())
    good = OpenRequest(str(odd_folder.parent / "net.onnx"), "HETERO:CPU")
    plan = json.loads(editor.partition(editor.load_model(good.path), "HETERO:CPU").to_json())
    plan["model"]["path"] = str(odd_folder / "net.onnx")
    (odd_folder.parent / "plan.json").write_text(json.dumps(plan))
    assert len(state.open(good).graph) == 2
    for path, devices in (
        (str(odd_folder / "net.onnx"), "HETERO:CPU"),
        (f"/nowhere/{ODD}.onnx", "HETERO:CPU"),
        (good.path, str(odd_folder / "table.yaml")),
        (good.path, f"HETERO:{ODD}"),
        (str(odd_folder.parent / "plan.json"), "HETERO:CPU"),
        (str(odd_folder / "plan.json"), "HETERO:CPU"),
    ):
        with pytest.raises(EditorError) as error:
            state.open(OpenRequest(path, devices))
        str(error.value).encode()
    assert state.document(state.open(good).id)


def test_the_page_does_not_start_with_one(odd_folder: Path) -> None:
    for arguments in (
        (str(odd_folder / "net.onnx"),),
        ("--devices", str(odd_folder / "t.yaml")),
        ("--workspace", str(odd_folder)),
    ):
        done = python("app.py", "--no-browser", "--port", "0", *arguments, cwd=ROOT, timeout=60)
        assert done.returncode and "not UTF-8" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("devices", ["HETERO:CPU", "HETERO:OpenVINO.CPU", "HETERO:Interpreter"])
def test_the_command_line_runs_and_measures_such_a_model(
    odd_folder: Path, tmp_path: Path, devices: str
) -> None:
    assert (
        run(
            "partition",
            str(odd_folder / "net.onnx"),
            "--devices",
            devices,
            "--out",
            str(tmp_path / "out"),
        ).returncode
        == 0
    )
    for command in (("run",), ("bench", "--seconds", "0.1")):
        done = run(command[0], str(tmp_path / "out" / "plan.json"), *command[1:])
        assert done.returncode == 0, done.stderr


def test_weights_in_such_a_folder_are_a_message(odd_folder: Path) -> None:
    value = helper.make_tensor_value_info
    weights = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "mm")],
        "g",
        [value("x", 1, [1, 64])],
        [value("y", 1, [1, 64])],
        [weights],
    )
    place = odd_folder.parent / "net.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        place,
        save_as_external_data=True,
        location="net.data",
        size_threshold=0,
    )
    for name in ("net.onnx", "net.data"):
        (odd_folder / name).write_bytes((odd_folder.parent / name).read_bytes())
    with pytest.raises(ModelError, match="not UTF-8; rename"):
        editor.load_model(odd_folder / "net.onnx")


def test_half_a_character_in_a_table_or_plan_is_a_message(tmp_path: Path, state: AppState) -> None:
    table, plan = tmp_path / "table.yaml", tmp_path / "plan.json"
    write_dag(tmp_path / "net.onnx", [[], [0]])
    table.write_text('- {name: "a\\udce9", backendName: CPU}\n')
    with pytest.raises(DeviceTableError, match="Unicode"):
        editor.load_devices(str(table))
    content = json.loads(
        editor.partition(editor.load_model(tmp_path / "net.onnx"), "HETERO:CPU").to_json()
    )
    for place in ("pins", "affinities"):
        plan.write_text(json.dumps({**content, place: {ODD: "CPU"}}))
        with pytest.raises(PlanError, match="not UTF-8"):
            state.open(OpenRequest(str(plan), "HETERO"))
