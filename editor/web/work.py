"""Long work that a page waits for: what it is, how far it has come, and its end on request."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from editor.errors import Cancelled
from editor.web.messages import Working


class Work:
    """One piece of work."""

    def __init__(self, words: str, can_end: bool) -> None:
        self.working: Working = {"words": words, "done": 0, "total": 0, "canEnd": can_end}
        self._cancelled = threading.Event()

    def step(self, done: int, total: int, what: str) -> None:
        """Says what comes next; ``done`` of ``total`` steps are behind it.

        Raises:
            Cancelled: nobody waits any more.
        """
        if self.should_stop():
            raise Cancelled
        self.working = {**self.working, "words": what, "done": done, "total": total}

    def should_stop(self) -> bool:
        """Whether somebody has ended it."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Ends it at its next step."""
        self._cancelled.set()


class Works:
    """What is under way, by document."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, list[Work]] = {}

    @contextmanager
    def begin(self, document: str, words: str, can_end: bool = True) -> Iterator[Work]:
        """Work for the pages of a document; without ``can_end`` it has no steps at which it could be ended."""
        work = Work(words, can_end)
        with self._lock:
            self._of.setdefault(document, []).append(work)
        try:
            yield work
        finally:
            with self._lock:
                self._of[document].remove(work)
                if not self._of[document]:
                    del self._of[document]

    def of(self, document: str) -> Working | None:
        """What began last for a document."""
        with self._lock:
            return self._of[document][-1].working if document in self._of else None

    def cancel(self, document: str) -> None:
        """Ends all work for a document."""
        with self._lock:
            for work in self._of.get(document, ()):
                work.cancel()
