"""Layouts side by side, some of them measured, as a person sees them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import EXAMPLES, write_dag
from pages import Server, act, ready, says, says_exactly, until
from playwright.sync_api import FloatRect, Locator, Page, expect

from editor.placement.placement import Settings
from editor.web.app_state import AppState

MODEL = str(EXAMPLES / "models" / "mobilenetv2.onnx")
TABLE = [{"name": "A", "backendName": "OpenVINO.CPU"}, {"name": "B", "backendName": "CPU"}]


def measured(server_state: AppState, policy: str, **options: str) -> str:
    """Path of the address of a document whose plan and two kept layouts have measurements; another layout has none."""
    document = server_state.create(server_state.load(Path(MODEL), {}), TABLE, Settings())
    document.set_automatic(policy, options, document.placement.settings.subgraphs)
    ops = document.placement.placed_ops
    found: dict[str, Any] = {"estimated": False, "p99": 0.02, "baselines": {}, "requests": 4}
    for name, count, median, rate in (
        ("slower", 10, 0.014, 90),
        ("as fast", 20, 0.0121, 70),
        ("far slower", 15, 0.4, 2.5),
        ("not run", 30, 0, 0),
        ("", 5, 0.012, 80),
    ):
        document.paint(ops.tolist(), 0)
        document.paint(ops[:count].tolist(), 1)
        if name:
            document.keep_layout(name)
        for mode in ("latency", "throughput") if median else ():
            ends = {
                "interval": [median - 0.0002, median + 0.0002],
                "throughput_interval": [rate - 2, rate + 2],
            }
            figures = {**found, **ends, "mode": mode, "median": median, "throughput": rate}
            document.keep_run(figures, name, document.placement)
    return f"/d/{document.id}"


def test_what_was_measured_stands_before_estimates_in_table_and_chart_alike(
    page: Page, server: Server, server_state: AppState
) -> None:
    page.goto(server.url + measured(server_state, "priority"))
    ready(page)
    page.click("role=tab[name='Compare']")
    expect(page.locator("#compare-legend").get_by_text("measured")).to_be_visible()
    expect(page.locator("#compare-legend").get_by_text("estimated")).to_be_visible()
    table = page.locator("#compare-table")
    for name, median in (("this plan", "12 ms"), ("slower", "14 ms"), ("as fast", "12.1 ms")):
        row = table.locator("tbody tr").filter(has=page.get_by_text(name, exact=True))
        cell = row.locator("td:has([data-kind=measurement])").first
        expect(cell.get_by_text("measurement")).to_be_visible()
        beside = cell.get_by_text(re.compile("^estimated "))
        expect(beside).to_be_visible()
        bar = page.locator(f"[data-bar='{name}']")
        expect(bar.get_by_text(median, exact=True)).to_be_visible()
        expect(bar.get_by_text(beside.inner_text(), exact=True)).to_be_visible()
        assert cell.inner_text().startswith(median)
        expect(bar.locator(".bar.measurement")).to_be_visible()
    names = table.locator("tbody tr td:nth-child(2) > span:first-child").all_inner_texts()
    assert names[:3] == ["this plan", "as fast", "slower"], "the best of what was measured first"
    estimate = page.locator("[data-bar='not run'] .bar.estimate")
    expect(estimate).to_be_visible()
    hatch = re.compile("^repeating-linear-gradient")
    expect(estimate).not_to_have_css("background-image", hatch)
    estimate.evaluate("(bar) => (bar.className = 'bar prediction')")
    predicted = page.locator("[data-bar='not run'] .bar.prediction")
    expect(predicted).to_be_visible()
    expect(predicted).to_have_css("background-image", hatch)  # told apart from an estimate
    lengths = {
        name: box["width"]
        for name in ("this plan", "slower")
        if (box := page.locator(f"[data-bar='{name}'] .bar").bounding_box()) is not None
    }
    assert lengths["slower"] / lengths["this plan"] == pytest.approx(14 / 12, rel=0.05)
    says(page.locator("#compare-legend"), "Latency")
    assert bar_names(page)[:3] == ["this plan", "as fast", "slower"]
    cut = page.locator("#compare-chart .bar.cut")
    expect(cut).to_be_visible()  # one
    expect(page.locator("[data-bar='far slower'] .bar.cut")).to_be_visible()
    expect(cut).to_have_attribute("title", "measured, longer than is drawn")
    expect(cut).to_have_css("mask-image", re.compile("^linear-gradient"))
    assert lengths["slower"] > 60, "those that are not cut can be told apart"
    interval = page.locator("[data-bar='slower'] .bar-interval")
    expect(interval).to_be_visible()
    expect(interval).to_have_attribute("title", "95 % interval 13.8 ms to 14.2 ms")
    assert page.locator("[data-bar='not run'] .bar-interval").count() == 0

    slower, alike = (
        table.locator("tbody tr").filter(has=page.get_by_text(name, exact=True))
        for name in ("slower", "as fast")
    )
    expect(slower.get_by_text("+2 ms")).to_be_visible()
    expect(slower.locator(".delta.better").get_by_text("+10")).to_be_visible()
    undecided = alike.get_by_text("too close to call").first
    expect(undecided).to_be_visible()
    ranges = "11.9 ms to 12.3 ms here, 11.8 ms to 12.2 ms of this plan"
    expect(undecided).to_have_attribute("title", f"The 95 % intervals overlap: {ranges}")
    expect(alike.locator(".delta.worse").get_by_text("−10")).to_be_visible()


def test_layouts_that_are_not_measured_are_apart_from_those_that_are(
    page: Page, server: Server, server_state: AppState
) -> None:
    page.goto(server.url + measured(server_state, "priority"))
    ready(page)
    page.click("role=tab[name='Compare']")
    heading = page.locator("#compare-not-measured")
    says(heading, "Not measured (estimated)")
    lines = page.locator("#compare-chart > *").evaluate_all(
        "(all) => all.map((each) => each.dataset.kind || each.id)"
    )
    at = lines.index("compare-not-measured")
    assert set(lines[:at]) == {"measurement"}
    assert set(lines[at + 1 :]) == {"estimate"}
    drawn = page.locator("[data-bar='not run'] .bar")
    assert float(drawn.evaluate("(bar) => getComputedStyle(bar).opacity")) < 1
    row = page.locator("#compare-table tbody tr").filter(has=page.get_by_text("not run"))
    expect(row.get_by_title("Not measured, as this plan is").first).to_be_visible()
    expect(row.locator("td:has([title^='Not measured']) .delta")).to_have_count(0)


def test_buttons_of_fallbacks_are_within_a_narrow_window(
    page: Page, server: Server, server_state: AppState
) -> None:
    table = [
        {
            "name": "OpenVINO on the processor",
            "backendName": "NPU",
            "nonSupportedNodes": "Clip,Gemm",
        },
        TABLE[1],
    ]
    document = server_state.create(server_state.load(Path(MODEL), {}), table, Settings())
    medians = [0.001] * len(document.placement.subgraphs)
    found: dict[str, Any] = {"estimated": False, "p99": 0.02, "baselines": {}, "requests": 1}
    run = {**found, "mode": "latency", "median": 0.1, "throughput": 9, "medians": medians}
    document.keep_run(run, "", document.placement)
    page.set_viewport_size({"width": 1000, "height": 800})
    page.goto(f"{server.url}/d/{document.id}")
    ready(page)
    page.click("role=tab[name='Fallbacks']")
    expect(page.locator("#fallbacks-table th", has_text="Subgraphs took")).to_be_attached()
    for button in page.locator("#fallbacks-table tbody .buttons button").all():
        box = button.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 1000


def test_what_is_done_about_fallbacks_is_in_sight_above_their_table(
    page: Page, server: Server, server_state: AppState
) -> None:
    """At 1280x720 the buttons and what they found were below a table of one row and a half in sight."""
    device = {"name": "NPU", "backendName": "NPU", "nonSupportedNodes": "Clip,Gemm"}
    document = server_state.create(
        server_state.load(Path(MODEL), {}), [device, TABLE[1]], Settings()
    )
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(f"{server.url}/d/{document.id}")
    ready(page)
    page.click("role=tab[name='Fallbacks']")
    table = page.locator("#fallbacks-table")
    expect(table).to_be_visible()
    assert box(table.locator("td.reason").first)["width"] >= 340
    assert box(table)["x"] + box(table)["width"] <= 1280, "nothing is beyond the edge"
    for button in ("#hints-start", "#advise-start"):
        expect(page.locator(button)).to_be_in_viewport(ratio=1)
    said = box(page.locator(".fallbacks-said"))
    assert said["y"] < box(page.locator("#hints-start"))["y"] + 20 < said["y"] + said["height"] + 20
    page.click("#hints-start")
    result = page.locator("#hints-result")
    expect(result).not_to_be_empty()
    expect(result.locator("p, tr").first).to_be_in_viewport(ratio=1)
    assert box(result)["y"] + box(result)["height"] <= box(table)["y"]


def box(locator: Locator) -> FloatRect:
    """Where something is that is there."""
    found = locator.bounding_box()
    assert found is not None
    return found


def test_where_nothing_is_measured_the_chart_is_one_group(fresh: Page) -> None:
    fresh.click("role=tab[name=Compare]")
    fresh.click("#compare-start")
    expect(fresh.locator("#compare-chart .bar-row").first).to_be_visible(timeout=60_000)
    expect(fresh.locator("#compare-not-measured")).to_have_count(0)


@pytest.mark.parametrize(
    ("policy", "options"), [("optimal", {"objective": "throughput"}), ("pipeline", {})]
)
def test_a_plan_that_aims_at_throughput_is_compared_by_its_requests(
    page: Page, server: Server, server_state: AppState, policy: str, options: dict[str, str]
) -> None:
    page.goto(server.url + measured(server_state, policy, **options))
    ready(page)
    page.click("role=tab[name='Compare']")
    heading = page.locator("#compare-legend")
    expect(heading.get_by_text("Throughput in requests/s, which this plan aims at")).to_be_visible()
    for words in ("measured", "estimated", "95 % interval"):
        expect(heading.get_by_text(words)).to_be_visible()
    names = bar_names(page)
    assert names[:3] == ["slower", "this plan", "as fast"]
    assert "not run" in names[3:]
    for name, rate in (("this plan", "80"), ("slower", "90"), ("as fast", "70")):
        bar = page.locator(f"[data-bar='{name}']")
        expect(bar.get_by_text(rate, exact=True)).to_be_visible()
        beside = bar.locator(".beside")
        expect(beside).to_be_visible()
        says_exactly(beside, re.compile(r"^\s*estimated about [\d,.]+$"))
        expect(bar.locator(".bar-interval")).to_have_attribute(
            "title", f"95 % interval {int(rate) - 2} to {int(rate) + 2}"
        )
    expect(page.locator("[data-bar='not run'] .bar.estimate")).to_be_visible()


def bar_names(page: Page) -> list[str]:
    """The layouts of the chart, from top to bottom."""
    expect(page.locator("#compare-chart .bar-row").first).to_be_visible()
    return [name.inner_text() for name in page.locator("#compare-chart .bar-name").all()]


def test_a_comparison_follows_what_is_measured(fresh: Page) -> None:
    page = fresh
    page.click("role=tab[name=Compare]")
    page.click("#compare-start")
    row = page.locator("#compare-table tbody tr").first
    expect(row.get_by_text("this plan", exact=True)).to_be_visible(timeout=60_000)
    expect(row.locator("[data-kind=measurement]")).to_have_count(0)
    page.click("#bench-open")
    says(page.locator("#bench-text"), "Done", timeout=90_000)
    page.click("role=tab[name=Compare]")
    expect(row.locator("[data-kind=measurement]").first).to_be_visible()
    expect(row.get_by_text("at least")).to_be_visible()


def test_a_comparison_of_a_plan_that_has_changed_is_made_again_when_its_tab_is_opened(
    fresh: Page,
) -> None:
    """The tab had the old table and "compare again", without a row for the present plan."""
    page = fresh
    page.click("role=tab[name=Compare]")
    row = page.locator("#compare-table tbody tr").first
    expect(row.get_by_text("this plan", exact=True)).to_be_visible(timeout=60_000)
    note = page.locator("#compare-result > .outdated")
    expect(note).to_be_hidden()

    def paint(op: int) -> None:
        act(page, f"hetero.paint([{op}], 1)")

    paint(10)
    expect(note).to_be_visible()  # the tab is open: a comparison may take long
    expect(row.get_by_text("the plan compared", exact=True)).to_be_visible()
    page.click("role=tab[name=Memory]")
    expect(note).to_be_hidden()
    page.click("role=tab[name=Compare]")
    expect(row.get_by_text("this plan", exact=True)).to_be_visible()
    expect(note).to_be_hidden()
    paint(11)
    expect(note).to_be_visible()
    act(page, "hetero.togglePanel('dock')")
    expect(page.locator("#compare-table")).to_be_hidden()
    page.click("role=tab[name=Compare]")  # shows the tables
    expect(row.get_by_text("this plan", exact=True)).to_be_visible()
    expect(note).to_be_hidden()


def beside_this_plan(page: Page, address: str, layout: str) -> None:
    """Opens a layout side by side with the plan of a document."""
    page.goto(address)
    ready(page)
    page.click("role=tab[name='Compare']")
    page.wait_for_selector("#compare-table")
    for name in ("this plan", layout):
        page.click(f"[data-pane='{name}']")
    page.click("#panes-open")
    expect(page.locator("#panes figure").nth(1)).to_be_visible()


def test_layouts_that_differ_in_subgraphs_only_are_side_by_side_in_their_colours(
    page: Page, server: Server, server_state: AppState, tmp_path: Path
) -> None:
    # two chains with an op on A each: they are not connected, and yet may be one subgraph
    inputs = [[], [0], [1], [2], [0], [4], [5], [6], [3, 7]]
    model = write_dag(tmp_path / "dag.onnx", inputs)
    document = server_state.create(server_state.load(model, {}), TABLE, Settings())
    document.paint(range(9), 1)
    document.paint([2, 5], 0)
    document.keep_layout("fewest")
    document.set_automatic("priority", {}, "connected")
    beside_this_plan(page, f"{server.url}/d/{document.id}", "fewest")
    says_exactly(
        page.locator(".panes-note"),
        "All 9 ops are on the same devices, in other subgraphs: neighbouring ones differ in colour",
    )
    fills = "() => heteroPanes.graphs.map(({ cy }) => cy.nodes('.op').map((n) => n.data('fill')))"
    now, fewest = page.evaluate(fills)
    assert now != fewest
    assert len(set(now)) >= 3 and len(set(fewest)) >= 3


def test_layouts_side_by_side_follow_the_window_until_somebody_moves_them(
    page: Page, server: Server, server_state: AppState, tmp_path: Path
) -> None:
    """They kept the place of a wide window in a narrow one, where half of them was out of sight."""
    model = write_dag(tmp_path / "dag.onnx", [[i - 1] if i else [] for i in range(40)])
    document = server_state.create(server_state.load(model, {}), TABLE, Settings())
    document.keep_layout("before")
    document.paint([20], 1)
    page.set_viewport_size({"width": 1600, "height": 1000})
    beside_this_plan(page, f"{server.url}/d/{document.id}", "before")
    in_the_middle = (
        "() => { const { cy } = heteroPanes.graphs[0], at = cy.nodes('.op')[20].renderedPosition(); "
        "return Math.abs(at.x / cy.width() - 0.5) + Math.abs(at.y / cy.height() - 0.5) < 0.15; }"
    )
    until(page, f"({in_the_middle})()")
    page.set_viewport_size({"width": 1000, "height": 640})
    until(page, f"heteroPanes.graphs[0].cy.width() < 600 && ({in_the_middle})()")
    moved = "() => { const { cy } = heteroPanes.graphs[0]; cy.panBy({ x: 40, y: 0 }); return cy.pan().x; }"
    at = page.evaluate(moved)
    page.set_viewport_size({"width": 1400, "height": 900})
    until(page, "heteroPanes.graphs[0].cy.width() > 600")
    assert page.evaluate("() => heteroPanes.graphs[0].cy.pan().x") == at
