"""The documentation builds, loads nothing from the network, and shows what the commands really print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import ROOT

pytestmark = pytest.mark.slow

sys.path.append(str(ROOT / "docs" / "_tools"))

import tutorials  # noqa: E402

_LOADING = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "audio": "src",
    "video": "src",
    "object": "data",
    "embed": "src",
}
_LOADING_LINKS = {
    "stylesheet",
    "icon",
    "preload",
    "prefetch",
    "preconnect",
    "modulepreload",
    "dns-prefetch",
    "manifest",
}
_EXTERNAL = re.compile(r"\s*(?:https?:)?//")
_MEASURES = re.compile(
    r"^hetero-editor (devices|bench|profile|tune)\b|--costs measured|run\.py|profile\.json"
)
"""Commands whose output differs from machine to machine: only their exit status is compared."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class _Loads(HTMLParser):
    """Collects what a browser loads by itself when it shows a page."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag in _LOADING and _LOADING[tag] in values:
            self.urls.append(values[_LOADING[tag]])
        if tag == "link" and _LOADING_LINKS & set(values.get("rel", "").split()):
            self.urls.append(values.get("href", ""))


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        loads = _Loads()
        loads.feed(page.read_text())
        assert [url for url in loads.urls if _EXTERNAL.match(url)] == [], page
    for sheet in site.rglob("*.css"):
        urls = re.findall(r"""(?:url\(\s*|@import\s+)["']?([^"')]+)""", sheet.read_text())
        assert [url for url in urls if _EXTERNAL.match(url)] == [], sheet


def test_every_command_is_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "cli.html").read_text()
    help_text = subprocess.run(
        [sys.executable, "-m", "editor", "--help"],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    commands = re.findall(r"^    ([a-z-]+)\b", help_text, re.M)
    assert "partition" in commands
    for command in commands:
        assert f"usage: hetero-editor {command} " in page


def test_the_api_page_documents_the_public_names(site: Path) -> None:
    page = (site / "reference" / "python.html").read_text()
    for name in ("load_model", "partition", "Plan", "repin", "load_plan", "UnboundSymbolError"):
        assert f">{name}<" in page


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, list[tutorials.Step]]:
    """All pages with commands, run two at a time; what one measured does not change what another prints."""
    cache = tmp_path_factory.mktemp("cache")

    def run(page: Path) -> list[tutorials.Step]:
        return list(
            tutorials.run(
                page, tmp_path_factory.mktemp(page.stem), draw=False, cache=cache / page.stem
            )
        )

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(tutorials.PAGES, pool.map(run, tutorials.PAGES), strict=True))


@pytest.mark.parametrize("page", tutorials.PAGES, ids=lambda page: page.stem)
def test_a_page_shows_what_its_commands_print(
    page: Path, steps: dict[Path, list[tutorials.Step]]
) -> None:
    assert steps[page]
    for step in steps[page]:
        assert step.status == step.wanted, f"{step.command}\n{step.printed}"
        assert _MEASURES.search(step.command) or step.printed.strip() == step.shown.strip(), (
            f"{step.command}\nIf the new output is right: python docs/_tools/tutorials.py {page.relative_to(ROOT)}"
        )
