"""A real server and a real Chromium for tests of the page."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
CHROMIUM = next((p for name in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(name))), None)
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
            [sys.executable, "app.py", *self.arguments, "--no-browser", "--port", str(self.port), "--workspace",
             str(self.workspace)], cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        assert self.process.stdout is not None
        assert self.url in self.process.stdout.readline()

    def stop(self, kill: bool = False) -> None:
        if self.process is not None:
            (self.process.kill if kill else self.process.terminate)()
            self.process.wait(20)
            self.process = None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("workspace"), str(EXAMPLES / "models" / "mobilenetv2.onnx"))
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM, "no Chromium; `make test` installs it"
    with sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield instance
        instance.close()


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    """A page that fails its test on any error in the console, and on any request that leaves the host."""
    context = browser.new_context(viewport={"width": 1280, "height": 720}, accept_downloads=True)
    made = context.new_page()
    faults: list[str] = []
    made.on("pageerror", lambda error: faults.append(f"page error: {error}"))
    made.on("console", lambda m: faults.append(f"console: {m.text}") if m.type == "error" else None)
    made.on("request", lambda r: faults.append(f"left the host: {r.url}")
            if not re.match(r"(https?|wss?)://127\.0\.0\.1[:/]|data:|blob:", r.url) else None)
    made.on("response", lambda r: faults.append(f"{r.status} {r.url}") if r.status >= 500 else None)
    yield made
    context.close()
    assert not faults


def ready(page: Page) -> None:
    page.wait_for_function(READY, timeout=30_000)
    page.wait_for_timeout(300)


def act(page: Page, script: str) -> None:
    """Runs a script for what it does. What Cytoscape returns is the whole graph: sending it has crashed a renderer."""
    page.evaluate(f"() => {{ {script} }}")


def figure(page: Page, name: str) -> int:
    return int(page.locator(f"[data-figure={name}]").get_attribute("data-value") or -1)


def wait_for_figure(page: Page, name: str, value: int) -> None:
    expect(page.locator(f"[data-figure={name}]")).to_have_attribute("data-value", str(value))


def node_at(page: Page, number: int) -> tuple[float, float]:
    """Where the n-th op is on the screen, after bringing it there."""
    x, y = page.evaluate("""async (i) => {
        const cy = window.heteroCy, node = cy.nodes('.op')[i];
        cy.stop(); cy.zoom(0.7); cy.center(node);
        await new Promise((r) => setTimeout(r, 80));
        const p = node.renderedPosition(), box = cy.container().getBoundingClientRect();
        return [p.x + box.left, p.y + box.top];
    }""", number)
    return float(x), float(y)


def fills(page: Page) -> list[str]:
    found: list[str] = page.evaluate("window.heteroCy.nodes('.op').map((n) => n.style('background-color'))")
    return found
