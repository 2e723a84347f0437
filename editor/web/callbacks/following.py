"""Strokes, tooltips and the inspector: what the page asks for, and everything that follows from it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from dash import Dash, Input, Output, State, html, no_update
from dash.exceptions import PreventUpdate

from editor.errors import EditorError, WorkspaceError
from editor.graph.graph import Ints
from editor.placement.device_profile import load_profile
from editor.web.app_state import AppState
from editor.web.controls import Plain, plain
from editor.web.drawing.ribbon import ribbon_of
from editor.web.drawing.thumbnail import keep_thumbnail, thumbnail_svg
from editor.web.messages import Confirmed, HoverRequest, Ribbon, Selection, Strokes
from editor.web.other_writers import changes_of_others, in_words, refuse_unseen
from editor.web.panels import inspector
from editor.web.panels.benchmark_panel import stale
from editor.web.panels.devices import device_list, history_list, outcome, pins_summary
from editor.web.panels.fallback_table import fallbacks_view
from editor.web.panels.hover import hover
from editor.web.panels.memory_panel import memory_view
from editor.web.panels.notice import notice, refusal_notice
from editor.web.panels.parts import problem
from editor.web.panels.profiles import profiles_view
from editor.web.panels.status import status
from editor.web.panels.tables import subgraph_rows, transfer_rows
from editor.web.stroke_order import Answer, PageStrokes
from editor.web.strokes import apply, check_kind
from editor.web.validation import require
from editor.web.view import Figures, colours_of, figures_of, view_of
from editor.workspace.document import Document, Refusal
from editor.workspace.folders import Author, acting_as
from editor.workspace.history import Change

log = logging.getLogger(__name__)


def register(app: Dash, state: AppState) -> None:
    """Adds the callbacks."""

    @app.callback(
        Output("view", "data"),
        Output("devices", "children"),
        Output("pins", "children"),
        Output("subgraphs", "rowData"),
        Output("transfers", "rowData"),
        Output("status", "children"),
        Output("notice", "children"),
        Output("selection", "data", allow_duplicate=True),
        Output("outcome", "children"),
        Output("bench-stale", "children"),
        Output("history", "children"),
        Output("device-problem", "children"),
        Output("confirmed", "data"),
        Input("strokes", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def strokes(message: Strokes | None, document_id: str) -> tuple[Any, ...]:
        if not message:
            raise PreventUpdate
        return await state.long_work.in_turn(
            str(message.get("page")), _strokes, state, message, document_id
        )

    @app.callback(
        Output("change-cancelled", "data"),
        Input("cancel-change", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def cancel(_request: Any, document_id: str) -> Any:
        state.works.cancel(document_id)
        with contextlib.suppress(EditorError):  # its page will say so
            state.document(document_id).cancel_change()
        return no_update

    @app.callback(
        Output("hover", "children"),
        Input("hover-request", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def tooltip(request: HoverRequest | None, document_id: str) -> Plain:
        if not request:
            raise PreventUpdate
        return await asyncio.to_thread(_hover, state, request, document_id)

    @app.callback(
        Output("ribbon", "data"),
        Output("fallbacks", "children"),
        Input("view", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def follow(_view: Any, document_id: str) -> tuple[Any, Any]:
        return await asyncio.to_thread(_follow, state, document_id)

    for panel, tab, view in (
        ("memory", "memory", memory_view),
        ("profiles", "benchmark", profiles_view),
    ):
        _while_open(app, state, panel, tab, view)

    @app.callback(
        Output("inspector", "children"),
        Input("selection", "data"),
        Input("view", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def inspect(selection: Selection | None, _view: Any, document_id: str) -> Plain:
        return await asyncio.to_thread(_inspect, state, selection or {"ops": []}, document_id)


def _while_open(
    app: Dash, state: AppState, panel: str, tab: str, view: Callable[[Document], list[Any]]
) -> None:
    """A panel that follows the plan while its tab is open."""

    @app.callback(
        Output(panel, "children"),
        Input("view", "data"),
        Input("tabs", "value"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def show(_view: Any, now: str, document_id: str) -> Plain:
        if now != tab:
            raise PreventUpdate
        try:
            return plain(*await asyncio.to_thread(lambda: view(state.document(document_id))))
        except (EditorError, OSError):  # a profile may go while it is listed
            raise PreventUpdate from None


def _follow(state: AppState, document_id: str) -> tuple[Any, Any]:
    """What shows the plan besides the graph and the tables."""
    try:
        document = state.document(document_id)
    except EditorError:
        raise PreventUpdate from None
    ribbon = ribbon_of(document, state.measured(document))
    picture_plan(state, document, ribbon)
    return ribbon, plain(fallbacks_view(document))


def picture_plan(state: AppState, document: Document, ribbon: Ribbon) -> None:
    """Keeps the picture of a plan for the list of recent work."""
    names = [device.name for device in document.devices]
    keep_thumbnail(
        state.store.folder, document.id, thumbnail_svg(ribbon, colours_of(document), names)
    )


def _hover(state: AppState, request: HoverRequest, document_id: str) -> Plain:
    try:
        require(request, HoverRequest, "a question about a node")
        document = state.document(document_id)
    except EditorError:
        raise PreventUpdate from None
    count = len(document.graph)
    ops = [op for op in request["ops"] if 0 <= op < count]
    pairs = [
        pair for pair in request["pairs"] if len(pair) == 2 and all(0 <= op < count for op in pair)
    ]
    # The number makes every answer another one, so that the page learns of each.
    return plain(hover(document, ops, pairs), html.I(str(request["number"]), hidden=True))


def _strokes(state: AppState, message: Strokes, document_id: str) -> tuple[Any, ...]:
    try:
        require(message, Strokes, "strokes")
        document, page = state.document(document_id), state.pages.get(message["page"])
        with page.lock:
            before, placed = page.before(message["strokes"], lambda: _refreshed(document))
            document.refresh()
            others = changes_of_others(document, message["page"], message["seen"])
            answers = page.apply(
                message["strokes"],
                lambda stroke: _applied(state, document, page, message["page"], stroke, others),
            )
            confirmed: Confirmed = {"page": message["page"], "sequence": page.last, "problem": ""}
            return (
                view_of(document),
                plain(device_list(document)),
                plain(pins_summary(document)),
                subgraph_rows(document),
                transfer_rows(document),
                plain(status(document, before)),
                (
                    _notice(state, document, answers, others)
                    or _lost_profile(document, message, before)
                    or _no_change(document, message, *placed)
                ),
                _selection(answers),
                plain(outcome(document)),
                stale(state.benchmarks.get(document.id), document),
                plain(history_list(document)),
                _device_problem(answers),
                confirmed,
            )
    except WorkspaceError as error:
        log.warning("a stroke waits: %s", error)
        waiting: Confirmed = {
            "page": str(message.get("page")),
            "sequence": 0,
            "problem": str(error),
        }
        return (*[no_update] * 12, waiting)
    except EditorError as error:
        return (*[no_update] * 6, notice(str(error), bad=True), *[no_update] * 6)


def _refreshed(document: Document) -> tuple[Figures, tuple[Ints, Ints]]:
    """The figures that the page shows; and devices and subgraphs of ops with what others did since."""
    before = figures_of(document)
    document.refresh()
    return before, (
        document.placement.assignment.device,
        document.placement.division.subgraph_of_op,
    )


def _applied(
    state: AppState,
    document: Document,
    page: PageStrokes,
    page_id: str,
    stroke: Mapping[str, Any],
    others: list[Change],
) -> Answer:
    check_kind(stroke)
    refuse_unseen(stroke, others, state.server_name)
    in_form = stroke.get("do") in ("device-field", "add-device", "remove-device")
    with acting_as(Author(page_id, stroke["sequence"], page.name, state.server_name)):
        try:
            return Answer(
                apply(state, document, stroke), stroke.get("message"), "" if in_form else None
            )
        except WorkspaceError:
            raise
        except EditorError as error:
            if not in_form:
                raise
            return Answer(device_problem=str(error))


def _device_problem(answers: list[Answer]) -> Any:
    """What stands above the forms of the devices."""
    said = [answer.device_problem for answer in answers if answer.device_problem is not None]
    if not said:
        return no_update
    return problem(said[-1], "This change was not made") if said[-1] else None


def _notice(
    state: AppState, document: Document, answers: list[Answer], others: list[Change]
) -> Any:
    """The message of the last stroke that has one, else what others did."""
    for answer in reversed(answers):
        if isinstance(answer.outcome, Refusal):
            names = [d.name for d in document.devices]
            number = names.index(answer.outcome.device)
            return refusal_notice(answer.outcome, number, document.devices[number].published.source)
        if answer.message is not None:
            profile = ("run-bench-profile", "Profile now") if answer.needs_profile else None
            return notice(answer.message["text"], answer.message["bad"], profile)
    return notice(in_words(others, state.server_name)) if others else None


def _no_change(document: Document, message: Strokes, before: Ints, subgraphs: Ints) -> Any:
    """Says so where another policy, or other costs, place every op as before: nothing else on the page would tell."""
    same_cut = np.array_equal(subgraphs, document.placement.division.subgraph_of_op)
    last = message["strokes"][-1].get("do") if message["strokes"] else ""
    if last != "automatic" or not np.array_equal(before, document.placement.assignment.device):
        return None
    return notice(
        "Every op stays on its device."
        if same_cut
        else "Every op stays on its device; the subgraphs are others."
    )


def _lost_profile(document: Document, message: Strokes, before: Figures) -> Any:
    """Says so where a change of a device leaves figures without the profile that they came from."""
    last = message["strokes"][-1].get("do") if message["strokes"] else ""
    if (
        last not in ("device-field", "add-device")
        or before["basis"] == figures_of(document)["basis"]
    ):
        return None
    names = [
        d.name
        for d in document.devices
        if not d.planned and load_profile(document.graph, d) is None
    ]
    if not names:
        return None
    return notice(
        f"Figures are estimates now: there is no profile of {' and '.join(names)} as the table has it.",
        command=("run-bench-profile", "Profile now"),
    )


def _selection(answers: list[Answer]) -> Any:
    """The ops that the last choosing stroke chose."""
    for answer in reversed(answers):
        if isinstance(answer.outcome, list):
            selection: Selection = {"ops": answer.outcome, "select": True, "count": True}
            return selection
    return no_update


def _inspect(state: AppState, selection: Selection, document_id: str) -> Plain:
    try:
        require(selection, Selection, "a selection")
        document = state.document(document_id)
    except EditorError:
        raise PreventUpdate from None
    ops = [op for op in selection["ops"] if 0 <= op < len(document.graph)]
    tensor = selection.get("tensor")
    if len(ops) == 1:
        return plain(inspector.op(document, ops[0]))
    if ops:
        return plain(inspector.several(document, ops))
    if tensor is not None and 0 <= tensor < len(document.graph.tensor_names):
        return plain(inspector.tensor(document, tensor))
    return plain(inspector.plan(document))
