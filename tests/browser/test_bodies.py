"""Bodies of Loop and If are looked into from the graph, one inside the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from pages import Server, ready, says, says_exactly
from playwright.sync_api import Page, expect

import editor
from editor.devices.table import load_devices
from editor.graph.graph import bodies_of
from editor.placement.placement import Settings
from editor.workspace.history import Store
from editor.workspace.solver import first_decisions


def loop_with_if(path: Path) -> Path:
    """Three times: an If chooses between Sin and Cos of what Exp gives."""
    info = helper.make_tensor_value_info

    def branch(op: str) -> onnx.GraphProto:
        node = helper.make_node(op, ["e"], [f"{op}_out"], f"branch_{op}")
        out = info(f"{op}_out", TensorProto.FLOAT, [4])
        return helper.make_graph([node], op, [], [out])

    nodes = [
        helper.make_node("Identity", ["go"], ["go_on"], "keep_going"),
        helper.make_node("Exp", ["state"], ["e"], "grow"),
        helper.make_node("Greater", ["count", "one"], ["late"], "is_late"),
        helper.make_node(
            "If",
            ["late"],
            ["next"],
            "choose",
            then_branch=branch("Sin"),
            else_branch=branch("Cos"),
        ),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [
            info("count", TensorProto.INT64, []),
            info("go", TensorProto.BOOL, []),
            info("state", TensorProto.FLOAT, [4]),
        ],
        [info("go_on", TensorProto.BOOL, []), info("next", TensorProto.FLOAT, [4])],
        [numpy_helper.from_array(np.int64(1), "one")],
    )
    main = [
        helper.make_node("Relu", ["x"], ["r"], "first"),
        helper.make_node("Loop", ["times", "true", "r"], ["y"], "turns", body=body),
    ]
    weights = [
        numpy_helper.from_array(np.int64(3), "times"),
        numpy_helper.from_array(np.array(True), "true"),
    ]
    ends = [info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph(main, "loop", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def test_bodies_are_graphs_inside_each_other(tmp_path: Path) -> None:
    graph = editor.load_model(loop_with_if(tmp_path / "loop.onnx"))
    bodies = bodies_of(graph)
    assert [(b.around, b.holder) for b in bodies] == [(-1, -1), (0, 3), (0, 3)]
    assert [b.name for b in bodies[:1]] == ["body"]
    assert {b.name for b in bodies[1:]} == {"then_branch", "else_branch"}
    assert [op.name for op in bodies[0].ops] == ["keep_going", "grow", "is_late", "choose"]
    assert list(zip(bodies[0].source.tolist(), bodies[0].target.tolist(), strict=True)) == [(2, 3)]
    assert {b.ops[0].op_type for b in bodies[1:]} == {"Sin", "Cos"}


def test_a_double_click_opens_the_body_and_the_one_inside(
    page: Page, server: Server, tmp_path: Path
) -> None:
    path = loop_with_if(tmp_path / "loop.onnx")
    entries = [dict(d.entry) for d in load_devices("HETERO:CPU")]
    graph = editor.load_model(path)
    record = Store(str(server.workspace)).create(
        path.name, str(path), graph.sha256, graph.define, first_decisions(Settings(), entries)
    )
    page.goto(f"{server.url}/d/{record.id}")
    ready(page)
    at = page.evaluate(
        "() => { const p = heteroCy.nodes('.holder')[0].renderedPosition(), "
        "b = document.querySelector('#graph').getBoundingClientRect(); return [b.x + p.x, b.y + p.y]; }"
    )
    page.mouse.dblclick(*at)
    dialog = page.locator("#body-view")
    expect(dialog).to_be_visible()
    says_exactly(dialog.get_by_role("navigation"), "turns: body")
    expect(dialog.locator("svg text", has_text="Exp")).to_be_visible()
    dialog.locator("g.holder").click()
    says(dialog.get_by_role("navigation"), "turns: body › choose: ")
    dialog.get_by_role("button", name="turns: body").click()
    expect(dialog.locator("svg text", has_text="Greater")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.mouse.click(*at)
    inspector = page.locator("#inspector")
    inspector.get_by_role("button", name="Open").first.click()
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    page.mouse.click(*at)
    page.locator("#graph").press("e")
    expect(dialog).to_be_visible()
