"""Results of the search field while a person types."""

from __future__ import annotations

from typing import Any

import numpy as np

from editor.errors import EditorError
from editor.placement.filter import looks_like_filter, matching
from editor.placement.search import Found, completions, mixed, not_found, search, single_equals
from editor.web.drawing.elements import spans
from editor.web.messages import SearchResults, SearchRow
from editor.web.view import op_costs
from editor.workspace.document import Document

MOST_LETTERS = 500


def search_results(document: Document, text: str) -> SearchResults:
    """What a text finds, or why it cannot be understood; longer texts are cut."""
    placement, text = document.placement, text[:MOST_LETTERS]
    answer: SearchResults = {
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
        "block": found.block,
    }


def _ranges(ops: Any) -> str:
    return spans(np.unique(np.array(ops, np.int64)))
