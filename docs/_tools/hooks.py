"""MkDocs hooks: parts of pages that the program or another file says, so that they cannot go stale."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = "<!-- commands -->"
_FILE = re.compile(r"<!-- file: (\S+) -->")
_IMAGE = re.compile(r'<img [^>]*?src="([^"#]+)[^"]*"[^>]*>')
_MOVED = {
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changes.md",
    "README.md": "index.md",
    "benchmarks/RESULTS.md": "project/results.md",
}
"""Files of the repository that are pages -> the page."""
_SHARED = 15
"""Options that as many commands have are described once."""
_TEXTS = {
    "plan": "a `plan.json`",
    "plans": "one `plan.json`, or several to compare",
    "model": "a model",
    "action": "what to do",
    "--devices": "a device table or `HETERO:A,B`",
    "--policy": "how ops without a pin are placed",
    "--pin": "places an op on a device; may be repeated",
    "--out": "the folder to write to",
    "--seconds": "how long to measure",
    "--mode": "what is measured: one request at a time, or several",
    "--host": "the address that the server listens on",
    "--port": "the port that the server listens on",
    "--max-subgraphs": "the most subgraphs that are allowed",
}
"""What the parsers leave to the reader."""


def on_config(config: Any, **_: Any) -> Any:
    """The version is at the foot of each page."""
    from_root()
    from editor.version import VERSION

    config.copyright = f"Hetero Editor {VERSION}"
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replaces marks by the commands and by files of the repository."""
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, commands())
    return _FILE.sub(lambda m: included(m[1], page.file.src_uri), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """A click on a picture shows it in its full size."""
    return _IMAGE.sub(r'<a href="\1">\g<0></a>', html)


def from_root() -> None:
    """Makes the editor importable: MkDocs restores the path after it has loaded a hook."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))


def included(name: str, page: str) -> str:
    """A file of the repository, with its links as they are from a page."""
    up = "../" * page.count("/")

    text = (ROOT / name).read_text(encoding="utf-8")
    text = re.sub(r'((?:srcset|src)=")docs/', rf"\g<1>{up}", text)
    return re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", lambda m: _link(m[1], m[2], up), text)


def _link(text: str, target: str, up: str) -> str:
    path, mark, anchor = target.removeprefix("../").partition("#")
    if "://" in path or not path:
        return f"[{text}]({target})"
    if path in _MOVED:
        return f"[{text}]({up}{_MOVED[path]}{mark}{anchor})"
    if path.startswith("docs/"):
        return f"[{text}]({up}{path.removeprefix('docs/')}{mark}{anchor})"
    return text  # not on the site


def commands() -> str:
    """Markdown of all commands, in the order of the parser."""
    from_root()
    from editor.__main__ import _parser

    parser = _parser()
    action = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    lines = {choice.dest: choice.help for choice in action._choices_actions}
    parsers = {"open": _parser_of_open()} | {k: v for k, v in action.choices.items() if k != "open"}
    found = {name: (command, lines.get(name) or "") for name, command in parsers.items()}
    counts = Counter(key(one) for command, _ in found.values() for one in command._actions)
    shared = {name for name, count in counts.items() if count >= _SHARED}
    once = {
        key(one): one
        for command, _ in found.values()
        for one in command._actions
        if key(one) in shared
    }
    parts = ["## Options of most commands\n", rows(once.values())]
    for name, (command, line) in found.items():
        command.prog = f"hetero-editor {name}"
        own = [one for one in command._actions if key(one) not in shared]
        line_of = usage_of(command, own)
        parts.append(
            f"## {name}\n\n{line[:1].upper()}{line[1:]}.\n\n```text\n{line_of}\n```\n\n{rows(own)}"
        )
    return "\n".join(parts)


def key(action: argparse.Action) -> str:
    """The name of an argument."""
    return action.option_strings[-1] if action.option_strings else action.dest


def usage_of(command: argparse.ArgumentParser, actions: list[argparse.Action]) -> str:
    """The usage line with the command's own arguments."""
    formatter = argparse.HelpFormatter(command.prog, width=88)
    formatter.add_usage(None, actions, command._mutually_exclusive_groups)
    return formatter.format_help().strip()


def rows(actions: Iterable[argparse.Action]) -> str:
    """A table of arguments; "" without any."""
    lines = [
        f"| {usage(one)} | {meaning(one)} |" for one in actions if one.help != argparse.SUPPRESS
    ]
    return "\n".join(["| argument | meaning |", "| --- | --- |", *lines, ""]) if lines else ""


def usage(action: argparse.Action) -> str:
    """How an argument is written."""
    value = action.metavar or (
        "|".join(map(str, action.choices)) if action.choices else action.dest.upper()
    )
    value = " ".join(value) if isinstance(value, tuple) else value
    if not action.option_strings:
        return f"`{value.lower() if value == action.dest.upper() else value}`".replace("|", "\\|")
    names = ", ".join(action.option_strings)
    return f"`{names}{'' if action.nargs == 0 else f' {value}'}`".replace("|", "\\|")


def meaning(action: argparse.Action) -> str:
    """What an argument means, with its default."""
    said = (action.help or _TEXTS[key(action)]) % {"default": action.default}
    default = action.default
    if default not in (None, False, argparse.SUPPRESS, [], "", 0) and "default" not in said:
        said += f"; default: `{default}`"
    return f"{said[:1].upper()}{said[1:]}".replace("|", "\\|").replace("<", "&lt;")


def _parser_of_open() -> argparse.ArgumentParser:
    """The parser of `open`, which is made where it is used."""
    from editor.web.launch import main

    made: list[argparse.ArgumentParser] = []
    original = argparse.ArgumentParser.parse_args

    def keep(self: argparse.ArgumentParser, *_: Any, **__: Any) -> Any:
        made.append(self)
        raise SystemExit

    argparse.ArgumentParser.parse_args = keep  # type: ignore[method-assign]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main([])
    finally:
        argparse.ArgumentParser.parse_args = original  # type: ignore[method-assign]
    return made[0]


if __name__ == "__main__":
    print(commands())
