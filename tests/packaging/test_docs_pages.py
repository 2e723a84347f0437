"""The pages have a place for everything that the program has, and quote it as it is."""

from __future__ import annotations

import ast
import json
import re
import sys
from functools import cache

import pytest
import yaml
from conftest import ROOT

from editor.devices.keys import KEYS
from editor.environment import VARIABLES
from editor.placement.choices import OPTIONS, POLICIES
from editor.terminal import NOT_MET
from editor.web.panels.words import WORDS

sys.path.append(str(ROOT / "docs" / "_tools"))

import hooks
import tables

DOCS = ROOT / "docs"


def text_of(name: str) -> str:
    return str((ROOT / name).read_text(encoding="utf-8"))


def headings(name: str) -> set[str]:
    return set(re.findall(r"^#+ (.+)$", text_of(f"docs/{name}"), re.M))


def test_keys_and_options_have_an_anchor() -> None:
    anchors = set(re.findall(r'<a id="([\w-]+)">', text_of("docs/reference/device-tables.md")))
    assert anchors == {f"key-{name}" for name in KEYS}
    anchors = set(re.findall(r'<a id="([\w-]+)">', text_of("docs/reference/policies.md")))
    assert anchors == {f"option-{name}" for name in OPTIONS}


def test_variables_words_and_policies_have_a_heading() -> None:
    assert {one.name for one in VARIABLES} <= headings("reference/environment.md")
    assert set(WORDS) <= headings("reference/glossary.md")
    assert set(POLICIES) <= headings("reference/policies.md")


def test_http_routes_have_a_heading() -> None:
    from fastapi import FastAPI

    from editor.web.routes import canvas_routes

    server = FastAPI()
    server.include_router(canvas_routes(None))  # type: ignore[arg-type]
    routes = {
        f"{method.upper()} {path}"
        for path, methods in server.openapi()["paths"].items()
        for method in methods
    }
    assert len(routes) > 15
    assert routes <= headings("reference/http.md")


def test_keys_of_the_page_are_all_in_the_reference() -> None:
    """The table is read from a script by a pattern, which must miss none."""
    shown = list(tables.shortcuts())
    assert len(shown) == text_of("assets/commands.js").count('keys: ["') > 20
    assert all(key.strip("`") for key, _ in shown)


def test_exit_statuses_are_those_of_the_code() -> None:
    """Every number that a command returns or exits with has a row, and every row a place in the code; 2 is argparse's."""
    rows = set(
        map(int, re.findall(r"^\| (\d+) \|", text_of("docs/reference/cli.md"), re.M))
    )  # fmt: skip
    found = {2, NOT_MET}
    for path in [ROOT / "editor" / "__main__.py", *(ROOT / "editor" / "commands").glob("*.py")]:
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef) or ast.unparse(
                function.returns or ast.Constant(None)
            ) not in ("int", "int | None"):
                continue
            if function.name.startswith("_") and function.name != "_run":
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Return) and node.value is not None:
                    found |= {
                        each.value
                        for each in ast.walk(node.value)
                        if isinstance(each, ast.Constant) and type(each.value) is int
                    }
    assert found == rows


@cache
def texts_of_the_program() -> str:
    """All texts in the sources; what stands in braces is left out."""
    found = []
    for path in (ROOT / "editor").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


@pytest.mark.parametrize(
    "message",
    re.findall(r"^### `(.+)`$", text_of("docs/how-to/troubleshooting.md"), re.M),
)
def test_messages_of_troubleshooting_are_in_the_program(message: str) -> None:
    parts = [part.strip() for part in message.split("…") if len(part.strip()) > 2]
    assert parts
    assert [part for part in parts if part not in texts_of_the_program()] == []


def test_every_argument_of_the_command_line_has_a_text() -> None:
    commands = hooks.commands()
    rows = re.findall(r"^\| (`.+?`) \| (.*) \|$", commands, re.M)
    assert len(rows) > 100
    assert [usage for usage, text in rows if not text.strip()] == []
    assert commands.count("`--tls-ca F`") == 1, "options of most commands are described once"


def test_every_page_is_in_the_navigation() -> None:
    class Loader(yaml.SafeLoader):
        """Reads tags of MkDocs as nothing."""

    Loader.add_multi_constructor("", lambda *_: None)
    nav = json.dumps(yaml.load(text_of("mkdocs.yml"), Loader)["nav"])
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert {page for page in pages if f'"{page}"' not in nav} == set()


def test_the_readme_can_be_read_in_a_terminal() -> None:
    lines = text_of("README.md").splitlines()
    assert len(lines) < 110
    assert [line for line in lines if len(line) > 120] == []
    for target in re.findall(r'(?:\]\(|src(?:set)?=")(?!https?:)([^)#"]+)', text_of("README.md")):
        assert (ROOT / target).exists(), target


def test_the_newest_version_is_that_of_the_program() -> None:
    from editor.version import VERSION

    newest = re.search(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", text_of("CHANGELOG.md"), re.M)
    assert newest is not None
    assert newest[1] == VERSION
    assert json.loads(text_of("docs/reference/openapi.json"))["info"]["version"] == VERSION
