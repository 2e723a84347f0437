"""The status bar: what the plan costs, and what the last stroke changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from dash import html

from editor.graph.required_sizes import most_positions
from editor.graph.states import unit_of_rate
from editor.kinds import too_close
from editor.placement.state_memory import FAR_CONTEXT
from editor.text import (
    human_bytes,
    human_rate,
    human_seconds,
    in_words,
    pluralize,
    rough_rate,
)
from editor.web.panels.doubts import doubtful_badge
from editor.web.panels.layout_figures import factor_of_rough
from editor.web.panels.verdict import beyond_memory, headline, over_memory, too_long
from editor.web.view import figures_of
from editor.workspace.document import Document

_CLOSER = "Closer than such figures can tell: a profile or a benchmark can"


_measured: WeakSet[Document] = WeakSet()
"""Documents whose status bar has a measurement"""
_shown: WeakKeyDictionary[Document, Mapping[str, Any]] = WeakKeyDictionary()


def last_shown(document: Document) -> Mapping[str, Any] | None:
    """The figures that the status bar had last; None before it was drawn."""
    return _shown.get(document)


def status(document: Document, before: Mapping[str, Any] | None = None) -> list[Any]:
    """Figures with their change against ``before``."""
    was_measured = document in _measured
    _shown[document] = now = figures_of(document)
    before = before or now
    unknown = f" + {now['unknown']} of unknown size" if now["unknown"] else ""
    parts = [
        _figure("ops", now["ops"], None),
        _figure("subgraphs", now["subgraphs"], now["subgraphs"] - before["subgraphs"]),
        _figure("transfers", now["transfers"], now["transfers"] - before["transfers"]),
        html.Span(
            [
                html.B(human_bytes(now["moved"]) + unknown),
                " transferred per inference ",
                _delta(now["moved"] - before["moved"], human_bytes),
            ],
            className="figure",
        ),
        _context(document, now["context"], before["context"]),
        _headline(document, now, before, was_measured),
        _figure("pins", now["pins"], now["pins"] - before["pins"]),
    ]
    forced = len(document.placement.forced_ops)
    if forced:
        parts.append(
            html.Span(
                f"{pluralize(forced, 'op')} forced onto devices that do not take them",
                className="figure warning",
            )
        )
    by_name = {d.name: d for d in document.devices}
    over = [
        f"{name} by {human_bytes(by_name[name].lacking(size))}"
        for name, size in over_memory(document).items()
    ]
    if over:
        words = f"Over memory: {', '.join(over)}"
        parts.append(html.Span(words, className="figure warning", title=words))
    for note in document.graph.own_notes:
        parts.append(html.Span(note, className="figure warning", title=note))
    return parts


def _headline(
    document: Document, now: Mapping[str, Any], before: Mapping[str, Any], was_measured: bool
) -> html.Span | None:
    """The figure of the plan; its change where both are predictions of one kind, else what it was."""
    said = headline(document)
    (_measured.discard if said.run is None else _measured.add)(document)
    if not said.figure:
        return None
    at = [html.Span(said.at, className="beside"), " "] if said.at else []
    parts: list[Any] = [html.B(said.figure), " ", *at, said.badge, " "]
    if said.beyond:
        parts += [beyond_memory(said), " "]
    if said.run is None and (now["rate"] is None) == (before["rate"] is None):
        unit = unit_of_rate(document.graph)
        same = now["basis"] == before["basis"]
        change = _change(now, before, unit) if same else _before(before, unit)
        parts += [change, " "]
        if change is not None and same and was_measured:
            kind = now["basis"].kind
            parts.append(html.Span(f"against the {kind} before ", className="beside"))
    if said.beside and said.run is not None:  # of an estimate, the verdict says it
        parts += [html.Span(said.beside, className="beside"), " "]
    parts.append(doubtful_badge(document))
    return html.Span(parts, className="figure", **{"data-figure": "predicted"})


def _context(document: Document, now: int | None, before: int | None) -> html.Span | None:
    """Up to which context the plan fits, where memory ends it, and how a stroke changed that."""
    if now is None or now >= min(most_positions(document.graph), FAR_CONTEXT):
        return None
    if over_memory(document):  # which is said beside it
        return None
    if what := too_long(document):
        words = f"no room for {what}"
        return html.Span(words, className="figure warning", **{"data-figure": "context"})
    change = _delta(now - (now if before is None else before), "{:,}".format, more_is_better=True)
    return html.Span(
        ["fits ", html.B(f"{now:,}"), " tokens ", change],
        className="figure",
        title="Of context, with room for what runtimes add (estimate)",
        **{"data-figure": "context"},
    )


def _change(now: Mapping[str, Any], before: Mapping[str, Any], unit: str) -> Any:
    form: Callable[[float], str] = human_seconds
    key = "predicted"
    if now["rate"] is not None:
        form, key = partial(human_rate, unit=unit), "rate"
    new, old = now[key], before[key] or now[key]
    ranked = not too_close(new, old, now["basis"])
    if now["rough"] or before["rough"]:
        shown = factor_of_rough(new, old, key == "rate") if ranked else None
    else:
        change = new - old if form(new) != form(old) else 0
        shown = _delta(change, form, key == "rate", ranked=ranked)
    same = abs(new - old) <= 1e-9 * old  # sums in another order
    return shown if shown is not None or same or ranked else _untold()


def _before(before: Mapping[str, Any], unit: str) -> html.Span | None:
    """What a figure was that comes from elsewhere, so that no difference can be told."""
    rate, seconds = before["rate"], before["predicted"]
    if not before["basis"] or not (rate or seconds):
        return None
    in_rate = rough_rate if before["rough"] else human_rate
    was = in_rate(rate, unit=unit) if rate else in_words(seconds, before["rough"])
    return html.Span(f"before: {was} ({before['basis']})", className="beside")


def _untold() -> html.Span:
    """Stands where there is a change, but not whether it is for the better."""
    return html.Span("too close to call", className="delta beside", title=_CLOSER)


def _figure(name: str, value: int, delta: int | None) -> html.Span:
    label = name[:-1] if value == 1 else name
    return html.Span(
        [
            html.B(f"{value:,}"),
            f" {label} ",
            _delta(delta or 0, str, is_good_or_bad=name != "pins"),
        ],
        className="figure",
        **{"data-figure": name, "data-value": str(value)},
    )


def _delta(
    change: float,
    form: Any,
    more_is_better: bool = False,
    ranked: bool = True,
    is_good_or_bad: bool = True,
) -> html.Span | None:
    if not change:
        return None
    text = f"+{form(change)}" if change > 0 else f"−{form(-change)}"
    if not is_good_or_bad:
        return html.Span(text, className="delta")
    if not ranked:
        return html.Span(text, className="delta", title=_CLOSER)
    better = (change > 0) == more_is_better
    return html.Span(text, className="delta better" if better else "delta worse")
