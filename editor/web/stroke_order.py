"""Strokes of one page are applied once each, in the order in which they were made."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from editor.errors import EditorError, NoProfileError, WorkspaceError
from editor.web.messages import Message
from editor.workspace.document import Refusal

log = logging.getLogger(__name__)
_MOST_PAGES = 256


@dataclass(frozen=True)
class Answer:
    """What a stroke came to: a refusal, ops to select, an error, a message, or nothing."""

    outcome: Refusal | list[int] | None = None
    message: Message | None = None
    device_problem: str | None = None
    """Of a stroke of the Devices tab: what is wrong with it, "" for nothing."""
    needs_profile: bool = False
    """It was refused because the model has not been profiled."""


class PageStrokes:
    """The strokes of one page.

    Every request repeats the strokes that the page has not seen confirmed, so requests may be lost or overtake each other:
    what came before is skipped, and its answer is given once more.
    """

    def __init__(self, name: str = "", last: int = 0) -> None:
        """Strokes of a page.

        Args:
            name: of the page, for people.
            last: sequence number of the last stroke that was applied before the server was started.
        """
        self.name = name
        self.lock = threading.RLock()
        """Held while a request of the page is answered, so that answers are in order too."""
        self.last = last
        """Sequence number of the last stroke that was applied."""
        self._answers: dict[int, Answer] = {}
        self._before: Any = None

    def before(self, strokes: Sequence[Mapping[str, Any]], now: Callable[[], Any]) -> Any:
        """What ``now`` gives before the strokes of a request are applied.

        A page asks once more when an answer takes long, and shows the last answer: where all strokes have been applied, it is
        what it was before that.
        """
        if self._before is None or any(_sequence(stroke) > self.last for stroke in strokes):
            self._before = now()
        return self._before

    def apply(
        self, strokes: Sequence[Mapping[str, Any]], work: Callable[[Mapping[str, Any]], Answer]
    ) -> list[Answer]:
        """Applies the strokes that are new; returns the answers to all, in order.

        Args:
            strokes: each with a ``sequence``.
            work: applies one; an ``EditorError`` becomes its answer.

        Raises:
            WorkspaceError: a stroke could not be stored; it and those after it wait, and the page sends them again.
        """
        with self.lock:
            numbered = sorted(
                ((_sequence(stroke), stroke) for stroke in strokes), key=lambda each: each[0]
            )
            for sequence, stroke in numbered:
                if sequence <= self.last:
                    continue
                try:
                    answer = work(stroke)
                except WorkspaceError:
                    raise
                except EditorError as error:
                    answer = Answer(
                        message={"text": str(error), "bad": True},
                        needs_profile=isinstance(error, NoProfileError),
                    )
                except Exception as error:  # a fault of ours: the page would send the stroke again for ever, and all after it
                    log.exception("the stroke %r failed", stroke.get("do"))
                    why = f"{type(error).__name__}: {error}"
                    text = f"This change failed, and the plan is as before ({why}). The server's log says more."
                    answer = Answer(message={"text": text, "bad": True})
                self._answers[sequence] = answer
                self.last = sequence
            asked = [sequence for sequence, _ in numbered]
            # The page has seen the answers to what it does not ask for any more.
            self._answers = {
                n: answer for n, answer in self._answers.items() if asked and n >= asked[0]
            }
            return [self._answers[n] for n in asked if n in self._answers]


class Pages:
    """The pages that are connected, by the id that each makes up; the oldest are forgotten."""

    def __init__(self, last_sequence: Callable[[str], int] = lambda _: 0) -> None:
        """No pages yet.

        Args:
            last_sequence: of a page's strokes in the workspace: an earlier run of the server may have applied some.
        """
        self._pages: OrderedDict[str, PageStrokes] = OrderedDict()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._last_sequence = last_sequence

    def get(self, page: str) -> PageStrokes:
        """A page, made when it is new."""
        with self._lock:
            if page not in self._pages:
                last = self._last_sequence(page)  # raises before the page has a number
                self._pages[page] = PageStrokes(f"tab {next(self._numbers)}", last)
            found = self._pages[page]
            self._pages.move_to_end(page)
            while len(self._pages) > _MOST_PAGES:
                self._pages.popitem(last=False)
            return found


def _sequence(stroke: Mapping[str, Any]) -> int:
    number = stroke.get("sequence")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**53:
        raise EditorError("The page sent a stroke without a sequence number. Reload the page.")
    return number
