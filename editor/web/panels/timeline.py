"""One run over the devices: subgraphs and transfers as bars on a time axis, one row per device, and one per wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dash import html

from editor.execution.measure.figures import BenchmarkResult, SubgraphFigures
from editor.exports.dot import text_colour
from editor.text import human_bytes, human_seconds, percent
from editor.web.panels.parts import swatch

_LEAST_LABEL = 0.035
"""Share of the run below which a bar has no room for its name."""
_TICKS = 5
_NOTABLE = 0.03
"""Difference between a run and the sum of its steps that is named"""
_NEUTRAL = "#868e96"
"""Of lanes beside the devices of the table."""


@dataclass(frozen=True)
class Step:
    """A bar; seconds from the start of the run."""

    lane: str
    """A device, or a wire between two machines such as "edge -> server"."""
    start: float
    seconds: float
    part: int
    """Subgraph that runs, or that a transfer feeds."""
    tensor: str
    """"" for a subgraph"""
    what: str


def steps(result: BenchmarkResult) -> list[Step]:
    """What all steps take in a run as long as the median one, in the order in which a request takes them.

    With several requests in flight, the medians of the steps.
    """
    made, now = [], 0.0
    for s in result.subgraphs:
        for t in result.transfers:
            if t.target == s.id:
                size = f", {human_bytes(t.sent)} over {t.over}" if t.wire else ""
                made.append(
                    Step(
                        t.wire or t.to_device,
                        now,
                        t.time.median,
                        s.id,
                        t.tensor,
                        f"transfer of {t.tensor} from subgraph {t.source} ({t.from_device}){size}",
                    )
                )
                now += t.time.median
        seconds = seconds_of(result, s)
        made.append(Step(s.device, now, seconds, s.id, "", f"subgraph {s.id}: {s.what}"))
        now += seconds
    return made


def seconds_of_shares(result: BenchmarkResult) -> float:
    """The time that shares are of, here and in the table: the median run, as the plan's card has it; else its steps."""
    if result.mode != "latency":
        return max(sum(step.seconds for step in steps(result)), 1e-12)
    return max(result.total.median, sum(s.in_median_run for s in result.subgraphs), 1e-12)


def seconds_of(result: BenchmarkResult, part: SubgraphFigures) -> float:
    """What a subgraph takes in the median run; its own median where that says nothing."""
    return part.in_median_run if result.mode == "latency" else part.time.median


def timeline(result: BenchmarkResult, colours: dict[str, str]) -> html.Div:
    """The chart; a click on a bar shows its subgraph in the graph."""
    bars = steps(result)
    whole = max(sum(b.seconds for b in bars), 1e-12)
    base = seconds_of_shares(result)
    rows = []
    wires = {wire.name: wire for wire in result.wires}
    for lane in dict.fromkeys(b.lane for b in bars):
        mine, fill = [b for b in bars if b.lane == lane], colours.get(lane, _NEUTRAL)
        computing, sending = (
            sum(b.seconds for b in mine if bool(b.tensor) is is_sent) / base
            for is_sent in (False, True)
        )
        share = sending if lane in wires else computing
        title = (
            f"{lane}: {wires[lane].what}, {human_seconds(wires[lane].seconds)} in a run"
            if lane in wires
            else lane
        )
        rows.append(
            html.Div(
                [
                    html.Div(
                        [
                            swatch(fill),
                            html.Span(lane, className="gantt-device", title=title),
                        ],
                        className="gantt-name",
                    ),
                    html.Div([_bar(b, whole, base, fill) for b in mine], className="gantt-lane"),
                    html.Div(
                        f"{percent(share)} of the run",
                        className="gantt-share",
                        title=f"{lane}: {percent(computing, 1)} of the run in its subgraphs, {percent(sending, 1)} in "
                        "transfers to it",
                    ),
                ],
                className="gantt-row wire" if lane in wires else "gantt-row",
            )
        )
    ticks = [
        html.Span(human_seconds(whole * i / _TICKS), style={"left": f"{100 * i / _TICKS:.1f}%"})
        for i in range(_TICKS + 1)
    ]
    axis = html.Div(
        [
            html.Div(className="gantt-name"),
            html.Div(ticks, className="gantt-axis"),
            html.Div(className="gantt-share"),
        ],
        className="gantt-row",
    )
    title = "One request on the devices (the steps of the median run, in order)"
    sums = [
        html.P(
            f"Wire {w.name}: {w.what}, {human_seconds(w.seconds)} in a run",
            className="hint wide gantt-wire",
        )
        for w in result.wires
    ]
    run = result.total.median
    words = (
        f"These steps add up to {human_seconds(whole)}; the median run took {human_seconds(run)}."
    )
    notable = result.mode == "latency" and abs(run / whole - 1) > _NOTABLE
    apart = [html.P(words, className="hint wide")] if notable else []
    return html.Div([html.H3(title), *rows, axis, *apart, *sums], className="gantt", id="gantt")


def _bar(step: Step, whole: float, base: float, fill: str) -> html.Button:
    share = step.seconds / whole
    words = (
        f"{step.what}\n{human_seconds(step.seconds)}, {percent(step.seconds / base, 1)} of the run"
    )
    style: dict[str, Any] = {
        "left": f"{100 * step.start / whole:.3f}%",
        "width": f"max(2px, {100 * share:.3f}%)",
        "backgroundColor": fill,
        "color": text_colour(fill),
    }
    return html.Button(
        "" if step.tensor or share < _LEAST_LABEL else f"s{step.part}",
        title=words,
        style=style,
        className="gantt-bar transfer" if step.tensor else "gantt-bar",
        **{"data-part": str(step.part), "aria-label": words},
    )
