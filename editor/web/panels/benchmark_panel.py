"""The benchmark panel: controls, live chart and result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dash_ag_grid as dag
import dash_mantine_components as dmc
from dash import dcc, html

from editor.execution.measure.figures import BenchmarkResult
from editor.execution.measure.tune import Tuned
from editor.placement.device_profile import DeviceProfile
from editor.text import human_seconds
from editor.web.app_state import BenchmarkState
from editor.web.panels.parts import planned_badge, problem
from editor.web.panels.tables import GRID, bytes_column, device_column, number_column
from editor.web.panels.timeline import timeline
from editor.workspace.document import Document
from editor.workspace.history import Run

_SECONDS = {"function": "heteroSeconds(params.value)"}


def benchmark_panel(document: Document) -> html.Div:
    """What stands in the Benchmark tab."""
    return html.Div([
        html.Div([
            dmc.Button("Start", id="bench-start", size="xs", leftSection=html.Span(className="icon icon-play")),
            dmc.Button("Profile", id="bench-profile", size="xs", variant="default"),
            dmc.Button("Tune", id="bench-tune", size="xs", variant="default"),
            dmc.Button("Cancel", id="bench-cancel", size="xs", variant="default", disabled=True),
            dmc.NumberInput(id="bench-seconds", label="Seconds", value=3, min=0.5, max=600, step=1, size="xs", w=92),
            dmc.Select(id="bench-mode", label="Mode", value="latency", size="xs", w=130, allowDeselect=False,
                       data=[{"value": "latency", "label": "Latency"}, {"value": "throughput", "label": "Throughput"}]),
            dmc.NumberInput(id="bench-requests", label="In flight", value=4, min=1, max=64, size="xs", w=86,
                            disabled=True),
            html.Div([html.Div("Not run yet.", id="bench-text"),
                      dmc.Progress(id="bench-progress", value=0, size="sm", animated=True, striped=True,
                                   **{"aria-label": "Benchmark progress"})], className="bench-progress"),
        ], className="bench-controls"),
        html.Div(id="bench-problem"), html.Div(id="bench-stale"),
        html.Div(idle(), id="bench-result"), html.Div(id="bench-chart-box"),
        html.Div(runs_view(document.runs()), id="bench-runs"),
    ], className="bench")


def chart(figure: Any) -> dcc.Graph:
    """The live chart. Made when there is something to draw: its library is the largest file of the page."""
    return dcc.Graph(id="bench-chart", figure=figure, style={"height": "250px"},
                     config={"displaylogo": False, "responsive": True, "displayModeBar": False})


def idle() -> html.P:
    """Before the first run."""
    return html.Div([html.P("Runs the partitioned model on the real runtimes: the whole plan, each subgraph and transfer, and "
                  "the unsplit model on each real device in turn; outputs are compared with the unsplit model. "
                  "Planned devices run on a stand-in and their times are marked as estimated.", className="hint wide"),
        html.P("Profile measures what each op takes on each real device; the automatic mode can then decide by measured "
               "costs. Tune tries the best few plans for real and keeps the fastest.", className="hint wide")])


def stale(benchmark: BenchmarkState | None, document: Document) -> html.P | None:
    """Says so when the plan is not the one that was measured."""
    if benchmark is None or benchmark.version == document.version:
        return None
    return html.P("Plan changed; these results are out of date.", className="hint wide warn")


def result_view(result: BenchmarkResult, colours: dict[str, str]) -> list[Any]:
    """Summary, timeline and table of a finished benchmark."""
    return [_cards(result), timeline(result, colours), _table(result), html.Details([
        html.Summary("Report as text, environment"), html.Pre(result.text(), className="report")])]


def runs_view(runs: Sequence[Run]) -> list[Any]:
    """Earlier benchmarks of the document, newest first."""
    if not runs:
        return []
    best = min(run.figures["median"] for run in runs)
    rows = []
    for run in runs:
        f = run.figures
        rows.append(html.Tr([
            html.Td(f["layout"]), html.Td(run.when[:19].replace("T", " ") + " UTC"),
            html.Td([html.B(human_seconds(f["median"])) if f["median"] == best else human_seconds(f["median"]),
                     planned_badge() if f["estimated"] else None]),
            html.Td(human_seconds(f["p99"])), html.Td(f"{f['throughput']:.1f}"), html.Td(str(f["subgraphs"])),
            html.Td(", ".join(f"{name} {human_seconds(value)}" for name, value in f["baselines"].items()) or "—")]))
    head = [html.Th(t) for t in ("Layout", "When", "Median", "p99", "Requests/s", "Subgraphs", "Unsplit in the same run")]
    return [html.H3("Benchmarks so far"),
            html.Table([html.Thead(html.Tr(head)), html.Tbody(rows)], className="plain", id="runs-table")]


def _cards(result: BenchmarkResult) -> html.Div:
    t = result.total
    mark = planned_badge() if result.estimated else None
    predicted = "" if result.predicted is None else (
        f"predicted {human_seconds(result.predicted)} "
        f"({'from the profile' if result.predicted_from == 'measured' else 'estimated'}) · ")
    cards = [_card("This plan", [html.B(human_seconds(t.median)), mark], predicted +
                   f"p90 {human_seconds(t.p90)} · p99 {human_seconds(t.p99)} · min {human_seconds(t.min)} · "
                   f"max {human_seconds(t.max)} · {result.runs} runs · {result.throughput:.1f} requests/s")]
    for b in result.baselines:
        if b.time is None:
            cards.append(_card(f"Unsplit on {b.device}", [html.B("—")], b.problem))
            continue
        runs = "one run" if b.time.count == 1 else f"{b.time.count} runs"
        cards.append(_card(f"Unsplit on {b.device}", [html.B(human_seconds(b.time.median))],
                           f"{b.description} · {runs} · {b.throughput or 0:.1f} requests/s · {result.ratio_to(b)}"))
    if result.difference is not None:
        d = result.difference
        word = "within tolerance" if d.within_tolerance else "outside tolerance"
        look = "verdict good" if d.within_tolerance else "verdict bad"
        cards.append(_card("Largest difference", [html.B(f"{d.max_absolute:.2g}"),
                                                  html.Span(word, className=look)],
                           f"absolute; {d.max_relative:.2g} relative · against the unsplit model on {d.reference}"
                           + (f" · {result.first_difference}" if result.first_difference else "")))
    else:
        cards.append(_card("Largest difference", [html.B("—")], result.difference_problem))
    return html.Div(cards, className="cards", id="bench-cards")


def _card(title: str, value: list[Any], detail: str) -> html.Div:
    return html.Div([html.Div(title, className="card-title"), html.Div(value, className="card-value"),
                     html.Div(detail, className="card-detail")], className="card")


def _table(result: BenchmarkResult) -> dag.AgGrid:
    rows: list[dict[str, Any]] = [
        {"what": f"subgraph {s.id}", "device": s.device, "detail": s.what, "bytes": None, "runs_on": s.runs_on,
         "kind": "estimated" if s.estimated else "measured", **_times(s.time), "share": s.share}
        for s in result.subgraphs]
    rows += [{"what": f"transfer {t.source} → {t.target}", "device": t.to_device, "detail": t.tensor, "bytes": t.bytes,
              "runs_on": f"{t.from_device} → {t.to_device}", "kind": "estimated" if t.estimated else "measured",
              **_times(t.time), "share": t.share} for t in result.transfers]
    columns = [{"field": "what", "headerName": "Step", "width": 130}, device_column("device", "Device"),
               {"field": "detail", "headerName": "From op / tensor", "flex": 1, "minWidth": 160, "tooltipField": "detail"},
               {"field": "runs_on", "headerName": "Runs on", "width": 190, "tooltipField": "runs_on"},
               {"field": "kind", "headerName": "Time is", "width": 104}, bytes_column("bytes", "Size", 96)]
    columns += [number_column(name, header, 92, valueFormatter=_SECONDS) for name, header in
                (("median", "Median"), ("p90", "p90"), ("p99", "p99"), ("min", "Min"), ("max", "Max"))]
    columns.append(number_column("share", "Share", 84, valueFormatter={"function": "heteroPercent(params.value)"}))
    height = min(34 + 30 * len(rows) + 4, 340)
    return dag.AgGrid(id="bench-table", rowData=rows, columnDefs=columns, dashGridOptions=GRID, className="grid",
                      defaultColDef={"sortable": True, "resizable": True}, style={"height": f"{height}px", "width": "100%"})


def _times(spread: Any) -> dict[str, float]:
    return {name: getattr(spread, name) for name in ("median", "p90", "p99", "min", "max")}


def profile_view(document: Document, profiles: Mapping[str, DeviceProfile | str]) -> list[Any]:
    """What a profile found: a card per device, and the slowest ops with what they were fused with."""
    cards, graph = [], document.graph
    rows: list[dict[str, Any]] = []
    for name, profile in profiles.items():
        if isinstance(profile, str):
            cards.append(_card(name, [html.B("—")], profile))
            continue
        cards.append(_card(name, [html.B(human_seconds(profile.total))],
                           f"{profile.device} · {len(profile.seconds)} ops in {len(profile.kernels)} kernels · "
                           f"overhead per extra subgraph: {human_seconds(profile.launch_seconds)} · {profile.runs} runs"))
        members: dict[int, list[str]] = {}
        for key, kernel in profile.fused.items():
            members.setdefault(kernel, []).append(key)
        for kernel, keys in members.items():
            rows.append({"device": name, "kernel": profile.kernels[kernel],
                         "median": sum(profile.seconds[k] for k in keys), "ops": len(keys),
                         "detail": " + ".join(graph.op_types[graph.key_index[k]] for k in keys if k in graph.key_index),
                         "key": keys[-1]})
    rows.sort(key=lambda row: -row["median"])
    columns = [device_column("device", "Device"), {"field": "kernel", "headerName": "Kernel", "width": 170},
               number_column("median", "Time", 92, valueFormatter=_SECONDS), number_column("ops", "Ops", 70),
               {"field": "detail", "headerName": "Computes (fused)", "flex": 1, "minWidth": 160, "tooltipField": "detail"},
               {"field": "key", "headerName": "Last op", "flex": 1, "minWidth": 140, "tooltipField": "key"}]
    height = min(34 + 30 * len(rows) + 4, 340)
    grid = dag.AgGrid(id="profile-table", rowData=rows[:500], columnDefs=columns, dashGridOptions=GRID, className="grid",
                      defaultColDef={"sortable": True, "resizable": True}, style={"height": f"{height}px", "width": "100%"})
    hint = html.P("Ops of one kernel share its time by estimated work. Choose “Costs: measured” on the left to let the "
                  "automatic mode use these figures.", className="hint wide")
    return [html.Div(cards, className="cards"), hint, grid]


def tuned_view(tuned: Tuned) -> list[Any]:
    """The candidates, fastest first, each with a button that takes it."""
    rows = []
    for place, result in enumerate(tuned.results):
        predicted = "—" if result.predicted is None else (
            f"{human_seconds(result.predicted)}{' est.' if result.predicted_from == 'estimate' else ''}")
        rows.append(html.Tr([
            html.Td([html.B(result.plan) if not place else "Previous plan" if result.plan == "this plan" else result.plan,
                     planned_badge() if result.estimated else None]),
            html.Td(human_seconds(result.total.median)), html.Td(predicted), html.Td(f"{result.throughput:.1f}"),
            html.Td(str(len(result.subgraphs))),
            html.Td("Current" if not place else html.Button("Use this", className="tool small", **{
                "data-adopt": result.plan, "title": f"Make the plan “{result.plan}” the current one"}))]))
    head = html.Thead(html.Tr([html.Th(t) for t in ("Plan", "Median", "Predicted", "Requests/s", "Subgraphs", "Current")]))
    return [html.Table([head, html.Tbody(rows)], className="plain", id="tuned-table"),
            html.P("All candidates ran interleaved with each other and with the unsplit model; the fastest became the "
                   "current plan. Undo brings the former one back.", className="hint wide")]


def failed(text: str) -> Any:
    """The benchmark ended with a message."""
    if text == "cancelled":
        return None
    return problem(text, "The benchmark could not finish")
