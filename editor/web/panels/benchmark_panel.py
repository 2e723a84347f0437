"""The benchmark panel: controls, live chart and result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dash import dcc, html

from editor.execution.measure.benchmark import SLOW_FACTOR
from editor.execution.measure.figures import Baseline, BenchmarkResult, Spread
from editor.execution.measure.prediction import MOST_MARGIN, PROFILE_AGAIN
from editor.execution.measure.tokens import SIMULATED, TokenBenchmark, TokenFigures
from editor.execution.measure.tune import STOOD_IN, Tuned
from editor.graph.states import TOKENS_OF_REQUESTS, TOKENS_PER_SECOND, states_of
from editor.kinds import Kind, kind_of_run
from editor.placement.choices import AIMS, PRESENT
from editor.placement.device_profile import DeviceProfile
from editor.text import human_seconds, joined, pluralize
from editor.web import controls
from editor.web.benchmark_state import JobOptions
from editor.web.panels.accuracy import kept_accuracy
from editor.web.panels.after_run import CALIBRATES, MOST_SECONDS, why_no_calibration
from editor.web.panels.charts import PLAN_COLOUR, Bar, versus_figure
from editor.web.panels.outputs_check import (
    baseline_card,
    memory_cards,
    outputs_card,
    rate_of,
    stand_ins_view,
    text_of,
)
from editor.web.panels.parts import card, kind_badge, length_fields, plain_table, problem
from editor.web.panels.runs_table import runs_view
from editor.web.panels.tables import (
    bytes_column,
    data_table,
    device_column,
    number_column,
    seconds_column,
)
from editor.web.panels.timeline import seconds_of, seconds_of_shares, timeline
from editor.web.view import baselines_of
from editor.workspace.document import Document
from editor.workspace.history import Run

_STARTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "Start",
        "Runs the plan, each subgraph and the unsplit model on each device in turn",
        {"primary": True, "icon": "play"},
    ),
    (
        "Profile",
        "Measures every op on each real device: costs, colours and policies can then go by it",
        {},
    ),
    ("Tune", "Runs the best few plans, and proposes the fastest", {}),
    (
        "Accuracy",
        "Compares every tensor with the unsplit model in float32; Colour: error shows it in the graph",
        {},
    ),
)
"""Buttons that run the model: label, title and looks."""
_SECONDS = (
    "Latency: of measuring in all, the plan and the unsplit models in turn. Throughput: of each of them, one after the other. "
    "Tune has the plans it tries among them; Profile takes so many for each device. It ends sooner once the 95 % intervals are "
    "narrow, and later where a run is slow. Compiling and warming up come on top. Tokens and Accuracy do not use it."
)


def benchmark_panel(document: Document, options: JobOptions) -> html.Div:
    """What stands in the Benchmark tab; ``options`` are those of the last measurement."""
    generates, lacking = bool(states_of(document.graph)), document.graph.weights_problem
    return html.Div(
        [
            html.Div(
                [
                    *(
                        controls.Button(
                            label,
                            id=f"bench-{label.lower()}",
                            title=lacking or title,
                            disabled=bool(lacking),
                            **look,
                        )
                        for label, title, look in _STARTS
                    ),
                    controls.Button("Cancel", id="bench-cancel", disabled=True),
                    controls.Field(
                        id="bench-seconds",
                        type="number",
                        label="Seconds",
                        title=_SECONDS,
                        value=options.seconds,
                        min=0.5,
                        max=MOST_SECONDS,
                        step="any",
                        width=92,
                    ),
                    controls.Select(
                        id="bench-mode",
                        label="Mode",
                        value=options.mode,
                        width=130,
                        data=[
                            *({"value": aim, "label": aim.capitalize()} for aim in AIMS),
                            *([{"value": "tokens", "label": "Tokens"}] if generates else []),
                        ],
                    ),
                    html.Div(
                        length_fields(
                            ("bench-prompt", "bench-new"),
                            options.prompt,
                            options.new,
                            disabled=options.mode != "tokens",
                        ),
                        className="bench-tokens" if generates else "",
                        hidden=not generates,
                        title="For the mode Tokens: the model runs as it is used, with its state on the devices",
                    ),
                    controls.Field(
                        id="bench-requests",
                        type="number",
                        label="Concurrent requests",
                        value=options.requests,
                        min=1,
                        max=64,
                        width=134,
                        disabled=options.mode != "throughput",
                    ),
                    controls.Checkbox(
                        id="bench-memory",
                        label="Measure memory",
                        checked=options.memory,
                        disabled=options.mode == "tokens",
                    ),
                    html.Div(
                        [
                            html.Div(_last(document), id="bench-text"),
                            html.Progress(
                                id="bench-progress",
                                value="0",
                                max="100",
                                hidden=True,
                                **{"aria-label": "Benchmark progress"},
                            ),
                        ],
                        className="bench-progress",
                    ),
                    html.Details(
                        [
                            html.Summary("More"),
                            controls.Button(
                                "Calibrate", id="bench-calibrate", disabled=True, title=CALIBRATES
                            ),
                            html.Div(why_no_calibration(None, document), id="bench-calibrate-why"),
                        ],
                        className="bench-more",
                    ),
                ],
                className="bench-controls",
            ),
            html.Div(id="bench-problem"),
            html.Div(id="bench-stale"),
            html.Div(id="bench-versus"),
            html.Div(idle(), id="bench-result"),
            html.Div(id="bench-chart-box"),
            html.Div([*runs_view(document), *kept_accuracy(document)], id="bench-runs"),
            html.Div(id="profiles"),
        ],
        className="bench",
    )


def _last(document: Document) -> str:
    """What stands where the progress of a run will."""
    if document.runs_of_plan():
        return "This plan was measured before; its figures are in the list below."
    return "Not run yet."


def chart(figure: Any, identity: str = "bench-chart", height: int = 0) -> dcc.Graph:
    """A chart. Made when a benchmark starts: its library is the largest file of the page."""
    return dcc.Graph(
        id=identity,
        figure=figure,
        style={"height": f"{height}px" if height else "100%"},
        config={"displaylogo": False, "responsive": True, "displayModeBar": False},
    )


def versus_chart(
    result: BenchmarkResult,
    runs: Sequence[Run],
    fingerprint: str,
    scheme: str,
) -> dcc.Graph | None:
    """The measured plan beside not splitting and the latest run of each other layout; None where stand-ins ran.

    Args:
        result: a benchmark of this plan.
        runs: those of the document, the newest first.
        fingerprint: of this plan, which is among them.
        scheme: "light" or "dark".
    """
    if result.estimated:
        return None
    many = result.mode == "throughput"
    plan, (unsplit, other) = PLAN_COLOUR[scheme], _VERSUS_COLOURS[scheme]

    def bar(name: str, rate: float | None, spread: Any, rates: Any, colour: str) -> Bar:
        if many:
            return Bar(name, rate or 0.0, tuple(rates) if rates else None, colour)
        median, *ends = (1e3 * value for value in spread)
        return Bar(name, median, (ends[0], ends[1]) if ends and ends[0] < ends[1] else None, colour)

    def of(time: Spread) -> tuple[float, ...]:
        return time.median, time.low, time.high

    alone = result.subgraphs[0].device if len(result.subgraphs) == 1 else ""
    name = f"The plan, unsplit on {alone}" if alone else "The plan"
    bars = [bar(name, result.throughput, of(result.total), result.throughput_interval, plan)]
    bars += [
        bar(
            f"Unsplit on {b.device}{', does not fit' if b.lacks else ''}",
            b.throughput,
            of(b.time),
            b.throughput_interval,
            unsplit,
        )
        for b in result.baselines
        if b.time is not None and b.device != alone and not _is_far(result, b)
    ]
    seen: set[str] = set()
    for run in [r for r in runs if r.figures.get("subgraphs") != 1]:  # baselines are of this run
        f = run.figures
        same = f.get("mode", "latency") == result.mode and not f["estimated"]
        alike = not many or f.get("requests") == result.requests
        other_plan = f.get("plan") not in (None, fingerprint) and f["layout"] not in seen
        if same and alike and other_plan and _was_as_fast(result, run):
            seen.add(f["layout"])
            spread = (f["median"], *f.get("interval", ()))
            name = f"{f['layout']}, {run.when[:10]}"
            bars.append(bar(name, f["throughput"], spread, f.get("throughput_interval"), other))
    bars = bars[:_MOST_BARS]
    unit = "requests/s" if many else "ms"
    return chart(versus_figure(bars, unit, scheme), "bench-versus-chart", 52 + 27 * len(bars))


def _was_as_fast(result: BenchmarkResult, run: Run) -> bool:
    """Whether the machine was about as fast in another run, by the unsplit model where both have measured it."""
    many, then = result.mode == "throughput", baselines_of(run.figures)
    for b in result.baselines:
        if b.time is None or b.device not in then:
            continue
        figure = then[b.device]["throughput" if many else "median"]
        now = b.throughput if many else b.time.median
        if now and figure and not 1 / _AS_FAST < now / figure < _AS_FAST:
            return False
    return True


_AS_FAST = 1.25
"""Times the speed of a machine, up to which runs stand beside each other"""
_MOST_BARS = 10
_VERSUS_COLOURS = {"light": ("#adb5bd", "#d0bfff"), "dark": ("#868e96", "#5f3dc4")}
"""Of not splitting and of other layouts."""


def idle() -> html.Table:
    """What each button does, before the first run."""
    elsewhere = html.Button(
        "Import those of another machine", className="link", **{"data-command": "show-import"}
    )
    rows: tuple[tuple[str, Any], ...] = (
        (
            "Start",
            "Runs the whole plan, each subgraph and transfer, and the unsplit model on each real device in turn. Outputs are "
            "compared with the unsplit model. Planned devices are simulated on the CPU, which says nothing about their speed.",
        ),
        (
            "Profile",
            [
                "Measures each op on each real device: costs can then be the measured ones. ",
                elsewhere,
            ],
        ),
        ("Tune", "Runs the best few plans and proposes the fastest."),
    )
    return html.Table(
        html.Tbody([html.Tr([html.Th(name), html.Td(text)]) for name, text in rows]),
        className="plain",
    )


def result_view(result: BenchmarkResult, colours: dict[str, str], unit: str = "") -> list[Any]:
    """Summary, timeline and table of a finished benchmark; of stand-ins only whether outputs match.

    ``unit`` is what the headline calls requests per second.
    """
    if result.estimated:
        return stand_ins_view(result, colours)
    return [
        _cards(result),
        html.P(f"{TOKENS_OF_REQUESTS}.", className="hint wide")
        if result.mode == "throughput" and unit == TOKENS_PER_SECOND
        else None,
        *_precision(result),
        timeline(result, colours),
        _table(result),
        text_of(result),
    ]


def tokens_view(
    result: TokenBenchmark, lacking: Mapping[str, str] | None = None, own_prompt: bool = False
) -> list[Any]:
    """What tokens take on the plan and unsplit, and by the length of the context.

    Args:
        result: the measurement.
        lacking: what devices lack for the whole model at that context.
        own_prompt: whether the prompt ran by a placement of its own.
    """

    def against(each: TokenFigures) -> str:
        lacks = (lacking or {}).get(each.name.removeprefix("unsplit on "))
        return f"not compared: unsplit, it {lacks}" if lacks else result.against(each)

    simulated = result.simulated  # stand-ins have no speed
    figures = [*([] if simulated else [result.figures]), *result.timed]
    rows = [
        html.Tr(
            [
                html.Td(
                    f"The plan{', its prompt placed as in Phases' if own_prompt else ''}"
                    if each is result.figures
                    else f"{each.name[:1].upper()}{each.name[1:]}"
                ),
                html.Td(
                    f"{human_seconds(each.first_token.median)} ({human_seconds(each.first_token.low)} to "
                    f"{human_seconds(each.first_token.high)})"
                ),
                html.Td(
                    [
                        html.B(human_seconds(each.token.median)),
                        f" ({human_seconds(each.token.low)} to {human_seconds(each.token.high)})",
                    ]
                ),
                html.Td(f"{each.tokens_per_second:.1f}"),
                *([] if simulated else [html.Td("" if each is result.figures else against(each))]),
            ]
        )
        for each in figures
    ]
    contexts = [
        html.Tr([html.Td(f"{context:,}"), html.Td(human_seconds(seconds))])
        for context, seconds in result.figures.by_context
    ]
    setting, *notes = [line for line in result.text().splitlines() if line != SIMULATED]
    heads = ["", "First token (95 %)", "Each further token (95 %)", "Tokens/s"]
    return [
        html.P(f"{SIMULATED}.", className="hint wide warn") if simulated else None,
        html.P(
            [setting, " ", None if simulated else kind_badge(Kind.MEASUREMENT)],
            className="hint wide",
        ),
        html.Div(
            [
                plain_table(heads if simulated else [*heads, "The plan is"], rows)
                if rows
                else None,
                None
                if simulated
                else plain_table(("Context (tokens before)", "A token then takes"), contexts),
            ],
            className="beside-tables",
        ),
        *(
            html.P(note, className="hint wide")
            for note in notes
            if not note.startswith("  ") and " a token (95 %" not in note
        ),
    ]


def _cards(result: BenchmarkResult) -> html.Div:
    t = result.total
    text = result.comparison_with_prediction
    why = f": {result.surprise}" if result.surprise else ""
    predicted = [f"{text[:1].upper()}{text[1:]}{why}. {_advice(result)}"] if text else []
    many = result.mode == "throughput"
    runs = (
        f"{result.requests} in flight · median {human_seconds(t.median)} a request"
        if many
        else result.explained_rate
    )
    figure = rate_of(result.throughput) if many else [html.B(human_seconds(t.median))]
    cards = [
        card(
            "The plan",
            [*figure, kind_badge(Kind.MEASUREMENT)],
            f"{result.precision[:1].upper()}{result.precision[1:]}",
            f"{result.runs} runs · {runs}",
            *predicted,
            f"p90 {human_seconds(t.p90)} · p99 {human_seconds(t.p99)} · min {human_seconds(t.min)} · "
            f"max {human_seconds(t.max)}",
            shown=2,
        )
    ]
    cards += [baseline_card(result, b) for b in result.baselines if not _is_far(result, b)]
    far = [b for b in result.baselines if _is_far(result, b)]
    cards += [_far_card(result, far)] if far else []
    cards += [outputs_card(result), *memory_cards(result)]
    return html.Div(cards, className="cards", id="bench-cards")


def _is_far(result: BenchmarkResult, baseline: Baseline) -> bool:
    """Whether nobody would choose the unsplit model on a device: it cannot run all of it, or takes many times as long."""
    time = baseline.time
    return time is None or time.median > SLOW_FACTOR * result.total.median > 0


def _far_card(result: BenchmarkResult, far: Sequence[Baseline]) -> html.Div:
    """One card of all of these, each in a line."""
    lines = [
        f"{b.device}: {b.problem}"
        if b.time is None
        else f"{b.device}: {human_seconds(b.time.median)}, {result.ratio_to(b)}"
        for b in far
    ]
    large = "Far slower" if any(b.time for b in far) else "—"
    return card(
        f"Unsplit on {joined([b.device for b in far], 'and')}", [html.B(large)], *lines, shown=1
    )


def _badge(estimated: bool) -> html.Span:
    """Says what the times of a run are."""
    return kind_badge(kind_of_run(estimated), meaning=SIMULATED if estimated else "")


def _advice(result: BenchmarkResult) -> str:
    """What to do about a prediction that is far off."""
    if not result.surprise or PROFILE_AGAIN in result.surprise:
        return ""
    if result.can_correct_profiles and result.total.margin > MOST_MARGIN:
        return "It is too uncertain to correct profiles by: measure longer, or when nothing else runs. "
    if result.can_correct_profiles:
        return "Calibrate corrects the profiles by this run. "
    return (
        "Profile measures the ops, for better predictions. "
        if result.kind is Kind.MEASUREMENT
        else ""
    )


def _precision(result: BenchmarkResult) -> list[Any]:
    """Why figures may be other than in the runtime's own tools."""
    if not result.precision_notes:
        return []
    notes = [html.P(f"{note}.", className="hint wide") for note in result.precision_notes]
    return [html.Details([html.Summary("Precision of the runtimes"), *notes])]


