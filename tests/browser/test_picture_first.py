"""The graph has the window: no card lies on what Fit shows. The figure of a plan is the one that was measured."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import EXAMPLES, write_wide_stages
from pages import Show, act, figure, ready, says, says_exactly, until
from playwright.sync_api import Page, expect

COVERED = """() => {
    const cy = hetero.page.cy, at = document.querySelector("#graph").getBoundingClientRect();
    const cards = ["#tools", "#inspector", ".zoom", ".colour-by"].map((each) =>
        document.querySelector(each).getBoundingClientRect());
    return cy.nodes().filter((node) => {
        const box = node.renderedBoundingBox({ includeLabels: false });
        return cards.some((card) => box.x1 + at.left < card.right && box.x2 + at.left > card.left
            && box.y1 + at.top < card.bottom && box.y2 + at.top > card.top);
    }).length;
}"""


def _share(page: Page) -> float:
    height = page.evaluate(
        "['#ribbon-box', '#canvas'].reduce((sum, each) => sum + document.querySelector(each).clientHeight, 0)"
    )
    return float(height) / page.viewport_size["height"]  # type: ignore[index]


def test_the_picture_has_four_fifths_of_a_laptop_and_no_card_lies_on_it(fresh: Page) -> None:
    page = fresh
    for width, height in ((1280, 720), (1440, 900)):
        page.set_viewport_size({"width": width, "height": height})
        assert _share(page) >= 0.8
        act(page, "hetero.fit()")
        until(page, f"({COVERED})() === 0")
        assert page.evaluate(
            "document.querySelector('#canvas').clientWidth === window.innerWidth"
        ), "edge to edge"


def test_the_tables_open_with_a_tab_and_panels_stay_as_they_were_left(fresh: Page) -> None:
    page = fresh
    expect(page.locator("#fallbacks")).not_to_be_visible()
    page.click("role=tab[name=Memory]")
    expect(page.locator("#memory")).to_be_visible()
    assert _share(page) < 0.8
    page.get_by_role("button", name="Inspector", exact=True).click()
    expect(page.locator("#inspector")).not_to_be_visible()
    page.reload()
    ready(page)
    expect(page.locator("#memory")).to_be_visible()
    expect(page.locator("#inspector")).not_to_be_visible()
    page.get_by_role("button", name="Tables", exact=True).click()
    expect(page.locator("#memory")).not_to_be_visible()
    expect(page.get_by_role("tab", name="Memory")).to_be_visible()


def test_open_tables_leave_a_laptop_the_whole_graph(fresh: Page) -> None:
    page = fresh
    page.set_viewport_size({"width": 1280, "height": 720})
    page.click("role=tab[name=Subgraphs]")
    act(page, "hetero.fit()")
    until(page, f"({COVERED})() === 0 && hetero.page.cy.zoom() > 0.4")
    assert page.locator("#ribbon-box").bounding_box()["height"] < 56  # type: ignore[index]
    expect(page.locator("#verdict .headline")).to_be_visible()
    expect(page.locator("#verdict .sentence")).to_be_visible()
    expect(page.get_by_role("button", name="Start", exact=True)).not_to_be_visible()


def test_first_steps_are_in_reach(fresh: Page) -> None:
    steps = fresh.locator(".first-steps li")
    if not steps.first.is_visible():  # they are open on the first model of a server
        fresh.locator(".first-steps summary").click()
    expect(steps.nth(1)).to_be_visible()
    says(steps.nth(1), "Press 2 for ONNX Runtime")


def test_limits_are_set_where_memory_is_shown(fresh: Page) -> None:
    page = fresh
    page.click("role=tab[name=Memory]")
    limit = page.locator("#memory").get_by_label("Memory of ONNX Runtime", exact=True)
    limit.fill("2 XB")
    limit.press("Tab")
    says(page.locator("#memory-problem"), "not '2 XB'")
    expect(page.locator("#memory-problem")).to_be_visible()
    limit.fill("2 MB")
    limit.press("Enter")
    expect(page.locator("#memory-problem")).to_be_empty()
    expect(page.locator("#memory").get_by_text("of 2 MB").first).to_be_visible()
    expect(page.locator("#verdict").get_by_text("Does not fit")).to_be_visible()
    limit.fill("")
    limit.press("Enter")
    expect(page.locator("#verdict").get_by_text("Does not fit")).not_to_be_visible()


def test_the_figure_of_a_plan_is_its_measurement_until_the_plan_is_another(fresh: Page) -> None:
    page, verdict = fresh, fresh.locator("#verdict")
    says(verdict, "estimate")
    says(verdict, "not measured")
    page.click("#bench-open")
    expect(page.locator("#bench-cards")).to_be_visible(timeout=90_000)
    says(verdict, "measurement", timeout=90_000)
    says(verdict, "not splitting")
    measured = verdict.locator("b").inner_text()
    pins = figure(page, "pins")
    act(
        page,
        "hetero.edit({ do: 'paint', ops: [...hetero.page.index.keys()].slice(0, 3), device: 1 })",
    )
    until(page, f"Number(document.querySelector('[data-figure=pins]')?.dataset.value) > {pins}")
    says(verdict, "not measured")
    page.click("#undo")
    says_exactly(verdict.locator("b"), measured)
    page.reload()
    ready(page)
    says_exactly(verdict.locator("b"), measured)


def test_a_name_from_afar_is_whole_where_it_can_be(page: Page, show: Show) -> None:
    address = show(str(EXAMPLES / "models" / "mobilenetv2.onnx"), "HETERO:OpenVINO,CPU")
    page.goto(address)
    ready(page)
    names = page.evaluate("""
        heteroCy.nodes('.op').map((node) => {
            const pen = document.createElement('canvas').getContext('2d');
            pen.font = `${node.style('font-size')} ${node.style('font-family')}`;
            const size = parseFloat(node.style('font-size'));
            return [node.style('label'), pen.measureText(node.style('label')).width, node.width() - 2, size];
        })
    """)
    assert any("ReduceMean" in name for name, *_ in names)
    assert [name for name, wide, room, _ in names if wide > room] == []
    sizes = [size for *_, size in names]
    assert page.evaluate("heteroCy.zoom()") * max(sizes) >= 10, "short names, on a laptop"
    assert max(sizes) < 1.4 * min(sizes), "one size, as nearly as names allow"


def test_names_stay_readable_when_the_tables_open(page: Page, show: Show) -> None:
    address = show(str(EXAMPLES / "models" / "mobilenetv2.onnx"), "HETERO:OpenVINO,CPU")
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(address)
    ready(page)
    first = page.evaluate("heteroCy.zoom()")
    page.click("role=tab[name=Transfers]")
    until(page, f"heteroCy.zoom() >= 0.4 && heteroCy.zoom() !== {first}")
    at = page.evaluate("heteroCy.nodes('.op')[0].renderedBoundingBox()")
    assert 0 < at["x1"] < at["x2"] < 1280 and at["y1"] > 0, "where the graph begins"
    page.get_by_role("button", name="Tables", exact=True).click()
    until(page, f"heteroCy.zoom() === {first}")


def test_a_graph_that_is_shown_whole_stays_so_beside_tables_and_reads_downwards(
    page: Page, show: Show
) -> None:
    """It was enlarged, below tables and inspector; and its `resize`, of ops far apart, stood above what it reads."""
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(show(str(EXAMPLES / "models" / "fcn-resnet101.onnx"), "HETERO:GPU,CPU"))
    ready(page)
    first = page.evaluate("heteroCy.zoom()")
    page.click("role=tab[name=Transfers]")
    whole = "heteroCy.nodes().renderedBoundingBox({ includeLabels: false })"
    until(page, f"heteroCy.height() < 400 && heteroCy.zoom() < {first} && ({COVERED})() === 0")
    assert page.evaluate(f"{whole}.y1 >= 0 && {whole}.y2 <= heteroCy.height()")
    read = page.evaluate(
        """heteroCy.nodes('.op').filter((n) => n.data('label').includes('resize')).incomers('edge')
            .map((e) => e.source().position('y') < e.target().position('y'))"""
    )
    assert read == [True, True]


def test_blocks_are_whole_beside_open_tables_and_when_one_is_opened(page: Page, show: Show) -> None:
    """Beside open tables a window of a laptop showed the first half of ResNet-50."""
    address = show(str(EXAMPLES / "models" / "resnet50.onnx"), "HETERO:OpenVINO,CPU")
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(address)
    ready(page)
    first = page.evaluate("heteroCy.zoom()")
    page.click("role=tab[name=Transfers]")
    until(page, f"({COVERED})() === 0 && heteroCy.zoom() > 0.4 && heteroCy.height() < 400")
    page.get_by_role("button", name="Tables", exact=True).click()
    until(page, f"({COVERED})() === 0 && heteroCy.zoom() === {first} && heteroCy.height() > 400")
    frames = page.evaluate("heteroCy.nodes('.frame').length")
    x, y = page.evaluate("""() => {
        const { x, y } = heteroCy.nodes('.group')[3].renderedPosition(),
            at = heteroCy.container().getBoundingClientRect();
        return [x + at.left, y + at.top];
    }""")
    page.mouse.dblclick(x, y)
    until(page, f"heteroCy.nodes('.frame').length > {frames}")
    until(page, f"({COVERED})() === 0 && heteroCy.zoom() > 0.4")


def test_a_model_of_wide_stages_opens_whole_with_its_names_to_be_read(
    page: Page, show: Show, tmp_path: Path
) -> None:
    """It opened so deep that only a part of it was seen, and the zoom buttons lay on that."""
    model = write_wide_stages(tmp_path / "stages.onnx")
    page.goto(show(str(model), "HETERO:GPU,CPU"))
    ready(page)
    assert page.locator("#detail-mode").input_value() == "blocks"
    until(page, f"({COVERED})() === 0 && heteroCy.zoom() >= 0.35 && heteroCy.nodes().length > 8")
    assert page.evaluate("""() => {
        const { x1, y1, x2, y2 } = heteroCy.extent(), box = heteroCy.nodes().boundingBox();
        return x1 < box.x1 && y1 < box.y1 && x2 > box.x2 && y2 > box.y2;
    }""")


def test_what_an_estimate_rests_on_is_a_list_in_reach(page: Page, show: Show) -> None:
    """A paragraph that ended with an ellipsis stood before what the plan is compared with."""
    page.goto(show(str(EXAMPLES / "models" / "mobilenetv2.onnx"), "HETERO:NPU(hailo8),CPU"))
    ready(page)
    verdict = page.locator("#verdict")
    summary, entries = verdict.locator("summary"), verdict.locator(".folds li")
    expect(verdict.get_by_text("Benchmark checks results, not speed")).to_be_visible()
    compared = re.compile(r"[\d.]+x faster than not splitting \(about")
    expect(verdict.get_by_text(compared)).to_be_visible()
    expect(entries.first).not_to_be_visible()
    for close in (lambda: page.keyboard.press("Escape"), lambda: page.mouse.click(640, 560)):
        summary.click()
        expect(verdict.get_by_text("Memory of NPU not known")).to_be_visible()
        says_exactly(summary, re.compile(rf"^{entries.count()} assumptions$"))
        close()
        expect(entries.first).not_to_be_visible()
    summary.click()
    page.get_by_role("button", name="State them in Devices").click()
    expect(page.get_by_role("tabpanel", name="Devices")).to_be_visible()
    expect(entries.first).not_to_be_visible()
