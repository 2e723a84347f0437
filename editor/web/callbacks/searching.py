"""The search field: results while somebody types."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from dash import Dash, Input, Output, State
from dash.exceptions import PreventUpdate

from editor.errors import EditorError
from editor.placement.filter import looks_like_filter, matching
from editor.placement.search import Found, completions, mixed, not_found, search, single_equals
from editor.web.app_state import AppState
from editor.web.drawing.spans import spans
from editor.web.messages import SearchRequest, SearchResults, SearchRow
from editor.web.validation import require
from editor.web.view import op_costs
from editor.workspace.document import Document

MOST_LETTERS = 500


def register(app: Dash, state: AppState) -> None:
    """Adds the callback."""

    @app.callback(
        Output("search-results", "data"),
        Input("search-request", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def found(request: SearchRequest | None, document_id: str) -> SearchResults:
        if not request:
            raise PreventUpdate
        return await asyncio.to_thread(_answer, state, request, document_id)


def _answer(state: AppState, request: SearchRequest, document_id: str) -> SearchResults:
    try:
        require(request, SearchRequest, "a search")
        document = state.document(document_id)
    except EditorError:
        raise PreventUpdate from None
    return results(document, request["text"][:MOST_LETTERS], request["number"])


def results(document: Document, text: str, number: int) -> SearchResults:
    """What a text finds, or why it cannot be understood."""
    placement = document.placement
    answer: SearchResults = {
        "number": number,
        "rows": [],
        "ops": "",
        "completions": completions(placement, text),
        "problem": "",
    }
    try:
        if looks_like_filter(text) and mixed(text):
            answer["problem"] = mixed(text)
        elif looks_like_filter(text):
            answer["ops"] = _ranges(matching(placement, text, lambda: op_costs(document)[0]))
        else:
            found = search(placement, text)
            answer["rows"], answer["ops"] = [_row(each) for each in found.found], _ranges(found.ops)
            if not found.ops and not found.found:
                answer["problem"] = single_equals(text) or not_found(placement, text)
    except EditorError as error:
        answer["problem"] = str(error)
    return answer


def _row(found: Found) -> SearchRow:
    return {
        "kind": found.kind,
        "title": found.title,
        "detail": found.detail,
        "ops": _ranges(found.ops),
    }


def _ranges(ops: Any) -> str:
    return spans(np.unique(np.array(ops, np.int64)))
