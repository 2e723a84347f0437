"""Figures of the constants that an op reads, on demand."""

from __future__ import annotations

from typing import Any

from dash import html

from editor.errors import EditorError
from editor.graph.constants import Figures, figures, weights_of
from editor.graph.graph import Graph
from editor.text import percent
from editor.web.panels.parts import facts

_MOST_SHOWN = 8


def weights(graph: Graph, op: int, asked: bool) -> list[Any]:
    """A button that asks for the figures, or the figures; nothing where all constants of an op are seen as values."""
    tensors = weights_of(graph, op)
    if not tensors:
        return []
    if not asked:
        problem = graph.weights_problem
        return [
            html.Button(
                "Figures of the weights",
                className="tool small",
                title=problem or "Range, mean, zeros and histogram, read from the model file",
                disabled=bool(problem),
                **{"data-weights": str(op)},
            )
        ]
    try:
        found = figures(graph, tuple(tensors[:_MOST_SHOWN]))
    except EditorError as error:
        return [html.P(str(error), className="hint")]
    rows = [
        _figures(each) if isinstance(each, Figures) else _missing(graph.tensor_names[tensor], each)
        for tensor, each in zip(tensors, found, strict=False)
    ]
    more = len(tensors) - len(rows)
    return [
        html.H4("Weights, as stored"),
        html.Div(rows, className="weights"),
        html.P(f"and {more:,} more", className="hint") if more else None,
    ]


def _missing(name: str, reason: str) -> html.Div:
    return html.Div(
        [_name(name), html.P(f"No figures: {reason}.", className="hint")], className="tensor"
    )


def _name(name: str) -> html.Div:
    return html.Div(html.Bdi(name), className="tensor-name", title=name)


def _figures(each: Figures) -> html.Div:
    number = "{:,.0f}" if "int" in each.type or each.type == "bool" else "{:.4g}"
    least, largest = number.format(each.least), number.format(each.largest)
    pairs = [
        ("Range", f"{least} to {largest}"),
        ("Mean", f"{each.mean:.4g}"),
        ("Deviation", f"{each.deviation:.4g}"),
        ("Zeros", f"{each.zeros:,} ({percent(each.zeros / each.count, 1)})"),
    ]
    if each.not_finite:
        pairs.append(("Not finite", f"{each.not_finite:,} (NaN or infinite)"))
    top = max(each.bins)
    bars = [
        html.Span(style={"height": f"{100 * n / top:.1f}%"}, title=f"{n:,} elements")
        for n in each.bins
    ]
    shape = "x".join(map(str, each.shape)) or "scalar"
    return html.Div(
        [
            _name(each.name),
            html.Div(f"{each.type} {shape}, {each.count:,} elements", className="tensor-line"),
            html.Div(
                bars,
                className="histogram",
                role="img",
                **{"aria-label": f"Histogram of {len(bars)} bins from {least} to {largest}"},
            ),
            html.Div([html.Span(least), html.Span(largest)], className="histogram-ends"),
            facts(pairs),
        ],
        className="tensor",
    )
