"""Parses expressions of Python's syntax, in one thread at a time."""

from __future__ import annotations

import ast
import threading
from functools import lru_cache

_parsing = threading.Lock()
"""CPython 3.11 counts the depth of its recursion in one place for all threads, and raises SystemError where two parse."""


@lru_cache(1024)
def parse_expression(text: str) -> ast.expr:
    """The tree of an expression; callers share it and must not change it.

    Raises:
        SyntaxError: it is not valid.
        ValueError, RecursionError, MemoryError: it has NUL, or is nested too deeply.
    """
    with _parsing:
        return ast.parse(text, mode="eval").body
