"""What a page says of a document, and the end of its runs."""

from __future__ import annotations

from editor.web.app_state import AppState
from editor.web.panels.status import status
from editor.web.panels.verdict import verdict
from editor.web.runs import follow_run
from editor.workspace.document import Document


def verdict_of(document: Document) -> str:
    """The headline and the verdict."""
    return str([part.to_plotly_json() for part in verdict(document)])


def status_of(document: Document) -> str:
    """The status bar."""
    return str([part.to_plotly_json() for part in status(document) if part is not None])


async def ended(state: AppState, document: str) -> str:
    """Follows the run of a document to its end, and returns what it says then."""
    async for event in follow_run(state, document):
        if event["done"]:
            return event["text"]
    return ""
