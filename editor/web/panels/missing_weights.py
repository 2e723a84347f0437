"""Says which files of weights models lack, and takes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePosixPath

from dash import html

from editor.web.panels.notice import close_button
from editor.workspace.document import Document


def missing_weights(documents: Sequence[Document]) -> html.Div | None:
    """A line for each model that lacks weights, with its name where there are several; those cut short are not replaced.

    Once closed, it stays so for these models in this session of the browser (`assets/notices.js`).
    """
    lacking = [document for document in documents if document.graph.missing_note]
    if not lacking:
        return None
    lines = [_line(document, is_named=len(documents) > 1) for document in lacking]
    return html.Div(
        [html.Div(lines), close_button("close-weights")],
        id="missing-weights",
        role="alert",
        **{"data-weights-lack": "-".join(document.graph.sha256 for document in lacking)},
    )


def _line(document: Document, is_named: bool) -> html.Div:
    graph = document.graph
    absent = [name for name, said in graph.missing.items() if name == said]
    label = f"Add {PurePosixPath(absent[0]).name}" if len(absent) == 1 else "Add the files"
    add = html.Button(
        f"{label} …",
        className="tool small",
        title=f"Copies what you choose to {graph.folder}",
        **{
            "data-upload": "weights",
            "data-weights-files": json.dumps(absent),
            "data-weights-of": document.id,
        },
    )
    note = f"{graph.missing_note[:1].upper()}{graph.missing_note[1:]}."
    name = [html.B(document.title), ": "] if is_named else []
    return html.Div([html.Span([*name, note]), add if absent else None])
