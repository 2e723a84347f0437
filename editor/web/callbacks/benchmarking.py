"""Start, follow and cancel benchmarks. Samples stream over a WebSocket while the job runs."""

from __future__ import annotations

import asyncio
from typing import Any

from dash import Dash, Input, Output, State, ctx, set_props
from dash.exceptions import PreventUpdate

from editor.errors import EditorError
from editor.text import human_seconds
from editor.web.app_state import BenchmarkState, Desk
from editor.web.panels.benchmark import chart, failed, idle, profile_view, result_view, runs_view, stale, tuned_view
from editor.web.panels.charts import live_figure
from editor.web.panels.status import status
from editor.web.view import colours_of, view_of
from editor.workspace.document import Document

_REFRESH_SECONDS = 0.25


def register(app: Dash, desk: Desk) -> None:
    """Adds the callbacks."""

    @app.callback(Output("bench-stream", "data"), Output("bench-problem", "children"), Input("bench-start", "n_clicks"),
                  Input("bench-profile", "n_clicks"), Input("bench-tune", "n_clicks"),
                  State("doc", "data"), State("bench-seconds", "value"), State("bench-mode", "value"),
                  State("bench-requests", "value"), prevent_initial_call=True)
    async def start(_start, _profile, _tune, document_id: str, seconds: Any, mode: str, requests: Any):
        if not any(t["value"] for t in ctx.triggered):
            raise PreventUpdate
        kind = {"bench-profile": "profile", "bench-tune": "tune"}.get(str(ctx.triggered_id), "benchmark")
        try:
            document = await asyncio.to_thread(desk.document, document_id)
            state = await asyncio.to_thread(desk.start_job, document, kind, float(seconds or 3), mode or "latency",
                                            int(requests or 4))
        except EditorError as error:
            return {"job": ""}, failed(str(error))
        return {"job": state.job.id}, None

    @app.callback(Output("bench-cancel", "loading"), Input("bench-cancel", "n_clicks"), State("doc", "data"),
                  prevent_initial_call=True)
    async def cancel(clicks: int | None, document_id: str):
        state = desk.benchmarks.get(document_id)
        if clicks and state is not None:
            await asyncio.to_thread(state.job.cancel)
        return False

    @app.callback(Input("bench-stream", "data"), State("doc", "data"), State("scheme", "data"), websocket=True,
                  persistent=True)
    async def follow(_stream, document_id: str, scheme: str | None):
        """Runs from the start of a job, or from the load of a page whose document has one, to its end."""
        desk.page_shown()
        state = desk.benchmarks.get(document_id)
        if state is None:
            return
        document = await asyncio.to_thread(desk.document, document_id)
        scheme = scheme or "light"
        await _follow(document, state, scheme)
        if desk.benchmarks.get(document_id) is state:
            _show_end(document, state, scheme)

    @app.callback(Output("bench-chart-box", "children", allow_duplicate=True), Input("scheme", "data"), State("doc", "data"),
                  prevent_initial_call=True)
    async def redraw(scheme: str | None, document_id: str):
        state = desk.benchmarks.get(document_id)
        if state is None or not ctx.triggered:
            raise PreventUpdate
        document = await asyncio.to_thread(desk.document, document_id)
        return _chart(document, state, scheme or "light")


async def _follow(document: Document, state: BenchmarkState, scheme: str) -> None:
    websocket = ctx.websocket
    seen = -1
    if not state.job.done:
        _enable(False)
        set_props("bench-cancel", {"disabled": False})
        set_props("bench-progress", {"animated": True, "striped": True})
        set_props("bench-result", {"children": None})
        set_props("bench-stale", {"children": stale(state, document)})
    while not state.job.done:
        if websocket is not None and websocket.is_shutdown:
            return
        events = list(state.job.events)
        if len(events) != seen:
            seen = len(events)
            _show_progress(document, state, events, scheme)
        await asyncio.sleep(_REFRESH_SECONDS)


def _show_progress(document: Document, state: BenchmarkState, events: list[dict[str, Any]], scheme: str) -> None:
    samples = [e for e in events if e["kind"] == "sample"]
    last: dict[str, Any] = events[-1] if events else {"kind": "phase", "text": "waiting for a worker"}
    if last["kind"] == "phase":
        text = last["text"][:1].upper() + last["text"][1:]
        set_props("bench-text", {"children": f"{text} …"})
        done = 100 * last["done"] / last["total"] if last.get("total") else 0
        set_props("bench-progress", {"value": round(done, 1), "color": "gray"})
    else:
        set_props("bench-text", {"children": f"Measuring: {len(samples)} runs"})
        set_props("bench-progress", {"value": round(100 * last["progress"], 1), "color": "blue"})
    if samples:
        set_props("bench-chart-box", {"children": _chart(document, state, scheme)})


def _show_end(document: Document, state: BenchmarkState, scheme: str) -> None:
    _enable(True)
    set_props("bench-cancel", {"disabled": True})
    try:
        result = state.job.result(0)
    except EditorError as error:
        set_props("bench-text", {"children": "Cancelled." if str(error) == "cancelled" else "Failed."})
        set_props("bench-progress", {"value": 0})
        set_props("bench-problem", {"children": failed(str(error))})
        set_props("bench-result", {"children": idle()})
        return
    except TimeoutError:
        return
    set_props("bench-progress", {"value": 100, "color": "teal", "animated": False, "striped": False})
    if state.kind == "profile":
        set_props("bench-text", {"children": "Profiled."})
        set_props("view", {"data": view_of(document)})  # costs are measured now, and with them colours and the prediction
        set_props("status", {"children": status(document)})
        set_props("bench-chart-box", {"children": None})
        set_props("bench-result", {"children": profile_view(document, result)})
        return
    samples = [e for e in state.job.events if e["kind"] == "sample"]
    set_props("bench-chart-box", {"children": _chart(document, state, scheme)})
    if state.kind == "tune":
        set_props("bench-text", {"children": f"Tuned: the fastest is “{result.best}”."})
        set_props("bench-result", {"children": tuned_view(result)})
        if not state.adopted:  # a page that is loaded later only shows the outcome
            state.adopted = True
            set_props("stroke", {"data": {"do": "adopt", "name": result.best}})
        return
    result = result[0]
    set_props("bench-text", {"children": f"Done: median {human_seconds(result.total.median)} over {result.runs} runs, "
                                        f"{len(samples)} with the baselines."})
    set_props("bench-stale", {"children": stale(state, document)})
    set_props("bench-result", {"children": result_view(result, colours_of(document))})
    if not state.kept:
        state.kept = True
        document.keep_run(result, state.layout)
    set_props("bench-runs", {"children": runs_view(document.runs())})


def _enable(on: bool) -> None:
    for button in ("bench-start", "bench-profile", "bench-tune"):
        set_props(button, {"disabled": not on})


def _chart(document: Document, state: BenchmarkState, scheme: str) -> Any:
    samples = [e for e in list(state.job.events) if e["kind"] == "sample"]
    if not samples:
        return None
    planned = {d.name for d in document.devices if d.planned}
    return chart(live_figure(samples, state.devices, colours_of(document), bool(planned & set(state.devices)), scheme))
