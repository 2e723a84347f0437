"""Standard output and error of the command line: names of a stranger's model are printed, and do not control the terminal."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, TextIO

from editor.errors import EditorError

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