def _doubts(result: BenchmarkResult) -> list[Any]:
    """The same, and why they may be wrong."""
    if not result.disturbances:
        return _precision(result)
    return [
        *_precision(result),
        html.P(
            f"Noisy: {'; '.join(result.disturbances)}. Measure again on a quiet machine; drawing this page "
            "counts too.",
            className="hint wide warn",
        ),
    ]


def _table(result: BenchmarkResult) -> html.Div:
    base = seconds_of_shares(result)
    rows: list[dict[str, Any]] = [
        {
            "what": f"subgraph {s.id}",
            "device": s.device,
            "detail": s.what,
            "bytes": None,
            "runs_on": s.runs_on,
            "kind": Kind.MEASUREMENT,
            **_times(s.time),
            "share": seconds_of(result, s) / base,
        }
        for s in result.subgraphs
    ]
    rows += [
        {
            "what": f"transfer {t.source} → {t.target}",
            "device": t.to_device,
            "detail": t.tensor,
            "bytes": t.sent if t.wire else t.bytes,
            "runs_on": f"wire {t.over}" if t.wire else f"{t.from_device} → {t.to_device}",
            "kind": Kind.MEASUREMENT,
            **_times(t.time),
            "share": t.time.median / base,
        }
        for t in result.transfers
    ]
    columns = [
        {"field": "what", "headerName": "Step", "width": 130, "minWidth": 112},
        device_column("device", "Device"),
        {
            "field": "detail",
            "headerName": "From op / tensor",
            "width": 220,
            "minWidth": 140,
            "tooltipField": "detail",
        },
        {"field": "runs_on", "headerName": "Runs on", "width": 190, "tooltipField": "runs_on"},
        {"field": "kind", "headerName": "Time is", "width": 116, "minWidth": 112},
        bytes_column("bytes", "Size", 96),
    ]
    columns += [
        seconds_column(name, header)
        for name, header in (
            ("median", "Median"),
            ("p90", "p90"),
            ("p99", "p99"),
            ("min", "Min"),
            ("max", "Max"),
        )
    ]
    columns.append(
        number_column(
            "share", "Of the run", 96, valueFormatter={"function": "heteroPercent(params.value)"}
        )
    )
    height = min(34 + 30 * len(rows) + 4, 340)
    return data_table("bench-table", rows, columns, f"{height}px")


