"""Runs the commands that pages show, and writes their real output into the pages.

    python docs/_tools/tutorials.py [PAGE.md ...]

A page is run from top to bottom in an empty folder that holds ``examples/``. A block with a title, such as

    ```yaml title="npu.yaml"

is written to that file; in a block of the kind ``console`` every line that starts with ``$ `` is run by bash, and
what follows it up to the next command is its output. ``# exit status 1`` behind a command says what it must end with.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    page
    for page in (ROOT / "docs").rglob("*.md")
    if "\n```console\n" in page.read_text(encoding="utf-8")
)
_BLOCK = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```$', re.M | re.S
)
_SECONDS = re.compile(r"--seconds [\d.]+")
_STATUS = re.compile(r"\s+# exit status (\d+)$")


@dataclass(frozen=True)
class Step:
    """One command of a page."""

    command: str
    shown: str
    """Output as the page has it."""
    printed: str
    """Output as it was."""
    status: int
    wanted: int


def run(
    page: Path,
    folder: Path,
    quick: bool = False,
    cache: Path | None = None,
) -> Iterator[Step]:
    """Runs a page in a folder, command by command.

    A ``quick`` run prints the same but for measured times: empty pictures stand for Graphviz's, and benchmarks take a third of
    a second. Pages that share a ``cache`` ask devices once.
    """
    environment = _prepare(folder, cache or folder / ".cache")
    if quick:
        for name in ("dot", "neato"):
            _write_script(
                folder / ".bin" / name,
                "cat >/dev/null; echo '<svg xmlns=\"http://www.w3.org/2000/svg\"/>'",
            )
    for block in _BLOCK.finditer(page.read_text()):
        if block["title"]:
            (folder / block["title"]).parent.mkdir(parents=True, exist_ok=True)
            (folder / block["title"]).write_text(block["body"])
        elif block["kind"] == "console":
            for command, shown in _commands(block["body"]):
                match = _STATUS.search(command)
                line = _STATUS.sub("", command)
                if quick:
                    line = _SECONDS.sub("--seconds 0.3", line)
                done = subprocess.run(
                    ["bash", "-c", f"set -o pipefail; {line}"],
                    cwd=folder,
                    env=environment,
                    text=True,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    timeout=300,
                    check=False,
                )
                yield Step(
                    command, shown, done.stdout, done.returncode, int(match[1]) if match else 0
                )


def _prepare(folder: Path, cache: Path) -> dict[str, str]:
    shutil.copytree(ROOT / "examples", folder / "examples", dirs_exist_ok=True)
    tools = folder / ".bin"
    tools.mkdir()
    for name, module in (("hetero-editor", " -m editor"), ("python", "")):
        _write_script(tools / name, f'exec "{sys.executable}"{module} "$@"')
    return {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "110",
        "XDG_CACHE_HOME": str(cache),
        "XDG_DATA_HOME": str(folder / ".data"),
    }


def _write_script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def _commands(body: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        while command.endswith("\\"):
            line, _, shown = shown.partition("\n")
            command = f"{command}\n{line}"
        yield command, shown


def main(pages: list[Path]) -> int:
    """Writes the pages anew; 1 when a command ended otherwise than the page says."""
    failed = 0
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            text = page.read_text()
            for step in run(page, Path(folder)):
                if step.status != step.wanted:
                    failed = 1
                    print(
                        f"{page.name}: exit status {step.status}: {step.command}\n{step.printed}",
                        file=sys.stderr,
                    )
                old, new = (
                    f"$ {step.command}\n{step.shown}",
                    f"$ {step.command}\n{step.printed.rstrip()}\n",
                )
                text = text.replace(old, new if step.printed.strip() else f"$ {step.command}\n", 1)
            page.write_text(text)
    return failed


if __name__ == "__main__":
    sys.exit(main([Path(p) for p in sys.argv[1:]] or PAGES))
