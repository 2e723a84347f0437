"""Other tabs and servers that change the same document: what they did, in words, and what a page may not undo unseen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from editor.errors import EditorError
from editor.workspace.document import Document
from editor.workspace.history import Change

_STEPPING = frozenset({"undo", "redo", "step", "reset", "rules"})
"""Strokes that would take back or replace what others did."""


def changes_of_others(document: Document, page: str, seen: int) -> list[Change]:
    """What others did to a document since a version that the page has seen, oldest first."""
    if document.version <= seen:
        return []
    return [change for change in document.changes(seen) if change.author.page != page or not page]


def in_words(changes: Sequence[Change], server: str) -> str:
    """E.g. "Tab 2 changed the plan: Conv_3 → GPU"."""
    last = changes[-1]
    who = last.author.seen_from(server)
    times = "" if len(changes) == 1 else f" {len(changes)} times; the last change"
    return f"{who[:1].upper()}{who[1:]} changed the plan{times}: {last.what}"


def refuse_unseen(stroke: Mapping[str, Any], others: Sequence[Change], server: str) -> None:
    """Refuses to take back what others did while the page showed an older plan.

    Raises:
        EditorError: the person should look at the plan first.
    """
    if others and stroke.get("do") in _STEPPING:
        raise EditorError(
            f"{in_words(others, server)}. It is shown now; look at it, and do it again if you still want to."
        )