def _times(spread: Any) -> dict[str, float]:
    return {name: getattr(spread, name) for name in ("median", "p90", "p99", "min", "max")}


def profile_view(document: Document, profiles: Mapping[str, DeviceProfile | str]) -> list[Any]:
    """What a profile found: a card per device, and the slowest ops with what they were fused with.

    Devices that are alike were measured once.
    """
    cards, graph = [], document.graph
    rows: list[dict[str, Any]] = []
    alike: dict[str, list[str]] = {}
    for name, profile in profiles.items():
        first = next((each for each in alike if profiles[each] == profile), name)
        alike.setdefault(first, []).append(name)
    for name, names in alike.items():
        profile = profiles[name]
        if isinstance(profile, str):
            cards.append(card(joined(names), [html.B("—")], profile))
            continue
        cards.append(
            card(
                f"{joined(names)}, measured once" if len(names) > 1 else name,
                [html.B(human_seconds(profile.total)), " ", kind_badge(Kind.MEASUREMENT)],
                f"All {pluralize(len(profile.seconds), 'op')} on {profile.device}, in "
                f"{pluralize(len(profile.kernels), 'kernel')} · {profile.runs} runs",
                f"Overhead per extra subgraph: {profile.overhead}",
                f"{profile.check[:1].upper()}{profile.check[1:]}",
                shown=1,
            )
        )
        members: dict[int, list[str]] = {}
        for key, kernel in profile.fused.items():
            members.setdefault(kernel, []).append(key)
        for kernel, keys in members.items():
            rows.append(
                {
                    "device": name,
                    "kernel": profile.kernels[kernel],
                    "median": sum(profile.seconds[k] for k in keys),
                    "ops": len(keys),
                    "detail": " + ".join(
                        graph.op_types[graph.key_index[k]] for k in keys if k in graph.key_index
                    ),
                    "key": keys[-1],
                }
            )
    rows.sort(key=lambda row: -row["median"])
    columns = [
        device_column("device", "Device"),
        {"field": "kernel", "headerName": "Kernel", "width": 170},
        seconds_column("median", "Time"),
        number_column("ops", "Ops", 70),
        {
            "field": "detail",
            "headerName": "Computes (fused)",
            "width": 320,
            "minWidth": 160,
            "tooltipField": "detail",
        },
        {
            "field": "key",
            "headerName": "Last op",
            "width": 240,
            "minWidth": 140,
            "tooltipField": "key",
        },
    ]
    height = min(34 + 30 * len(rows) + 4, 340)
    grid = data_table("profile-table", rows[:500], columns, f"{height}px")
    hint = html.P(
        "Ops of one kernel share its time by estimated work. Policies use these figures while Costs is “From a profile”. "
        "Start checks them on the whole plan; where they disagree, Calibrate adjusts them.",
        className="hint wide",
    )
    return [html.Div(cards, className="cards"), hint, grid]


