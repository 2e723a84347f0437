"""The documentation builds, loads nothing from the network, and shows what the commands really print."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import ROOT, python

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
    done = python(
        "-m", "mkdocs", "build", "--strict", "--site-dir", folder, cwd=ROOT, NO_MKDOCS_2_WARNING="1"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.parametrize(
    "link", ["[a](nowhere.md)", "[a](reference/rules.md#nowhere)", "[a](/index.md)"]
)
def test_a_wrong_link_ends_the_build(link: str, tmp_path: Path) -> None:
    """Before, `--quiet` hid the warnings that `--strict` counts."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for name in (
        "editor",
        "examples",
        "benchmarks",
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text())
    with (tmp_path / "docs" / "agents.md").open("a") as page:
        page.write(f"\n{link}\n")
    done = python(
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        tmp_path / "site",
        cwd=tmp_path,
        NO_MKDOCS_2_WARNING="1",
    )
    assert done.returncode != 0
    assert "agents.md" in done.stderr


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
    help_text = python("-m", "editor", "--help", cwd=ROOT, check=True).stdout
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
                page, tmp_path_factory.mktemp(page.stem), quick=True, cache=cache / page.stem
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


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the examples."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "examples", folder / "examples")
    return folder


def run_python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return python(
        *arguments, cwd=folder, PYTHONPATH=str(ROOT), XDG_CACHE_HOME=str(folder / "cache")
    )


def test_the_commands_of_the_readme_run(checkout: Path) -> None:
    text = (ROOT / "README.md").read_text()
    commands = re.findall(r"^    hetero-editor (.*)$", text, re.M)
    assert len(commands) == 3
    for command in commands:
        done = run_python(checkout, "-m", "editor", *shlex.split(command, comments=True))
        assert done.returncode == 0, command + done.stderr
    code = re.findall(r"^    import editor\n(?:    .*\n)+", text, re.M)
    (python,) = [re.sub(r"^    ", "", block, flags=re.M) for block in code]
    done = run_python(checkout, "-c", python)
    assert done.returncode == 0, done.stderr


def test_the_cells_of_the_notebook_page_run(checkout: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "notebook.md").read_text()
    cells = re.findall(r"```python\n(.*?)```", page, re.S)
    done = run_python(checkout, "-c", "\n".join(cells))
    assert done.returncode == 0, done.stderr
    assert "4 subgraphs, with the pin 2" in done.stdout


def test_documents_hold_what_the_page_for_agents_says(checkout: Path) -> None:
    """The names before brackets of each row are the keys of the real document."""
    page = (ROOT / "docs" / "agents.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z -]+)` \| (.*) \|$", page, re.M))
    model, plan = "examples/models/mobilenetv2.onnx", "plan/plan.json"
    (checkout / "times.csv").write_text("op,microseconds\nlogits,180\n")
    (checkout / "table.yaml").write_text(
        "[{name: A, backendName: CPU}, {name: NPU, backendName: NPU}]"
    )
    commands = {
        "devices": "devices",
        "partition": f"partition {model} --devices table.yaml --pin logits=NPU --out plan",
        "why": f"why {plan} logits",
        "advise": f"advise {plan}",
        "bench": f"bench {plan} --seconds 0.3",
        "check": f"check {plan} --max-subgraphs 9",
        "run": f"run {plan}",
        "export": f"export {plan} --to glow --out glow",
        "kit": f"kit {plan} --out kit",
        "import": f"import {plan} {plan} --out imported.json",
        "set": f"set {model} --devices HETERO:CPU --out set",
        "tune": f"tune {plan} --seconds 0.3 --out tuned.json",
        "adapter-test": "adapter-test interpreter --cases 1",
        "sizes": "sizes open/plan.json batch=1,2",
        "accuracy": f"accuracy {plan}",
        "audit": f"audit {model} --providers CPU",
        "diff": f"diff {model} {model} --devices none",
        "workspace list": "workspace list --workspace empty",
    }
    assert {*commands, "profile"} == set(rows)  # those of `profile` are devices
    resnet = "examples/models/resnet50.onnx"
    run_python(
        checkout, "-m", "editor", "partition", resnet, "--devices", "HETERO:CPU", "--out", "open"
    )
    for name, command in commands.items():
        done = run_python(checkout, "-m", "editor", *command.split(), "--json")
        assert done.returncode == 0, command + done.stderr
        found = json.loads(done.stdout)
        assert isinstance(found, list) == rows[name].startswith("a list"), name
        stated = re.findall(
            r"`(\w+)`", re.sub(r"\([^)]*\)", "", rows[name].rpartition("of pins:")[2])
        )
        if found:
            assert set(stated) == set(found[0] if isinstance(found, list) else found), name
