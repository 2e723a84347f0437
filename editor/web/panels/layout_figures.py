"""Figures of layouts side by side, in a table and a chart: what was measured stands before what was worked out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dash import html

from editor.kinds import (
    NO_DIFFERENCE,
    Basis,
    Kind,
    compare_medians,
    told_apart,
    too_close,
    weakest,
)
from editor.placement.placement import Placement
from editor.text import human_joules, pluralize, rough_rate, roughly
from editor.web.panels.parts import kind_badge, swatch
from editor.workspace.contexts import are_alike, of_run
from editor.workspace.history import Run

_TOO_CLOSE = "too close to call"
KIT = "a measurement kit (tab Devices) measures where the devices are"
"""The way to better figures of planned devices"""
_LONGEST = 6
"""Times the best one."""


class Bases(NamedTuple):
    """What figures of a layout are, and those of the plan that it is compared with."""

    plan: Basis
    layout: Basis
    is_plan: bool
    """Whether the layout is the plan itself"""
    rough: bool
    """Whether figures of the layout rest on assumed speeds"""
    plan_rough: bool
    is_planned: bool = False
    """Whether the layout is on planned devices only, which cannot be profiled here"""
    at: str = ""
    """The context of what was worked out, where a layout was measured at another one"""


class Figure(NamedTuple):
    """A figure of a layout that was worked out, and that of the plan."""

    value: float
    base: float
    form: Callable[[float], str]
    bases: Bases
    more_is_better: bool = False
    is_speed: bool = True
    """Whether less of it, or more where that is better, is faster"""

    @property
    def words(self) -> str:
        """The figure, in rough figures where it rests on assumed speeds."""
        words = self.form(self.value)
        if self.bases.rough:
            words = f"about {self.form(roughly(self.value))}"
        return f"{words} {self.bases.at}".rstrip()


class Bar(NamedTuple):
    """A layout in the chart."""

    name: str
    figure: Figure
    run: Run | None
    """A measurement of the same plan"""
    label: Any = ""
    """The name as it is shown"""
    fits: bool = True
    """Whether no device needs more memory than it has"""

    def rank(self, mode: str) -> tuple[bool, bool, float]:
        """Less for a better one: what was measured comes first, what does not fit last of its kind."""
        value = self.figure.value if self.run is None else _of_run(self.run, mode)
        return self.run is None, not self.fits, -value if mode == "throughput" else value


_Shown = tuple[Bar, Kind, float, tuple[float, float] | None]
"""A bar of the chart: the kind of its value, the value, and the ends of its interval"""


def longest_bar(times: Sequence[float]) -> float:
    """The longest time that a chart draws whole: bars of others end at its edge, with a break.

    The others could not be told apart beside one that is many times as long as the best.
    """
    return _LONGEST * min((time for time in times if time), default=0.0)


def spread_of_ops(counts: Mapping[str, int], colours: Mapping[str, str]) -> html.Span:
    """How many ops each device has."""
    return html.Span(
        [
            html.Span([swatch(colours[n]), f"{c} "], title=f"{pluralize(c, 'op')} on {n}")
            for n, c in counts.items()
        ],
        className="spread",
    )


def per_second(row: Mapping[str, Any]) -> float:
    """Requests that the busiest processor can finish in a second."""
    return 1 / max(float(row["busiest"]), 1e-12)


def rate(value: float, is_rough: bool = False) -> str:
    """Requests per second, under a head that has the unit; rough where they rest on assumed speeds."""
    if is_rough:
        return rough_rate(value).removesuffix(" requests/s")
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def speed_cell(
    mode: str, run: Run | None, plans: Run | None, figure: Figure, is_named: bool = False
) -> html.Td:
    """A time or a rate of a layout: the measured one, with what was worked out beside it.

    Args:
        mode: ``latency`` or ``throughput``.
        run: the measurement of the layout; None where there is none.
        plans: that of the plan.
        figure: what was worked out.
        is_named: whether a badge of its kind follows.
    """
    if run is None:
        worked = _worked_out if plans is None else _beside_measured
        return html.Td(worked(figure, is_named))
    form = figure.form
    worked_out: list[Any] = [f"{figure.bases.layout.kind.participle} {figure.words}"]
    context = of_run(run) or figure.bases.at
    change, doubt, titles = None, None, list[str]()
    if context and figure.bases.at:
        worked_out.append(f"; measured {context}")
    elif context:
        titles.append(f"Measured {context}")
    if plans is None:  # what was worked out can be compared only with what was worked out
        participle, words = f"{figure.bases.layout.kind.participle} ", _worked_out(figure, True)
        beside_plan = [" beside this plan's"] if len(words) > 1 else []
        worked_out = [participle, *words, *beside_plan, *worked_out[1:]]
        titles.append("This plan is not measured")
    elif not figure.bases.is_plan and plans != run:
        change, doubt = _measured_difference(mode, run, plans, figure)
    badge = kind_badge(Kind.MEASUREMENT, detail=details_of(run, mode, form))
    beside = [html.Span(worked_out, title="; ".join(titles) or None)]
    return html.Td(
        [
            html.B(form(_of_run(run, mode))),
            " ",
            badge,
            *noisy_mark(run),
            " ",
            change,
            html.Div([*beside, *([" · ", doubt] if doubt else [])], className="hint"),
        ]
    )


def at_least_cell(run: Run, figure: Figure) -> html.Td:
    """A rate of a layout of which the time was measured: so many were finished."""
    unit = " tokens/s" if run.figures["mode"] == "tokens" else ""
    flight = int(run.figures.get("requests") or 1)
    many = f"{flight} in flight" if flight > 1 else "one at a time"
    worked_out = f"{figure.bases.layout.kind.participle} {figure.words}"
    return html.Td(
        [
            html.B(f"at least {rate(float(run.figures['throughput']))}{unit}"),
            " ",
            kind_badge(
                Kind.MEASUREMENT,
                detail=f"Of the run that has the time, {many}: its runs by their time in all, slow ones too; "
                "the latency is their median",
            ),
            *noisy_mark(run),
            html.Div(worked_out, className="hint"),
        ]
    )


def noisy_mark(run: Run) -> list[Any]:
    """Stands after the kind of what was measured beside other work; empty of what was not."""
    why = f"{'; '.join(run.disturbances)}. Measure again on a quiet machine."
    return [" ", html.Span("noisy", className="noisy", title=why)] if run.disturbances else []


def joules_cell(joules: float | None, base: float | None, bases: Bases) -> html.Td:
    """Joules of a layout, beside those of the plan where both are known."""
    if joules is None:
        return html.Td(
            html.Span("not known", className="hint"),
            title="A device that it uses has no power in the device table",
        )
    known = joules if base is None else base
    figure = Figure(joules, known, human_joules, bases, is_speed=False)
    return html.Td(_worked_out(figure))


def count_cell(value: int, base: int, form: Callable[[int], str], note: str = "") -> html.Td:
    """A number that is exact, and its difference to that of the plan."""
    return html.Td([form(value) + note, " ", _change(value, base, form)])


def layout_chart(mode: str, bars: Sequence[Bar], unit: str) -> list[Any]:
    """A bar for each layout, as long as the time or the rate that the table has of it.

    Measured layouts come first, those that are not measured are a group of their own below them, as are those that were
    measured at another context, and the best of a group is its first; those that do not fit are its last. ``unit`` is that
    of rates.
    """
    sign = -1 if mode == "throughput" else 1
    shown: list[_Shown] = [
        (bar, bar.figure.bases.layout.kind, bar.figure.value, None)
        if bar.run is None
        else (bar, Kind.MEASUREMENT, _of_run(bar.run, mode), _interval(bar.run, mode))
        for bar in bars
    ]
    shown.sort(key=lambda each: each[0].rank(mode))
    plans = next(
        (bar.run for bar in bars if bar.run is not None), None
    )  # of the first that has one
    measured, elsewhere = list[_Shown](), list[_Shown]()
    for each in shown:
        if plans is not None and each[0].run is not None:
            (measured if are_alike(plans, each[0].run) else elsewhere).append(each)
    others = [each for each in shown if each[0].run is None]
    first = measured or shown
    whole = [value for bar, _, value, _ in first if bar.fits] or [value for *_, value, _ in first]
    # what was measured has the scale: what was not is cut where it is longer
    limit = longest_bar(whole) if sign > 0 else max(whole, default=0.0)
    longest = max(
        (max((value, *(ends or ()))) for *_, value, ends in shown if value <= limit), default=0.0
    )
    if any(value > limit for *_, value, _ in shown):
        longest = max(longest, limit)  # what is cut is seen to be longer

    kinds = [kind for kind in reversed(Kind) if any(kind is each for _, each, *_ in shown)]
    legend = [
        html.Span([html.Span(className=f"bar {kind}"), kind.participle], className="bar-key")
        for kind in kinds
    ]
    if any(ends for *_, ends in shown):
        mark = html.Span(className="bar-interval")
        legend.append(html.Span([mark, "95 % interval"], className="bar-key"))
    heading = f"Throughput in {unit}, which this plan aims at " if sign < 0 else "Latency "

    def rows(group: Sequence[_Shown]) -> list[html.Div]:
        return [_bar_row(*each, longest or 1.0, is_cut=each[2] > limit) for each in group]

    apart = [_not_measured([kind for _, kind, *_ in others])] if measured and others else []
    at_others = [html.H4("Measured at another context"), *rows(elsewhere)] if elsewhere else []
    return [
        html.H3([heading, *legend], id="compare-legend"),
        html.Div(
            [*rows(measured), *at_others, *apart, *rows(others)],
            className="bars apart" if apart or at_others else "bars",
            id="compare-chart",
        ),
    ]


def _not_measured(kinds: Sequence[Kind]) -> html.H4:
    """The heading of the bars below those that were measured."""
    named = " or ".join(kind.participle for kind in reversed(Kind) if kind in kinds)
    way = "Use one, then Benchmark measures it, where its devices are here"
    return html.H4([f"Not measured ({named}) ", _hint(way)], id="compare-not-measured")


def _bar_row(
    bar: Bar,
    kind: Kind,
    value: float,
    ends: tuple[float, float] | None,
    longest: float,
    is_cut: bool,
) -> html.Div:
    """A line of the chart; ``ends`` are those of the interval, where there is one."""
    figure = bar.figure
    words: list[Any] = [figure.words]
    if bar.run is not None:
        worked_out = f" {figure.bases.layout.kind.participle} {figure.words}"
        if at := figure.bases.at:
            worked_out = f" {of_run(bar.run) or at}; {worked_out.strip()}"
        words = [html.B(figure.form(value)), html.Span(worked_out, className="beside")]
    if not bar.fits:
        words.append(html.Span(" does not fit", className="hint warn"))
    width = f"{min(max(100 * value / longest, 0.5), 100):.1f}%"
    mark = f"{kind.participle}, longer than is drawn" if is_cut else kind.participle
    drawn = [
        html.Span(
            className=f"bar {kind} cut" if is_cut else f"bar {kind}",
            title=mark,
            style={"width": width},
        )
    ]
    if ends is not None and not is_cut:
        low, high = (100 * end / longest for end in ends)
        drawn.append(
            html.Span(
                className="bar-interval",
                title=f"95 % interval {figure.form(ends[0])} to {figure.form(ends[1])}",
                style={"left": f"{low:.1f}%", "width": f"{high - low:.1f}%"},
            )
        )
    return html.Div(
        [
            html.Span(bar.label or bar.name, className="bar-name", title=bar.name),
            html.Span(drawn, className="bar-track"),
            html.Span(words),
        ],
        className="bar-row",
        **{"data-bar": bar.name, "data-kind": str(kind)},
    )


def details_of(run: Run, mode: str, form: Callable[[float], str]) -> str:
    """When a run was measured, and the interval of its figure."""
    words, interval = f"Measured {run.when[:16].replace('T', ' ')} UTC", _interval(run, mode)
    if interval is not None:
        words += f", 95 % interval {form(interval[0])} to {form(interval[1])}"
    return words


def _of_run(run: Run, mode: str) -> float:
    return float(run.figures["median" if mode == "latency" else "throughput"])


def _interval(run: Run, mode: str) -> tuple[float, float] | None:
    """The 95 % interval of a measurement; None where there were too few turns for one."""
    ends = run.figures.get("interval" if mode == "latency" else "throughput_interval")
    return (float(ends[0]), float(ends[1])) if ends else None


def _measured_difference(
    mode: str, run: Run, plans: Run, figure: Figure
) -> tuple[html.Span | None, html.Span | None]:
    """The difference of two measurements, where their intervals do not overlap; else why none is said."""
    if mode == "throughput" and run.figures.get("requests") != plans.figures.get("requests"):
        words = "{} in flight, this plan with {}".format(
            *(r.figures.get("requests") for r in (run, plans))
        )
        return None, _hint(words)
    if not are_alike(run, plans):
        return None, _hint("another context", f"This plan was measured {of_run(plans)}")
    mine, other = _interval(run, mode), _interval(plans, mode)
    if mine is None or other is None:
        return None, _hint(_TOO_CLOSE, "Too few turns for an interval")
    value, base = _of_run(run, mode), _of_run(plans, mode)
    if compare_medians(mine, other, value / base) == NO_DIFFERENCE:
        here, there = (f"{figure.form(low)} to {figure.form(high)}" for low, high in (mine, other))
        title = f"The 95 % intervals overlap: {here} here, {there} of this plan"
        return None, _hint(_TOO_CLOSE, title)
    return _change(value, base, figure.form, figure.more_is_better), None


def _worked_out(figure: Figure, is_named: bool = False) -> list[Any]:
    """A figure, with its kind where neither its column nor what stands before it names that.

    Its difference to the plan's is beside it where figures of these kinds can tell.
    """
    value, base, form, bases, more_is_better, is_speed = figure
    is_named = is_named or bases.layout.kind is bases.plan.kind
    shown = figure.words + ("" if is_named else f" {bases.layout.kind}")
    both = bases.plan, bases.layout
    is_rough = bases.rough or bases.plan_rough
    mine = roughly(value) if bases.rough else value
    plans = roughly(base) if bases.plan_rough else base
    if form(mine) == form(plans) or (is_rough and roughly(value) == roughly(base)):
        return [shown]
    if not too_close(value, base, *both):
        change = (
            factor_of_rough(value, base, more_is_better, is_speed)
            if is_rough
            else _change(value, base, form, more_is_better)
        )
        return [shown, " ", change]
    way = ""
    if any(basis.noisy for basis in both):
        way = "Profile again on a quiet machine"
    elif any(basis.kind is Kind.ESTIMATE for basis in both):
        way = f"{KIT[:1].upper()}{KIT[1:]}" if bases.is_planned else "Profile first"
    margin = (
        f"Such {weakest(both).kind}s are told apart from {100 * told_apart(*both):.0f} % on. {way}"
    )
    return [shown, " ", _hint(_TOO_CLOSE, margin.strip())]


def _beside_measured(figure: Figure, is_named: bool = False) -> list[Any]:
    """A figure that was worked out where the plan was measured: it is neither faster nor slower than a measurement."""
    bases = figure.bases
    is_named = is_named or bases.layout.kind is bases.plan.kind
    named = "" if is_named else f" {bases.layout.kind}"
    plans = Figure(figure.base, figure.base, figure.form, bases._replace(rough=bases.plan_rough))
    title = f"Not measured, as this plan is: that was {bases.plan.kind.participle} {plans.words}"
    return [html.Span(figure.words + named, title=title)]


def factor_of_rough(
    value: float, base: float, more_is_better: bool = False, is_speed: bool = True
) -> html.Span | None:
    """By which factor a figure that is shown rounded differs: a difference of such figures would seem not to add up.

    It is neither green nor red, as it rests on speeds that are assumed.
    """
    if not value or not base or value == base:
        return None
    more = value > base
    factor = value / base if more else base / value
    good = more == more_is_better
    words = ("faster" if good else "slower") if is_speed else ("as much" if more else "less")
    return html.Span(f"{roughly(factor):,.10g}x {words}", className="delta")


def _change(
    value: float, base: float, form: Callable[[Any], str], more_is_better: bool = False
) -> html.Span | None:
    change = value - base
    if abs(change) < 1e-9 * max(abs(base), 1e-9) or form(abs(change)) == form(0):
        return None
    text = f"+{form(change)}" if change > 0 else f"−{form(-change)}"
    good = (change > 0) == more_is_better
    return html.Span(text, className="delta better" if good else "delta worse")


def _hint(words: str, title: str = "") -> html.Span:
    return html.Span(words, className="hint", title=title or None)


def why_no_speed(placement: Placement) -> str:
    """Why a layout that puts ops where they may not be cannot run."""
    constraints, ops = placement.constraints, placement.forced_ops
    words = pluralize(len(ops), "op")
    device = placement.assignment.device
    if all(constraints.excluded(op, int(device[op])) for op in ops):
        return f"no plan for these devices: the device table excludes {words} there"
    return f"cannot run: {words} refused there"


def forced_hint(placement: Placement) -> html.Div | None:
    """Says so where the present plan has ops where they may not be, and figures all the same."""
    if not (count := len(placement.forced_ops)):
        return None
    them = "it runs" if count == 1 else "they run"
    return html.Div(
        f"{pluralize(count, 'op')} forced: figures assume that {them} there", className="hint warn"
    )
