"""Two versions of a model side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from dash import html

from editor.graph.dimension_meanings import sizes_apart
from editor.text import human_seconds, pluralize
from editor.web import controls
from editor.web.drawing.elements import spans
from editor.web.panels.parts import kind_badge
from editor.workspace.diffs import ModelDiff, compared_times
from editor.workspace.document import Document
from editor.workspace.history import Record

_MOST_ROWS = 300


def versions_form() -> list[Any]:
    """Asks for another document, whose model is compared with this one."""
    return [
        html.H3("Another version of the model"),
        html.Div(
            [
                controls.Select(
                    id="versions-other",
                    value="",
                    data=[],
                    placeholder="A model that was opened",
                    width=340,
                    **{"aria-label": "Model to compare with"},
                ),
                controls.Button("Compare models", id="versions-start"),
                html.Span(
                    "What came, went and changed. An op is shown here and in the window of the other model.",
                    className="hint",
                ),
            ],
            className="bench-controls",
        ),
        html.Div(id="versions-result"),
    ]


def label_of_version(record: Record, records: Sequence[Record]) -> str:
    """A document in a list, by what tells it from others of its title: folder, sizes, and when it was last changed."""
    alike = [each for each in records if each.title == record.title]
    model, folder = Path(record.model), ""
    if any(each.model != record.model for each in alike) and "/" not in record.title:
        folder = f"{model.parent.name}/"
    sizes = sizes_apart(record.define, (each.define for each in alike))
    day, minute = record.updated[:10], record.updated[11:16]
    same = [r for r in alike if (r.model, r.define) == (record.model, record.define)]
    when = f"{day} {minute} UTC" if len(same) > 1 else day
    return f"{folder}{record.title} ({', '.join(filter(None, (sizes, when)))})"


def versions_view(here: Document, there: Document, found: ModelDiff) -> list[Any]:
    """A row for each op that is not the same in both models."""
    own, its = here.graph.key_index, there.graph.key_index
    rows = []
    for pair in found.changed:
        text = "; ".join(map(str, (*pair.changes, *pair.weights)))
        ops = (own[pair.key[0]], its[pair.key[1]])
        rows.append(_row("changed", text, pair.name, pair.type, ops, there))
    for op in found.went:
        rows.append(
            _row(
                "only here", _into(op.into), (op.name, ""), (op.type, ""), (own[op.key], -1), there
            )
        )
    for op in found.came:
        rows.append(
            _row(
                "only there", _into(op.into), ("", op.name), ("", op.type), (-1, its[op.key]), there
            )
        )
    counts = (
        f"{pluralize(len(found.pairs), 'op')} in both, {len(found.changed):,} of them changed; "
        f"{pluralize(len(found.went), 'op')} only here, {pluralize(len(found.came), 'op')} only there."
    )
    head = html.Tr([html.Th(text) for text in ("", "Here", "There", "What changed")])
    more = len(rows) - _MOST_ROWS
    panes = html.Button(
        "Side by side",
        className="tool small",
        title="Both models in two panes that move together; → steps through what differs",
        **{"data-versions": there.id},
    )
    return [
        html.P([counts, *_times(found)], className="hint wide", id="versions-summary"),
        panes,
        *(html.P(str(text), className="hint wide") for text in (*found.notes, *found.ends)),
        html.Table(
            [html.Thead(head), html.Tbody(rows[:_MOST_ROWS])],
            className="plain",
            id="versions-table",
        )
        if rows
        else None,
        html.P(f"{more:,} more; hetero-editor diff --out writes all.", className="hint wide")
        if more > 0
        else None,
    ]


def _row(
    state: str,
    text: str,
    names: tuple[str, str],
    types: tuple[str, str],
    ops: tuple[int, int],
    there: Document,
) -> html.Tr:
    here = (
        html.Button(
            names[0],
            className="link",
            title="Show this op",
            **{"data-ops": spans(np.array([ops[0]], np.int64))},
        )
        if ops[0] >= 0
        else None
    )
    other = (
        html.Button(
            names[1],
            className="link",
            title="Show this op in the window of the other model, and here",
            **{
                "data-there": f"/d/{there.id}#op={ops[1]}",
                "data-here": f"op{ops[0]}" if ops[0] >= 0 else "",
            },
        )
        if ops[1] >= 0
        else None
    )
    cells = (state, [here, f" {types[0]}"], [other, f" {types[1]}"], text)
    return html.Tr([html.Td(cell) for cell in cells])


def _into(key: str) -> str:
    return f"its result is made by {key!r}" if key else ""


def _times(found: ModelDiff) -> list[Any]:
    """Times of both plans, each on the devices of its page."""
    before, after = found.seconds
    if before is None or after is None:
        return []
    kinds = [kind_badge(kind) for kind in dict.fromkeys(found.kinds) if kind is not None]
    text = f" {human_seconds(before)} here, {human_seconds(after)} there{compared_times(found)} "
    return [text, *kinds]
