"""The page for everyone: no barriers in any dialog or tab, nothing out of reach at 200 % zoom."""

from __future__ import annotations

import json

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import EXAMPLES
from pages import Server, act, hold, ready, says, type_devices, until, wait_for_figure
from playwright.sync_api import BrowserContext, Page, expect

_OUT_OF_REACH = """() => {
    const lost = [];
    for (const e of document.querySelectorAll('button, input, [role=tab], [role=menuitem], [role=option], a')) {
        const seen = e.checkVisibility({ visibilityProperty: true, opacityProperty: true });
        if (e.disabled || !seen || e.type === "file") continue;
        e.scrollIntoView({ block: 'nearest', inline: 'nearest' });
        const box = e.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
        if (!box.width || e.closest('.unseen')) continue;
        const at = document.elementFromPoint(x, y);
        if (!at || !(e.contains(at) || at.contains(e))) lost.push(e.outerHTML.slice(0, 120));
    }
    scrollTo(0, 0);
    return lost;
}"""


def serious(page: Page, part: str) -> list[tuple[str, str, str]]:
    found = Axe().run(
        page, context=part, options={"resultTypes": ["violations"]}
    )  # the rest would take as long again
    return [
        (v["id"], str(n["target"]), n["html"][:120])
        for v in found.response["violations"]
        if v["impact"] in ("serious", "critical")
        for n in v["nodes"]
    ]


def test_no_dialog_menu_or_tab_has_barriers_that_axe_can_find(fresh: Page) -> None:
    page, found = fresh, {}

    def look(what: str, part: str = "body") -> None:
        """Looks for barriers in the part of the page that has changed."""
        page.wait_for_timeout(300)
        found[what] = serious(page, part)

    def leave() -> None:
        page.keyboard.press("Escape")
        page.wait_for_timeout(300)

    look("as it opens")
    page.click("#export")
    expect(page.get_by_role("menuitem").first).to_be_visible()
    look("export", ".menu-groups")
    leave()
    for tab in ("Memory", "Benchmark", "Compare"):  # which are higher in a wide window
        page.get_by_role("tab", name=tab).click()
        assert page.evaluate(_OUT_OF_REACH) == [], tab
    for key, dialog in (("?", "#help"), ("Control+k", "#palette")):
        page.keyboard.press(key)
        expect(page.locator(dialog)).to_be_visible()
        look(dialog, dialog)
        leave()
    page.click("#find")
    page.keyboard.type("conv")
    expect(page.locator("#search-list [role=option]").first).to_be_visible()
    look("search")
    leave()
    leave()
    page.click("#colour-by")
    look("a list that is open")
    leave()
    box = page.locator("#graph").bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] - 12, button="right")
    expect(page.locator("#context-menu")).to_be_visible()
    look("context menu", "#context-menu")
    leave()
    act(page, "hetero.commandOf('map-toggle').run()")
    look("map")
    act(page, "hetero.commandOf('map-toggle').run()")
    page.keyboard.press("Shift+T")
    look("legend")
    page.keyboard.press("Shift+T")
    for name in ("Subgraphs", "Transfers", "Benchmark", "Devices", "Rules", "Compare"):
        page.get_by_role("tab", name=name).click()
        if name == "Subgraphs":
            expect(page.locator("#subgraphs .ag-header-cell").first).to_be_visible()
            page.get_by_label("Columns of the table").first.click()
        if name == "Rules":
            page.click("[data-rules=add]")
        if name == "Compare":
            page.click("[data-pane='this plan']")
            page.click("[data-pane='all on ONNX Runtime']")
        look(name, "#dock")
    page.click("#panes-open")
    until(page, "document.querySelectorAll('#panes canvas').length > 0")
    look("panes")
    page.click("[data-panes-close]")
    page.evaluate("hetero.paint([hetero.page.view.ops[3]], 1)")
    expect(page.locator("#pins [data-unpin-op]")).to_have_count(1)
    look("pins")
    assert not any(found.values()), json.dumps(found, indent=1)


