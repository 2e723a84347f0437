"""The Devices tab: every finished field becomes a stroke with the whole table."""

from __future__ import annotations

import asyncio
from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, no_update
from dash.exceptions import PreventUpdate

from editor.devices.table import load_devices
from editor.errors import EditorError
from editor.web.app_state import AppState
from editor.web.messages import Devices
from editor.web.panels.device_form import changed_entry, device_forms, text_of
from editor.web.panels.parts import problem
from editor.workspace.document import Document


def register(app: Dash, state: AppState) -> None:
    """Adds the callbacks."""
    stroke, said = Output("next-stroke", "data", allow_duplicate=True), Output("device-problem", "children")

    @app.callback(stroke, said, Input({"type": "device-field", "index": ALL, "field": ALL}, "changes"),
                  State({"type": "device-field", "index": ALL, "field": ALL}, "value"),
                  State({"type": "device-field", "index": ALL, "field": ALL}, "id"), State("doc", "data"),
                  prevent_initial_call=True)
    async def change(changes: list[int | None], values: list[Any], fields: list[dict[str, Any]], document_id: str) -> Any:
        # Dash puts a change and fields that are drawn anew into one call where they come together.
        told = [dict(each) for each in ctx.triggered_prop_ids.values()]
        edits = [(field, value) for count, value, field in zip(changes, values, fields, strict=True) if count and field in told]
        if not edits:
            raise PreventUpdate
        return await asyncio.to_thread(_table, state, document_id, lambda entries: _with_fields(entries, edits))

    @app.callback(stroke, Output("device-problem", "children", allow_duplicate=True),
                  Input({"type": "device-move", "what": ALL, "index": ALL}, "n_clicks"), State("doc", "data"),
                  prevent_initial_call=True)
    async def move(clicks: list[int | None], document_id: str) -> tuple[Any, Any]:
        if not any(clicks) or not isinstance(ctx.triggered_id, dict):
            raise PreventUpdate
        what, index = str(ctx.triggered_id["what"]), int(ctx.triggered_id["index"])
        return await asyncio.to_thread(_table, state, document_id, lambda entries: _moved(entries, what, index))

    @app.callback(stroke, Output("device-problem", "children", allow_duplicate=True), Output("device-add", "value"),
                  Input("device-add", "value"), State("doc", "data"), prevent_initial_call=True)
    async def add(name: str | None, document_id: str) -> tuple[Any, Any, Any]:
        if not name:
            raise PreventUpdate
        return (*await asyncio.to_thread(_table, state, document_id, lambda entries: _added(entries, name)), None)

    @app.callback(Output("device-forms", "children"), Input("view", "data"), State("doc", "data"),
                  State({"type": "device-field", "index": ALL, "field": ALL}, "value"),
                  State({"type": "device-field", "index": ALL, "field": ALL}, "id"),
                  State({"type": "device-heading", "index": ALL}, "children"), prevent_initial_call=True)
    async def redraw(_view: Any, document_id: str, values: list[Any], fields: list[dict[str, Any]], headings: list[str]) -> Any:
        return await asyncio.to_thread(_forms, state, document_id, values, fields, headings)


def _table(state: AppState, document_id: str, changed: Any) -> tuple[Any, Any]:
    """A stroke with the changed table, or what is wrong with it."""
    try:
        document = state.document(document_id)
        base = [dict(d.entry) for d in document.devices]
        made = load_devices(changed([dict(entry) for entry in base]))
    except EditorError as error:
        return no_update, problem(str(error), "This table is not valid")
    plain = [dict(d.entry) for d in made]
    if plain == base:
        return no_update, None
    stroke: Devices = {"do": "devices", "entries": plain, "base": base}
    return stroke, None


def _with_fields(entries: list[dict[str, Any]], edits: list[tuple[dict[str, Any], Any]]) -> list[dict[str, Any]]:
    for field, value in edits:
        entries = _with_field(entries, field, value)
    return entries


def _with_field(entries: list[dict[str, Any]], field: dict[str, Any], value: Any) -> list[dict[str, Any]]:
    index = int(field["index"])
    if not 0 <= index < len(entries):
        raise PreventUpdate
    if text_of(entries[index], str(field["field"])) == value:
        return entries
    return [changed_entry(e, str(field["field"]), value) if i == index else e for i, e in enumerate(entries)]


def _moved(entries: list[dict[str, Any]], what: str, index: int) -> list[dict[str, Any]]:
    if not 0 <= index < len(entries):
        raise PreventUpdate
    entry = entries.pop(index)
    if what != "remove":
        entries.insert(index + (-1 if what == "up" else 1), entry)
    return entries


def _added(entries: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """The table with a device of the list at its end; a name that is taken gets a number."""
    (device,) = load_devices(f"HETERO:{text}")
    entry = dict(device.entry)
    taken = {d.name for d in load_devices(entries)}
    if device.name in taken:
        number = next(n for n in range(2, len(taken) + 3) if f"{device.name} {n}" not in taken)
        entry = {**entry, "name": f"{device.name} {number}"}
        if not entry.get("preset"):
            entry["backendName"] = device.backend
    return [*entries, entry]


def _forms(state: AppState, document_id: str, values: list[Any], fields: list[dict[str, Any]], headings: list[str]) -> Any:
    """New forms where the table is another one than they show: after undo, by another tab, another order or preset."""
    try:
        document: Document = state.document(document_id)
    except EditorError:
        raise PreventUpdate from None
    shown = {(int(f["index"]), str(f["field"])): value for f, value in zip(fields, values, strict=True)}
    names = [str(shown.get((i, "name"))) for i in range(len(document.devices))]
    same = names == headings == [d.name for d in document.devices] and (len(document.devices), "name") not in shown
    texts = all(text_of(d.entry, key) == (shown.get((i, key)) or "") for i, d in enumerate(document.devices)
                for key in ("memory", "peakCompute", "peakDramBw", "bandwidth", "latency", "wireType", "properties", "preset",
                            "assumes"))
    if same and texts and all(shown.get((i, "backendName")) == d.backend for i, d in enumerate(document.devices)):
        raise PreventUpdate
    return device_forms(document)
