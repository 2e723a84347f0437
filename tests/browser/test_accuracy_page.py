"""The errors of a plan, measured in Benchmark and shown in the graph."""

from __future__ import annotations

from conftest import EXAMPLES
from pages import Serve, ready, says, until
from playwright.sync_api import Page, expect

_LOOKS = """() => {
    const view = hetero.page.view;
    return view.ops.map((_, i) => hetero.lookOf(view, i)[0].fill);
}"""


def test_errors_are_measured_and_colour_the_graph_until_the_plan_changes(fresh: Page) -> None:
    page = fresh
    page.select_option("#colour-by", "error")
    says(page.locator("#legend"), "Press Accuracy, in the tab Benchmark")
    page.click("role=tab[name='Benchmark']")
    page.click("#bench-accuracy")
    result = page.locator("#bench-result")
    says(result, "100 tensors compared with the unsplit model", timeout=90_000)
    says(result, "all are within their tolerances")
    says(result.locator("tbody tr").first, "output")
    until(page, "hetero.page.view.error.length === 100")
    says(page.locator("#legend"), "noise, relative to the reference")
    looks = page.evaluate(_LOOKS)
    steps = page.evaluate("hetero.page.view.error")
    assert all(0 <= step <= 9 for step in steps)
    assert len(set(looks)) == len(set(steps))
    page.reload()
    ready(page)
    until(page, "hetero.page.view.error.length === 100")
    page.evaluate("() => hetero.paint([hetero.page.view.ops[0]], 1)")
    until(page, "hetero.page.view.error.length === 0")
    says(page.locator("#legend"), "Press Accuracy, in the tab Benchmark")


def test_the_accuracy_of_a_plan_is_there_after_a_restart_and_marked_once_the_plan_changed(
    page: Page, serve: Serve
) -> None:
    model = str(EXAMPLES / "models" / "mobilenetv2.onnx")
    server = serve(model, "--devices", "HETERO:OpenVINO.CPU,CPU")
    page.goto(server.url)
    ready(page)
    page.click("role=tab[name='Benchmark']")
    page.click("#bench-accuracy")
    says(page.locator("#bench-result"), "100 tensors compared", timeout=90_000)
    page.goto("about:blank")  # nothing is asked while the server is gone
    server.stop()
    server.start()
    page.goto(server.url)
    ready(page)
    page.click("role=tab[name='Benchmark']")
    kept = page.locator("#bench-runs")
    summary = kept.get_by_text("100 tensors, all within tolerance")
    expect(summary).to_be_visible()
    summary.click()
    expect(kept.get_by_text("100 tensors compared with the unsplit model")).to_be_visible()
    expect(page.locator("#accuracy-outdated")).to_have_count(0)
    page.evaluate("() => hetero.paint([hetero.page.view.ops[0]], 1)")
    expect(page.locator("#accuracy-outdated")).to_be_visible()
    page.keyboard.press("Control+z")
    expect(page.locator("#accuracy-outdated")).to_have_count(0)
