"""Locates resource folders: beside the package in a checkout, inside it when installed."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource_dir(name: str) -> Path:
    """The path of the folder ``assets`` or ``examples``."""
    beside = _PACKAGE.parent / name
    return beside if (_PACKAGE.parent / "app.py").is_file() and beside.is_dir() else _PACKAGE / name
