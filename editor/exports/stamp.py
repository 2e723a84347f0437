"""Scripts that go out with an export, and the line that says where they come from."""

from __future__ import annotations

from pathlib import Path

_RUNNERS = Path(__file__).resolve().parent / "runners"


def script_of(name: str, stamp: str, stem: str) -> str:
    """A script from ``runners`` with its origin and the stem of its files filled in."""
    text = (_RUNNERS / f"{name}.py").read_text(encoding="utf-8")
    return text.replace("@MADE_BY@", stamp or "Hetero Editor").replace("@STEM@", repr(stem)[1:-1])
