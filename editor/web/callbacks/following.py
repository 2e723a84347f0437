"""Panels that follow the plan. Their one input about it is the store ``plan``: document, version, and what figures go by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any

from dash import Dash, Input, Output, State
from dash.exceptions import PreventUpdate

from editor.errors import EditorError
from editor.web.app_state import AppState
from editor.web.controls import StaticHtml, static_html
from editor.web.edits import automatic_mode
from editor.web.panels import inspector
from editor.web.panels.devices import device_list, history_list, pins_summary
from editor.web.panels.fallback_table import fallbacks_view
from editor.web.panels.memory_panel import memory_view
from editor.web.panels.phases_panel import phases_view
from editor.web.panels.profiles import profiles_view
from editor.web.panels.suggestions import better_plan, policies_to_try
from editor.web.panels.tables import subgraph_rows, transfer_rows
from editor.web.view import codegen_value, costs_value
from editor.workspace.document import Document


def register(app: Dash, state: AppState) -> None:
    """Adds the callbacks."""

    @app.callback(
        Output("devices", "children"),
        Output("pins", "children"),
        Output("history", "children"),
        Input("plan", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def tools(_plan: Any, document_id: str) -> Any:
        return await _of(
            state,
            document_id,
            lambda document: (
                static_html(device_list(document)),
                static_html(pins_summary(document)),
                static_html(history_list(document)),
            ),
        )

    @app.callback(
        Output("subgraphs", "rowData"),
        Output("transfers", "rowData"),
        Input("plan", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def tables(_plan: Any, document_id: str) -> Any:
        return await _of(
            state, document_id, lambda document: (subgraph_rows(document), transfer_rows(document))
        )

    @app.callback(
        Output("fallbacks", "children"),
        Input("plan", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def fallbacks(_plan: Any, document_id: str) -> Any:
        return await _of(state, document_id, lambda document: static_html(fallbacks_view(document)))

    @app.callback(
        Output("inspector", "children"),
        Input("selection", "data"),
        Input("plan", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def inspect(selection: dict[str, Any] | None, _plan: Any, document_id: str) -> Any:
        return await _of(state, document_id, lambda document: _inspected(document, selection or {}))

    @app.callback(
        Output("better", "children"),
        Input("plan", "data"),
        State("doc", "data"),
    )
    async def better(_plan: Any, document_id: str) -> Any:
        version = await _of(state, document_id, lambda document: document.version)
        await asyncio.sleep(_AT_REST)
        return await _of(state, document_id, lambda document: _better(document, version))

    def phases(document: Document) -> list[Any]:
        found = state.phased.get(document)
        if found is None:
            raise PreventUpdate
        return phases_view(document, found)

    def drawn_once(view: Callable[[Document], list[Any]]) -> Callable[[Document], Any]:
        return lambda document: static_html(*view(document))

    for panel, tab, view in (
        (Output("memory", "children"), "memory", drawn_once(memory_view)),
        (Output("profiles", "children"), "benchmark", drawn_once(profiles_view)),
        (Output("phases-result", "children", allow_duplicate=True), "phases", phases),
    ):
        _while_open(app, state, panel, tab, view)


def _while_open(
    app: Dash, state: AppState, panel: Output, tab: str, view: Callable[[Document], Any]
) -> None:
    """A panel that follows the plan while its tab is open."""

    @app.callback(
        panel,
        Input("plan", "data"),
        Input("tabs", "value"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def show(_plan: Any, now: str, document_id: str) -> Any:
        if now != tab:
            raise PreventUpdate
        return await _of(state, document_id, view)


async def _of(state: AppState, document_id: str, work: Callable[[Document], Any]) -> Any:
    """What a panel shows of a document; it stays as it is where there is none any more, or a later plan follows at once."""

    def look() -> Any:
        document = state.document(document_id)
        before = document.placement
        try:
            return work(document)
        except (IndexError, KeyError):  # half of it was read of the plan before an edit
            if document.placement is before:
                raise
            raise PreventUpdate from None

    try:
        return await asyncio.to_thread(look)
    except (EditorError, OSError):  # a profile may go while it is listed
        raise PreventUpdate from None


_AT_REST = 1.0
"""Seconds after the last edit before another policy is tried."""
_MOST_SECONDS = 5.0
"""The time that this may take."""


def _better(document: Document, version: int) -> StaticHtml | None:
    """Returns a line about a faster policy; None where no policy is surely faster."""
    end = monotonic() + _MOST_SECONDS

    def should_stop() -> bool:
        return document.version != version or monotonic() > end

    if should_stop():
        raise PreventUpdate
    for policy in policies_to_try(document):
        mode = automatic_mode(
            document, policy, costs_value(document), codegen_value(document.placement.settings)
        )
        try:
            other = document.by_policy(*mode, should_stop)
        except EditorError:
            return None
        if policy == "memory" or other.run_memory.has_room:
            found = better_plan(document, other, policy)
            return None if found is None else static_html(found)
    return None


def _inspected(document: Document, selection: dict[str, Any]) -> StaticHtml:
    ops = [op for op in selection.get("ops") or [] if 0 <= op < len(document.graph)]
    count = len(document.graph.tensor_names)
    tensors = [tensor for tensor in selection.get("tensors") or [] if 0 <= tensor < count]
    if len(ops) == 1:
        return static_html(inspector.op(document, ops[0], bool(selection.get("weights"))))
    if ops:
        return static_html(inspector.several(document, ops))
    if tensors:
        return static_html(inspector.tensors(document, tensors))
    return static_html(inspector.plan(document))
