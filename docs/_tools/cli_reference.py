"""MkDocs hook: fills the page of the command line from the parsers themselves, so that it cannot go stale."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replaces the mark by one section per command."""
    return markdown.replace(MARK, commands()) if MARK in markdown else markdown


def commands() -> str:
    """Markdown of all commands, in the order of the parser."""
    if (
        str(ROOT) not in sys.path
    ):  # here, because MkDocs restores the path after it has loaded a hook
        sys.path.append(str(ROOT))
    from editor.__main__ import _parser

    os.environ["COLUMNS"] = "100"
    parser = _parser()
    parser.prog = "hetero-editor"
    action = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    lines = {choice.dest: choice.help for choice in action._choices_actions}
    parts = [_section("open", "start the editor in a browser", _help_of_open())]
    for name, command in action.choices.items():
        command.prog = f"hetero-editor {name}"
        parts.append(_section(name, lines.get(name) or "", command.format_help()))
    return "\n".join(parts)


def _section(name: str, line: str, text: str) -> str:
    return f"## {name}\n\n{line[:1].upper()}{line[1:]}.\n\n```text\n{text.rstrip()}\n```\n"


def _help_of_open() -> str:
    from editor.web.launch import main

    out, before = io.StringIO(), sys.argv
    sys.argv = ["hetero-editor open"]
    try:
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            main(["--help"])
    finally:
        sys.argv = before
    return out.getvalue()


if __name__ == "__main__":
    print(commands())
