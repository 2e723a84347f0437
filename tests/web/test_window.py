"""``--window`` shows the page with what is there, and says what it needs where nothing works."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import EXAMPLES

from editor.web.launch import default_devices, open_window

ADDRESS = "http://127.0.0.1:8050/?token=abc"


def _program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which programs are looked for; no pywebview, and a browser for tabs that notes the address."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("editor.web.launch.find_spec", lambda _: None)
    monkeypatch.setattr("editor.web.launch._WINDOW_SECONDS", 1.0)
    monkeypatch.setattr("webbrowser.open", (tmp_path / "tab").write_text)
    return tmp_path


def test_a_browser_shows_the_page_in_a_window_of_its_own(programs: Path) -> None:
    _program(programs, "chromium", f'echo "$@" > {programs}/window; exec /bin/sleep 2')
    open_window(ADDRESS)
    assert (programs / "window").read_text().split()[0] == f"--app={ADDRESS}"
    assert not (programs / "tab").exists()


def test_a_browser_that_runs_already_opens_the_window_and_ends(programs: Path) -> None:
    _program(programs, "google-chrome", "exit 0")
    open_window(ADDRESS)
    assert not (programs / "tab").exists()


def test_what_ends_with_an_error_makes_room_for_the_next(
    programs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _program(programs, "chromium", "exit 1")  # as for root
    _program(programs, "google-chrome", f"echo next > {programs}/window; exec /bin/sleep 2")
    open_window(ADDRESS)
    assert (programs / "window").read_text() == "next\n"
    assert "chromium showed no window: it ended with status 1" in caplog.text


@pytest.mark.parametrize("there", [False, True])
def test_where_nothing_shows_a_window_a_tab_is_opened_and_said(
    programs: Path, there: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    if there:
        _program(programs, "chromium", "exit 1")
    open_window(ADDRESS)
    assert (programs / "tab").read_text() == ADDRESS
    said = capsys.readouterr().err
    assert (
        "none of these shows one here" if there else "none is here"
    ) in said and "pywebview" in said


def test_a_model_of_ones_own_opens_with_what_is_here(tmp_path: Path) -> None:
    """The table of the bundled models excludes ops, so that they have something to show."""
    assert default_devices(str(tmp_path / "mine.onnx")) == "HETERO" == default_devices(None)
    assert default_devices(str(EXAMPLES / "models" / "mobilenetv2.onnx")).endswith("runtimes.yaml")
