"""A real server and a real Chromium for tests of the page."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import pytest
from playwright.sync_api import (
    BrowserContext,
    Error,
    Frame,
    Locator,
    Page,
    Route,
    expect,
    sync_playwright,
)

if TYPE_CHECKING:  # conftest imports this file for every test, and it takes a second
    from editor.sandbox.jobs import JobService
    from editor.web.app_state import AppState

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
CHROMIUM = next(
    (
        p
        for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
        if (p := shutil.which(name))
    ),
    None,
)
"""The shell, where there is one, needs a third less processor time than the whole browser."""
_NO_OPTIMIZER = "--js-flags=--no-turbofan --no-maglev"
"""A page of a test does not live long enough for optimized code to pay: an eighth less processor time."""
expect.set_options(timeout=30_000)  # machines are busy at times; no test is about time
READY = "window.heteroCy && window.heteroCy.nodes('[fill]').length > 0"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Server:
    """The editor as ``python app.py`` starts it."""

    def __init__(self, workspace: Path, *arguments: str) -> None:
        self.workspace, self.port, self.arguments = workspace, free_port(), arguments
        self.process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "app.py",
                "--no-token",
                *self.arguments,
                "--no-browser",
                "--port",
                str(self.port),
                "--workspace",
                str(self.workspace),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            # A busy machine may read for longer than the limit; no test of the page is about time.
            env={"HETERO_LIMIT_SECONDS": "180", **os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        assert self.url in self.said

    def stop(self, kill: bool = False) -> None:
        if self.process is not None:
            (self.process.kill if kill else self.process.terminate)()
            self.process.wait(120)  # machines are busy at times; no test is about time
            self.process = None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(
        tmp_path_factory.mktemp("workspace"), str(EXAMPLES / "models" / "mobilenetv2.onnx")
    )
    made.start()
    yield made
    made.stop()


Serve = Callable[..., Server]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts the editor with the given arguments on a workspace of its own, until the end of the test."""
    running: list[Server] = []

    def start(*arguments: str) -> Server:
        running.append(Server(tmp_path / f"workspace{len(running)}", *arguments))
        running[-1].start()
        return running[-1]

    yield start
    for each in running:
        each.stop()


@pytest.fixture(scope="session")
def page_jobs() -> Iterator[JobService]:
    """Workers that read models for the tests of this process."""
    from editor.sandbox.jobs import JobService

    made = JobService()
    yield made
    made.close()


Show = Callable[..., str]


@pytest.fixture(scope="module")
def server_state(server: Server, page_jobs: JobService) -> AppState:
    """What a second server would be on the workspace of the module's server: opens documents there."""
    from editor.web.app_state import AppState
    from editor.workspace.history import Store

    return AppState(Store(str(server.workspace)), page_jobs, None, EXAMPLES)


@pytest.fixture(scope="module")
def show(server: Server, server_state: AppState) -> Show:
    """Puts a new document into the workspace of the module's server; returns the address of its page.

    It is what the editor shows that is started with this model (or folder of models) and these devices, without the four
    seconds of processor time of another server.
    """
    from editor.devices.table import load_devices, text_of_table
    from editor.placement.placement import Settings
    from editor.web.open_request import OpenRequest
    from editor.web.sets import open_address
    from editor.workspace.model_set import is_set

    def address(path: Path | str, devices: Path | str, **define: int) -> str:
        request = OpenRequest(str(path), str(devices), define, assume_sizes=True)
        if is_set(Path(path)):
            return server.url + open_address(server_state, request)
        table = [dict(device.entry) for device in load_devices(request.devices)]
        graph = server_state.load(Path(path), define, assume_sizes=True)
        document = server_state.create(graph, table, Settings(), text_of_table(request.devices))
        return f"{server.url}/d/{document.id}"

    return address


@pytest.fixture(scope="session")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Chromium's folder: scripts are fetched and compiled once, not once per test."""
    return tmp_path_factory.mktemp("chromium")


