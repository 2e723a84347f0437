"""Two versions of a model side by side, in Compare."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from conftest import EXAMPLES
from pages import Server, ready, says, says_exactly, until, wait_for_figure
from playwright.sync_api import Page, expect

import editor
from editor.devices.table import load_devices
from editor.placement.placement import Settings
from editor.workspace.history import Store
from editor.workspace.solver import first_decisions


def add_document(server: Server, path: Path, spec: str = "HETERO:CPU") -> str:
    """Puts a model into the workspace, as another server would do it; returns its id."""
    graph = editor.load_model(path)
    devices = [dict(d.entry) for d in load_devices(spec)]
    decisions = first_decisions(Settings(), devices, spec)
    store = Store(str(server.workspace))
    return store.create(path.name, str(path), graph.sha256, graph.define, decisions).id


def test_an_op_that_changed_is_shown_here_and_in_the_window_of_the_other_model(
    page: Page, server: Server, tmp_path: Path
) -> None:
    model = onnx.load(EXAMPLES / "models" / "mobilenetv2.onnx")
    onnx.save(model, tmp_path / "before.onnx")
    clips = [node for node in model.graph.node if node.op_type == "Clip"]
    clips[3].op_type = "Relu"
    del clips[3].input[1:]
    clips[5].op_type = "Relu"
    del clips[5].input[1:]
    onnx.save(model, tmp_path / "after.onnx")
    ids = [add_document(server, tmp_path / f"{name}.onnx") for name in ("before", "after")]
    page.goto(f"{server.url}/d/{ids[0]}")
    ready(page)
    page.click("role=tab[name='Compare']")
    page.click("#versions-start")
    says(page.locator("#versions-result"), "Choose the other model")
    page.select_option("#versions-other", value=ids[1])
    page.click("#versions-start")
    says(
        page.locator("#versions-summary"),
        "100 ops in both, 2 of them changed; 0 ops only here, 0 ops only there.",
    )
    rows = page.locator("#versions-table tbody tr")
    expect(rows).to_have_count(2)
    says(rows.first, "type Clip -> Relu")
    index = editor.load_model(tmp_path / "before.onnx").key_index
    numbers = [index[clips[i].output[0]] for i in (3, 5)]
    with page.context.expect_page() as opening:
        rows.first.locator("[data-there]").click()
    other = opening.value
    ready(other)
    chosen = "hetero.selectedOps().join() === '{}'"
    until(other, chosen.format(numbers[0]))
    until(page, chosen.format(numbers[0]))
    rows.nth(1).locator("[data-there]").click()
    until(other, chosen.format(numbers[1]))
    until(page, chosen.format(numbers[1]))
    assert len([p for p in page.context.pages if p.url.startswith(server.url)]) == 2
    other.close()
    rows.first.locator("[data-ops]").click()
    until(page, chosen.format(numbers[0]))


TWINS_ON_SCREEN = """() => { const [a, b] = window.heteroPanes.graphs, twins = window.heteroPanes.data.layouts[0].twins,
    i = window.heteroPanes.anchor, place = (g, op) => {
        const p = g.nodeOf(op).renderedPosition(); return [g.cy.zoom(), p.x, p.y]; };
    return [place(a, i), place(b, twins[i])]; }"""


def test_two_versions_stand_side_by_side_and_move_together(
    page: Page, server: Server, tmp_path: Path
) -> None:
    model = onnx.load(EXAMPLES / "models" / "mobilenetv2.onnx")
    onnx.save(model, tmp_path / "old.onnx")
    nodes = list(model.graph.node)
    place = next(i for i, node in enumerate(nodes) if node.op_type == "Gemm")
    nodes.insert(place, onnx.helper.make_node("Relu", [nodes[place].input[0]], ["new"], name="new"))
    nodes[place + 1].input[0] = "new"
    clip = [node for node in nodes if node.op_type == "Clip"][3]
    clip.op_type = "Relu"
    del clip.input[1:]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, tmp_path / "new.onnx")
    ids = [add_document(server, tmp_path / f"{name}.onnx") for name in ("old", "new")]
    page.goto(f"{server.url}/d/{ids[0]}")
    ready(page)
    page.click("role=tab[name='Compare']")
    page.select_option("#versions-other", value=ids[1])
    page.click("#versions-start")
    page.click("[data-versions]")
    frames = page.locator("#panes figure")
    expect(frames).to_have_count(2)
    says(frames.nth(0), "old.onnx")
    says(frames.nth(1), "new.onnx")
    note = page.locator(".panes-note")
    expect(note).to_be_visible()
    says_exactly(note, "1 changed (≠), 0 only on the left, 1 only on the right (+)")
    index = editor.load_model(tmp_path / "old.onnx").key_index
    page.click("[data-panes-step='1']")
    says(note, "difference 1 of 2: Clip: type Clip -> Relu")
    until(page, f"hetero.selectedOps().join() === '{index[clip.output[0]]}'")
    for side in (0, 1):
        canvas = frames.nth(side).locator(".pane-graph").bounding_box()
        assert canvas
        page.mouse.move(canvas["x"] + 60, canvas["y"] + 60)
        page.mouse.wheel(0, -300)
        until(
            page,
            "window.heteroPanes.graphs[0].cy.zoom() === window.heteroPanes.graphs[1].cy.zoom()",
        )
    page.click("[data-panes-step='-1']")
    page.click("[data-panes-step='-1']")
    until(page, "window.heteroPanes.anchorSide === 0")
    here, there = page.evaluate(TWINS_ON_SCREEN)
    fills = "window.heteroPanes.graphs.map(({ cy }) => cy.nodes('.op')[0].data('brief')[0])"
    assert len(set(page.evaluate(fills))) == 1, "a device has one number in both"
    assert here == pytest.approx(there), "an op and its twin stand at one place of their panes"
    page.click("[data-panes-step='1']")
    says(note, "Relu: only in new.onnx")
    assert page.evaluate("window.heteroPanes.graphs.map((g) => g.cy.nodes('.mark').length)") == [
        0,
        1,
    ]
    page.keyboard.press("Escape")
    expect(page.locator("#panes")).to_be_hidden()


def test_layouts_of_a_large_model_stand_side_by_side_in_blocks(
    page: Page, server: Server, tmp_path: Path
) -> None:
    names = ["x", *(f"/layers.{i // 20}/t{i}" for i in range(900))]
    nodes = [
        onnx.helper.make_node("Relu" if i % 2 else "Neg", [names[i]], [names[i + 1]])
        for i in range(900)
    ]
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4])
        for name in (names[0], names[-1])
    ]
    graph = onnx.helper.make_graph(nodes, "large", ends[:1], ends[1:])
    opset = onnx.helper.make_opsetid("", 17)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
    onnx.save(model, tmp_path / "large.onnx")
    page.goto(f"{server.url}/d/{add_document(server, tmp_path / 'large.onnx', 'HETERO:GPU,CPU')}")
    ready(page)
    page.evaluate("hetero.askDetail({ do: 'mode', mode: 'ops' })")
    until(page, "hetero.page.cy.nodes('.op').length === 900")
    page.evaluate("hetero.paint([0, 1, 2, 3, 4], 1, true)")
    wait_for_figure(page, "pins", 5)
    page.click("role=tab[name='Compare']")
    page.fill("#layout-name", "painted")
    page.click("#layout-keep")
    page.click("[data-pane='painted']")
    page.keyboard.press("Control+z")
    wait_for_figure(page, "pins", 0)
    page.click("#compare-start")
    page.click("[data-pane='this plan']")
    page.click("#panes-open")
    expect(page.locator("#panes figure").nth(1)).to_be_visible()
    says(page.locator(".panes-note"), "5 of 900 ops are on another device (≠): ")
    says(page.locator(".panes-note"), "a double click opens one")
    for pane in ("heteroPanes.graphs[0]", "heteroPanes.graphs[1]"):
        assert page.evaluate(f"{pane}.cy.nodes('.op').length") < 200
        signs = page.evaluate(f"{pane}.cy.nodes('.sign').map((n) => n.data('label'))")
        assert signs == ["≠ 5"]
