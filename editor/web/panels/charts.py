"""Charts of the benchmark panel."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from editor.placement.choices import PRESENT
from editor.text import human_seconds
from editor.web.panels.layout_figures import longest_bar

_MAX_POINTS = 400
_ESTIMATE = " (estimate)"
_NO_RUN_YET = "The time of each run appears here, once the model is compiled and warmed up."
_IN_THE_MIDDLE = {"xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5, "showarrow": False}
PLAN_COLOUR = {"light": "#7048e8", "dark": "#b197fc"}
"""Of the plan, in all charts; no device has it."""
_OTHER_COLOURS = ("#e03131", "#2f9e44", "#c2255c", "#0c8599", "#e8590c")
"""Of other plans beside it"""


def _import_pandas() -> None:
    """Imports pandas, which comes with OR-Tools: Plotly uses what is in ``sys.modules``, and fails with half of it.

    Where it was not there, another thread that solves a plan could begin to import it while a chart is drawn.
    """
    import_module("pandas")


def live_figure(
    samples: Sequence[dict[str, Any]],
    subgraph_devices: Sequence[str],
    colours: dict[str, str],
    scheme: str,
    medians: Mapping[str, float] = MappingProxyType({}),
    unfit: Collection[str] = (),
) -> go.Figure:
    """Latency of a run of each turn, and the mean of each subgraph and of the transfers stacked.

    With several requests in flight the rate of each turn in place of the latency. What takes many times as long as the best
    is not drawn whole, as the others could not be told apart beside it.

    Args:
        samples: events of kind ``sample``; times in seconds, rates in requests per second; ``estimated`` are those of plans
            of which a part ran on a stand-in.
        subgraph_devices: device of each subgraph, by id.
        colours: by device name.
        scheme: "light" or "dark".
        medians: results of plans that were measured side by side, by name, in ms or requests/s; so far those of the samples.
        unfit: devices without room for the whole model.
    """
    _import_pandas()
    plans = [bool(s["estimated"]) for s in samples if s["plan"] is not None]
    mark = _ESTIMATE if plans and all(plans) else ""
    what = "Requests/s" if any(s.get("rate") is not None for s in samples) else "Latency, ms"
    figure = make_subplots(
        1,
        2,
        column_widths=[0.62, 0.38],
        horizontal_spacing=0.09,
        subplot_titles=(f"{what}{mark}", f"Mean per subgraph and transfers, ms{mark}"),
    )
    by_name: dict[tuple[bool, str], list[dict[str, Any]]] = {}
    for sample in samples:
        by_name.setdefault((sample["plan"] is None, sample["name"]), []).append(sample)
    several = len({name for is_baseline, name in by_name if not is_baseline}) > 1
    plan_colours: dict[str, str] = {}
    typical = {key: float(np.median([_height(s) for s in mine])) for key, mine in by_name.items()}
    limit = longest_bar(list(typical.values())) if what.startswith("Latency") else math.inf
    drawn: set[tuple[float, float]] = (
        set()
    )  # first samples: a plan that is one device alone is measured as one with it
    for (is_baseline, name), mine in by_name.items():
        first = (float(mine[0]["at"]), float(mine[0]["total"]))
        if several and is_baseline and first in drawn:
            continue  # its line would lie on the plan's
        drawn.add(first)
        step = max(1, len(mine) // _MAX_POINTS)
        shown = mine[::step]
        label = (
            f"unsplit on {name}{', does not fit' if name in unfit else ''}"
            if is_baseline
            else (name if several else PRESENT) + _ESTIMATE * bool(mine[0]["estimated"])
        )
        line = (
            {"width": 1.4, "dash": "dot", "color": colours.get(name, "#888888")}
            if is_baseline
            else {"width": 2.2, "color": PLAN_COLOUR[scheme]}
        )
        if several and not is_baseline:
            others = len(plan_colours.keys() - {PRESENT})
            plan_colours[name] = _OTHER_COLOURS[others % len(_OTHER_COLOURS)]
            if name == PRESENT:
                plan_colours[name] = PLAN_COLOUR[scheme]
            line = {"width": 2.2, "color": plan_colours[name]}
        if typical[is_baseline, name] > limit:
            label += f": {human_seconds(typical[is_baseline, name] / 1e3)}, above the chart"
        figure.add_trace(
            go.Scatter(
                x=[s["at"] for s in shown],
                y=[_height(s) for s in shown],
                name=label,
                mode="lines+markers" if len(shown) < 40 else "lines",
                line=line,
                hovertemplate=f"%{{y:.2f}} {_unit(shown[0])}<extra>{_escape(label)}</extra>",
            ),
            1,
            1,
        )
    near = [s for key, mine in by_name.items() if typical[key] <= limit for s in mine]
    if len(near) < len(samples):
        figure.update_yaxes(range=[0, 1.1 * max(map(_height, near))], row=1, col=1)
    if several:
        _add_medians(figure, by_name, plan_colours, medians, scheme)
    else:
        _add_shares(
            figure, [s for s in samples if s["plan"] is not None], subgraph_devices, colours
        )
    _dress(figure, scheme)
    if not samples:
        figure.update_xaxes(visible=False)
        figure.update_yaxes(visible=False)
        figure.layout.annotations = [{**_IN_THE_MIDDLE, "text": _NO_RUN_YET}]
    return figure


def _add_medians(
    figure: go.Figure,
    by_name: dict[tuple[bool, str], list[dict[str, Any]]],
    colours: dict[str, str],
    medians: Mapping[str, float],
    scheme: str,
) -> None:
    rows = [
        (name, medians.get(name) or float(np.median([_height(s) for s in mine])))
        for (base, name), mine in by_name.items()
        if not base
    ]
    unit = next((_unit(s) for mine in by_name.values() for s in mine), "ms")
    estimated = {name for (_, name), mine in by_name.items() if mine[0]["estimated"]}
    rows.sort(key=lambda row: row[1] if unit != "ms" else -row[1])  # the best is drawn last, on top
    figure.add_trace(
        go.Bar(
            x=[value for _, value in rows],
            y=[name for name, _ in rows],
            orientation="h",
            showlegend=False,
            marker={"color": [colours[name] for name, _ in rows]},
            text=[f"{name}: {value:.2f}{_ESTIMATE * (name in estimated)}" for name, value in rows],
            textposition="inside",
            insidetextanchor="start",
            hovertemplate=f"%{{y}}: %{{x:.3f}} {unit}<extra></extra>",
        ),
        1,
        2,
    )
    figure.layout.annotations[1].text = f"Median{'' if medians else ' so far'}, {unit}"
    limit = longest_bar([value for _, value in rows]) if unit == "ms" else math.inf
    if any(value > limit for _, value in rows):
        end = max(value for _, value in rows if value <= limit)
        figure.update_xaxes(range=[0, 1.1 * end], row=1, col=2)
        _add_breaks(figure, [value > limit for _, value in rows], scheme, "2")


@dataclass(frozen=True)
class Bar:
    """One way to run the model, in ms or requests/s."""

    name: str
    value: float
    interval: tuple[float, float] | None
    """With 95 %; None where it is not known"""
    colour: str


_BREAK = (0.966, 0.5), (0.974, 0.5), (0.968, -0.5), (0.96, -0.5)
"""The corners of a break in a bar: in parts of the width, and in bars from the middle of it."""


def versus_figure(bars: Sequence[Bar], unit: str, scheme: str) -> go.Figure:
    """A bar per way to run the model, the best on top, with its interval.

    Bars that are many times as long as the best one end at the edge, with a break.
    """
    is_time = unit == "ms"
    if is_time and max((bar.value for bar in bars), default=0.0) >= _SECONDS_FROM:
        unit, bars = "s", [_in_seconds(bar) for bar in bars]
    ordered = sorted(bars, key=lambda bar: -bar.value if is_time else bar.value)
    limit = longest_bar([bar.value for bar in bars]) if is_time else math.inf
    near = [bar for bar in bars if bar.value <= limit]
    end = max((max(bar.value, *(bar.interval or (0.0,))) for bar in near), default=0.0)
    is_cut = len(near) < len(bars)
    _import_pandas()
    figure = go.Figure(
        go.Bar(
            x=[bar.value for bar in ordered],
            y=[_escape(bar.name) for bar in ordered],
            orientation="h",
            marker={"color": [bar.colour for bar in ordered]},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [b.interval and b.interval[1] - b.value for b in ordered],
                "arrayminus": [b.interval and b.value - b.interval[0] for b in ordered],
                "color": "#adb5bd" if scheme == "dark" else "#343a40",
                "thickness": 1.4,
                "width": 5,
            },
            hovertemplate=f"%{{y}}: %{{x:.4g}} {unit}<extra></extra>",
        )
    )
    ink, grid = _inks(scheme)
    figure.update_layout(
        margin={"l": 8, "r": 16, "t": 6, "b": 34},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": ink, "size": 11, "family": "Inter, system-ui, sans-serif"},
        bargap=0.28,
        showlegend=False,
    )
    title = f"Latency, {unit} (median, 95 % interval)" if is_time else "Requests/s (95 % interval)"
    figure.update_xaxes(
        gridcolor=grid, zerolinecolor=grid, rangemode="tozero", title={"text": title, "standoff": 2}
    )
    if is_cut:
        figure.update_xaxes(range=[0, 1.1 * end])
    _add_breaks(figure, [bar.value > limit for bar in ordered], scheme)
    named = [f"{_escape(bar.name)}  <b>{_figure_of(bar.value, unit)}</b>  " for bar in ordered]
    figure.update_yaxes(automargin=True, tickvals=[*range(len(named))], ticktext=named)
    return figure


def _add_breaks(
    figure: go.Figure, is_cut: Sequence[bool], scheme: str, axes: Literal["", "2"] = ""
) -> None:
    """Shows which bars, from below, are longer than is drawn."""
    ground = "#1d2025" if scheme == "dark" else "#ffffff"
    for place in (place for place, cut in enumerate(is_cut) if cut):
        path = " L ".join(f"{x},{place + y}" for x, y in _BREAK)
        figure.add_shape(
            type="path",
            xref=f"x{axes} domain",
            yref=f"y{axes}",
            path=f"M {path} Z",
            fillcolor=ground,
            line={"width": 0},
            name="longer than is drawn",
        )


_SECONDS_FROM = 5000.0
"""Milliseconds of a bar from which on all bars are in seconds."""


def _in_seconds(bar: Bar) -> Bar:
    interval = bar.interval and (bar.interval[0] / 1e3, bar.interval[1] / 1e3)
    return replace(bar, value=bar.value / 1e3, interval=interval)


def _figure_of(value: float, unit: str) -> str:
    if unit in ("ms", "s"):
        return human_seconds(value / 1e3 if unit == "ms" else value)
    return f"{value:.4g} {unit}"


def _inks(scheme: str) -> tuple[str, str]:
    """Of texts and of the grid."""
    return ("#dee2e6", "#373a40") if scheme == "dark" else ("#343a40", "#e9ecef")


def _height(sample: dict[str, Any]) -> float:
    """Requests per second where several were in flight, else milliseconds."""
    rate = sample.get("rate")
    return float(rate) if rate is not None else float(sample["total"]) * 1e3


def _unit(sample: dict[str, Any]) -> str:
    return "ms" if sample.get("rate") is None else "requests/s"


def _add_shares(
    figure: go.Figure,
    mine: Sequence[dict[str, Any]],
    devices: Sequence[str],
    colours: dict[str, str],
) -> None:
    if not mine:
        return
    means = np.mean([s["subgraphs"] for s in mine], axis=0) * 1e3
    transfers = float(np.mean([s["transfers"] for s in mine])) * 1e3
    edge = {"line": {"width": 0.6, "color": "rgba(255,255,255,.75)"}}
    for i, value in enumerate(means.tolist()):
        figure.add_trace(
            go.Bar(
                x=[value],
                y=[PRESENT],
                orientation="h",
                showlegend=False,
                name=f"subgraph {i}",
                marker={
                    "color": colours.get(devices[i], "#888888") if i < len(devices) else "#888888",
                    **edge,
                },
                text=f"{i}" if value > 0.04 * means.sum() else "",
                textposition="inside",
                insidetextanchor="middle",
                hovertemplate=f"subgraph {i} on {_escape(devices[i]) if i < len(devices) else '?'}: "
                "%{x:.3f} ms<extra></extra>",
            ),
            1,
            2,
        )
    figure.add_trace(
        go.Bar(
            x=[transfers],
            y=[PRESENT],
            orientation="h",
            showlegend=False,
            name="transfers",
            marker={"color": "#495057", "pattern": {"shape": "/"}, **edge},
            hovertemplate="transfers: %{x:.3f} ms<extra></extra>",
        ),
        1,
        2,
    )


def _dress(figure: go.Figure, scheme: str) -> None:
    ink, grid = _inks(scheme)
    figure.update_layout(
        barmode="stack",
        margin={"l": 44, "r": 12, "t": 34, "b": 42},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": ink, "size": 11, "family": "Inter, system-ui, sans-serif"},
        legend={
            "orientation": "h",
            "yref": "container",
            "yanchor": "bottom",
            "y": 0,
            "x": 0,
            "font": {"size": 11},
            "traceorder": "normal",
        },
        uirevision="keep",
        showlegend=True,
        hoverlabel={"font": {"size": 11}},
    )
    figure.update_xaxes(gridcolor=grid, zerolinecolor=grid, linecolor=grid)
    figure.update_yaxes(
        gridcolor=grid, zerolinecolor=grid, linecolor=grid, rangemode="tozero", row=1, col=1
    )
    figure.update_xaxes(ticksuffix=" s", rangemode="tozero", row=1, col=1)
    figure.update_xaxes(visible=any(trace.type == "bar" for trace in figure.data), row=1, col=2)
    figure.update_yaxes(showticklabels=False, row=1, col=2)
    figure.update_annotations(font={"size": 12, "color": ink})


def _escape(text: str) -> str:
    """Plotly reads a little HTML in its texts; names of devices must not be taken for it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
