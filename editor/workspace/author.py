"""Who makes a change: a tab of a server, a command, or a script."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Author:
    """Stored with every change of a document."""

    page: str = ""
    """Id of the page; "" outside the page."""
    sequence: int = 0
    """Number of the page's stroke, so that it is applied once, even by another server."""
    name: str = ""
    """For people, e.g. "tab 2"."""
    server: str = ""
    """Where the page is served, e.g. "box:8050"."""

    def seen_from(self, server: str) -> str:
        """The name for people who look at another server, or at the same."""
        name = self.name or "another program"
        return name if self.server in ("", server) else f"{name} of {self.server}"


_NOBODY = Author()
_author: ContextVar[Author] = ContextVar("author")


def current_author() -> Author:
    """Whoever makes the changes of this thread."""
    return _author.get(_NOBODY)


@contextmanager
def acting_as(author: Author) -> Iterator[None]:
    """Changes in this context are stored as the author's."""
    token = _author.set(author)
    try:
        yield
    finally:
        _author.reset(token)
