"""The widget in a real JupyterLab. `make test-optional` installs both."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import onnx
import pytest
from conftest import ROOT
from onnx import TensorProto, helper
from pages import free_port, says, says_exactly
from playwright.sync_api import BrowserContext, FloatRect, Locator, Page, expect

for package in ("anywidget", "jupyterlab", "ipykernel"):
    pytest.importorskip(package, reason=f"the package {package} is not installed")

HOSTILE = "<img src=x onerror=document.title='owned'>"
CELLS = (
    """import editor
devices = [{"name": "ort", "backendName": "CPU"}]
devices.append({"name": "ref", "backendName": "Interpreter", "nonSupportedNodes": ["Tanh"]})
w = editor.partition("net.onnx", devices).widget()
w""",
    'print("on", w.plan.affinity["t1"], sorted(w.plan.pins))',
)
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


def write_model(path: Path) -> None:
    ops = [("Relu", HOSTILE), ("Tanh", "middle"), ("Neg", "last")]
    nodes = [
        helper.make_node(kind, [f"t{i}"], [f"t{i + 1}"], name) for i, (kind, name) in enumerate(ops)
    ]
    value = helper.make_tensor_value_info
    ends = [value("t0", TensorProto.FLOAT, [4])], [value("t3", TensorProto.FLOAT, [4])]
    graph = helper.make_graph(nodes, "net", *ends)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, path)


def write_notebook(path: Path) -> None:
    cells = [
        {
            "cell_type": "code",
            "id": f"cell{i}",
            "metadata": {},
            "source": source,
            "outputs": [],
            "execution_count": None,
        }
        for i, source in enumerate(CELLS)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    head = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}}
    path.write_text(json.dumps(head | {"cells": cells}))


def write_settings(folder: Path, name: str, **settings: object) -> None:
    path = folder / f"{name}.jupyterlab-settings"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a JupyterLab, and the folder of its settings. It keeps its files in a folder of the test."""
    base, port = tmp_path_factory.mktemp("lab"), free_port()
    for name in ("root", "config", "data", "runtime", "ipython", "settings"):
        (base / name).mkdir()
    write_model(base / "root" / "net.onnx")
    for theme in THEMES:
        write_notebook(base / "root" / f"{theme}.ipynb")
    settings = base / "settings" / "@jupyterlab"
    write_settings(
        settings, "apputils-extension/notification", fetchNews="false", checkForUpdates=False
    )
    own = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "IPYTHONDIR": "ipython",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
    }
    with (base / "log").open("w") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
                *("--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"),
                *("--IdentityProvider.token=", f"--ServerApp.root_dir={base / 'root'}"),
            ],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT)}
            | {name: str(base / folder) for name, folder in own.items()},
        )
        try:
            address = f"http://127.0.0.1:{port}"
            while not answers(address):
                assert process.poll() is None, (base / "log").read_text()
            yield address, settings
        finally:
            process.terminate()
            process.wait(120)


def answers(address: str) -> bool:
    try:
        with urlopen(f"{address}/api/status", timeout=10):
            return True
    except (URLError, OSError):
        return False


@pytest.fixture
def elsewhere() -> list[str]:
    """Requests that leave the host."""
    return []


def open_notebook(browser: BrowserContext, address: str, name: str, elsewhere: list[str]) -> Page:
    page = browser.new_page()
    page.on(
        "request",
        lambda r: (
            elsewhere.append(r.url)
            if not re.match(r"(https?|wss?)://127\.0\.0\.1[:/]|data:|blob:", r.url)
            else None
        ),
    )
    page.add_locator_handler(page.locator(".jp-Dialog"), answer)  # it may come at any time
    page.goto(f"{address}/lab/workspaces/{name}/tree/{name}.ipynb")
    run_cell(page, 0)
    expect(page.locator(".hetero-plan canvas")).to_be_visible(timeout=120_000)
    return page


def answer(dialog: Locator) -> None:
    """Answers which kernel, or whether to build what Dash brings for JupyterLab."""
    build = dialog.get_by_text("Build Recommended").is_visible()
    dialog.get_by_role("button", name="Cancel" if build else "Select").click()