def test_at_200_percent_everything_can_be_reached(browser: BrowserContext, server: Server) -> None:
    """1440 x 900 at 200 % has the room of 720 x 450."""
    page = browser.new_page()
    page.set_viewport_size({"width": 720, "height": 450})
    page.goto(f"{server.url}/open")
    page.wait_for_selector("#start")
    until(page, f"({_OUT_OF_REACH})().length === 0")  # once it has been laid out
    assert (
        page.evaluate("document.documentElement.scrollWidth") <= 720
        and page.evaluate(_OUT_OF_REACH) == []
    )
    page.fill("#path", str(EXAMPLES / "models" / "mobilenetv2.onnx"))
    type_devices(page, "runtimes.yaml")
    page.click("#open-path")
    ready(page)
    graph = page.locator("#graph").bounding_box()
    assert graph and graph["width"] > 600 and graph["height"] > 200
    assert page.evaluate("document.documentElement.scrollWidth") <= 720
    assert page.evaluate(_OUT_OF_REACH) == [], "the page itself"
    for key, dialog in (("?", "#help"), ("Control+k", "#palette")):
        page.keyboard.press(key)
        box = page.locator(dialog).bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= 720 and box["y"] >= 0
        page.locator(f"{dialog} tr, {dialog} [role=option]").last.scroll_into_view_if_needed()
        expect(page.locator(f"{dialog} tr, {dialog} [role=option]").last).to_be_in_viewport()
        page.keyboard.press("Escape")
    page.click("#export")
    last = page.get_by_role("menuitem").last
    last.scroll_into_view_if_needed()
    expect(last).to_be_in_viewport()
    page.close()


def test_the_graph_gives_no_warning_and_the_wheel_zooms(
    browser: BrowserContext, server: Server
) -> None:
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda m: said.append(m.text) if m.type == "warning" else None)
    page.goto(server.url)
    ready(page)
    before = page.evaluate("heteroCy.zoom()")
    box = page.locator("#graph").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.wheel(0, -30)
    until(page, f"heteroCy.zoom() > {before}")
    assert page.evaluate("heteroCy.zoom()") < 3 * before
    page.close()
    assert said == []


def test_what_takes_longer_than_half_a_second_says_so(fresh: Page) -> None:
    page = fresh
    bar = page.locator("#waiting")
    let_go = hold(page, "**/_dash-update-component*")
    page.click("#export")
    page.get_by_role("menuitem", name="Report, Markdown").click()
    expect(bar).to_have_text("Working …")  # for screen readers, not for eyes
    expect(page.locator("#solving")).to_be_hidden()
    expect(page.locator("#export")).to_have_attribute("aria-busy", "true")
    with page.expect_download():
        let_go()
    expect(bar).to_be_hidden()
    let_go = hold(page, "**/edits")
    act(page, "hetero.paint([hetero.page.view.ops[3]], 1)")
    expect(bar).to_be_visible()
    expect(bar).to_have_text("Solving the placement …")  # for screen readers, not for eyes
    expect(page.locator("#solving").get_by_role("button", name="Cancel")).to_be_visible()
    let_go()
    wait_for_figure(page, "pins", 1)
    expect(bar).to_be_hidden()


@pytest.mark.parametrize(("motion", "moves"), [("reduce", False), ("no-preference", True)])
def test_who_wants_no_motion_sees_the_view_move_at_once(
    page: Page, server: Server, motion: str, moves: bool
) -> None:
    page.emulate_media(reduced_motion=motion)  # type: ignore[arg-type]
    page.goto(server.url)
    ready(page)
    act(
        page,
        """window.durations = [];
        const cy = window.heteroCy, animate = cy.animate;
        cy.animate = (to, ...rest) => { window.durations.push(to.duration); return animate.call(cy, to, ...rest); };
        cy.zoom(3);""",
    )
    page.keyboard.press("f")
    until(page, "window.heteroCy.zoom() < 3 && !window.heteroCy.animated()")
    assert [duration > 0 for duration in page.evaluate("window.durations")] == [moves]


@pytest.mark.parametrize(("motion", "fades"), [("reduce", False), ("no-preference", True)])
def test_ops_that_are_placed_anew_fade_to_their_colour(
    fresh: Page, motion: str, fades: bool
) -> None:
    page = fresh
    page.emulate_media(reduced_motion=motion)  # type: ignore[arg-type]
    act(
        page,
        """window.faded = 0;
        const kind = Object.getPrototypeOf(window.heteroCy.nodes()), animate = kind.animate;
        kind.animate = function (...how) { window.faded += 1; return animate.apply(this, how); };
        window.before = window.heteroCy.nodes('.op').map((n) => n.data('fill')).join();""",
    )
    page.select_option("#policy", "optimal:throughput")
    says(page.locator("#history"), "hroughput")
    until(page, "!window.heteroCy.nodes().some((node) => node.animated())")
    colours = page.evaluate(
        """window.heteroCy.nodes('.op').map((n) => [n.style('background-color'), n.data('fill')])"""
    )
    assert page.evaluate(
        "window.heteroCy.nodes('.op').map((n) => n.data('fill')).join() !== before"
    )
    assert page.evaluate("window.faded > 0") == fades
    assert all(shown.replace(" ", "") == _rgb(fill) for shown, fill in colours)


def _rgb(colour: str) -> str:
    return "rgb({},{},{})".format(*(int(colour[i : i + 2], 16) for i in (1, 3, 5)))
