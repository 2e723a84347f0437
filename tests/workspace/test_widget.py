"""The notebook widget's side in Python: strokes come as the page sends them. `make test-optional` installs anywidget."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import ROOT, python, save_net
from onnx import TensorProto, helper

import editor

needs_anywidget = pytest.mark.skipif(
    find_spec("anywidget") is None, reason="the package anywidget is not installed"
)
HOSTILE = "<img src=x onerror=alert(1)>"
DEVICES = [
    {"name": "ort", "backendName": "CPU"},
    {"name": "ref", "backendName": "Interpreter", "nonSupportedNodes": ["Tanh"]},
]


def chain(*types: str, names: tuple[str, ...] = ()) -> onnx.ModelProto:
    """Ops one after the other; the outputs are called ``t1``, ``t2``, ..."""
    nodes, before = [], "t0"
    for number, kind in enumerate(types, 1):
        name = names[number - 1] if names else f"op{number}"
        nodes.append(helper.make_node(kind, [before], [f"t{number}"], name))
        before = f"t{number}"
    value = helper.make_tensor_value_info
    ends = [value("t0", TensorProto.FLOAT, [4])], [value(before, TensorProto.FLOAT, [4])]
    graph = helper.make_graph(nodes, "net", *ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def plan_of(folder: Path, *types: str, names: tuple[str, ...] = ()) -> editor.Plan:
    onnx.save(chain(*types, names=names), folder / "net.onnx")
    return editor.partition(folder / "net.onnx", DEVICES)


def send(widget: Any, message: object) -> None:
    """A message as it comes from the page."""
    widget._handle_custom_msg(message, [])


@pytest.fixture
def widget(tmp_path: Path) -> Any:
    pytest.importorskip("anywidget", reason="the package anywidget is not installed")
    return plan_of(tmp_path, "Relu", "Tanh", "Neg").widget()


def test_without_anywidget_the_error_says_how_to_install_it(tmp_path: Path) -> None:
    onnx.save(chain("Relu"), tmp_path / "net.onnx")
    code = (
        "import sys; sys.modules['anywidget'] = None\n"
        "import editor\n"
        f"plan = editor.partition({str(tmp_path / 'net.onnx')!r}, 'HETERO:CPU')\n"
        "try: plan.widget()\n"
        "except editor.EditorError as error: print(error)"
    )
    said = python("-c", code, cwd=ROOT, check=True).stdout
    assert "anywidget" in said
    assert "pip install anywidget" in said


def test_a_stroke_is_solved_and_the_plan_can_be_observed(widget: Any) -> None:
    first, seen = widget.plan, []
    widget.observe(lambda change: seen.append(change["new"]), "plan")
    send(widget, {"ops": [0, 2], "device": 1})
    assert widget.plan.pins == {"t1": "ref", "t3": "ref"}
    assert widget.plan.affinity == {"t1": "ref", "t2": "ort", "t3": "ref"}
    assert seen == [widget.plan]
    assert (first.pins, widget.refused) == ({}, "")
    look = widget._look
    assert look["device"] == [1, 0, 1]
    assert look["pins"] == [0, 2]
    assert [(d["name"], d["ops"]) for d in look["devices"]] == [("ort", 1), ("ref", 2)]
    assert "Latency: " in look["status"]
    assert "3 subgraphs · 2 transfers · 2 pins" in look["status"]
    assert set(widget.plan.run({"t0": np.zeros(4, np.float32)})) == {"t3"}


def test_the_eraser_lets_ops_go(widget: Any) -> None:
    send(widget, {"ops": [0, 2], "device": 1})
    send(widget, {"ops": [0, 1], "device": None})
    assert widget.plan.pins == {"t3": "ref"}
    assert widget._look["device"] == [0, 0, 1]


def test_refused_ops_stay_and_the_reason_is_said_until_the_next_stroke(widget: Any) -> None:
    before = widget.plan
    send(widget, {"ops": [1], "device": 1})
    assert widget.plan is before
    assert widget.refused.startswith("ref cannot run op2 (Tanh): ")
    assert "Tanh" in widget.refused.partition(": ")[2]
    send(widget, {"ops": [0, 1, 2], "device": 1})
    assert widget.plan.pins == {"t1": "ref", "t3": "ref"}
    assert "op2" in widget.refused
    send(widget, {"ops": [0], "device": 0})
    assert widget.refused == ""


@needs_anywidget
def test_a_plan_that_cannot_be_solved_is_said_and_the_former_one_stays(tmp_path: Path) -> None:
    onnx.save(chain("Relu", "Neg"), tmp_path / "net.onnx")
    devices = [{"name": "ort", "backendName": "CPU"}]
    devices.append({"name": "ref", "backendName": "Interpreter", "memory": 1})
    widget = editor.partition(tmp_path / "net.onnx", devices, policy="memory").widget()
    before = widget.plan
    send(widget, {"ops": [0], "device": 1})
    assert widget.plan is before
    assert "ref" in widget.refused


def test_undo_goes_back_stroke_by_stroke(widget: Any) -> None:
    first = widget.plan
    send(widget, {"ops": [0], "device": 1})
    second = widget.plan
    send(widget, {"ops": [2], "device": 1})
    send(widget, {"ops": [2], "device": 1})  # changes nothing, so it is no step
    send(widget, {"do": "undo"})
    assert widget.plan is second
    assert widget._look["pins"] == [0]
    widget.undo()
    assert widget.plan is first
    assert not widget._look["can_undo"]
    widget.undo()
    assert widget.plan is first


def test_another_plan_can_be_assigned(widget: Any, tmp_path: Path) -> None:
    send(widget, {"ops": [1], "device": 1})
    assert widget.refused
    widget.plan = widget.plan.repin({"t3": "ref"})
    assert widget.refused == ""
    assert widget._look["device"] == [0, 0, 1]
    (tmp_path / "other").mkdir()
    widget.plan = plan_of(tmp_path / "other", "Neg", "Neg")
    assert widget._drawing["type"] == ["Neg", "Neg"]
    assert widget._look["device"] == [0, 0]
    widget.undo()
    assert widget._drawing["type"] == ["Relu", "Tanh", "Neg"]


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        {},
        {"ops": "0", "device": 1},
        {"ops": [9, -1, "0", None, True], "device": 1},
        {"ops": [0], "device": 7},
        {"ops": [0], "device": "ref"},
        {"ops": [0], "device": -1},
        {"do": 1},
    ],
)
def test_messages_of_another_form_change_nothing_and_are_answered(
    widget: Any, message: object
) -> None:
    before, answered = widget.plan, widget._answered
    send(widget, message)
    assert widget.plan is before
    assert widget._answered == answered + 1


@needs_anywidget
def test_hostile_names_are_sent_as_they_are_and_the_script_makes_no_markup(tmp_path: Path) -> None:
    widget = plan_of(tmp_path, "Relu", "Neg", names=(HOSTILE, "b")).widget()
    assert HOSTILE in widget._drawing["name"][0]
    script = (ROOT / "editor" / "workspace" / "widget.js").read_text()
    assert not [name for name in ("innerHTML", "outerHTML", "insertAdjacentHTML") if name in script]


@needs_anywidget
def test_too_many_ops_are_refused_with_the_way_to_the_page(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, *["Neg"] * 10_001)
    with pytest.raises(
        editor.EditorError, match=r"up to 10,000; net has 10,001.*hetero-editor open"
    ):
        plan.widget()


@needs_anywidget
def test_names_of_files_that_are_not_utf8_can_be_sent(tmp_path: Path) -> None:
    path = tmp_path / f"{os.fsdecode(b'caf' + bytes([0xE9]))}.onnx"
    try:
        path.write_bytes(chain("Relu").SerializeToString())
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    widget = editor.partition(path, DEVICES).widget()
    json.dumps(widget.get_state(["_drawing", "_look"]), ensure_ascii=False).encode()


@needs_anywidget
def test_a_model_without_ops_is_an_empty_drawing(tmp_path: Path) -> None:
    one = helper.make_tensor_value_info("t0", TensorProto.FLOAT, [4])
    save_net(tmp_path / "net.onnx", [], [one], [one])
    widget = editor.partition(tmp_path / "net.onnx", DEVICES).widget()
    assert widget._drawing["x"] == []
    assert widget._look["device"] == []
