"""The Devices tab: forms are drawn anew where the table is another one than they show."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from dash import ALL, Dash, Input, Output, State, no_update
from dash.exceptions import PreventUpdate

from editor.errors import EditorError
from editor.web.app_state import AppState
from editor.web.device_fields import shown
from editor.web.panels.device_form import device_forms


def register(app: Dash, state: AppState) -> None:
    """Adds the callbacks."""
    fields = {"type": "device-field", "index": ALL, "field": ALL}

    @app.callback(Output("device-forms", "children"), Output("device-forms-table", "data"), Input("view", "data"),
                  State("doc", "data"), State("device-forms-table", "data"), State(fields, "value"), State(fields, "id"),
                  prevent_initial_call=True)
    async def redraw(_view: Any, document_id: str, drawn: list[dict[str, Any]], values: list[Any],
                     ids: list[dict[str, Any]]) -> tuple[Any, Any]:
        return await asyncio.to_thread(_forms, state, document_id, drawn, values, ids)


def _forms(state: AppState, document_id: str, drawn: Sequence[Mapping[str, Any]], values: Sequence[Any],
           ids: Sequence[Mapping[str, Any]]) -> tuple[Any, Any]:
    """New forms after undo, a change by another tab, another order or preset; not for what was typed in them.

    What a person has typed and not yet finished, or what was refused, is not in the table and must stay in its field.
    """
    try:
        document = state.document(document_id)
    except EditorError:
        raise PreventUpdate from None
    now = [shown(d) for d in document.devices]
    if now == drawn:
        raise PreventUpdate
    if [each["name"] for each in now] != [each["name"] for each in drawn]:  # the headings have them too
        return device_forms(document), now
    in_page = {(int(f["index"]), str(f["field"])): value or None for f, value in zip(ids, values, strict=True)}
    typed = all(in_page.get((i, key)) == new[key] for i, (old, new) in enumerate(zip(drawn, now, strict=True))
                for key in new if old.get(key) != new[key])
    return no_update if typed else device_forms(document), now