def tuned_view(
    tuned: Tuned, excluded: Mapping[str, int] = MappingProxyType({}), layout: str = PRESENT
) -> list[Any]:
    """The candidates, fastest first, each with a button that takes it.

    Args:
        tuned: what was measured.
        excluded: device -> ops that its table keeps from it, so that no plan is the whole model there.
        layout: what the plan is called that tuning began with.
    """
    rows, merged = [], set[str]()
    for result in tuned.results:
        mine = result.plan == PRESENT
        alone = next((b.device for b in result.baselines if _is_unsplit(result, b)), "")
        merged.add(alone)
        called = layout if mine else result.plan
        name = f"{called} = unsplit on {alone}" if alone else called
        predicted = (
            "—"
            if not result.prediction or result.predicted_basis is None
            else [result.prediction, " ", kind_badge(result.predicted_basis.kind)]
        )
        total = result.total
        figures = [
            html.Td([human_seconds(total.median), " ", _badge(result.estimated)]),
            html.Td(f"{human_seconds(total.low)} to {human_seconds(total.high)}"),
            html.Td(f"{result.throughput:.1f}"),
        ]
        if result.estimated:
            words = "stand-ins ran: no figure"
            figures = [html.Td(words, className="hint", colSpan=3, title=f"{STOOD_IN}.")]
        elif tuned.mode == "throughput":
            low, high = result.throughput_interval or (result.throughput, result.throughput)
            figures = [
                html.Td([f"{result.throughput:.1f}", " ", _badge(result.estimated)]),
                html.Td(f"{low:.1f} to {high:.1f}" if result.throughput_interval else "—"),
                html.Td(human_seconds(result.total.median)),
            ]
        rows.append(
            html.Tr(
                [
                    html.Td(html.B(name) if result.plan == tuned.best else name),
                    *figures,
                    html.Td("" if mine else tuned.evidence(result)),
                    html.Td(predicted),
                    html.Td(str(len(result.subgraphs))),
                    html.Td(
                        html.Span("began here", className="hint")
                        if mine
                        else html.Button(
                            "Use this",
                            className="tool small",
                            **{
                                "data-adopt": result.plan,
                                "title": f"Make the plan “{result.plan}” the current one",
                            },
                        )
                    ),
                ]
            )
        )
    rows += [
        _unsplit_row(baseline, tuned, excluded.get(baseline.device, 0))
        for baseline in tuned.results[0].baselines
        if baseline.time is not None and baseline.device not in merged
    ]
    bursts = next((r for r in tuned.results if r.explained_rate != r.rate), None)
    first, second = (
        ("Requests/s", "Median") if tuned.mode == "throughput" else ("Median", "Requests/s")
    )
    head = html.Thead(
        html.Tr(
            [
                html.Th(t)
                for t in (
                    "Plan",
                    first,
                    "95 % interval",
                    second,
                    "Against where it began",
                    "Predicted",
                    "Subgraphs",
                    "",
                )
            ]
        )
    )
    return [
        html.Table([head, html.Tbody(rows)], className="plain", id="tuned-table"),
        html.P(
            f"{tuned.proposal} All ran in turns with the unsplit model."
            f"{' “Use this” switches to a plan.' if len(tuned.results) > 1 else ''}",
            className="hint wide",
        ),
        html.P(f"{bursts.plan}: {bursts.explained_rate}.", className="hint wide")
        if bursts
        else None,
        *_doubts(tuned.results[0]),
    ]


