"""The page solves a plan again whose subgraph failed in a benchmark, and says why."""

from __future__ import annotations

from pathlib import Path

from pages import Server, figure, ready, says, wait_for_figure
from playwright.sync_api import Page
from test_learning import quantised

import editor
from editor.devices.table import load_devices
from editor.placement.placement import Settings
from editor.workspace.history import Store
from editor.workspace.solver import first_decisions


def test_a_benchmark_that_fails_teaches_the_page_another_plan(
    page: Page, server: Server, tmp_path: Path
) -> None:
    path = quantised(tmp_path / "page.onnx")
    entries = [dict(d.entry) for d in load_devices("HETERO:OpenVINO.CPU,CPU")]
    record = Store(str(server.workspace)).create(
        path.name,
        str(path),
        editor.load_model(path).sha256,
        {},
        first_decisions(Settings(pins={"r": "CPU"}), entries),
    )
    page.goto(f"{server.url}/d/{record.id}")
    ready(page)
    assert figure(page, "subgraphs") == 3
    page.click("role=tab[name=Benchmark]")
    page.fill("#bench-seconds", "0.2")
    page.click("#bench-start")
    says(page.locator("#bench-problem"), "because of xq", timeout=60_000)
    says(page.locator("#bench-problem"), "solved again")
    wait_for_figure(page, "subgraphs", 2)
    page.click("#bench-start")
    says(page.locator("#bench-cards"), "The plan", timeout=60_000)
