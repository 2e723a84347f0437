"""Keys, palette, context menu and help sheet do what the table of commands says; strokes are not lost."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import write_layers
from pages import (
    EXAMPLES,
    Server,
    Show,
    act,
    hold,
    node_at,
    ready,
    says,
    says_exactly,
    until,
    wait_for_figure,
)
from playwright.sync_api import BrowserContext, Page, Route, expect


def test_a_right_click_offers_what_fits_the_block_and_paints_it(opened: Page) -> None:
    page = opened
    x, y = node_at(page, 1)
    page.mouse.click(x, y, button="right")
    menu = page.locator("#context-menu")
    expect(menu).to_be_visible()
    says(menu.get_by_role("menuitem"), ["Pin the selection to GPU", "Pin the selection to CPU"])
    says(menu, "Open the block")
    expect(menu).not_to_contain_text("Reset to automatic")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(menu).to_be_hidden()
    wait_for_figure(page, "pins", 25)
    page.mouse.click(x, y, button="right")
    menu.get_by_text("Unpin the selection").click()
    wait_for_figure(page, "pins", 0)
    page.mouse.click(x, y, button="right")
    menu.get_by_text("Open the block").click()
    until(page, "heteroCy.nodes('.frame').length === 1")


def test_a_right_click_on_the_ground_offers_the_whole_graph_and_escape_closes_it(
    opened: Page,
) -> None:
    page = opened
    page.locator("#graph").click(position={"x": 700, "y": 24}, button="right")
    menu = page.locator("#context-menu")
    says(menu, "Fit the graph")
    expect(menu).not_to_contain_text("Unpin the selection")
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    page.locator("#graph").click(position={"x": 700, "y": 24}, button="right")
    page.locator("#graph").click(position={"x": 600, "y": 24})
    expect(menu).to_be_hidden()


def test_the_help_sheet_explains_words_scrolls_by_keyboard_and_gives_the_focus_back(
    opened: Page,
) -> None:
    page = opened
    page.set_viewport_size({"width": 720, "height": 450})
    page.focus("#undo" if page.locator("#undo").is_enabled() else "#export")
    before = page.evaluate("document.activeElement.id")
    page.keyboard.press("?")
    sheet = page.locator("#help")
    expect(sheet).to_be_focused()
    expect(sheet.locator("dt", has_text="Codegen")).to_have_count(1)
    expect(sheet.locator("dd", has_text="A runtime and the hardware")).to_be_in_viewport()
    page.keyboard.press("End")
    until(page, "document.getElementById('help').scrollTop > 100")
    expect(sheet.locator("kbd", has_text="?, H")).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    assert page.evaluate("document.activeElement.id") == before
    expect(page.locator("label", has_text="Policy").first).to_have_attribute(
        "title", re.compile("automatic mode")
    )


def test_the_help_sheet_has_every_key_of_the_table_and_no_key_does_two_things(opened: Page) -> None:
    page = opened
    page.keyboard.press("?")
    sheet = page.locator("#help")
    for keys, words in (
        ("T", "all ops of the same type"),
        ("Ctrl+K", "All commands"),
        ("Shift+C", "Close all blocks"),
        ("Arrow keys", "Along the edges"),
        ("Right click, Shift+F10", "Menu for the selection"),
        ("1", "paint with GPU"),
    ):
        row = (
            sheet.locator("tr")
            .filter(has=page.locator("kbd", has_text=keys))
            .filter(has_text=words)
        )
        expect(row).to_have_count(1)
    groups = sheet.locator("tbody")
    says_exactly(groups.locator("th"), ["Place ops", "Select", "Blocks", "Move around", "Page"])
    for heading, words in (("Select", "its subgraph"), ("Move around", "Fit the graph")):
        group = groups.filter(has=page.locator("th", has_text=re.compile(f"^{heading}$")))
        expect(group.locator("tr", has_text=words)).to_be_visible()
    twice = page.evaluate("""() => {
        const keys = hetero.commands().flatMap((command) => command.keys || []);
        return keys.filter((key, i) => keys.indexOf(key) !== i);
    }""")
    assert twice == []
    ids = page.evaluate("hetero.commands().map((command) => command.id)")
    assert len(ids) == len(set(ids))
    page.keyboard.press("?")
    expect(sheet).to_be_hidden()


def test_with_a_brush_the_title_of_a_frame_paints_its_block(opened: Page) -> None:
    page = opened
    act(page, "heteroCy.nodes('.group')[1].emit('dbltap')")
    until(page, "heteroCy.nodes('.frame').length === 1")
    x, y = page.evaluate("""() => {
        const box = heteroCy.nodes('.frame')[0].renderedBoundingBox({ includeLabels: false });
        const at = heteroCy.container().getBoundingClientRect();
        return [box.x1 + at.left + 6, box.y1 + at.top + 5];
    }""")
    page.keyboard.press("2")
    page.mouse.click(x, y)
    wait_for_figure(page, "pins", 25)


def test_an_edit_made_while_another_is_on_its_way_follows_it(opened: Page) -> None:
    """The request of the first edit is held back; one that is lost on its way is sent again."""
    page = opened
    let_go = hold(page, "**/edits")
    act(page, "hetero.paint([3], 1); setTimeout(() => hetero.edit({ do: 'undo' }), 200)")
    until(page, "hetero.waitingEdits() === 2")
    let_go()
    until(page, "hetero.waitingEdits() === 0")
    wait_for_figure(page, "pins", 0)
    expect(page.locator("#redo")).to_be_enabled()
    page.unroute("**/edits")
    lost: list[Route] = []

    def lose(route: Route) -> None:
        if lost:
            route.continue_()
        else:
            lost.append(route)
            route.abort()

    page.route("**/edits", lose)
    act(page, "hetero.paint([4], 1)")
    until(page, "hetero.waitingEdits() === 1")
    act(page, "hetero.resend()")
    wait_for_figure(page, "pins", 1)
    assert lost


def test_edits_wait_for_a_server_that_wants_its_token_and_not_for_one_that_refuses_them(
    opened: Page,
) -> None:
    page, answers = opened, [403, 422]

    def answer(route: Route) -> None:
        if answers:
            route.fulfill(status=answers.pop(0), json={"detail": "this is why"})
        else:
            route.continue_()

    page.route("**/edits", answer)
    act(page, "hetero.paint([4], 1)")
    until(page, "hetero.waitingEdits() === 1")
    expect(page.locator("#notice")).to_be_empty()
    act(page, "hetero.resend()")
    says(page.locator("#notice"), "this is why")
    until(page, "hetero.waitingEdits() === 0")
    act(page, "hetero.paint([5], 1)")
    wait_for_figure(page, "pins", 1)


def test_a_burst_of_strokes_loses_none(opened: Page) -> None:
    page = opened
    act(
        page,
        "for (let op = 0; op < 8; op++) hetero.edit({ do: 'paint', ops: [op], device: 1, force: false })",
    )
    wait_for_figure(page, "pins", 8)
    act(page, "for (let k = 0; k < 8; k++) hetero.edit({ do: 'undo' })")
    wait_for_figure(page, "pins", 0)


def test_the_command_of_exactly_the_typed_words_comes_first(show: Show, page: Page) -> None:
    """Enter pinned the selection to OpenVINO.CPU."""
    model = str(EXAMPLES / "models" / "mobilenetv2.onnx")
    page.goto(show(model, "HETERO:OpenVINO.CPU,CPU"))
    ready(page)
    page.keyboard.press("Control+k")
    for typed in ("pin selection CPU", "pin the selection to CPU"):
        page.locator(".palette-field").fill(typed)
        first = page.locator("#palette-list li span").first
        expect(first).to_be_visible()
        says_exactly(first, "Pin the selection to CPU")
    page.locator(".palette-field").fill("why")
    expect(page.locator("#palette-list").get_by_text("Show fallbacks: why ops are")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("#find").fill("pin the selection to cpu")
    found = page.locator("#search-list li").filter(has_text="command")
    says(found.first, "Pin the selection to CPU")


def test_a_plan_that_is_kept_without_a_name_is_called_by_its_last_step(opened: Page) -> None:
    page = opened
    page.click("role=tab[name=Compare]")
    page.click("#layout-keep")
    kept = page.locator("#compare-result tbody tr", has_text="automatic")
    expect(kept.first).to_be_visible()
    page.click("#layout-keep")
    says(page.locator("#layout-problem"), re.compile("There is a layout called .* already"))


def test_another_brush_takes_a_refusal_away(page: Page, server: Server) -> None:
    page.goto(server.url)
    ready(page)
    gemm = page.evaluate(
        "window.heteroCy.nodes('.op').toArray().findIndex((n) => n.data('name') === 'Gemm')"
    )
    page.keyboard.press("1")
    page.mouse.click(*node_at(page, gemm))
    says(page.locator("#notice"), "Paint anyway")
    page.keyboard.press("2")
    expect(page.locator("#notice")).to_be_empty()


def test_after_a_stroke_the_brush_is_still_marked_and_the_graph_where_it_was(fresh: Page) -> None:
    """The list of devices is drawn anew, and the meaning of dashed lines appears below the graph."""
    page = fresh
    brush, lines = page.locator("button[data-brush='1']"), page.locator("#lines")
    expect(lines).to_be_hidden()
    x, y, before = page.evaluate(
        """() => { const found = heteroCy.nodes('[name = "Add"]')[0].incomers('node').filter((n) => n.outdegree() === 1)[0],
        at = found.renderedPosition(), box = heteroCy.container().getBoundingClientRect();
        return [box.left + at.x, box.top + at.y, heteroCy.pan()]; }"""
    )
    page.keyboard.press("2")
    page.mouse.click(x, y)
    wait_for_figure(page, "pins", 1)
    says_exactly(lines, "to another subgraph of the same device")
    says(page.locator("#devices"), "3 ops")
    expect(brush).to_have_attribute("aria-pressed", "true")
    page.wait_for_timeout(500)  # what is drawn after the answer
    assert page.evaluate("heteroCy.pan()") == before
    gemm = page.evaluate(
        """() => { const at = heteroCy.nodes('[name = "Gemm"]')[0].renderedPosition(),
        box = heteroCy.container().getBoundingClientRect(); return [box.left + at.x, box.top + at.y]; }"""
    )
    page.keyboard.press("1")
    page.mouse.click(*gemm)
    says(page.locator("#notice"), "Paint anyway")
    expect(lines).to_be_hidden()
    page.click("[data-command=close-notice]")
    expect(lines).to_be_visible()


def test_a_policy_chosen_while_another_one_is_solved_is_the_one_that_stays(fresh: Page) -> None:
    page = fresh
    let_go = hold(page, "**/edits")
    for label in ("Optimal: least latency", "Pipeline: one stage each"):
        page.select_option("#policy", label=label)
    expect(page.locator("#policy")).to_have_value("pipeline")
    let_go()
    until(page, "hetero.waitingEdits() === 0 && hetero.page.view.policy === 'pipeline'")
    page.wait_for_timeout(500)
    assert page.evaluate("hetero.page.view.policy") == "pipeline"
    expect(page.locator("#policy")).to_have_value("pipeline")
    act(page, "hetero.commandOf('undo').run()")
    expect(page.locator("#policy")).to_have_value("optimal:latency")


def test_a_change_that_takes_long_says_so_and_can_be_cancelled(
    show: Show, page: Page, tmp_path: Path
) -> None:
    large = write_layers(
        tmp_path / "large.onnx", ("a", "b", "c")
    )  # 3,000 ops: seconds of search on three devices
    page.goto(show(str(large), "HETERO:NPU,GPU,CPU"))
    ready(page)
    page.select_option("#policy", label="Optimal: throughput")
    says(page.locator("#solving"), "Solving the placement")
    page.get_by_role("button", name="Cancel").click()
    says(page.locator("#notice"), "Cancelled. Nothing was changed.")
    expect(page.locator("#policy")).to_have_value("priority")
    expect(page.locator("#solving")).to_be_hidden()
    assert page.evaluate("hetero.page.view.policy") == "priority"
    expect(page.locator("#undo")).to_be_disabled()

    page.get_by_role("tab", name="Compare").click()  # which fills its table
    says(page.locator("#solving"), re.compile(r"^.+ \(\d+ of \d+\) …"))
    page.locator("#solving").get_by_role("button", name="Cancel").click()
    says(page.locator("#layout-problem"), "Cancelled")
    expect(page.locator("#solving")).to_be_hidden()


def test_drawing_rests_where_nothing_moves_and_goes_on_with_the_next_change(opened: Page) -> None:
    """Cytoscape looked sixty times a second whether there was something to draw."""
    page = opened
    act(page, "window.turns = 0; heteroCy.renderer().beforeRender(() => { window.turns += 1; }, 0)")
    page.wait_for_timeout(4000)  # it does not rest in the first seconds
    before = page.evaluate("window.turns")
    page.wait_for_timeout(2000)
    assert page.evaluate("window.turns") - before <= 25
    drawn = page.evaluate("heteroCy.renderer().redrawCount")
    act(page, "heteroCy.zoom(heteroCy.zoom() * 1.1)")
    until(page, f"heteroCy.renderer().redrawCount > {drawn}")


def test_a_panel_that_grows_leaves_the_whole_graph_in_view_until_somebody_moves_it(
    browser: BrowserContext, server: Server
) -> None:
    """The first ops were behind the lists above the graph after a tab with a larger panel was opened."""
    page = browser.new_page()
    page.set_viewport_size({"width": 1440, "height": 1000})
    page.goto(server.url)
    ready(page)
    top = "Math.min(...heteroCy.nodes('.op').map((n) => n.renderedBoundingBox({ includeLabels: false }).y1))"
    until(page, f"{top} > 50")
    height = page.evaluate("heteroCy.height()")
    page.get_by_role("tab", name="Compare").click()
    until(page, f"heteroCy.height() < {height} && {top} > 50")
    box = page.locator("#graph").bounding_box()
    assert box
    at = (box["x"] + box["width"] / 2, box["y"] + box["height"] - 12)  # below the graph
    page.mouse.move(*at)
    page.mouse.down()
    page.mouse.move(at[0] + 40, at[1], steps=4)
    page.mouse.up()
    pan = page.evaluate("heteroCy.pan().x")
    page.keyboard.press("Shift+B")
    until(page, f"heteroCy.height() === {height}")
    assert page.evaluate("heteroCy.pan().x") == pan, "what somebody looks at stays"
    page.close()