class Chromium:
    """Chromium and the process of Playwright that drives it. Where that process has ended, the next test gets another one."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM, "no Chromium; `make test` installs it"
        self.profile = profile
        self._stack = contextlib.ExitStack()
        self._context: BrowserContext | None = None

    @property
    def context(self) -> BrowserContext:
        if self._context is not None and not _answers(self._context):
            self.close()
        if self._context is None:
            playwright = self._stack.enter_context(sync_playwright())
            self._context = self._stack.enter_context(
                playwright.chromium.launch_persistent_context(
                    self.profile,
                    executable_path=CHROMIUM,
                    args=[
                        "--no-sandbox",
                        "--disable-gpu",
                        "--renderer-process-limit=1",
                        _NO_OPTIMIZER,
                    ],
                    accept_downloads=True,
                    viewport={"width": 1280, "height": 720},
                    reduced_motion="reduce",
                )
            )
        return self._context

    def close(self) -> None:
        self._context = None
        with contextlib.suppress(Error):  # of a process that has ended
            self._stack.close()


def _answers(context: BrowserContext) -> bool:
    try:
        context.cookies()
    except Error:
        return False
    return True


@pytest.fixture(
    scope="module"
)  # not longer: Playwright keeps an event loop running, in which asyncio.run refuses
def chromium(profile: Path) -> Iterator[Chromium]:
    made = Chromium(profile)
    yield made
    made.close()


@pytest.fixture
def browser(chromium: Chromium) -> Iterator[BrowserContext]:
    """Chromium as someone has it who was never here, but for the scripts in its cache."""
    context, origins = chromium.context, set[str]()

    def note(frame: Frame) -> None:
        origins.update(re.findall(r"^http://[^/]+", frame.url))

    def watch(page: Page) -> None:
        page.on("framenavigated", note)

    context.on("page", watch)
    yield context
    context.remove_listener("page", watch)
    blank, *pages = context.pages
    for page in pages:
        page.close()
    session = context.new_cdp_session(blank)
    for origin in origins:
        session.send(
            "Storage.clearDataForOrigin",
            {"origin": origin, "storageTypes": "local_storage,indexeddb"},
        )
    session.detach()
    context.clear_cookies()
    context.clear_permissions()


@pytest.fixture
def page(browser: BrowserContext, server: Server, serve: Serve) -> Iterator[Page]:
    """A page that fails its test on any error in the console, and on any request that leaves the host.

    It is closed before the servers of its test (hence ``serve``) end: the answers to its last requests would not come.
    """
    made = browser.new_page()
    faults: list[str] = []
    made.on("pageerror", lambda error: faults.append(f"page error: {error} {error.stack}"))
    gone = "ERR_CONNECTION_REFUSED"  # the page asks once more after a test has ended its server
    made.on(
        "console",
        lambda m: (
            faults.append(f"console: {m.text}")
            if m.type == "error" and gone not in m.text
            else None
        ),
    )
    made.on(
        "request",
        lambda r: (
            faults.append(f"left the host: {r.url}")
            if not re.match(r"(https?|wss?)://127\.0\.0\.1[:/]|data:|blob:", r.url)
            else None
        ),
    )
    made.on("response", lambda r: faults.append(f"{r.status} {r.url}") if r.status >= 500 else None)
    yield made
    made.close()
    assert not faults, faults


@pytest.fixture(scope="module")
def layered(show: Show, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a model of many layers, which opens with closed blocks."""
    from conftest import write_layers

    model = write_layers(tmp_path_factory.mktemp("layered") / "layered.onnx")
    return show(model, "HETERO:GPU,CPU")


@pytest.fixture
def opened(layered: str, browser: BrowserContext) -> Page:
    """The model of many layers, with nothing pinned and no block opened."""
    page = browser.new_page()
    page.goto(layered)
    ready(page)
    if figure(page, "pins"):
        act(page, "hetero.commandOf('reset').run()")
        wait_for_figure(page, "pins", 0)
    return page


