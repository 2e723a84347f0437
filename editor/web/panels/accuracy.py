"""What a comparison of the tensors of a plan found."""

from __future__ import annotations

from typing import Any

from dash import html

from editor.execution.measure.accuracy import ORIGINS, Accuracy
from editor.text import pluralize
from editor.web.panels.parts import plain_table
from editor.workspace.document import Document

_MOST_GROWN = 10
_ORIGINS = {origin: f"{origin}: {meaning}" for origin, meaning in ORIGINS.items()}


def kept_accuracy(document: Document) -> list[Any]:
    """The last accuracy of the present plan, or else that of another one, which is out of date."""
    last = document.last_accuracy()
    if last is None:
        return []
    when, result = last
    outdated = result.plan != document.placement.fingerprint
    words = "all within tolerance" if result.first is None else f"{_outside(result)} outside"
    return [
        html.H3("Accuracy so far"),
        html.P(
            "Plan changed; this accuracy is out of date.",
            className="hint wide warn",
            id="accuracy-outdated",
        )
        if outdated
        else None,
        html.Details(
            [
                html.Summary(
                    f"{when[:19].replace('T', ' ')} UTC: {pluralize(len(result.tensors), 'tensor')}, {words}"
                ),
                *accuracy_view(result),
            ]
        ),
    ]


def _outside(result: Accuracy) -> str:
    return f"{sum(not one.ok for one in result.tensors):,}"


def accuracy_view(result: Accuracy) -> list[Any]:
    """The first op outside its tolerance, the outputs, and where noise grows most."""
    outputs = [one for one in result.tensors if one.tensor in result.outputs]
    chosen = dict.fromkeys((*filter(None, [result.first]), *outputs, *result.grown[:_MOST_GROWN]))
    rows = [
        html.Tr(
            [
                html.Td(html.B(one.name, title=one.tensor)),
                html.Td(one.type),
                html.Td(one.device),
                html.Td("equal" if not one.noise else f"{one.snr:.1f} dB"),
                html.Td(f"{one.relative:.2g} (tolerance {one.tolerance:g})"),
                html.Td(f"{one.cosine:.6f}"),
                html.Td("" if one.origin == "none" else one.origin, title=_ORIGINS.get(one.origin)),
                html.Td(
                    "first outside its tolerance"
                    if one is result.first
                    else "output"
                    if one in outputs
                    else "noise grows"
                ),
            ]
        )
        for one in chosen
    ]
    verdict = (
        "all are within their tolerances"
        if result.first is None
        else f"{_outside(result)} are outside their tolerances"
    )
    head = [
        *("Op", "Type", "Device", "Signal to noise"),
        html.Span("Relative error", title="Largest difference, relative to the largest magnitude"),
        html.Span("Cosine", title="1 where both point in the same direction"),
        html.Span("Noise", title="\n".join(_ORIGINS.values())),
        "Shown because",
    ]
    return [
        html.P(
            f"{pluralize(len(result.tensors), 'tensor')} compared with {result.reference}: {verdict}.",
            className="hint wide",
        ),
        html.P(
            f"The table has {len(rows)} of them: the outputs, the first outside its tolerance, and at most {_MOST_GROWN} whose "
            "noise grew in their op, the noisiest first. Colour: error shows all in the graph, exports CSV and JSON list all.",
            className="hint wide",
        )
        if len(rows) < len(result.tensors)
        else None,
        plain_table(head, rows),
        *(html.P(f"{note[:1].upper()}{note[1:]}.", className="hint wide") for note in result.notes),
    ]
