"""The one figure of the plan, and the sentence that matters: how it compares with not splitting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import html

from editor.errors import WorkspaceError
from editor.execution.measure.figures import human_rate
from editor.kinds import Kind
from editor.text import human_seconds
from editor.web.panels.parts import basis_badge, kind_badge
from editor.web.view import predicted_of
from editor.workspace.document import Document
from editor.workspace.history import Run


def verdict(document: Document) -> list[Any]:
    """A measurement of exactly this plan, else what it is predicted to take."""
    predicted, basis = predicted_of(document)
    run = _measured(document)
    if run is not None:
        beside = f"{basis.kind} {human_seconds(predicted)}" if predicted and basis else ""
        return _of_run(run.figures, beside)
    if predicted is None or basis is None:
        return [_headline("Not measured", None), _sentence("Benchmark measures it")]
    words = "not measured: Benchmark compares it with not splitting"
    if any(d.planned and document.placement.op_counts[d.name] for d in document.devices):
        words = "planned devices: a benchmark here checks outputs, not speed"
    return [_headline(human_seconds(predicted), basis_badge(basis)), _sentence(words)]


def _measured(document: Document) -> Run | None:
    try:
        run = document.last_run()
    except WorkspaceError:  # the page says so elsewhere
        return None
    return None if run is None or run.figures.get("estimated") else run


def _of_run(figures: Mapping[str, Any], beside: str) -> list[Any]:
    many, unsplit = figures["mode"] == "throughput", figures.get("unsplit")
    shown = human_rate(figures["throughput"]) if many else human_seconds(figures["median"])
    parts: list[Any] = []
    if unsplit and unsplit["figure"]:
        figure = human_rate(unsplit["figure"]) if many else human_seconds(unsplit["figure"])
        words, other = str(unsplit["words"]), f"({figure} on {unsplit['device']})"
        if words.endswith(("slower", "faster")):
            tone = "worse" if words.endswith("slower") else "better"
            parts = [html.Span(words, className=f"delta {tone}"), f" than not splitting {other}"]
        else:
            parts = [f"too close to call beside not splitting {other}"]
    else:
        parts = ["no device runs the whole model"]
    said = html.P(parts, className="sentence", title=f"Beside it: {beside}" if beside else "")
    return [_headline(shown, kind_badge(Kind.MEASUREMENT)), said]


def _headline(figure: str, badge: html.Span | None) -> html.Div:
    return html.Div([html.B(figure), " ", badge], className="headline")


def _sentence(words: str) -> html.P:
    return html.P(words, className="sentence")
