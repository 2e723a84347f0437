"""Start, follow and cancel benchmarks. Samples stream over a WebSocket while the job runs."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

from dash import Dash, Input, Output, State, ctx, set_props
from dash.exceptions import PreventUpdate

from editor.errors import EditorError, WorkspaceError
from editor.sandbox.jobs import TIME_LIMIT_SECONDS
from editor.text import human_seconds
from editor.web.app_state import AppState
from editor.web.benchmark_state import BenchmarkState, JobOptions
from editor.web.drawing.ribbon import ribbon_of
from editor.web.panels.benchmark_panel import (
    chart,
    failed,
    idle,
    profile_view,
    result_view,
    runs_view,
    stale,
    tuned_view,
)
from editor.web.panels.charts import live_figure
from editor.web.view import colours_of
from editor.workspace.document import Document

_REFRESH_SECONDS = 0.5
_CHART_SECONDS = 2.0
"""Between two drawings of the live chart: a browser without a GPU takes 0.3 s for one, which disturbs the benchmark."""


def register(app: Dash, state: AppState) -> None:
    """Adds the callbacks."""

    @app.callback(
        Output("bench-stream", "data"),
        Output("bench-problem", "children"),
        Input("bench-start", "n_clicks"),
        Input("bench-profile", "n_clicks"),
        Input("bench-tune", "n_clicks"),
        State("doc", "data"),
        State("bench-seconds", "value"),
        State("bench-mode", "value"),
        State("bench-requests", "value"),
        State("bench-memory", "checked"),
        prevent_initial_call=True,
    )
    async def start(
        _start: Any,
        _profile: Any,
        _tune: Any,
        document_id: str,
        seconds: Any,
        mode: str,
        requests: Any,
        memory: bool,
    ) -> Any:
        if not any(t["value"] for t in ctx.triggered):
            raise PreventUpdate
        kind = {"bench-profile": "profile", "bench-tune": "tune"}.get(
            str(ctx.triggered_id), "benchmark"
        )
        try:
            document = await asyncio.to_thread(state.document, document_id)
            options = _options(seconds, mode or "latency", requests, memory)
            benchmark = await state.long_work.run(state.start_job, document, kind, options)
        except EditorError as error:
            return {"job": ""}, failed(str(error))
        return {"job": benchmark.job.id}, None

    @app.callback(
        Output("bench-cancel", "busy"),
        Input("bench-cancel", "n_clicks"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def cancel(clicks: int | None, document_id: str) -> Any:
        benchmark = state.benchmarks.get(document_id)
        if clicks and benchmark is not None:
            await state.long_work.run(benchmark.job.cancel)
        return False

    @app.callback(
        Output("bench-problem", "children", allow_duplicate=True),
        Input("bench-calibrate", "n_clicks"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def calibrate(clicks: int | None, document_id: str) -> Any:
        if not clicks:
            raise PreventUpdate
        try:
            document = await asyncio.to_thread(state.document, document_id)
            said = await state.long_work.run(state.calibrate, document)
        except (EditorError, TimeoutError) as error:
            return failed(str(error), "Nothing was calibrated")
        set_props("next-stroke", {"data": {"do": "show"}})
        set_props("bench-text", {"children": said})
        return None

    @app.callback(
        Input("bench-stream", "data"),
        State("doc", "data"),
        State("scheme", "data"),
        websocket=True,
        persistent=True,
    )
    async def follow(_stream: Any, document_id: str, scheme: str | None) -> Any:
        """Runs from the start of a job, or from the load of a page whose document has one, to its end."""
        state.page_shown()
        benchmark = state.benchmarks.get(document_id)
        if benchmark is None:
            return
        document = await asyncio.to_thread(state.document, document_id)
        scheme = scheme or "light"
        await _follow(document, benchmark, scheme)
        if state.benchmarks.get(document_id) is benchmark:
            # It writes to the database, which another program may hold for seconds.
            await state.long_work.run(_show_last, state, document, benchmark, scheme)

    @app.callback(
        Output("bench-chart-box", "children", allow_duplicate=True),
        Input("scheme", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def redraw(scheme: str | None, document_id: str) -> Any:
        benchmark = state.benchmarks.get(document_id)
        if benchmark is None or not ctx.triggered:
            raise PreventUpdate
        document = await asyncio.to_thread(state.document, document_id)
        return await asyncio.to_thread(_chart, document, benchmark, scheme or "light")


def _options(seconds: Any, mode: str, requests: Any, memory: bool) -> JobOptions:
    """The choices of the tab Benchmark.

    Raises:
        EditorError: one of them is not possible.
    """
    try:
        chosen = JobOptions(float(seconds or 3), mode, int(requests or 4), bool(memory))
    except (TypeError, ValueError, OverflowError):
        raise EditorError("Seconds and requests are numbers.") from None
    if (
        mode not in ("latency", "throughput")
        or not 0 < chosen.seconds <= TIME_LIMIT_SECONDS
        or not 0 < chosen.requests <= 1024
    ):
        raise EditorError(
            f"A run takes up to {TIME_LIMIT_SECONDS:.0f} s, with up to 1,024 requests at once."
        )
    return chosen


async def _follow(document: Document, benchmark: BenchmarkState, scheme: str) -> None:
    websocket = ctx.websocket
    seen, drawn = -1, 0.0
    if not benchmark.job.done:
        _enable(False)
        set_props("bench-calibrate", {"disabled": True})
        set_props("bench-cancel", {"disabled": False})
        set_props("bench-result", {"children": None})
        set_props("bench-stale", {"children": stale(benchmark, document)})
        if (
            benchmark.kind != "profile"
        ):  # the browser reads the chart's library before anything is measured, and not meanwhile
            figure = await asyncio.to_thread(_figure, document, benchmark, [], scheme)
            set_props("bench-chart-box", {"children": chart(figure)})
    while not benchmark.job.done:
        if websocket is not None and websocket.is_shutdown:
            return
        events = list(benchmark.job.events)
        if len(events) != seen:
            seen = len(events)
            now = monotonic()
            draws = bool(drawn) and now - drawn >= _CHART_SECONDS
            has_samples = await asyncio.to_thread(
                _show_progress, document, benchmark, events, scheme if draws else ""
            )
            if has_samples and (draws or not drawn):
                drawn = (
                    now if draws else now - _CHART_SECONDS / 2
                )  # of the first samples there is not much to see
        await asyncio.sleep(_REFRESH_SECONDS)


def _show_progress(
    document: Document, benchmark: BenchmarkState, events: list[dict[str, Any]], scheme: str
) -> bool:
    """Tells how far a job is; draws the chart where a colour scheme is given. Returns whether there are samples to draw."""
    samples = [e for e in events if e["kind"] == "sample"]
    last: dict[str, Any] = (
        events[-1] if events else {"kind": "phase", "text": "waiting for a worker"}
    )
    if last["kind"] == "phase":
        text = last["text"][:1].upper() + last["text"][1:]
        set_props("bench-text", {"children": f"{text} …"})
        done = 100 * last["done"] / last["total"] if last.get("total") else 0
        set_props("bench-progress", {"value": f"{done:.1f}"})
    else:
        set_props("bench-text", {"children": f"Measuring: {runs_of(samples)} runs"})
        set_props("bench-progress", {"value": f"{100 * last['progress']:.1f}"})
    if samples and scheme:
        set_props("bench-chart", {"figure": _figure(document, benchmark, samples, scheme)})
    return bool(samples)


def _show_last(state: AppState, document: Document, benchmark: BenchmarkState, scheme: str) -> None:
    """Shows how a job ended, and the one before it where it has no result."""
    _show_end(document, benchmark, scheme)
    if benchmark.job.done and not benchmark.has_result and benchmark.previous is not None:
        state.benchmarks[document.id] = benchmark.previous
        _show_end(document, benchmark.previous, scheme)
        set_props("bench-text", {"children": "No new result. What stands here is the run before."})


def _show_end(document: Document, benchmark: BenchmarkState, scheme: str) -> None:
    _enable(True)
    set_props("bench-cancel", {"disabled": True})
    try:
        result = benchmark.job.result(0)
    except EditorError as error:
        set_props(
            "bench-text", {"children": "Cancelled." if str(error) == "cancelled" else "Failed."}
        )
        set_props("bench-progress", {"value": "0"})
        set_props("bench-problem", {"children": failed(str(error))})
        set_props("bench-result", {"children": idle()})
        set_props("bench-chart-box", {"children": _chart(document, benchmark, scheme)})
        return
    except TimeoutError:
        return
    set_props("bench-progress", {"value": "100"})
    if benchmark.kind == "profile":
        set_props("bench-text", {"children": "Profiled."})
        set_props(
            "next-stroke", {"data": {"do": "show"}}
        )  # costs are measured now, and with them colours and all figures
        set_props("bench-chart-box", {"children": None})
        set_props("bench-result", {"children": profile_view(document, result)})
        return
    samples = [e for e in benchmark.job.events if e["kind"] == "sample"]
    set_props("bench-chart-box", {"children": _chart(document, benchmark, scheme)})
    if benchmark.kind == "tune":
        set_props("next-stroke", {"data": {"do": "show"}})  # it made the profiles that were missing
        set_props("bench-text", {"children": result.proposal})
        set_props("bench-result", {"children": tuned_view(result)})
        return
    result = result[0]
    found = (
        result.rate
        if result.mode == "throughput"
        else f"median {human_seconds(result.total.median)}"
    )
    set_props(
        "bench-text",
        {
            "children": f"Done: {found} over {result.runs} runs, {runs_of(samples)} with the baselines."
        },
    )
    if benchmark.is_of(document):
        set_props("ribbon", {"data": ribbon_of(document, result)})
    set_props("bench-calibrate", {"disabled": not result.can_correct_profiles})
    set_props("bench-stale", {"children": stale(benchmark, document)})
    set_props("bench-result", {"children": result_view(result, colours_of(document))})
    try:
        if not benchmark.kept:
            document.keep_run(result, benchmark.layout)
            benchmark.kept = True
        set_props("bench-runs", {"children": runs_view(document.runs())})
    except WorkspaceError as error:
        set_props(
            "bench-problem",
            {"children": failed(f"This result is not in the list of benchmarks. {error}")},
        )


def _enable(on: bool) -> None:
    for button in ("bench-start", "bench-profile", "bench-tune"):
        set_props(button, {"disabled": not on})


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


def _chart(document: Document, benchmark: BenchmarkState, scheme: str) -> Any:
    samples = [e for e in list(benchmark.job.events) if e["kind"] == "sample"]
    if not samples:
        return None
    return chart(_figure(document, benchmark, samples, scheme))


def runs_of(samples: list[dict[str, Any]]) -> int:
    """Runs that counted, of all plans and baselines."""
    return sum(sample["runs"] for sample in samples)


def _figure(
    document: Document, benchmark: BenchmarkState, samples: list[dict[str, Any]], scheme: str
) -> Any:
    return live_figure(
        samples, benchmark.devices, colours_of(document), scheme, _medians(benchmark)
    )
