"""Patterns from strangers over names from strangers: linear in time, whatever they are.

Regular expressions are those of RE2, which has neither look-around nor back-references, and needs no limit of its own.
"""

from __future__ import annotations

import re
import time
from functools import lru_cache
from typing import Any

from editor.errors import PinError

MAX_LENGTH = 4096
"""Characters of a pattern."""
MATCH_SECONDS = 1.0
"""For the patterns of all rules and the names of all ops of a model."""
_MAX_MEMORY = 1 << 20
_HUGE_REPETITION = re.compile(r"\{\d{4,}[,}]|\{\d*,\d{4,}\}")


@lru_cache(maxsize=64)
def regular_expression(text: str) -> Any:
    """A compiled regular expression; its ``search`` takes a name.

    Raises:
        ValueError: it is none, or too large; the message says why.
    """
    import re2  # here, because few plans need it

    check_length(text)
    if _HUGE_REPETITION.search(text):  # RE2 would take it for plain text
        raise ValueError("a part of it may repeat at most 999 times")
    options = re2.Options()
    options.log_errors, options.max_mem = False, _MAX_MEMORY
    try:
        return re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(reason[:120]) from None
    except UnicodeEncodeError:
        raise ValueError("it has characters that are no text") from None


def check_length(text: str) -> None:
    """Raises ``ValueError`` when a pattern is too long."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"it has {len(text):,} characters, the limit is {MAX_LENGTH:,}")


class Deadline:
    """The time that all patterns of some rules have together."""

    def __init__(self) -> None:
        self._end = time.monotonic() + MATCH_SECONDS

    def check(self, pattern: str) -> None:
        """Raises ``PinError``, which names the pattern that is being matched, when the time is over."""
        if time.monotonic() > self._end:
            raise PinError(f"the patterns of the rules take more than {MATCH_SECONDS:g} s; the last one was {pattern[:80]!r}; "
                           "make it simpler")
