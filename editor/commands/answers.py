"""What commands answer with: an exit status, and a text or, with ``--json``, one JSON document on standard output.

This file is short because every command module needs it and none of them is below the others.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from editor.files import json_text, write_atomic

NOT_MET = 3
"""Exit status where what was asked for does not hold: a limit of ``check``, a requirement of ``audit``."""


def answer(options: argparse.Namespace, document: Any, text: str) -> None:
    """Prints the document with ``--json``, else the text."""
    print(json.dumps(plain(document), indent=1, ensure_ascii=True) if options.json else text)


def answer_or_write(options: argparse.Namespace, document: Any, text: str) -> None:
    """Prints the text and writes the document to ``--json FILE``; ``--json`` alone prints the document instead."""
    if options.json == Path("-"):
        print(json_text(plain(document)))
        return
    print(text)
    if options.json:
        write_atomic(options.json, json_text(plain(document)))


def tell_written(options: argparse.Namespace, paths: Sequence[Path]) -> None:
    """Names files that were written; on standard error where standard output has JSON."""
    for path in paths:
        print(f"wrote {path}", file=sys.stderr if options.json else sys.stdout)


def plain(value: Any) -> Any:
    """A value as JSON knows it: dataclasses as mappings, paths as texts, arrays and tuples as lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    return value.item() if hasattr(value, "item") else value


def tell_notes(notes: Iterable[str]) -> None:
    """Prints notes where they do not mix with an answer."""
    for text in notes:
        print(f"note: {text}", file=sys.stderr)