def _is_unsplit(result: BenchmarkResult, baseline: Baseline) -> bool:
    """Whether a plan is the unsplit model on a device: one plan, measured once."""
    return (
        baseline.time is not None
        and len(result.subgraphs) == 1
        and result.subgraphs[0].device == baseline.device
    )


def _unsplit_row(baseline: Baseline, tuned: Tuned, excluded: int) -> html.Tr:
    """The unsplit model, which was measured beside the candidates; why it is no plan where ops are ``excluded``."""
    assert baseline.time is not None
    median, rate = human_seconds(baseline.time.median), f"{baseline.throughput or 0:.1f}"
    interval = f"{human_seconds(baseline.time.low)} to {human_seconds(baseline.time.high)}"
    first, second = median, rate
    if tuned.mode == "throughput":
        first, second, interval = (
            rate,
            median,
            baseline.interval.removeprefix("95 % interval ") or "—",
        )
    return html.Tr(
        [
            html.Td(f"unsplit on {baseline.device}"),
            html.Td([first, " ", kind_badge(Kind.MEASUREMENT)]),
            html.Td(interval),
            html.Td(second),
            html.Td(tuned.evidence(baseline)),
            html.Td("—"),
            html.Td("1"),
            html.Td(_why_no_plan(excluded), className="hint"),
        ]
    )


def _why_no_plan(excluded: int) -> list[Any]:
    if not excluded:
        return []
    edit = {"data-command": "show-devices", "title": "The lists of the device table"}
    return [
        f"No plan: the device table excludes {pluralize(excluded, 'op')}. ",
        html.Button("Edit the table", className="link", **edit),
    ]


def failed(text: str, title: str = "The benchmark could not finish") -> Any:
    """The benchmark, or what was asked, ended with a message."""
    if text == "cancelled":
        return None
    return problem(text, title)
