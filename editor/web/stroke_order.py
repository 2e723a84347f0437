"""Strokes of one page are applied once each, in the order in which they were made."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from editor.errors import EditorError
from editor.web.messages import Message
from editor.workspace.document import Refusal

_MOST_PAGES = 64


@dataclass(frozen=True)
class Answer:
    """What a stroke came to: a refusal, ops to select, an error, a message, or nothing."""

    outcome: Refusal | list[int] | None = None
    message: Message | None = None


class PageStrokes:
    """The strokes of one page.

    Every request repeats the strokes that the page has not seen confirmed, so requests may be lost or overtake each other:
    what came before is skipped, and its answer is given once more.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held while a request of the page is answered, so that answers are in order too."""
        self.last = 0
        """Sequence number of the last stroke that was applied."""
        self._answers: dict[int, Answer] = {}

    def apply(self, strokes: Sequence[Mapping[str, Any]], work: Callable[[Mapping[str, Any]], Answer]) -> list[Answer]:
        """Applies the strokes that are new; returns the answers to all, in order.

        Args:
            strokes: each with a ``sequence``.
            work: applies one; an ``EditorError`` becomes its answer.
        """
        with self.lock:
            numbered = sorted(((_sequence(stroke), stroke) for stroke in strokes), key=lambda each: each[0])
            for sequence, stroke in numbered:
                if sequence <= self.last:
                    continue
                try:
                    answer = work(stroke)
                except EditorError as error:
                    answer = Answer(message={"text": str(error), "bad": True})
                self._answers[sequence] = answer
                self.last = sequence
            asked = [sequence for sequence, _ in numbered]
            # The page has seen the answers to what it does not ask for any more.
            self._answers = {n: answer for n, answer in self._answers.items() if asked and n >= asked[0]}
            return [self._answers[n] for n in asked if n in self._answers]


class Pages:
    """The pages that are connected, by the id that each makes up; the oldest are forgotten."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, PageStrokes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, page: str) -> PageStrokes:
        """A page, made when it is new."""
        with self._lock:
            found = self._pages.setdefault(page, PageStrokes())
            self._pages.move_to_end(page)
            while len(self._pages) > _MOST_PAGES:
                self._pages.popitem(last=False)
            return found


def _sequence(stroke: Mapping[str, Any]) -> int:
    number = stroke.get("sequence")
    if not isinstance(number, int) or isinstance(number, bool):
        raise EditorError("The page sent a stroke without a sequence number. Reload the page.")
    return number
