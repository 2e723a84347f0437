"""Edits of one page are applied once each, in the order in which they were made; what others did meanwhile is told."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from editor.errors import EditorError, NoPowerError, NoProfileError, WorkspaceError
from editor.web import messages as m
from editor.workspace.document import SHARE, Document, Refusal
from editor.workspace.history import Change

log = logging.getLogger(__name__)
_MOST_PAGES = 256
_WAYS_OUT: dict[type[EditorError], tuple[str, str]] = {
    NoProfileError: ("run-bench-profile", "Profile now"),
    NoPowerError: ("show-devices", "State watts in Devices"),  # where no form asks for them
}


@dataclass(frozen=True)
class Answer:
    """What an edit came to: a refusal, ops to select, an error, a message, or nothing."""

    outcome: Refusal | list[int] | None = None
    message: m.Message | None = None
    device_problem: str | None = None
    """Of an edit of the Devices tab: what is wrong with it, "" for nothing."""
    way_out: tuple[str, str] | None = None
    """Of a message: the command that leads on, and the words of its button."""
    without_watts: tuple[str, ...] = ()
    """Names of the devices whose watts the edit needs."""


def _told(error: EditorError) -> m.Message:
    """An error in words; what a button of the message makes is no fault."""
    if isinstance(error, NoProfileError):
        return m.Message(text=f"{error.lacking[0].upper()}{error.lacking[1:]}.", bad=False)
    return m.Message(text=str(error), bad=True)


class EditQueue:
    """The edits of one page.

    Every request repeats the edits that the page has not seen confirmed, so requests may be lost or sent twice: what came
    before is skipped, and its answer is given once more.
    """

    def __init__(self, name: str = "", last: int = 0) -> None:
        """Edits of a page.

        Args:
            name: of the page, for people.
            last: sequence number of the last edit that was applied before the server was started.
        """
        self.name = name
        self.lock = threading.RLock()
        """Held while a request of the page is answered, so that answers are in order too."""
        self.last = last
        """Sequence number of the last edit that was applied."""
        self._answers: dict[int, Answer] = {}
        self._before: Any = None

    def numbered(self, edits: Sequence[m.Edit]) -> list[tuple[int, m.Edit]]:
        """Edits with their sequence numbers, in order; those without one follow the last."""
        following = itertools.count(max([self.last, *(edit.sequence for edit in edits)]) + 1)
        return sorted(
            ((edit.sequence or next(following), edit) for edit in edits), key=lambda each: each[0]
        )

    def before(self, edits: Sequence[tuple[int, m.Edit]], now: Callable[[], Any]) -> Any:
        """What ``now`` gives before the edits of a request are applied.

        A page that asks once more shows the last answer: where all edits have been applied, it is what it was before that.
        """
        if self._before is None or any(sequence > self.last for sequence, _ in edits):
            self._before = now()
        return self._before

    def apply(
        self, edits: Sequence[tuple[int, m.Edit]], work: Callable[[int, m.Edit], Answer]
    ) -> list[Answer]:
        """Applies the edits that are new; returns the answers to all, in order.

        Args:
            edits: with their sequence numbers.
            work: applies one; an ``EditorError`` becomes its answer.

        Raises:
            WorkspaceError: an edit could not be stored; it and those after it wait, and the page sends them again.
        """
        with self.lock:
            for sequence, edit in edits:
                if sequence <= self.last:
                    continue
                try:
                    answer = work(sequence, edit)
                except WorkspaceError:
                    raise
                except EditorError as error:
                    answer = Answer(
                        message=_told(error),
                        way_out=next(
                            (c for e, c in _WAYS_OUT.items() if isinstance(error, e)), None
                        ),
                        without_watts=error.devices if isinstance(error, NoPowerError) else (),
                    )
                except Exception as error:  # a fault of ours: the page would send the edit again for ever, and all after it
                    log.exception("the edit %r failed", edit.do)
                    why = f"{type(error).__name__}: {error}"
                    text = f"This change failed, and the plan is as before ({why}). The server's log says more."
                    answer = Answer(message=m.Message(text=text, bad=True))
                self._answers[sequence] = answer
                self.last = sequence
            asked = [sequence for sequence, _ in edits]
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
            last_sequence: of a page's edits in the workspace: an earlier run of the server may have applied some.
        """
        self._pages: OrderedDict[str, EditQueue] = OrderedDict()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._last_sequence = last_sequence

    def get(self, page: str) -> EditQueue:
        """The queue of a page, made when it is new."""
        with self._lock:
            if page not in self._pages:
                last = self._last_sequence(page)  # raises before the page has a number
                self._pages[page] = EditQueue(f"tab {next(self._numbers)}", last)
            found = self._pages[page]
            self._pages.move_to_end(page)
            while len(self._pages) > _MOST_PAGES:
                self._pages.popitem(last=False)
            return found


# ---- other tabs and servers that change the same document ----

_STEPPING = frozenset({"undo", "redo", "step", "reset", "rules"})
"""Edits that would take back or replace what others did."""


def changes_of_others(document: Document, page: str, seen: int) -> list[Change]:
    """What others did to a document since a version that the page has seen, oldest first."""
    if document.version <= seen:
        return []
    return [
        change
        for change in document.changes(seen)
        if change.what != SHARE and (change.author.page != page or not page)
    ]


def describe_changes(changes: Sequence[Change], server: str) -> str:
    """E.g. "Tab 2 changed the plan: Conv_3 → GPU"."""
    last = changes[-1]
    who = last.author.seen_from(server)
    times = "" if len(changes) == 1 else f" {len(changes)} times; the last change"
    return f"{who[:1].upper()}{who[1:]} changed the plan{times}: {last.what}"


def refuse_unseen(edit: m.Edit, others: Sequence[Change], server: str) -> None:
    """Refuses to take back what others did while the page showed an older plan.

    Raises:
        EditorError: the person should look at the plan first.
    """
    if others and edit.do in _STEPPING:
        raise EditorError(
            f"{describe_changes(others, server)}. It is shown now; look at it, and do it again if you still want to."
        )
