"""What windows of 1280 by 720 cut, or moved, with the tables open."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import EXAMPLES
from pages import Show, act, ready, says, until
from playwright.sync_api import Page, expect


def test_labels_of_a_benchmark_are_seen_after_a_command_ran_its_button(fresh: Page) -> None:
    """The button came to the top of the pane, and the labels, which begin above it, were cut."""
    page = fresh
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.click("role=tab[name=Benchmark]")
    expect(page.locator("#bench-accuracy")).to_be_enabled(timeout=60_000)
    act(page, "hetero.byId('editor').style.setProperty('--dock', '150px')")
    pane = page.locator("#tabs-panel-benchmark")
    assert pane.evaluate("(e) => { e.scrollTop = 400; return e.scrollTop; }") > 40
    act(page, "hetero.byId('bench-accuracy').scrollIntoView({ block: 'nearest' })")
    label = page.locator("label:has(#bench-seconds)").bounding_box()
    box = pane.bounding_box()
    assert label is not None and box is not None and label["y"] >= box["y"]


def test_the_search_stays_where_it_is_while_the_text_of_the_benchmark_changes(fresh: Page) -> None:
    page, places = fresh, set()
    for text in ("Compiling the unsplit m…", "Measuring 9 %", "Measuring 100 %"):
        act(page, f"hetero.set('bench-open', {{ children: '{text}', className: 'running' }})")
        until(page, f"document.querySelector('#bench-open').textContent === '{text}'")
        assert page.locator("#bench-open").evaluate("(e) => e.scrollWidth <= e.clientWidth")
        places.add(page.locator(".search").evaluate("(e) => e.getBoundingClientRect().right"))
    assert len(places) == 1


def test_the_verdict_of_a_pipeline_is_not_cut(fresh: Page) -> None:
    """It took three columns beside the figure, each of them cut."""
    page = fresh
    page.click("role=tab[name=Benchmark]")
    page.select_option("#policy", "pipeline")
    sentence = page.locator("#verdict .sentence")
    says(sentence, re.compile("; its stages share a processor and take turns|not splitting "))
    assert sentence.evaluate(
        "(e) => e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight"
    )


def test_the_sentence_of_planned_devices_is_whole_beside_open_tables(
    page: Page, show: Show, tmp_path: Path
) -> None:
    """Its end, which says that a benchmark would tell no speed, was cut first."""
    table = tmp_path / "planned.yaml"
    table.write_text("""
- {name: Hailo, preset: hailo8}
- {name: ONNX Runtime, backendName: onnxruntime, provider: CPUExecutionProvider}
""")
    page.goto(show(str(EXAMPLES / "models" / "mobilenetv2.onnx"), str(table)))
    ready(page)
    page.click("role=tab[name=Subgraphs]")
    sentence = page.locator("#verdict .sentence")
    says(sentence, re.compile("faster than not splitting .*Benchmark checks results, not speed"))
    assert sentence.evaluate(
        "(e) => e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight"
    )
    assert page.locator("#ribbon-box").bounding_box()["height"] < 56  # type: ignore[index]


def test_charts_are_whole_and_the_graph_stays_where_it_is_from_tab_to_tab(
    page: Page, show: Show
) -> None:
    """Of the chart of memory a strip of 45 pixels was seen, below three lines of text."""
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(show(str(EXAMPLES / "models" / "mobilenetv2.onnx"), "HETERO:OpenVINO,CPU"))
    ready(page)
    page.click("role=tab[name=Transfers]")
    until(page, "heteroCy.height() > 340 && heteroCy.height() < 400")
    page.click("role=tab[name=Memory]")
    chart = page.locator(".memory-chart").first
    expect(chart).to_be_visible()
    until(page, "heteroCy.height() > 340 && heteroCy.height() < 400")
    box, status = chart.bounding_box(), page.locator("#status").bounding_box()
    assert box is not None and status is not None
    assert box["height"] >= 80 and box["y"] + box["height"] < status["y"]
