"""Rules, comparison side by side, palette, tooltip, pictures, links, panels, import, and accessibility of the page."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import EXAMPLES
from pages import (
    Server,
    Show,
    act,
    figure,
    fills,
    hold,
    node_at,
    ready,
    says,
    says_exactly,
    type_devices,
    until,
    wait_for_figure,
)
from playwright.sync_api import BrowserContext, Locator, Page, expect

import editor
from editor.workspace.layouts import BY_OPENVINO


def tab(page: Page, name: str) -> None:
    page.click(f"role=tab[name={name}]")


def test_rules_are_added_ordered_counted_loaded_and_removed(fresh: Page, tmp_path: Path) -> None:
    page = fresh
    tab(page, "Rules")
    page.click("[data-rules=add]")
    page.keyboard.type("Conv")
    rows = page.locator("#rules-list > .rule")
    rows.locator(".rule-to").select_option("ONNX Runtime")
    says_exactly(rows.first.locator(".rule-count"), "52 matches")
    expect(page.locator(".device-count").nth(1)).to_have_attribute("data-count", "54")
    page.click("[data-rules=add]")
    for kind, example in (("layer", "e.g. 8-15"), ("type", "e.g. Conv")):
        rows.nth(1).locator(".rule-kind").select_option(kind)
        expect(rows.nth(1).locator(".rule-text")).to_have_attribute("placeholder", example)
    rows.nth(1).locator(".rule-text").fill("Conv")
    rows.nth(1).locator(".rule-nth").fill("first")
    rows.nth(1).locator(".rule-to").select_option("Interpreter")
    says_exactly(rows.nth(1).locator(".rule-count"), "1 match")
    expect(page.locator(".device-count").nth(2)).to_have_attribute(
        "data-count", "0"
    )  # the first rule decides
    rows.nth(1).locator("[data-rules=up]").click()
    expect(page.locator(".device-count").nth(2)).to_have_attribute("data-count", "1")
    rows.nth(1).locator(".rule-count button").click()
    says(page.locator("#inspector"), "52 ops selected")

    # A rule that cannot hold is refused with its number, and nothing changes.
    rows.nth(1).locator(".rule-kind").select_option("regex")
    rows.nth(1).locator(".rule-text").fill("(")
    rows.nth(1).locator(".rule-text").blur()
    says(page.locator("#notice"), "rule 2: '(' is not a regular expression")
    assert figure(page, "subgraphs") > 4

    (tmp_path / "rules.yaml").write_text("- {type: Clip, to: Interpreter}\n")
    with page.expect_file_chooser() as chooser:
        page.click("text=Load rules")
    chooser.value.set_files(tmp_path / "rules.yaml")
    expect(rows).to_have_count(1)
    expect(page.locator(".device-count").nth(2)).to_have_attribute("data-count", "35")
    rows.locator("[data-rules=remove]").click()
    wait_for_figure(page, "subgraphs", 4)
    says(page.locator("#rules-list"), "No rules")


def test_a_rule_that_matches_nothing_names_the_nearest_op_type(fresh: Page) -> None:
    page, row = fresh, sent_rule(fresh, "Qqqq", "0 matches")
    row.locator(".rule-text").fill("Cnov")
    page.keyboard.press("Enter")
    says_exactly(row.locator(".rule-count"), "0 matches: Conv?")
    row.locator(".rule-count button").click()
    expect(row.locator(".rule-text")).to_have_value("Conv")
    says_exactly(row.locator(".rule-count"), "52 matches")


def test_who_went_into_a_rule_before_the_last_answer_came_types_there(fresh: Page) -> None:
    """The list was drawn anew, the field lost its focus, and letters were keys that paint."""
    page = fresh
    tab(page, "Rules")
    page.click("[data-rules=add]")
    page.keyboard.type("Conv")
    page.keyboard.press("Enter")
    row = page.locator("#rules-list > .rule")
    says_exactly(row.locator(".rule-count"), "52 matches")
    let_go = hold(page, "**/edits")
    row.locator(".rule-to").select_option("Interpreter")
    row.locator(".rule-text").click()
    page.keyboard.press("End")
    let_go()
    until(page, "hetero.page.view.rules.rules[0].to === 'Interpreter'")
    page.keyboard.type("*")
    expect(row.locator(".rule-text")).to_have_value("Conv*")


def sent_rule(page: Page, text: str = "Conv", count: str = "52 matches") -> Locator:
    """Writes a rule for all ops of a type, by default convolutions; its pattern has the focus."""
    tab(page, "Rules")
    page.click("[data-rules=add]")
    row = page.locator("#rules-list > .rule")
    row.locator(".rule-text").fill(text)
    page.keyboard.press("Enter")
    says_exactly(row.locator(".rule-count"), count)
    return row


def test_undo_in_a_rule_that_was_sent_is_that_of_the_plan(fresh: Page) -> None:
    """The pattern kept the focus, and Ctrl+Z did nothing there."""
    page, row = fresh, sent_rule(fresh)
    expect(row.locator(".rule-text")).to_be_focused()
    page.keyboard.type("x")
    page.keyboard.press("Control+z")  # of the field, as long as it has something of its own
    expect(row.locator(".rule-text")).to_have_value("Conv")
    page.keyboard.press("Control+z")
    expect(row).to_have_count(0)


def test_a_pattern_stays_with_another_kind_only_where_it_matches(fresh: Page) -> None:
    """The pattern of the kind before stayed, and matched nothing."""
    page, row = fresh, sent_rule(fresh)
    row.locator(".rule-kind").select_option("regex")
    until(page, "hetero.page.view.rules.rules[0].regex === 'Conv'")
    expect(row.locator(".rule-text")).to_have_value("Conv")
    row.locator(".rule-kind").select_option("layer")
    expect(row.locator(".rule-text")).to_have_value("")
    expect(row.locator(".rule-text")).to_have_attribute("placeholder", "e.g. 8-15")
    expect(row.locator(".rule-count")).to_have_text("")
    assert page.evaluate("hetero.page.view.rules.rules[0].regex") == "Conv", "until it is written"
    row.locator(".rule-kind").select_option("type")
    row.locator(".rule-text").fill("Clip")
    page.keyboard.press("Enter")
    says_exactly(row.locator(".rule-count"), "35 matches")


def test_a_part_of_a_path_proposes_the_blocks_of_a_scope(page: Page, layered: str) -> None:
    """A scope needed the whole path of a block, which nobody knows by heart."""
    page.goto(layered)
    ready(page)
    tab(page, "Rules")
    page.click("[data-rules=add]")
    row, blocks = page.locator("#rules-list > .rule"), page.locator("#rule-blocks li")
    row.locator(".rule-kind").select_option("scope")
    row.locator(".rule-text").click()
    page.keyboard.type("layers.1")
    says(blocks.first, "layers.1")
    expect(blocks.first).to_be_visible()
    expect(row.locator(".rule-text")).to_have_attribute("aria-expanded", "true")
    path, count = (blocks.first.locator(each).inner_text() for each in ("bdi", ".hint"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(blocks).to_have_count(0)
    expect(row.locator(".rule-text")).to_have_value(path)
    says(row.locator(".rule-count"), count.split()[0])
    page.keyboard.press("End")
    page.keyboard.press("Backspace")
    blocks.last.click()
    expect(row.locator(".rule-text")).not_to_have_value(path)
    says(row.locator(".rule-count"), " matches")
    row.locator(".rule-text").fill("no such block")
    page.keyboard.press("Enter")
    says_exactly(row.locator(".rule-count"), "0 matches")
    expect(blocks).to_have_count(0)
    row.locator("[data-rules=remove]").click()
    until(page, "!hetero.page.view.rules.rules.length")


def test_a_refused_rule_stays_to_be_corrected_after_enter_too(fresh: Page) -> None:
    """The list was sent twice, and what came second took the line away."""
    page = fresh
    tab(page, "Rules")
    row, notice = page.locator("#rules-list > .rule"), page.locator("#notice")
    for refused, taken, matches in (("Gemm", "Conv", "52 matches"), ("Gemm", "Clip", "35 matches")):
        if not row.count():
            page.click("[data-rules=add]")
        row.locator(".rule-text").fill(refused)
        page.keyboard.press("Enter")
        says(notice, "excludes Gemm on OpenVINO")
        expect(row).to_have_class("rule refused")
        act(page, "hetero.edit({ do: 'show' }, () => { window.shown = true; })")
        until(page, "window.shown")
        expect(row.locator(".rule-text")).to_have_value(refused)
        row.locator(".rule-text").fill(taken)
        page.keyboard.press("Enter")
        says_exactly(row.locator(".rule-count"), matches)
        expect(row).to_have_class("rule")


def test_affinities_of_other_tools_are_imported_with_what_was_left_out(
    fresh: Page, tmp_path: Path
) -> None:
    page = fresh
    graph = editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx")
    keys = [k for i, k in enumerate(graph.op_keys) if not graph.op_is_constant[i]]
    (tmp_path / "affinities.csv").write_text(
        f"op,device\n{keys[3]},ONNX Runtime\nnowhere,ONNX Runtime\n{keys[4]},TPU\n"
    )
    tab(page, "Rules")
    with page.expect_file_chooser() as chooser:
        page.click("text=Import affinities")
    chooser.value.set_files(tmp_path / "affinities.csv")
    wait_for_figure(page, "pins", 1)
    for text in ("1 op pinned from affinities.csv", "nowhere", "TPU"):
        says(page.locator("#notice"), text)


def test_what_an_export_does_not_keep_is_said_in_sentences(fresh: Page) -> None:
    page = fresh
    page.click("#export")
    with page.expect_download():
        page.get_by_role("menuitem", name="OpenVINO: model, affinities, script").click()
    says(
        page.locator("#notice"),
        re.compile(r"\. OpenVINO runs OpenVINO and ONNX Runtime both as its CPU"),
    )


NODES = """(pane) => window.heteroPanes.graphs[pane].cy.nodes('.op').map((n) => [n.data('label'), n.data('fill'),
    n.position('x'), n.position('y')])"""
VIEWS = """() => window.heteroPanes.graphs
    .map(({ cy }) => [cy.zoom(), cy.pan().x, cy.pan().y].map((n) => n.toFixed(3)).join())"""


def test_layouts_side_by_side_look_like_the_canvas_and_move_together(fresh: Page) -> None:
    page = fresh
    tab(page, "Compare")
    page.wait_for_selector("#compare-table")
    left = {page.locator(s).first.bounding_box()["x"] for s in ("#compare-start", "#compare-table")}  # type: ignore[index]
    assert len(left) == 1, "fields stand below their headings"
    page.click("#panes-open")
    says(page.locator("#mode-hint"), "Tick two to four layouts")
    for name in ("this plan", BY_OPENVINO, "all on ONNX Runtime"):
        page.click(f"[data-pane='{name}']")
    page.click("#panes-open")
    panes = page.locator("#panes figure")
    expect(panes).to_have_count(3)
    expect(panes.first).to_be_visible()
    differ = page.evaluate("""() => { const l = window.heteroPanes.data.layouts;
        return l[0].device.filter((d, i) => l.some((o) => o.device[i] !== d)).length; }""")
    assert differ == 100
    says_exactly(page.locator(".panes-note"), "All 100 ops have different devices (≠)")
    own = page.evaluate(
        """() => hetero.page.cy.nodes('.op').map((n) => [n.data('label'), n.data('fill'), n.position('x'), n.position('y')])"""
    )
    assert page.evaluate(NODES, 0) == own, "words, colours and places of the canvas"
    for pane in range(3):
        marked = page.evaluate(
            "(pane) => ['.differs', '.sign'].map((c) => window.heteroPanes.graphs[pane].cy.nodes(c).length)",
            pane,
        )
        assert marked == [differ, differ]
    whole = """() => { const { cy } = window.heteroPanes.graphs[0], b = cy.nodes().boundingBox(), e = cy.extent();
        return b.x1 >= e.x1 && b.x2 <= e.x2 && b.y1 >= e.y1 && b.y2 <= e.y2; }"""
    assert page.evaluate(whole), "all ops are seen"
    box = panes.first.locator(".pane-graph").bounding_box()
    assert box
    page.mouse.move(box["x"] + 80, box["y"] + 80)
    before = page.evaluate(VIEWS)[0]
    page.mouse.wheel(0, -400)
    until(
        page,
        f"(before) => {{ const now = ({VIEWS})(); return now[0] !== before && new Set(now).size === 1; }}",
        arg=before,
    )
    page.click("[data-panes-step='1']")
    expect(page.locator("#inspector .op-type")).not_to_be_empty()
    says(page.locator(".panes-note"), "difference 1 of ")
    marks = "window.heteroPanes.graphs.map(({ cy }) => cy.nodes('.mark').map((n) => n.id()).join())"
    assert len(set(page.evaluate(marks))) == 1 and page.evaluate(marks)[0]
    page.click("[data-panes-fit]")
    x, y = page.evaluate(
        """() => { const { cy } = window.heteroPanes.graphs[0], at = cy.nodes('.differs')[0].renderedPosition(),
            box = cy.container().getBoundingClientRect(); return [box.x + at.x, box.y + at.y]; }"""
    )
    page.mouse.move(x, y)
    tip = page.locator(".panes-tip")
    expect(tip).to_be_visible()
    says(
        tip,
        re.compile(
            rf"this plan: \w+ · subgraph \d+.*{re.escape(BY_OPENVINO)}: \w+ · subgraph", re.S
        ),
    )
    page.keyboard.press("Escape")
    expect(page.locator("#panes")).to_be_hidden()


def test_panes_follow_an_edit_of_the_plan_where_they_are(fresh: Page) -> None:
    page = fresh
    tab(page, "Compare")
    page.wait_for_selector("#compare-table")
    for name in ("this plan", BY_OPENVINO):
        page.click(f"[data-pane='{name}']")
    page.click("#panes-open")
    note, own = page.locator(".panes-note"), page.locator("#panes figcaption span").first
    says(note, "2 of 100 ops are on another device (≠): ")
    before = own.inner_text()
    act(
        page, "heteroPanes.graphs[0].cy.zoom(0.9); heteroPanes.graphs[0].cy.panBy({ x: 40, y: 25 })"
    )
    view, devices = (
        page.evaluate(VIEWS),
        page.evaluate("[...heteroPanes.data.layouts[0].device]"),
    )
    other = 1 - devices[10]
    act(page, f"hetero.paint([hetero.page.view.ops[10]], {other}, true)")
    wait_for_figure(page, "pins", 1)
    says(note, "3 of 100 ops are on another device (≠): ")
    expect(own).not_to_have_text(before)
    fill = "(n) => n.op === hetero.page.view.ops[10] ? [n.fill] : []"
    shown = f"() => [heteroPanes.graphs[0].cy, heteroCy].map((cy) => cy.nodes('.op').map((n) => n.data()).flatMap({fill})[0])"
    ours, canvas = page.evaluate(shown)
    assert ours == canvas, "in its new colour"
    assert page.evaluate(VIEWS) == view, "and nothing moves"


def test_two_layouts_swipe_and_blink_and_blocks_open_in_both(fresh: Page) -> None:
    page = fresh
    tab(page, "Compare")
    page.wait_for_selector("#compare-table")
    page.locator("#detail-mode").evaluate("() => hetero.askDetail({ do: 'mode', mode: 'blocks' })")
    until(page, "hetero.page.detail.mode === 'blocks'")
    for name in ("this plan", BY_OPENVINO):
        page.click(f"[data-pane='{name}']")
    page.click("#panes-open")
    panes = page.locator("#panes figure")
    expect(panes).to_have_count(2)
    says(page.locator(".panes-note"), "2 of 100 ops are on another device (≠): ")
    page.click("[data-panes-only]")
    nodes = "(c) => window.heteroPanes.graphs.map(({ cy }) => cy.nodes(c).length)"
    marked, faded, drawn = (page.evaluate(nodes, c) for c in (".differs", ".op.faded", ".op"))
    assert marked == page.evaluate(nodes, ".sign") and marked[0] > 0
    assert [a + b for a, b in zip(marked, faded, strict=True)] == drawn
    counts = "window.heteroPanes.graphs.map(({ cy }) => cy.nodes('.op').length)"
    closed = page.evaluate(counts)
    assert closed[0] == closed[1] == page.evaluate("hetero.page.cy.nodes('.op').length") < 100
    x, y = page.evaluate(
        """() => { const { cy } = window.heteroPanes.graphs[1], at = cy.nodes('.group')[0].renderedPosition(),
            box = cy.container().getBoundingClientRect(); return [box.x + at.x, box.y + at.y]; }"""
    )
    page.mouse.dblclick(x, y)
    until(page, f"(closed) => {counts}.every((count) => count > closed)", arg=closed[0])
    page.click("[data-panes-mode=swipe]")
    line = page.get_by_role("slider", name="Line between the two layouts")
    expect(line).to_be_visible()
    line.press("ArrowLeft")
    expect(line).to_have_attribute("aria-valuenow", "45")
    expect(panes.nth(1)).to_have_css("clip-path", "inset(0px 0px 0px 45%)")
    page.click("[data-panes-mode=blink]")
    for pane in (0, 1, 0):
        expect(panes.nth(pane)).to_be_visible()
        expect(panes.nth(1 - pane)).to_be_hidden()
    page.click("[data-panes-mode=side]")
    expect(panes.nth(0)).to_be_visible()
    expect(panes.nth(1)).to_be_visible()


def test_palette_tooltip_pictures_link_and_copy(fresh: Page, tmp_path: Path) -> None:
    page = fresh
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    x, y = node_at(page, 3)
    page.mouse.move(x - 5, y - 5)
    page.mouse.move(x, y)
    for text in (
        "Clip",
        "OpenVINO",
        "Interpreter",
        "estimate from shapes",
        "First device in the table",
    ):
        says(page.locator("#hover"), text)
    page.mouse.click(x, y)
    says_exactly(page.locator("#inspector .op-type"), "Clip")
    page.keyboard.press("Control+k")
    page.keyboard.type("pin selection onnx")
    expect(page.locator("#palette li")).to_have_count(
        2
    )  # the command, and the search for these words
    page.keyboard.press("Enter")
    wait_for_figure(page, "pins", 1)
    page.click("text=Copy link")
    link = page.evaluate("navigator.clipboard.readText()")
    assert "#op=" in link

    for form in ("svg", "png"):
        page.keyboard.press("Control+k")
        page.keyboard.type(f"picture {form}")
        with page.expect_download() as download:
            page.keyboard.press("Enter")
        assert download.value.suggested_filename == f"fresh.{form}"
        says(page.locator("#notice"), f"Downloaded fresh.{form}")
        download.value.save_as(tmp_path / f"view.{form}")
    drawn = ET.parse(tmp_path / "view.svg").getroot()
    assert any(
        "ONNX Runtime" in (t.text or "") for t in drawn.iter("{http://www.w3.org/2000/svg}text")
    )
    assert (tmp_path / "view.png").read_bytes().startswith(b"\x89PNG")

    page.goto("about:blank")
    page.goto(link)
    ready(page)
    says_exactly(page.locator("#inspector .op-type"), "Clip")


def test_devices_are_dragged_and_panels_remember_their_size(fresh: Page) -> None:
    page = fresh
    before = fills(page)
    page.locator(".device-row").nth(1).drag_to(
        page.locator(".device-row").first, target_position={"x": 30, "y": 4}
    )
    expect(page.locator(".device-row [data-device]").first).to_have_attribute(
        "data-device", "ONNX Runtime"
    )
    until(page, "window.heteroCy.nodes('.op')[0].data('label').includes('ONNX')")
    assert fills(page) != before
    page.click("role=tab[name=Memory]")
    handle = page.locator(".resize-dock").bounding_box()
    assert handle
    page.mouse.move(handle["x"] + 200, handle["y"] + 2)
    page.mouse.down()
    page.mouse.move(handle["x"] + 200, handle["y"] - 90, steps=4)
    page.mouse.up()
    high = page.locator("#dock").bounding_box()
    page.reload()
    ready(page)
    again = page.locator("#dock").bounding_box()
    assert (
        high
        and again
        and abs(high["height"] - again["height"]) < 2
        and again["y"] < handle["y"] - 60
    )


def test_arrow_keys_walk_along_edges_and_space_paints(fresh: Page) -> None:
    page = fresh
    chosen = "window.heteroCy.nodes('.op:selected').map((n) => n.data('op'))"

    def press(key: str) -> int:
        page.keyboard.press(key)
        page.wait_for_timeout(60)
        found = page.evaluate(chosen)
        assert len(found) == 1
        return int(found[0])

    page.locator("#ribbon-box").locator("select, button").last.focus()
    for _ in range(4):  # the graph is in the order of the Tab key, after the ribbon
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "canvas":
            break
    expect(page.locator("#canvas")).to_be_focused()
    start = press("ArrowDown")
    entry = f"window.heteroCy.getElementById('op{start}').incomers('node.terminal').length"
    assert page.evaluate(entry) == 1  # it reads the input
    below = press("ArrowDown")
    assert (
        page.evaluate(
            f'window.heteroCy.edges(\'[source = "op{start}"][target = "op{below}"]\').length'
        )
        == 1
    )
    assert press("ArrowUp") == start
    page.keyboard.press("2")
    page.keyboard.press("Space")
    wait_for_figure(page, "pins", 1)


def test_arrow_keys_move_within_a_row(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/open")
    page.get_by_role("button", name="ResNet-50 122 ops").click()
    ready(page)
    at = "Object.values(heteroCy.nodes(':selected')[0].position())"
    page.evaluate("""() => {
        const ops = heteroCy.nodes('.op'), beside = (n) => ops.filter((m) => m !== n && m.position('y') === n.position('y'));
        ops.filter((n) => beside(n).some((m) => m.position('x') > n.position('x')))[0].select();
    }""")
    left, (x, y) = page.evaluate("heteroCy.nodes(':selected')[0].id()"), page.evaluate(at)
    page.locator("body").press("ArrowRight")
    right_x, right_y = page.evaluate(at)
    assert right_x > x and abs(right_y - y) < 24, "in one row"
    page.locator("body").press("ArrowLeft")
    assert page.evaluate("heteroCy.nodes(':selected').map((n) => n.id())") == [left]


def test_a_reload_comes_back_to_the_same_place(fresh: Page) -> None:
    page = fresh
    act(page, "heteroCy.viewport({ zoom: 0.9, pan: { x: -40, y: -2000 } })")
    kept = "sessionStorage.getItem('hetero-editor-view-' + hetero.page.view.document)"
    until(page, f"({kept} || '').includes('\"zoom\":0.9')")
    page.reload()
    ready(page)
    assert page.evaluate(
        "[heteroCy.zoom(), heteroCy.pan('x'), heteroCy.pan('y')]"
    ) == pytest.approx([0.9, -40, -2000], abs=1)


def test_an_op_in_the_address_stays_where_it_was_after_a_reload(fresh: Page) -> None:
    """It was brought to the middle again, by as much as the ribbon had grown meanwhile."""
    page = fresh
    act(page, "hetero.goTo('op' + hetero.page.view.ops[3])")
    until(page, "location.hash === '#op=' + hetero.page.view.ops[3] && !heteroCy.animated()")
    act(page, "heteroCy.panBy({ x: 60, y: 40 })")
    page.wait_for_timeout(400)  # until the view has been kept
    where = "[heteroCy.zoom(), heteroCy.pan('x'), heteroCy.pan('y')]"
    before = page.evaluate(where)
    page.reload()
    ready(page)
    until(page, "heteroCy.nodes('.op:selected').length === 1")
    page.wait_for_timeout(400)  # as long as it would move
    assert page.evaluate(where) == pytest.approx(before, abs=1)


PLACE = "[heteroCy.zoom(), heteroCy.pan('x'), heteroCy.pan('y')]"
COVERED = """() => {
    const box = heteroCy.nodes(":selected").renderedBoundingBox(), canvas = heteroCy.container().getBoundingClientRect();
    return ["tools", "inspector", "detail-mode", "colour-by", "dock", "zoom-in"].filter((id) => {
        const card = document.getElementById(id).getBoundingClientRect();
        return box.x2 + canvas.left > card.left && box.x1 + canvas.left < card.right
            && box.y2 + canvas.top > card.top && box.y1 + canvas.top < card.bottom;
    });
}"""
"""The cards over the selected node."""


def test_the_view_moves_to_an_op_no_further_than_it_must(fresh: Page) -> None:
    page = fresh
    centre = "heteroCy.zoom(0.6); heteroCy.center(heteroCy.nodes('[name = \"ReduceMean\"]'))"
    act(page, centre)
    free, found = page.evaluate(PLACE), "heteroCy.nodes(':selected').data('name') === 'ReduceMean'"
    page.fill("#find", "mean")
    page.press("#find", "Enter")
    until(page, found)
    page.wait_for_timeout(400)  # as long as it would move
    assert page.evaluate(PLACE) == free

    for away in ("x: 500, y: 0", "x: -500, y: 0", "x: 0, y: -240", "x: 0, y: 500"):
        act(page, f"hetero.selectNothing(); {centre}; heteroCy.panBy({{ {away} }})")
        before = page.evaluate(PLACE)
        page.press("#find", "Enter")
        until(page, f"{found} && !heteroCy.animated()")
        assert page.evaluate(COVERED) == []
        zoom, x, y = page.evaluate(PLACE)
        moved = [a != b for a, b in zip((zoom, x, y), before, strict=True)]
        assert moved == [False, "y: 0" in away, "x: 0" in away]

    act(page, "hetero.selectNothing(); hetero.stepChange(1)")
    until(page, "heteroCy.nodes(':selected').nonempty() && !heteroCy.animated()")
    assert page.evaluate(COVERED) == [] and page.evaluate(PLACE)[0] == 0.6
    act(page, "heteroCy.zoom(0.2)")  # too small for names
    page.press("#find", "Enter")
    until(page, f"{found} && !heteroCy.animated()")
    assert page.evaluate(COVERED) == [] and page.evaluate(PLACE)[0] >= 0.4


def test_a_benchmark_shows_its_timeline_and_joins_the_list(fresh: Page) -> None:
    page = fresh
    page.click("role=tab[name=Benchmark]")
    page.fill("#bench-seconds", "0.5")
    page.click("#bench-start")
    says(page.locator("#bench-text"), "Done", timeout=90_000)
    expect(page.locator(".gantt-bar:not(.transfer)")).to_have_count(figure(page, "subgraphs"))
    expect(page.locator(".gantt-bar.transfer")).to_have_count(figure(page, "transfers"))
    lanes = page.locator(".gantt-row:has(.gantt-bar)")
    for name in ("OpenVINO", "ONNX Runtime"):  # the card of the plan and the timeline say the same
        lane = lanes.filter(has=page.locator(".gantt-device", has_text=name))
        share = re.search(r"(?:< )?\d+ % of the run$", lane.inner_text())
        assert share
        row = page.locator(
            "#inspector .share", has=page.get_by_role("button", name=name, exact=True)
        )
        says(row, share[0].removesuffix(" of the run"))
    says(page.locator("#bench-table .ag-header"), "Of the run")
    page.locator(".gantt-bar[data-part='1']:not(.transfer)").click()
    until(page, "window.heteroCy.nodes('.dim').length > 50")
    expect(page.locator("#runs-table tbody tr")).to_have_count(1)
    says(page.locator("#runs-table"), "automatic")
    page.click("#export")
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Report, Markdown").click()
    assert "## Measurement" in download.value.path().read_text()
    page.keyboard.press("Escape")
    # What is in the middle: the graph's own height changes while the ribbon gets its measured lanes.
    where = """(() => { const cy = window.heteroCy, pan = cy.pan(), zoom = cy.zoom();
        return [Math.round((cy.width() / 2 - pan.x) / zoom), Math.round((cy.height() / 2 - pan.y) / zoom)]; })()"""
    places = []
    for _ in range(
        3
    ):  # what was found was lost now and then, and the graph moved by some pixels each time
        page.reload()
        ready(page)
        expect(page.locator("#runs-table tbody tr")).to_have_count(1)
        says(page.locator("#bench-text"), "Done")
        says(page.locator("#bench-cards"), "within tolerance")
        page.wait_for_timeout(600)  # until the view that is shown has been kept
        places.append(page.evaluate(where))
    assert places[0] == places[1] == places[2]


def test_a_row_selects_its_subgraph_and_escape_lets_go(fresh: Page) -> None:
    page = fresh
    tab(page, "Subgraphs")
    page.locator("#subgraphs [row-id='0'] [col-id=device]").click()
    says(page.locator("#inspector"), "Subgraph 0")
    until(
        page,
        "hetero.selectedOps().length > 0 && heteroCy.nodes('.op:selected').length === heteroCy.nodes('.op').not('.dim').length",
    )
    expect(page.locator("#subgraphs .ag-row-selected")).to_have_count(1)
    page.locator("#graph").click(position={"x": 640, "y": 24})
    page.keyboard.press("Escape")
    expect(page.locator("#subgraphs .ag-row-selected")).to_have_count(0)
    says(page.locator("#inspector"), "Click an op")
    assert page.evaluate("heteroCy.elements('.dim').length") == 0


def test_figures_follow_a_profile_and_a_hint_can_be_applied_again_after_undo(fresh: Page) -> None:
    page = fresh
    tab(
        page, "Fallbacks"
    )  # by estimates: whether a repaint saves time by a profile depends on the machine
    page.click("#hints-start")
    says(page.locator("#hints-result"), "which estimates cannot tell from none): profile first")
    expect(page.locator("[data-hint]").first).to_be_visible()
    act(page, "hetero.paint([158], 2)")  # a Conv, which then takes more than half of the time
    wait_for_figure(page, "pins", 1)
    page.click("#hints-start")
    expect(page.locator("#hints-result")).not_to_contain_text("To try:", timeout=30_000)
    hint = page.locator("[data-hint]").first
    expect(hint).to_be_enabled(timeout=30_000)
    hint.click()
    expect(page.locator("[data-figure=pins]")).not_to_have_attribute("data-value", "1")
    expect(hint).to_be_disabled()
    page.keyboard.press("Control+z")
    wait_for_figure(page, "pins", 1)
    expect(hint).to_be_enabled()
    page.click("role=tab[name=Benchmark]")
    page.fill("#bench-seconds", "0.5")
    page.select_option("#costs", "measured")
    page.get_by_role("button", name="Profile now").click()
    says(page.locator("#bench-text"), "Profiled.", timeout=180_000)
    says(page.locator("#status"), "prediction from profile")
    tab(page, "Fallbacks")
    expect(page.locator("#hints-outdated")).to_be_visible()
    expect(page.locator("#hints-result .tool").first).to_have_css("pointer-events", "none")
    tab(page, "Benchmark")
    rows = page.locator("#profiles-table tbody tr")
    expect(rows).to_have_count(3)
    says(rows.first, "on this machine")
    page.get_by_role("button", name="Forget the profile of OpenVINO").click()
    says(rows.first, "none now")
    says(page.locator("#status"), "estimate from shapes")
    page.get_by_role("button", name="Put back the earlier profile of OpenVINO").click()
    says(rows.first, "on this machine")
    says(page.locator("#status"), "prediction from profile")
    page.select_option("#costs", "estimate")
    says(page.locator("#status"), "estimate from shapes")
    page.get_by_role("button", name="Use them now").click()
    says(page.locator("#status"), "prediction from profile")
    expect(page.get_by_role("button", name="Use them now")).to_have_count(0)


def test_a_device_that_is_not_here_says_what_it_needs_and_its_stand_in_has_no_speed(
    page: Page, show: Show, tmp_path: Path
) -> None:
    table = tmp_path / "devices.yaml"
    table.write_text(
        "- name: NPU\n  supported: [Conv, Clip, Add, Gemm, Reshape, {op: ReduceMean, where: rank == 3}]\n- name: CPU\n"
    )
    page.goto(show(str(EXAMPLES / "models" / "mobilenetv2.onnx"), str(table)))
    ready(page)
    page.mouse.move(*node_at(page, 97))
    says(page.locator("#hover"), "NPU: ReduceMean: needs rank 3; this op has rank 4")
    tab(page, "Fallbacks")
    reason = page.locator("#fallbacks").get_by_text("ReduceMean: needs rank 3; this op has rank 4")
    expect(reason).to_be_visible()
    expect(reason).to_have_attribute("title", "Condition of the device table: rank == 3")
    tab(page, "Benchmark")
    page.fill("#bench-seconds", "0.2")
    page.click("#bench-start")
    result = page.locator("#bench-result")
    says(result.locator("#bench-cards"), "within tolerance", timeout=60_000)
    expect(result.get_by_role("row", name="NPU planned")).to_contain_text("CPU as stand-in")
    says(page.locator("#bench-text"), "Done: outputs match.")
    says(page.locator("#runs-table"), "outputs match; stand-ins ran: no figure")
    time = re.compile(r"\d (ms|µs|s|requests/s)\b")
    own = page.locator(
        "#runs-table tbody td:not(:last-child)"
    )  # not splitting ran on a real device
    for place in (page.locator("#bench-text"), *own.all()):
        expect(place).not_to_contain_text(time)
    expect(page.locator("#runs-table tbody td").last).to_contain_text(re.compile(r"^CPU [\d.]+ ms"))
    kinds = {"The plan": "estimate from shapes", "Unsplit on CPU": "measurement"}
    for card in result.locator(".card", has=page.locator(".kind")).all():
        kind = kinds.pop(card.locator(".card-title").inner_text())
        expect(card.locator(".kind")).to_have_text(kind)
    assert not kinds, "the estimate, and what ran on a real device"
    expect(page.locator("#bench-chart")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_barriers_that_axe_can_find(
    browser: BrowserContext, server: Server, scheme: str
) -> None:
    # The scheme changes colours only.
    # Dialogs, menus and the search are looked at in test_everyone.
    options = {
        "resultTypes": ["violations"],
        **({"runOnly": ["color-contrast"]} if scheme == "dark" else {}),
    }
    page = browser.new_page()
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(f"{server.url}/open")
    page.wait_for_selector("#start")
    page.wait_for_timeout(700)
    found = {"start": Axe().run(page, options=options)}
    page.fill("#path", str(EXAMPLES / "models" / "mobilenetv2.onnx"))
    type_devices(page, "HETERO:GPU,CPU")
    page.click("#open-path")
    ready(page)
    page.mouse.click(*node_at(page, 3))
    says_exactly(page.locator("#inspector .op-type"), "Clip")
    page.wait_for_selector("#rules-file input[aria-label]", state="attached")
    # The other tabs are looked at in the light scheme in test_everyone.
    more = (
        ("Subgraphs", "Transfers", "Benchmark", "Devices", "Rules", "Compare")
        if scheme == "dark"
        else ()
    )
    for name in ("Fallbacks", *more):
        tab(page, name)
        if name == "Rules":
            page.click("[data-rules=add]")
        if name == "Compare":
            page.wait_for_selector("#compare-table")
        page.wait_for_timeout(300)
        found[name] = Axe().run(
            page, context=None if name == "Fallbacks" else "#dock", options=options
        )
    page.close()
    faults = {
        what: [
            (v["id"], n["target"], n["html"][:120])
            for v in result.response["violations"]
            for n in v["nodes"]
        ]
        for what, result in found.items()
    }
    assert not any(faults.values()), json.dumps(faults, indent=1)


def test_a_comparison_opens_from_disk_without_a_server(
    fresh: Page, browser: BrowserContext, tmp_path: Path
) -> None:
    page = fresh
    tab(page, "Compare")
    for name in ("this plan", "all on ONNX Runtime"):
        page.click(f"[data-pane='{name}']")
    with page.expect_download() as download:
        page.click("#panes-attach")
    assert download.value.suggested_filename == "fresh_comparison.html"
    download.value.save_as(tmp_path / "comparison.html")
    alone = browser.new_page()
    browser.new_cdp_session(alone).send(
        "Network.emulateNetworkConditions",
        {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0},
    )
    faults: list[str] = []
    alone.on("pageerror", lambda error: faults.append(str(error)))
    alone.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
    alone.goto((tmp_path / "comparison.html").as_uri())
    expect(alone.locator("figure")).to_have_count(2)
    rows = alone.locator("#layouts tr")
    expect(rows).to_have_count(3)
    heads = ["Layout", "Ops per device", "Subgraphs", "Transfers", "Transferred"]
    expect(alone.locator("#layouts th")).to_contain_text(
        [*heads, "Latency, estimate", "Pins", "Ops that differ"]
    )
    expect(rows.nth(1).get_by_text(re.compile(r"^\d+ on "))).to_be_visible()
    says(rows.nth(2), "all on ONNX Runtime")
    says(alone.locator("#tools"), "of 100 ops differ")
    box = alone.locator("canvas").nth(1).bounding_box()
    assert box
    zoom, x, y = alone.evaluate("[z, (d.x[1] - left) * z, (d.y[1] - top_) * z]")
    assert zoom > 0
    alone.mouse.click(box["x"] + x, box["y"] + y)
    says(alone.locator("#op"), "this plan: on OpenVINO")
    says(alone.locator("#op"), "all on ONNX Runtime: on")
    found = Axe().run(alone, options={"resultTypes": ["violations"]})
    assert not found.violations_count, found.generate_report()
    alone.close()
    assert not faults


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
def test_pages_about_the_server_s_routes_are_off(path: str, server: Server) -> None:
    import urllib.request

    with urllib.request.urlopen(
        server.url + path
    ) as answer:  # Dash's own page for an unknown address
        page = answer.read().lower()
    assert (
        b"swagger-ui" not in page and b"redoc.standalone" not in page and b'"openapi":' not in page
    )


def test_a_long_message_is_folded_for_the_graph_is_below(
    page: Page, show: Show, tmp_path: Path
) -> None:
    table = tmp_path / "small.yaml"
    entry = "- {{name: {}, backendName: CPU, memory: 4 MB}}\n"
    table.write_text(entry.format("A") + entry.format("B"))
    page.goto(show(str(EXAMPLES / "models" / "mobilenetv2.onnx"), str(table)))
    ready(page)
    page.select_option("#policy", label="Optimal within memory")
    message = page.locator("#notice .message")
    says(message, "The model does not fit into the memory of its devices.")
    expect(message).not_to_contain_text("Heaviest constants there", use_inner_text=True)
    message.get_by_text("More").click()
    says(message, "Heaviest constants there")


def test_a_pin_without_room_names_the_device_until_an_edit_succeeds(
    page: Page, show: Show, tmp_path: Path
) -> None:
    table = tmp_path / "small.yaml"
    table.write_text("- {name: Small, backendName: CPU, memory: 7 MB}\n- {name: CPU}\n")
    page.clock.install()
    page.goto(show(str(EXAMPLES / "models" / "mobilenetv2.onnx"), str(table)))
    ready(page)
    page.select_option("#policy", label="Optimal within memory")
    until(page, "hetero.page.view.policy === 'memory'")
    refused = page.locator("#notice .note.bad .message")
    for how in ("edit", "close", "Escape"):
        act(page, "window.hetero.paint(window.hetero.page.view.ops, 0)")
        expect(refused).to_have_text(
            re.compile(r"Small is over by [\d.]+ MB with the ops "), use_inner_text=True
        )
        page.clock.fast_forward(120_000)
        page.dispatch_event("#notice .note", "pointerleave")
        page.clock.fast_forward(120_000)
        expect(refused).to_be_visible()
        if how == "edit":
            act(page, "window.hetero.paint([window.hetero.page.view.ops[3]], 1)")
        elif how == "close":
            page.click("#notice .close")
        else:
            page.keyboard.press("Escape")
        expect(refused).to_have_count(0)


def test_devices_are_introduced_with_their_runtime(page: Page, show: Show) -> None:
    address = show(str(EXAMPLES / "models" / "mobilenetv2.onnx"), "HETERO:CPU,OpenVINO.CPU")
    page.goto(address)
    ready(page)
    says(page.locator("[data-device='CPU'] .device-what").first, "ONNX Runtime")
    rows = page.locator("#inspector .share")
    says(rows.nth(0).locator(".device-line"), "· ONNX Runtime")
    says_exactly(rows.nth(1).locator(".device-line"), "OpenVINO.CPU")
    page.mouse.move(
        *page.evaluate(
            "() => { const p = heteroCy.nodes('[fill]')[20].renderedPosition(), "
            "b = document.querySelector('#graph').getBoundingClientRect(); return [b.x + p.x, b.y + p.y]; }"
        )
    )
    says(page.locator("#hover .hover-row").first, "ONNX Runtime")
    page.click("role=tab[name=Devices]")
    says(page.locator(".device-form legend").first, "ONNX Runtime")


def test_what_was_found_is_let_go_and_stays_so(page: Page, show: Show) -> None:
    """Four seconds after Escape, the block of the first op that had been found was selected, and a key painted all of it."""
    model = str(EXAMPLES / "models" / "whisper-tiny-decoder.onnx")
    page.goto(show(model, "HETERO:CPU,OpenVINO.CPU", batch=1, sequence=8))
    ready(page)
    page.keyboard.press("Control+f")
    page.keyboard.type("softmax")
    says(page.locator("#search-note"), "select all")
    page.keyboard.press("Shift+Enter")
    expect(page.locator("#inspector").get_by_text("ops selected")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#inspector").get_by_text("Time per device")).to_be_visible()
    page.wait_for_timeout(5_000)  # blocks that are opened for an op are waited for that long
    expect(page.locator("#inspector").get_by_text("Time per device")).to_be_visible()
    assert page.evaluate("heteroCy.$(':selected').length") == 0
