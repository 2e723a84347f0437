"""Prints how large the editor is: statements without docstrings, files and lines; beside the same of a week ago."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def git(*arguments: str) -> str:
    """Returns what git prints."""
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
    ).stdout


def texts(commit: str, folder: str, suffix: str) -> Iterator[str]:
    """Yields the text of every file that is not empty, in a commit or, by "", in the work tree."""
    listed = (
        git("ls-tree", "-r", "--name-only", commit, folder) if commit else git("ls-files", folder)
    )
    for name in listed.splitlines():
        if name.endswith(suffix) and (commit or (ROOT / name).exists()):
            text = git("show", f"{commit}:{name}") if commit else (ROOT / name).read_text()
            if text.strip():
                yield text


def statements(text: str) -> int:
    """Counts the statements of a module, without docstrings and attribute documentation."""
    return sum(
        isinstance(node, ast.stmt)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in ast.walk(ast.parse(text))
    )


def row(commit: str) -> str:
    """One line of the table."""
    python = list(texts(commit, "editor", ".py"))
    lines = sum(len(text.splitlines()) for text in python)
    scripts = sum(len(text.splitlines()) for text in texts(commit, "assets", ".js"))
    return (
        f"{sum(map(statements, python)):>10,} statements  {len(python):>4} files  {lines:>7,} lines  "
        f"{lines / len(python):>5.0f} a file  {scripts:>6,} lines of JavaScript in assets/"
    )


if __name__ == "__main__":
    before = git("rev-list", "-1", "--before=7 days ago", "HEAD").strip()
    before = before or git("rev-list", "--max-parents=0", "HEAD").splitlines()[0]
    print(f"now         {row('')}\n{before[:10]}  {row(before)}")
