"""Standard output and error of the command line, and what commands answer with: a text, or one JSON document with ``--json``.

Names of a stranger's model are printed, and do not control the terminal.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TextIO

from editor.errors import EditorError
from editor.files import json_text, write_atomic

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls of C0 (but no new line or tab) and C1, DEL, what breaks lines or reverses text, and lone surrogates."""


def printable(text: str) -> str:
    """A text with control characters as escapes; those of JSON, so that JSON stays JSON."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class _Printable:
    """A stream that writes printable text; ``stream`` is the one below, for what is to control the terminal."""

    def __init__(self, stream: TextIO, is_output: bool) -> None:
        self.stream, self._is_output = stream, is_output

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Writes a text; what the encoding of the stream lacks is escaped, too."""
        shown = printable(text)
        try:
            try:
                self.stream.write(shown)
            except UnicodeEncodeError:
                encoding = self.stream.encoding
                self.stream.write(shown.encode(encoding, "backslashreplace").decode(encoding))
        except OSError as error:
            self._fail(error)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Writes several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Writes what is buffered."""
        try:
            self.stream.flush()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        """Discards what is buffered and all that follows; says so where it was output, and not where it was a message."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.stream.fileno())
        os.close(null)
        if isinstance(error, BrokenPipeError) and self._is_output:
            raise error
        if self._is_output:
            raise EditorError(f"standard output cannot be written: {error.strerror}") from error


def protect() -> bool:
    """Makes ``sys.stdout`` and ``sys.stderr`` print control characters as escapes; False where standard output is closed."""
    while (
        null := os.open(os.devnull, os.O_RDWR)
    ) <= 2:  # else files that are opened later would get their numbers
        os.set_inheritable(null, True)
    os.close(null)
    was_open = sys.stdout is not None
    sys.stdout = _protected(sys.stdout, 1)
    sys.stderr = _protected(sys.stderr, 2)
    return was_open


def _protected(stream: TextIO | None, number: int) -> Any:
    if isinstance(stream, _Printable):
        return stream
    return _Printable(stream or open(number, "w", encoding="utf-8", closefd=False), number == 1)


def unprotected(stream: TextIO) -> TextIO:
    """The stream below, for progress that moves the cursor; names in it go through ``printable``."""
    return stream.stream if isinstance(stream, _Printable) else stream


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
