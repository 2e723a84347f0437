"""From the address bar, a click or a file to a document."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from dash import ALL, Dash, Input, Output, State, ctx, no_update
from dash.exceptions import PreventUpdate
from pydantic import BaseModel

from editor.errors import EditorError, UnboundSymbolError
from editor.graph.states import sequence_dim
from editor.placement.prompt_room import longest_prompt
from editor.web.app_state import AppState
from editor.web.drawing.ribbon import picture_plan, ribbon_of
from editor.web.messages import RELOAD, Text, validated
from editor.web.open_request import EarlierWorkError, OpenRequest
from editor.web.pages.editor import editor_page
from editor.web.pages.model_set import set_page
from editor.web.pages.start import (
    EXAMPLES,
    devices_here,
    earlier_form,
    resolve_spec,
    start_page,
    symbol_form,
)
from editor.web.panels.notice import moved_at_sizes, refused_sizes
from editor.web.panels.parts import problem
from editor.web.sets import follow_set, open_address, open_set, opened
from editor.web.tasks import Task
from editor.workspace.document import Document
from editor.workspace.longest import (
    NO_ROOM,
    longest_context,
    memory_settings,
    wanted_settings,
)
from editor.workspace.model_set import is_set


class _Wanted(BaseModel):
    path: Text
    devices: Text
    define: dict[str, int]
    assume_sizes: bool = False
    earlier: Literal["continue", "ask", "fresh"] = "ask"


def register(app: Dash, state: AppState) -> None:
    """Adds the callbacks."""
    _register_sizes(app, state)

    @app.callback(
        Output("request", "data"),
        Input({"type": "example", "number": ALL}, "n_clicks"),
        Input("open-path", "n_clicks"),
        Input("path", "n_submit"),
        Input("devices-spec", "n_submit"),
        Input("uploaded", "data"),
        State("path", "value"),
        State("devices-spec", "value"),
        prevent_initial_call=True,
    )
    def ask(
        _examples: Any,
        _open: Any,
        _path: Any,
        _devices: Any,
        uploaded: str | None,
        path: str | None,
        spec: str | None,
    ) -> Any:
        trigger = ctx.triggered_id
        if not any(t["value"] for t in ctx.triggered):
            raise PreventUpdate
        spec = (spec or "").strip()
        devices = resolve_spec(spec, state.examples)
        if isinstance(trigger, dict):
            number = trigger.get("number")
            if not isinstance(number, int) or not 0 <= number < len(EXAMPLES):
                raise EditorError(f"There is no such example. {RELOAD}")
            example = EXAMPLES[number]
            own = resolve_spec(example.devices, state.examples)
            return {
                "path": str(state.examples / "models" / example.file),
                "devices": own if spec in ("", devices_here()) else devices,
                "define": example.define,
                "assume_sizes": True,
            }
        chosen = uploaded if trigger == "uploaded" else path
        return {"path": (chosen or "").strip(), "devices": devices, "define": {}}

    @app.callback(
        Output("request", "data", allow_duplicate=True),
        Input("open-sizes", "n_clicks"),
        State({"type": "symbol", "name": ALL}, "value"),
        State({"type": "symbol", "name": ALL}, "id"),
        State("request", "data"),
        prevent_initial_call=True,
    )
    def with_sizes(
        clicks: int | None, values: list[Any], ids: list[dict[str, str]], request: dict[str, Any]
    ) -> Any:
        if not clicks:
            raise PreventUpdate
        known = request.get("define")
        define = {**(known if isinstance(known, dict) else {}), **_sizes(ids, values)}
        return {**request, "define": define}

    @app.callback(
        Output("request", "data", allow_duplicate=True),
        Input("open-fresh", "n_clicks"),
        State("request", "data"),
        prevent_initial_call=True,
    )
    def fresh(clicks: int | None, request: dict[str, Any]) -> Any:
        if not clicks:
            raise PreventUpdate
        return {**request, "earlier": "fresh"}

    @app.callback(
        Output("opening-cancel", "disabled"),
        Input("opening-cancel", "n_clicks"),
        prevent_initial_call=True,
    )
    async def cancel(clicks: int | None) -> Any:
        if clicks:
            await asyncio.to_thread(state.cancel_opening)
        return False

    @app.callback(
        Output("opened", "data"),
        Output("open-error", "children"),
        Output("symbols", "children"),
        Output("opening", "children"),
        Input("request", "data"),
        running=[
            (Output("opening", "className"), "opening busy", "opening"),
            (Output("open-error", "hidden"), True, False),
        ],
    )
    async def open_request(request: dict[str, Any] | None) -> Any:
        if not request:
            raise PreventUpdate
        try:
            asked = validated(_Wanted, request, "a request")
            wanted = OpenRequest(
                asked.path, asked.devices, asked.define, asked.assume_sizes, asked.earlier
            )
            address = await state.long_work.run(open_address, state, wanted)
        except EarlierWorkError as error:
            return no_update, None, earlier_form(error), ""
        except UnboundSymbolError as error:
            return (
                no_update,
                None,
                symbol_form(error.symbols, {**error.proposed, **request["define"]}, str(error)),
                "",
            )
        except EditorError as error:
            title = "Cancelled" if str(error) == "cancelled" else "This could not be opened"
            text = (
                "Nothing was opened." if title == "Cancelled" else state.uploads.shown(str(error))
            )
            has_sizes = request.get("define")  # the model cannot have them: the form stays
            return no_update, problem(text, title), no_update if has_sizes else None, ""
        return address, None, None, ""


def _register_sizes(app: Dash, state: AppState) -> None:
    """Adds the callbacks that open a document at other sizes."""

    @app.callback(
        Output("resized", "data"),
        Output("sizes-refused", "children"),
        Input("sizes-apply", "n_clicks"),
        State({"type": "size", "name": ALL}, "value"),
        State({"type": "size", "name": ALL}, "id"),
        State("doc", "data"),
        running=[(Output("sizes-apply", "busy"), True, False)],
        prevent_initial_call=True,
    )
    async def resize(
        clicks: int | None, values: list[Any], ids: list[dict[str, str]], document_id: str
    ) -> Any:
        if not clicks:
            raise PreventUpdate
        sizes = _sizes(ids, values)
        try:
            with state.tasks.begin(document_id, "Solving the plan at other sizes") as task:
                document = await state.long_work.run(
                    state.with_sizes, document_id, sizes, task.should_stop
                )
            before, said = state.document(document_id), state.greeting(document.id)
            if document is not before and document.history.current.label != NO_ROOM:
                said = f"{moved_at_sizes(document, before, 'Solved at these sizes')} {said}"
            state.greet(document.id, said.rstrip(), before)
        except EditorError as error:
            return no_update, refused_sizes(str(error))
        return f"/d/{document.id}", None

    @app.callback(
        Output("resized", "data", allow_duplicate=True),
        Output("sizes-refused", "children", allow_duplicate=True),
        Input("sizes-longest", "n_clicks"),
        State("doc", "data"),
        running=[(Output("sizes-longest", "busy"), True, False)],
        prevent_initial_call=True,
    )
    async def longest(clicks: int | None, document_id: str) -> Any:
        if not clicks:
            raise PreventUpdate
        try:
            with state.tasks.begin(document_id, "Looking for the longest context") as task:
                document = await state.long_work.run(
                    at_longest_context, state, state.document(document_id), task
                )
        except EditorError as error:
            return no_update, refused_sizes(str(error))
        return f"/d/{document.id}", None


def at_longest_context(state: AppState, document: Document, task: Task) -> Document:
    """The document at the longest context that a split within memory was found for, with that split.

    Raises:
        EditorError: no context fits.
        Cancelled: a person ended it.
    """
    wanted = wanted_settings(document)
    found = longest_context(
        replace(document.placement, settings=wanted),
        state.loader(document),
        lambda done, total, what: task.step(done, total, f"Placing it with {what}"),
        task.should_stop,
    )
    resized = state.with_sizes(document.id, found.define, task.should_stop)
    settings = memory_settings(resized.placement.settings)
    resized.set_automatic("memory", settings.policy_options, settings.subgraphs)
    prompt = None
    if sequence_dim(resized.graph):
        task.step(0, 1, "Looking for the longest prompt at once")
        with suppress(EditorError):  # sizes of a prompt cannot be read: nothing is told of it
            prompt = longest_prompt(resized.placement, state.loader(resized), task.should_stop)
    said = found.in_words(wanted, prompt)
    state.greet(resized.id, f"{said} {state.greeting(resized.id)}".rstrip(), document)
    return resized


def _sizes(ids: list[dict[str, str]], values: list[Any]) -> dict[str, int]:
    """Name of a dimension -> what its field holds, of those that hold a whole number."""
    return {
        str(identity.get("name")): int(value)
        for identity, value in zip(ids, values, strict=False)
        if isinstance(value, int) or _whole(value)
    }


def page_at(state: AppState, path: str) -> Any:
    """What the address shows: a document, a set, what was opened first, or the start page."""
    path = path.rstrip("/")
    if path.startswith("/d/"):
        try:
            return _page(state, state.document(path.removeprefix("/d/")))
        except EditorError as error:
            return start_page(state, error=str(error))
    if path.startswith("/set/"):
        try:
            return set_page(state, opened(state, path.removeprefix("/set/")))
        except EditorError as error:
            return start_page(state, error=str(error))
    if path:
        return start_page(state)
    try:
        if state.start is not None and is_set(Path(state.start.path)):
            return set_page(state, opened(state, open_set(state, state.start)))
        first = state.open_first()
    except EditorError:
        return start_page(
            state, state.start
        )  # which asks for what is missing, or says what is wrong
    return start_page(state) if first is None else _page(state, first)


def _page(state: AppState, document: Document) -> Any:
    """The page of a document, which is in the list of recent work from now on."""
    try:
        follow_set(state, document)
    except EditorError as error:
        state.greet(
            document.id,
            f"What the other models of the set take is of when they were placed: {error}",
        )
    ribbon = ribbon_of(document)
    picture_plan(state.store.folder, document, ribbon)
    return editor_page(
        document,
        ribbon,
        state.job_options(document),
        state.store.set_of(document.id),
        state.greeting(document.id),
        state.origin(document.id),
        state.phased.get(document),
    )


def _whole(value: object) -> bool:
    return isinstance(value, float) and value.is_integer()