@pytest.fixture
def fresh(page: Page, tmp_path: Path, server: Server) -> Page:
    """The page on a model of its own, so that no other test's strokes and profiles are seen.

    The document is put into the workspace as another server would do it, which is faster than by way of the start page.
    """
    import editor
    from editor.devices.table import load_devices, text_of_table
    from editor.placement.placement import Settings
    from editor.workspace.history import Store
    from editor.workspace.solver import first_decisions

    model = onnx.load(EXAMPLES / "models" / "mobilenetv2.onnx")
    model.doc_string = str(tmp_path)  # profiles are kept by the content of the file
    copy = tmp_path / "fresh.onnx"
    onnx.save(model, copy)
    graph, table = editor.load_model(copy), EXAMPLES / "devices" / "runtimes.yaml"
    decisions = first_decisions(
        Settings(), [dict(d.entry) for d in load_devices(table)], text_of_table(table)
    )
    record = Store(str(server.workspace)).create(
        copy.name, str(copy), graph.sha256, graph.define, decisions
    )
    page.goto(f"{server.url}/d/{record.id}")
    ready(page)
    return page


def ready(page: Page) -> None:
    until(page, READY, timeout=30_000)
    page.wait_for_timeout(300)


def type_devices(page: Page, spec: str) -> None:
    """Writes a device table on the start page."""
    if not page.locator("#devices-spec").is_visible():
        page.click("text=Type a device table")
    page.fill("#devices-spec", spec)


def until(page: Page, expression: str, arg: object = None, timeout: float = 30_000) -> None:
    """Waits until a script says yes. Playwright's own way evaluates text in the page, which the page's policy forbids."""
    end = time.monotonic() + timeout / 1000
    while True:
        try:
            if page.evaluate(expression, arg):
                return
        except Error as error:  # while the page is being replaced
            if "Execution context was destroyed" not in error.message:
                raise
        assert time.monotonic() < end, f"never true: {expression}"
        page.wait_for_timeout(50)


def hold(page: Page, pattern: str) -> Callable[[], None]:
    """Keeps requests back until the function that it returns is called."""
    held: list[Route] = []
    waiting = [True]

    def handle(route: Route) -> None:
        (held.append if waiting else Route.continue_)(route)

    def let_go() -> None:
        waiting.clear()
        for route in held:
            route.continue_()

    page.route(pattern, handle)
    return let_go


def act(page: Page, script: str) -> None:
    """Runs a script for what it does. What Cytoscape returns is the whole graph: sending it has crashed a renderer."""
    page.evaluate(f"() => {{ {script} }}")


Text = str | re.Pattern[str]


def says(
    element: Locator, text: Text, timeout: float | None = None, ignore_case: bool | None = None
) -> None:
    """Asserts that an element is visible and shows a text. What a closed part of it holds is not shown."""
    expect(element.filter(visible=True)).to_contain_text(
        text, use_inner_text=True, timeout=timeout, ignore_case=ignore_case
    )


def says_exactly(element: Locator, text: Text | list[str], timeout: float | None = None) -> None:
    """Asserts that an element is visible and shows a text and no other, or, given several, that as many elements do."""
    expect(element.filter(visible=True)).to_have_text(text, use_inner_text=True, timeout=timeout)


def figure(page: Page, name: str) -> int:
    return int(page.locator(f"[data-figure={name}]").get_attribute("data-value") or -1)


def wait_for_figure(page: Page, name: str, value: int) -> None:
    expect(page.locator(f"[data-figure={name}]")).to_have_attribute("data-value", str(value))


def node_at(page: Page, number: int) -> tuple[float, float]:
    """Where the n-th op is on the screen, after bringing it there."""
    x, y = page.evaluate(
        """async (i) => {
        const cy = window.heteroCy, node = cy.nodes('.op')[i];
        cy.stop(); cy.zoom(0.7); cy.center(node);
        await new Promise((r) => setTimeout(r, 80));
        const p = node.renderedPosition(), box = cy.container().getBoundingClientRect();
        return [p.x + box.left, p.y + box.top];
    }""",
        number,
    )
    return float(x), float(y)


def fold_out(page: Page, group: str) -> None:
    """Opens a group of the menu of exports."""
    page.get_by_role("menuitem", name=group).click()


def fills(page: Page) -> list[str]:
    found: list[str] = page.evaluate(
        "window.heteroCy.nodes('.op').map((n) => n.style('background-color'))"
    )
    return found
