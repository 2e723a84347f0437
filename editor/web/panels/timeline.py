"""One run over the devices: subgraphs and transfers as bars on a time axis, one row per device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dash import html

from editor.execution.measure.figures import BenchmarkResult
from editor.exports.colours import text_colour
from editor.text import human_seconds
from editor.web.panels.parts import planned_badge, swatch

_LEAST_LABEL = 0.035
"""Share of the run below which a bar has no room for its name."""
_TICKS = 5


@dataclass(frozen=True)
class Step:
    """A bar; seconds from the start of the run."""

    device: str
    start: float
    seconds: float
    part: int
    """Subgraph that runs, or that a transfer feeds."""
    tensor: str
    """"" for a subgraph"""
    what: str
    estimated: bool


def steps(result: BenchmarkResult) -> list[Step]:
    """The medians of all steps one after the other, in the order in which a request takes them."""
    made, now = [], 0.0
    for s in result.subgraphs:
        for t in result.transfers:
            if t.target == s.id:
                made.append(Step(t.to_device, now, t.time.median, s.id, t.tensor,
                                  f"transfer of {t.tensor} from subgraph {t.source} ({t.from_device})", t.estimated))
                now += t.time.median
        made.append(Step(s.device, now, s.time.median, s.id, "", f"subgraph {s.id}: {s.what}", s.estimated))
        now += s.time.median
    return made


def timeline(result: BenchmarkResult, colours: dict[str, str]) -> html.Div:
    """The chart; a click on a bar shows its subgraph in the graph."""
    bars = steps(result)
    whole = max(sum(b.seconds for b in bars), 1e-12)
    rows = []
    for device in dict.fromkeys(b.device for b in bars):
        mine = [b for b in bars if b.device == device]
        share = sum(b.seconds for b in mine) / whole
        rows.append(html.Div([
            html.Div([swatch(colours.get(device, "#868e96")),
                      html.Span(device, className="gantt-device", title=device), _badge(mine)],
                     className="gantt-name"),
            html.Div([_bar(b, whole, colours.get(device, "#868e96")) for b in mine], className="gantt-lane"),
            html.Div(f"{share:.0%}", className="gantt-share", title=f"{device} is busy for {share:.1%} of a run")],
            className="gantt-row"))
    ticks = [html.Span(human_seconds(whole * i / _TICKS), style={"left": f"{100 * i / _TICKS:.1f}%"})
             for i in range(_TICKS + 1)]
    axis = html.Div([html.Div(className="gantt-name"), html.Div(ticks, className="gantt-axis"),
                     html.Div(className="gantt-share")], className="gantt-row")
    title = "One request on the devices (median of every step, in order; shares in the table are of the mean run)"
    return html.Div([html.H3(title), *rows, axis], className="gantt", id="gantt")


def _badge(mine: Sequence[Step]) -> html.Span | None:
    """A device that is here has measured subgraphs, and yet estimated transfers from one that is not."""
    estimated = [b.estimated for b in mine]
    return planned_badge("estimated" if all(estimated) else "partly estimated") if any(estimated) else None


def _bar(step: Step, whole: float, fill: str) -> html.Button:
    share = step.seconds / whole
    mark = " (estimated)" if step.estimated else ""
    words = f"{step.what}\n{human_seconds(step.seconds)}, {share:.1%} of these medians{mark}"
    style: dict[str, Any] = {"left": f"{100 * step.start / whole:.3f}%", "width": f"max(2px, {100 * share:.3f}%)",
                             "backgroundColor": fill, "color": text_colour(fill)}
    return html.Button("" if step.tensor or share < _LEAST_LABEL else f"s{step.part}", title=words, style=style,
                       className="gantt-bar transfer" if step.tensor else "gantt-bar",
                       **{"data-part": str(step.part), "aria-label": words})
