"""Other forms of ops that fall back are tried in the page, opened as documents of their own, and saved."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
from pages import Server, act, node_at, ready, says, until, wait_for_figure
from playwright.sync_api import Page, expect

import editor
from editor.devices.table import load_devices
from editor.placement.placement import Settings
from editor.workspace.history import Store
from editor.workspace.solver import first_decisions

IN_SIGHT = """() => {
    const box = heteroCy.nodes().renderedBoundingBox({ includeLabels: false });
    const free = heteroFree(heteroCy.width(), heteroCy.height());
    return box.x1 >= free.left && box.x2 <= free.left + free.width && box.y1 >= free.top && box.y2 <= free.top + free.height;
}"""
"""Whether the whole graph is clear of the cards and of the tables."""


def test_a_form_is_tried_opened_and_saved(page: Page, server: Server, tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["": 17]>
    net (float[1,3,8,8] x) => (float[1,3,8,8] y) { a = Abs(x) h = HardSwish(a) y = Neg(h) }"""
    path = tmp_path / "swish.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    table = [
        {"name": "npu", "backendName": "CPU", "nonSupportedNodes": "HardSwish"},
        {"name": "cpu", "backendName": "CPU"},
    ]
    entries = [dict(d.entry) for d in load_devices(table)]
    graph = editor.load_model(path)
    settings = Settings(pins={"a": "cpu"})
    record = Store(str(server.workspace)).create(
        path.name, str(path), graph.sha256, graph.define, first_decisions(settings, entries)
    )
    page.set_viewport_size({"width": 1280, "height": 600})
    page.goto(f"{server.url}/d/{record.id}")
    ready(page)
    offer = page.locator("#inspector").get_by_role("button", name="Try other forms")
    page.mouse.click(*node_at(page, 0))
    says(page.locator("#inspector"), "Abs")
    expect(offer).to_have_count(0)  # it is where a person put it
    page.mouse.click(*node_at(page, 1))
    says(page.locator("#inspector"), "excluded by the device table")
    offer.click()
    table_ = page.locator("#advice-table")
    expect(table_).to_be_visible(timeout=60_000)
    expect(table_.get_by_role("button", name="Try")).to_be_in_viewport(ratio=1)
    expect(table_.get_by_text("1 op no longer falls back")).to_be_visible()
    expect(table_.get_by_text("1 → 0")).to_be_visible()
    with page.expect_download() as download:
        table_.get_by_role("link", name="Save model").click()
    assert "HardSwish" not in {n.op_type for n in onnx.load(download.value.path()).graph.node}
    page.set_viewport_size({"width": 1280, "height": 900})
    act(page, "heteroCy.viewport({ zoom: 2, pan: { x: -400, y: -400 } })")
    act(page, "hetero.paint([hetero.page.view.ops[2]], 0)")
    wait_for_figure(page, "pins", 2)
    page.keyboard.press("Control+z")  # an edit keeps the view, and not that of the next document
    wait_for_figure(page, "pins", 1)
    table_.get_by_role("button", name="Try").click()
    page.wait_for_url(lambda url: record.id not in url, timeout=30_000)
    ready(page)
    says(page.locator(".model-name"), "swish_")
    says(
        page.locator("#notice"),
        "A copy of swish.onnx, rewritten so that 1 op no longer falls back. Back returns.",
    )
    until(page, IN_SIGHT)
    page.click("role=tab[name=Fallbacks]")
    expect(page.locator("#fallbacks").get_by_text("No automatic fallbacks")).to_be_visible()
    expect(page.locator("[data-figure=pins]")).to_have_attribute("data-value", "1")
    page.go_back()
    page.wait_for_url(lambda url: record.id in url, timeout=30_000)
    ready(page)
    says(page.locator(".model-name"), "swish.onnx")
    expect(page.locator("#notice").get_by_text("A copy of")).to_have_count(0)