def run_cell(page: Page, number: int) -> Locator:
    """Runs a cell; returns what it shows. A key that is pressed before the kernel is there runs nothing, or asks for one."""
    cell = page.locator(".jp-Notebook .jp-Cell").nth(number)
    prompt = cell.locator(".jp-InputArea-prompt")
    before, started = prompt.inner_text(), time.monotonic()
    ran = re.compile(rf"^(?!{re.escape(before)}$)\[[*\d]")
    while not ran.match(prompt.inner_text()):
        assert time.monotonic() < started + 120, "the cell does not run"
        cell.locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
        with contextlib.suppress(AssertionError):
            says_exactly(prompt, ran, timeout=5_000)
    return cell.locator(".jp-OutputArea")


def seen(page: Page) -> FloatRect:
    """Where the canvas is, in the middle of the window."""
    canvas = page.locator(".hetero-plan canvas")
    canvas.evaluate("canvas => canvas.scrollIntoView({ block: 'center' })")
    box = canvas.bounding_box()
    assert box is not None
    return box


def place_of(page: Page, words: str) -> tuple[float, float]:
    """Where the pointer finds an op, by its tooltip."""
    box = seen(page)
    for y in range(4, int(box["height"]), 12):
        at = box["x"] + box["width"] / 2, box["y"] + y
        page.mouse.move(*at)
        tip = page.locator(".hetero-plan [role=tooltip]")
        if tip.is_visible() and words in tip.inner_text():
            return at
    raise AssertionError(f"no op says {words!r}")


@pytest.mark.parametrize("theme", THEMES)
def test_an_op_is_painted_in_a_cell_and_the_next_cell_has_the_plan(
    theme: str,
    lab: tuple[str, Path],
    browser: BrowserContext,
    elsewhere: list[str],
) -> None:
    address, settings = lab
    write_settings(settings, "apputils-extension/themes", theme=THEMES[theme])
    page = open_notebook(browser, address, theme, elsewhere)
    widget = page.locator(".hetero-plan")
    status = widget.get_by_role("status")
    says(status, "1 subgraph · 0 transfers · 0 pins")
    assert ("dark" in (widget.get_attribute("class") or "")) == (theme == "dark")

    widget.get_by_role("button", name="ref").click()
    page.mouse.click(*place_of(page, HOSTILE))
    says(status, "2 subgraphs · 1 transfer · 1 pin")
    page.mouse.click(*place_of(page, "middle"))
    says(status, "ref cannot run middle (Tanh): ")

    says(run_cell(page, 1), "on ref ['t1']")
    if pictures := os.environ.get("HETERO_PICTURES"):
        page.mouse.move(*place_of(page, HOSTILE))
        page.screenshot(path=f"{pictures}/widget-{theme}.png")

    widget.get_by_role("button", name="ort").click()
    canvas = seen(page)
    page.mouse.move(canvas["x"] + 4, canvas["y"] + 4)
    page.mouse.down()
    page.mouse.move(canvas["x"] + canvas["width"] - 4, canvas["y"] + canvas["height"] - 4, steps=4)
    page.mouse.up()
    says(status, "1 subgraph · 0 transfers · 3 pins")
    widget.get_by_role("button", name="Undo").click()
    says(status, "1 pin")
    widget.get_by_role("button", name="Unpin").click()
    page.mouse.click(*place_of(page, HOSTILE))
    says(status, "1 subgraph · 0 transfers · 0 pins")

    says(run_cell(page, 1), "on ort []")
    cells = page.locator(".jp-Notebook .jp-CodeCell").count()
    widget.locator("canvas").focus()
    page.keyboard.press("2")  # in a notebook, a key that makes a heading of the cell
    expect(widget.get_by_role("button", name="ref")).to_have_attribute("aria-pressed", "true")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "Space"):
        page.keyboard.press(key)
    says(status, "2 subgraphs · 1 transfer · 1 pin")
    page.keyboard.press("v")  # in a notebook, it pastes cells
    expect(widget.get_by_role("button", name="Move")).to_have_attribute("aria-pressed", "true")
    says(run_cell(page, 1), "on ort ['t3']")
    assert page.locator(".jp-Notebook .jp-CodeCell").count() == cells
    assert widget.locator("img").count() == 0
    assert "owned" not in page.title()
    assert elsewhere == []
