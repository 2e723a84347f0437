"""The tab Benchmark: the result, the chart and the list of runs follow the store ``run``, which `assets/runs.js` sets."""

from __future__ import annotations

import asyncio
from typing import Any

from dash import Dash, Input, Output, State, html
from dash.exceptions import PreventUpdate

from editor.errors import EditorError
from editor.graph.states import Lengths, unit_of_rate
from editor.placement.unsplit import ops_excluded, unsplit_lacks
from editor.web.app_state import AppState
from editor.web.benchmark_state import BenchmarkState
from editor.web.panels.accuracy import accuracy_view, kept_accuracy
from editor.web.panels.after_run import stale, why_no_calibration
from editor.web.panels.benchmark_panel import (
    chart,
    failed,
    idle,
    profile_view,
    result_view,
    tokens_view,
    tuned_view,
    versus_chart,
)
from editor.web.panels.charts import live_figure
from editor.web.panels.runs_table import runs_view
from editor.web.view import colours_of
from editor.workspace.document import Document


def register(app: Dash, state: AppState) -> None:
    """Adds the callbacks."""

    @app.callback(
        Output("bench-result", "children"),
        Output("bench-problem", "children"),
        Input("run", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def result(run: dict[str, Any] | None, document_id: str) -> Any:
        benchmark = state.benchmarks.get(document_id)
        if not run or benchmark is None:
            raise PreventUpdate
        document = await asyncio.to_thread(state.document, document_id)
        if not run.get("done"):
            return None, None
        return await state.long_work.run(_result, document, benchmark)

    @app.callback(
        Output("bench-chart-box", "children"),
        Output("bench-versus", "children"),
        Input("run", "data"),
        Input("scheme", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def draw(run: dict[str, Any] | None, scheme: str | None, document_id: str) -> Any:
        benchmark = state.benchmarks.get(document_id)
        if not run or benchmark is None:
            raise PreventUpdate
        document = await asyncio.to_thread(state.document, document_id)
        return await state.long_work.run(_charts, document, benchmark, scheme or "light")

    @app.callback(
        Output("bench-stale", "children"),
        Output("bench-calibrate", "disabled"),
        Output("bench-calibrate-why", "children"),
        Output("bench-runs", "children"),
        Input("run", "data"),
        Input("plan", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def compare(_run: Any, _plan: Any, document_id: str) -> Any:
        benchmark = state.benchmarks.get(document_id)
        document = await asyncio.to_thread(state.document, document_id)
        kept = await state.long_work.run(_kept, document)
        why_not = await state.long_work.run(why_no_calibration, benchmark, document)
        return stale(benchmark, document), why_not is not None, why_not, kept


def _kept(document: Document) -> list[Any]:
    """Benchmarks and the accuracy that the workspace has."""
    return [*runs_view(document), *kept_accuracy(document)]


def _result(document: Document, benchmark: BenchmarkState) -> tuple[Any, Any]:
    """What a run found, and what was wrong with it."""
    wrong = failed(benchmark.problem) if benchmark.problem else None
    if not benchmark.has_result:
        return idle(), wrong
    found = benchmark.job.result(0)
    if benchmark.kind == "profile":
        view, before = profile_view(document, found), benchmark.previous
        if before is not None and before.kind in ("benchmark", "tokens") and before.has_result:
            view += [html.H3("The benchmark before it"), *_result(document, before)[0]]
        return view, wrong
    placement = benchmark.plan.placement
    if benchmark.kind == "tune":
        return tuned_view(found, ops_excluded(placement), benchmark.layout), wrong
    if benchmark.kind == "accuracy":
        return accuracy_view(found), wrong
    if benchmark.kind == "tokens":
        context = Lengths(found.prompt, found.new).before_last
        own = benchmark.plan.prompt is not None
        return tokens_view(found, unsplit_lacks(placement, context), own), wrong
    return result_view(found[0], colours_of(document), unit_of_rate(document.graph)), wrong


def _charts(document: Document, benchmark: BenchmarkState, scheme: str) -> tuple[Any, Any]:
    """The samples, and after a benchmark the plan beside not splitting."""
    beside = None
    if benchmark.kind == "benchmark" and benchmark.job.done and benchmark.has_result:
        result, plan = benchmark.job.result(0)[0], benchmark.plan.placement
        beside = versus_chart(result, document.runs(), plan.fingerprint, scheme)
    return _chart(document, benchmark, scheme), beside


def _chart(document: Document, benchmark: BenchmarkState, scheme: str) -> Any:
    """The chart of the samples; empty while there are none, so that its library is read before anything is measured.

    The times of stand-ins are not drawn.
    """
    if benchmark.kind in ("profile", "tokens", "accuracy"):
        return None
    if benchmark.plan.placement.uses_planned:
        return None
    samples = [event for event in list(benchmark.job.events) if event["kind"] == "sample"]
    if not samples and benchmark.job.done:
        return None
    colours, unfit = colours_of(document), unsplit_lacks(benchmark.plan.placement)
    figure = live_figure(samples, benchmark.devices, colours, scheme, _medians(benchmark), unfit)
    return chart(figure)


def _medians(benchmark: BenchmarkState) -> dict[str, float]:
    """What the table of a tuning says of each plan, in ms or requests/s; empty before its end."""
    try:
        tuned = benchmark.job.result(0) if benchmark.kind == "tune" and benchmark.job.done else None
    except EditorError:
        tuned = None
    return (
        {
            r.plan: r.throughput if r.mode == "throughput" else r.total.median * 1e3
            for r in tuned.results
        }
        if tuned
        else {}
    )
