"""Two versions of a model side by side, in Compare."""

from __future__ import annotations

from pathlib import Path

import onnx
from conftest import EXAMPLES
from pages import Server, ready, until
from playwright.sync_api import Page, expect

import editor
from editor.devices.table import load_devices
from editor.placement.placement import Settings
from editor.workspace.history import Store
from editor.workspace.solver import first_decisions


def add_document(server: Server, path: Path) -> str:
    """Puts a model into the workspace, as another server would do it; returns its id."""
    graph = editor.load_model(path)
    devices = [dict(d.entry) for d in load_devices("HETERO:CPU")]
    decisions = first_decisions(Settings(), devices, "HETERO:CPU")
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
    expect(page.locator("#versions-result")).to_contain_text("Choose the other model")
    page.select_option("#versions-other", value=ids[1])
    page.click("#versions-start")
    expect(page.locator("#versions-summary")).to_contain_text(
        "100 ops are in both, 2 of them changed; 0 ops only here, 0 ops only there."
    )
    rows = page.locator("#versions-table tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("type Clip -> Relu")
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
