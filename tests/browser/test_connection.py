"""Several tabs and servers on one workspace, and servers and databases that go away."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import EXAMPLES
from pages import Server, act, figure, hold, ready, says, until, wait_for_figure
from playwright.sync_api import BrowserContext, Page, expect

MODEL = str(EXAMPLES / "models" / "mobilenetv2.onnx")
Tab = Callable[[str], Page]


@pytest.fixture
def tab(browser: BrowserContext) -> Tab:
    """Opens pages whose console may have errors: requests to a server that is gone are such."""

    def open_tab(url: str) -> Page:
        page = browser.new_page()
        page.goto(url)
        ready(page)
        return page

    return open_tab


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "workspace", MODEL)
    made.start()
    yield made
    made.stop()


def paint(page: Page, op: int) -> None:
    act(page, f"window.hetero.paint([window.hetero.page.view.ops[{op}]], 1, true)")


def shows(page: Page, pins: int) -> None:
    """Waits until the figures and the graph have so many pins."""
    wait_for_figure(page, "pins", pins)
    until(page, "(n) => window.hetero.page.view.pin.filter((pin) => pin).length === n", pins)


def message(page: Page, text: str) -> None:
    says(page.locator("#notice"), text)


def test_every_tab_sees_what_another_one_did(own_server: Server, tab: Tab) -> None:
    first = tab(own_server.url)
    second = tab(first.url)
    paint(first, 3)
    shows(first, 1)
    until(second, "window.hetero.page.view.pin.some((pin) => pin)")
    message(second, "Tab 1 changed the plan")
    paint(second, 5)
    shows(second, 2)
    until(first, "window.hetero.page.view.pin.filter((pin) => pin).length === 2", timeout=5000)


def test_what_another_tab_undid_stays_in_the_history_as_a_branch(
    own_server: Server, tab: Tab
) -> None:
    """The loss of the review: 152 ops pinned in one tab, undone in another, gone with the next stroke of the first."""
    first = tab(own_server.url)
    second = tab(first.url)
    act(first, "window.hetero.paint(window.hetero.page.view.ops.slice(0, 60), 1, true)")
    shows(first, 60)
    shows(second, 60)
    second.keyboard.press("Control+z")
    shows(second, 0)
    shows(first, 0)
    message(first, "undo 60 ops")
    paint(first, 70)
    shows(first, 1)
    branch = first.locator("#history .step.branch")
    expect(branch).to_have_count(1)
    # While the list is drawn anew, as of the stroke before, a click is lost; a person clicks again.
    for _ in range(3):
        act(first, "document.querySelector('#history .step.branch').click()")
        with suppress(AssertionError):
            expect(first.locator("[data-figure=pins]")).to_have_attribute(
                "data-value", "60", timeout=8_000
            )
            break
    shows(first, 60)
    shows(second, 60)


def test_an_undo_does_not_take_back_what_was_not_seen(own_server: Server, tab: Tab) -> None:
    first = tab(own_server.url)
    second = tab(first.url)
    act(
        second,
        "window.stop; window.fetch = ((real) => (url, options) => "
        "String(url).endsWith('/status') ? new Promise(() => {}) : real(url, options))(window.fetch)",
    )
    second.wait_for_timeout(1500)  # a question that is under way may still be answered
    paint(first, 3)
    shows(first, 1)
    assert figure(second, "pins") == 0
    second.keyboard.press("Control+z")
    message(second, "It is shown now")
    shows(second, 1)
    second.keyboard.press("Control+z")
    shows(second, 0)


def test_two_servers_on_one_workspace_lose_no_stroke(own_server: Server, tab: Tab) -> None:
    other = Server(own_server.workspace, MODEL)
    other.start()
    try:
        pages = [tab(own_server.url), tab(other.url)]
        assert pages[0].url.split("/d/")[1] == pages[1].url.split("/d/")[1]
        for op in range(40):
            paint(pages[op % 2], op)
        for page in pages:
            shows(page, 40)
        paint(pages[0], 40)
        message(pages[1], f":{own_server.port} changed the plan")
    finally:
        other.stop()


def test_a_killed_server_is_said_and_strokes_wait_for_it(own_server: Server, tab: Tab) -> None:
    page = tab(own_server.url)
    paint(page, 3)
    shows(page, 1)
    act(page, "window.heteroCy.nodes('.op')[3].select()")
    expect(page.locator("#inspector h3").first).to_be_visible()
    own_server.stop(kill=True)
    says(page.locator("#connection"), "No connection to the server")
    paint(page, 5)
    paint(page, 6)
    says(page.locator("#connection"), "2 changes wait")
    act(page, "document.querySelector('#inspector').replaceChildren()")
    own_server.start()
    expect(page.locator("#connection")).to_be_hidden()
    shows(page, 3)
    expect(page.locator("#inspector h3").first).to_be_visible()
    page.keyboard.press("Control+z")
    shows(page, 2)


def test_strokes_that_wait_can_be_taken_back(own_server: Server, tab: Tab) -> None:
    page = tab(own_server.url)
    before = page.evaluate("window.heteroCy.nodes('.op').map((n) => n.data('fill')).join()")
    own_server.stop(kill=True)
    expect(page.locator("#connection")).to_be_visible()
    paint(page, 5)
    page.get_by_role("button", name="Take back").hover()
    page.mouse.down()
    page.wait_for_timeout(1500)  # the page has asked for the server three times meanwhile
    page.mouse.up()
    assert page.evaluate("window.heteroCy.nodes('.op').map((n) => n.data('fill')).join()") == before
    own_server.start()
    expect(page.locator("#connection")).to_be_hidden()
    paint(page, 7)
    shows(page, 1)


def test_a_stopped_server_is_said_too(own_server: Server, tab: Tab) -> None:
    page = tab(own_server.url)
    assert own_server.process is not None
    os.kill(own_server.process.pid, signal.SIGSTOP)
    try:
        expect(page.locator("#connection")).to_be_visible()
        paint(page, 3)
    finally:
        os.kill(own_server.process.pid, signal.SIGCONT)
    expect(page.locator("#connection")).to_be_hidden()
    shows(page, 1)


def test_a_locked_database_is_said_and_strokes_wait_until_it_is_free(
    own_server: Server, tab: Tab
) -> None:
    page = tab(own_server.url)
    other = sqlite3.connect(own_server.workspace / "workspace.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    paint(page, 3)
    says(page.locator("#connection"), "another program")
    paint(page, 4)
    says(page.locator("#connection"), "2 changes wait")
    other.execute("ROLLBACK")
    expect(page.locator("#connection")).to_be_hidden()
    shows(page, 2)
    assert [row[0] for row in other.execute("SELECT number FROM revisions ORDER BY number")] == [
        0,
        1,
        2,
    ]


def test_a_database_that_cannot_be_written_is_said(own_server: Server, tab: Tab) -> None:
    """A trigger refuses, as a full disk or a read-only file does; reading works."""
    page = tab(own_server.url)
    other = sqlite3.connect(own_server.workspace / "workspace.db", isolation_level=None)
    other.execute(
        "CREATE TRIGGER full BEFORE INSERT ON revisions BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
    )
    paint(page, 3)
    says(page.locator("#connection"), "the disk is full. 1 change waits")
    other.execute("DROP TRIGGER full")
    expect(page.locator("#connection")).to_be_hidden()
    shows(page, 1)


def test_a_page_goes_on_after_a_restart_where_a_token_is_needed(
    tmp_path: Path, browser: BrowserContext
) -> None:
    server = Server(tmp_path / "workspace", "--token", MODEL)
    server.start()
    try:
        page = browser.new_page()
        page.goto(server.said.split()[4])  # with the token
        ready(page)
        server.stop(kill=True)
        expect(page.locator("#connection")).to_be_visible()
        paint(page, 3)
        server.start()
        shows(page, 1)
        expect(page.locator("#connection")).to_be_hidden()
    finally:
        server.stop()


def test_a_run_that_ends_before_the_page_follows_it_is_in_the_headline(
    own_server: Server, browser: BrowserContext
) -> None:
    """The ribbon had what was measured, and the headline beside it an estimate."""
    page, other = browser.new_page(), browser.new_page()
    let_go = hold(page, "**/runs/events")
    badge = "#verdict [data-kind]"
    for each in (page, other):
        each.goto(own_server.url)
        ready(each)
        expect(each.locator(badge).first).to_have_attribute("data-kind", "estimate")
    other.click("role=tab[name=Benchmark]")
    other.fill("#bench-seconds", "0.5")
    other.click("#bench-start")
    measured = expect(other.locator(badge).first)
    measured.to_have_attribute("data-kind", "measurement", timeout=60_000)
    expect(page.locator(badge).first).to_have_attribute("data-kind", "estimate")
    let_go()
    expect(page.locator(badge).first).to_have_attribute("data-kind", "measurement")
