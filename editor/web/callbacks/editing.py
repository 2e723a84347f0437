"""Strokes, tooltips and the inspector: what the page asks for, and everything that follows from it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from dash import Dash, Input, Output, State, html, no_update
from dash.exceptions import PreventUpdate

from editor.errors import EditorError
from editor.web.app_state import AppState
from editor.web.messages import Confirmed, HoverRequest, Selection, Strokes
from editor.web.panels import inspector
from editor.web.panels.benchmark_panel import stale
from editor.web.panels.devices import device_list, history_list, outcome, pins_summary
from editor.web.panels.hover import hover
from editor.web.panels.notice import notice, refusal_notice
from editor.web.panels.status import status
from editor.web.panels.tables import subgraph_rows, transfer_rows
from editor.web.stroke_order import Answer
from editor.web.strokes import apply
from editor.web.validation import require
from editor.web.view import codegen_value, costs_value, figures_of, policy_value, view_of
from editor.workspace.document import Document, Refusal


def register(app: Dash, state: AppState) -> None:
    """Adds the callbacks."""

    @app.callback(Output("view", "data"), Output("devices", "children"), Output("pins", "children"),
                  Output("subgraphs", "rowData"), Output("transfers", "rowData"), Output("status", "children"),
                  Output("notice", "children"), Output("selection", "data", allow_duplicate=True),
                  Output("policy", "value"), Output("grouping", "value"), Output("costs", "value"),
                  Output("codegen", "value"), Output("outcome", "children"),
                  Output("bench-stale", "children"), Output("history", "children"), Output("confirmed", "data"),
                  Input("strokes", "data"), State("doc", "data"), prevent_initial_call=True)
    async def strokes(message: Strokes | None, document_id: str) -> tuple[Any, ...]:
        if not message:
            raise PreventUpdate
        return await asyncio.to_thread(_strokes, state, message, document_id)

    @app.callback(Output("hover", "children"), Input("hover-request", "data"), State("doc", "data"),
                  prevent_initial_call=True)
    async def tooltip(request: HoverRequest | None, document_id: str) -> list[Any]:
        if not request:
            raise PreventUpdate
        return await asyncio.to_thread(_hover, state, request, document_id)

    @app.callback(Output("inspector", "children"), Input("selection", "data"), Input("view", "data"),
                  State("doc", "data"), prevent_initial_call=True)
    async def inspect(selection: Selection | None, _view: Any, document_id: str) -> list[Any]:
        return await asyncio.to_thread(_inspect, state, selection or {"ops": []}, document_id)


def _hover(state: AppState, request: HoverRequest, document_id: str) -> list[Any]:
    try:
        require(request, HoverRequest, "a question about a node")
        document = state.document(document_id)
    except EditorError:
        raise PreventUpdate from None
    count = len(document.graph)
    ops = [op for op in request["ops"] if 0 <= op < count]
    pairs = [pair for pair in request["pairs"] if len(pair) == 2 and all(0 <= op < count for op in pair)]
    # The number makes every answer another one, so that the page learns of each.
    return [*hover(document, ops, pairs), html.I(str(request["number"]), hidden=True)]


def _strokes(state: AppState, message: Strokes, document_id: str) -> tuple[Any, ...]:
    try:
        require(message, Strokes, "strokes")
        document, page = state.document(document_id), state.pages.get(message["page"])
        with page.lock:
            before = figures_of(document)
            answers = page.apply(message["strokes"], lambda stroke: _applied(state, document, stroke))
            confirmed: Confirmed = {"page": message["page"], "sequence": page.last}
            settings = document.placement.settings
            return (view_of(document), device_list(document), pins_summary(document), subgraph_rows(document),
                    transfer_rows(document), status(document, before), _notice(document, answers), _selection(answers),
                    policy_value(settings), settings.subgraphs, costs_value(settings), codegen_value(settings),
                    outcome(document), stale(state.benchmarks.get(document.id), document), history_list(document), confirmed)
    except EditorError as error:
        return (*[no_update] * 6, notice(str(error), bad=True), *[no_update] * 9)


def _applied(state: AppState, document: Document, stroke: Mapping[str, Any]) -> Answer:
    return Answer(apply(state, document, stroke), stroke.get("message"))


def _notice(document: Document, answers: list[Answer]) -> Any:
    """The message of the last stroke that has one."""
    for answer in reversed(answers):
        if isinstance(answer.outcome, Refusal):
            names = [d.name for d in document.devices]
            return refusal_notice(answer.outcome, names.index(answer.outcome.device))
        if answer.message is not None:
            return notice(answer.message["text"], bad=answer.message["bad"])
    return None


def _selection(answers: list[Answer]) -> Any:
    """The ops that the last choosing stroke chose."""
    for answer in reversed(answers):
        if isinstance(answer.outcome, list):
            selection: Selection = {"ops": answer.outcome, "select": True, "count": True}
            return selection
    return no_update


def _inspect(state: AppState, selection: Selection, document_id: str) -> list[Any]:
    try:
        require(selection, Selection, "a selection")
        document = state.document(document_id)
    except EditorError:
        raise PreventUpdate from None
    ops = [op for op in selection["ops"] if 0 <= op < len(document.graph)]
    tensor = selection.get("tensor")
    if len(ops) == 1:
        return inspector.op(document, ops[0])
    if ops:
        return inspector.several(document, ops)
    if tensor is not None and 0 <= tensor < len(document.graph.tensor_names):
        return inspector.tensor(document, tensor)
    return inspector.empty()
