"""What a comparison of the tensors of a plan found."""

from __future__ import annotations

from typing import Any

from dash import html

from editor.execution.measure.accuracy import Accuracy
from editor.text import pluralize
from editor.web.panels.parts import plain_table

_MOST_GROWN = 10


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
                html.Td("" if one.origin == "none" else one.origin),
                html.Td(
                    "first outside its tolerance"
                    if one is result.first
                    else "output"
                    if one in outputs
                    else ""
                ),
            ]
        )
        for one in chosen
    ]
    verdict = (
        "all are within their tolerances"
        if result.first is None
        else f"{sum(not one.ok for one in result.tensors):,} are outside their tolerances"
    )
    head = ("Op", "Type", "Device", "Signal to noise", "Relative error", "Cosine", "Noise", "")
    return [
        html.P(
            f"{pluralize(len(result.tensors), 'tensor')} compared with {result.reference}: {verdict}.",
            className="hint wide",
        ),
        plain_table(head, rows),
        *(html.P(note, className="hint wide") for note in result.notes),
    ]
