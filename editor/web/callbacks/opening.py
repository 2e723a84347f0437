"""From the address bar, a click or a file to a document."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, no_update
from dash.exceptions import PreventUpdate

from editor.errors import EditorError, UnboundSymbolError
from editor.files import safe_stem, write_atomic
from editor.web.app_state import AppState
from editor.web.open_request import OpenRequest
from editor.web.pages.editor import editor_page
from editor.web.pages.start import EXAMPLES, resolve_spec, start_page, symbol_form
from editor.web.panels.parts import problem


def register(app: Dash, state: AppState) -> None:
    """Adds the callbacks."""

    @app.callback(Output("page", "children"), Input("url", "pathname"))
    async def route(pathname: str | None) -> Any:
        path = (pathname or "/").rstrip("/")
        if path.startswith("/d/"):
            try:
                document = await asyncio.to_thread(state.document, path.removeprefix("/d/"))
            except EditorError as error:
                return start_page(state, error=str(error))
            return await asyncio.to_thread(editor_page, document)
        if path:
            return start_page(state)
        try:
            first = await asyncio.to_thread(state.open_first)
        except EditorError:
            return start_page(state, state.start)  # which asks for what is missing, or says what is wrong
        return start_page(state) if first is None else await asyncio.to_thread(editor_page, first)

    @app.callback(Output("request", "data"), Input({"type": "example", "number": ALL}, "n_clicks"),
                  Input("open-path", "n_clicks"), Input("path", "n_submit"), Input("upload", "contents"),
                  State("upload", "filename"), State("path", "value"), State("devices-spec", "value"),
                  prevent_initial_call=True)
    def ask(_examples: Any, _open: Any, _submit: Any, contents: str | None,
            filename: str | None, path: str | None, spec: str | None) -> Any:
        trigger = ctx.triggered_id
        if not any(t["value"] for t in ctx.triggered):
            raise PreventUpdate
        if isinstance(trigger, dict):
            example = EXAMPLES[trigger["number"]]
            return {"path": str(state.examples / "models" / example.file),
                    "devices": str(state.examples / "devices" / example.devices), "define": example.define}
        devices = resolve_spec((spec or "").strip(), state.examples)
        if trigger == "upload":
            return {"path": _store_upload(state, contents or "", filename or "model.onnx"), "devices": devices,
                    "define": {}}
        return {"path": (path or "").strip(), "devices": devices, "define": {}}

    @app.callback(Output("request", "data", allow_duplicate=True), Input("open-sizes", "n_clicks"),
                  State({"type": "symbol", "name": ALL}, "value"), State({"type": "symbol", "name": ALL}, "id"),
                  State("request", "data"), prevent_initial_call=True)
    def with_sizes(clicks: int | None, values: list[Any], ids: list[dict[str, str]], request: dict[str, Any]) -> Any:
        if not clicks:
            raise PreventUpdate
        sizes = {i["name"]: int(v) for i, v in zip(ids, values, strict=True) if isinstance(v, int | float)}
        return {**request, "define": {**request["define"], **sizes}}

    @app.callback(Output("opening-cancel", "disabled"), Input("opening-cancel", "n_clicks"), prevent_initial_call=True)
    async def cancel(clicks: int | None) -> Any:
        if clicks:
            await asyncio.to_thread(state.cancel_opening)
        return False

    @app.callback(Output("opened", "data"), Output("open-error", "children"), Output("symbols", "children"),
                  Output("opening", "children"), Input("request", "data"),
                  running=[(Output("opening", "className"), "opening busy", "opening")])
    async def open_request(request: dict[str, Any] | None) -> Any:
        if not request:
            raise PreventUpdate
        wanted = OpenRequest(request["path"], request["devices"], request["define"])
        try:
            document = await asyncio.to_thread(state.open, wanted)
        except UnboundSymbolError as error:
            return no_update, None, symbol_form(error.symbols, request["define"], str(error)), ""
        except EditorError as error:
            title = "Cancelled" if str(error) == "cancelled" else "This could not be opened"
            text = "Nothing was opened." if title == "Cancelled" else str(error)
            return no_update, problem(text, title), None, ""
        return f"/d/{document.id}", None, None, ""


def _store_upload(state: AppState, contents: str, filename: str) -> str:
    """Keeps an uploaded file in the workspace, in a folder named by its content."""
    data = base64.b64decode(contents.partition(",")[2])
    digest = hashlib.sha256(data).hexdigest()[:16]
    name = safe_stem(filename.rsplit("/", 1)[-1])
    return str(write_atomic(state.store.folder / "uploads" / digest / name, data))
