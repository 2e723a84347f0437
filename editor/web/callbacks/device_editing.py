"""The Devices tab: forms are drawn anew where the table is another one than they show."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, no_update
from dash.exceptions import PreventUpdate

from editor.errors import EditorError
from editor.web.app_state import AppState
from editor.web.device_fields import shown
from editor.web.messages import RELOAD
from editor.web.panels.device_form import device_forms, refused_values
from editor.web.panels.export_menu import export_groups
from editor.workspace.document import Document


def register(app: Dash, state: AppState) -> None:
    """Adds the callbacks."""
    fields = {"type": "device-field", "index": ALL, "field": ALL}

    @app.callback(
        Output("device-forms", "children"),
        Output("device-forms-table", "data"),
        Output("device-refused", "children"),
        Output("export", "children"),
        Input("plan", "data"),
        Input("device-restore", "n_clicks"),
        State("doc", "data"),
        State("device-forms-table", "data"),
        State(fields, "value"),
        State(fields, "id"),
        prevent_initial_call=True,
    )
    async def redraw(
        _plan: Any,
        _restore: int | None,
        document_id: str,
        drawn: list[dict[str, Any]],
        values: list[Any],
        ids: list[dict[str, Any]],
    ) -> tuple[Any, Any, Any, Any]:
        return await asyncio.to_thread(
            _redrawn, state, document_id, drawn, values, ids, ctx.triggered_id == "device-restore"
        )


def _redrawn(
    state: AppState,
    document_id: str,
    drawn: Sequence[Mapping[str, Any]],
    values: Sequence[Any],
    ids: Sequence[Mapping[str, Any]],
    restore: bool,
) -> tuple[Any, Any, Any, Any]:
    """The forms where they are drawn anew, the table that they then show, and what was refused and still stands in them."""
    try:
        document = state.document(document_id)
    except EditorError:
        raise PreventUpdate from None
    if len(ids) != len(values):
        raise EditorError(f"The page sent other fields than values. {RELOAD}")
    now = [shown(d) for d in document.devices]
    in_page = {
        (int(f["index"]), str(f["field"])): value or None
        for f, value in zip(ids, values, strict=True)
    }
    forms = device_forms(document) if restore else _forms(document, drawn, now, in_page)
    refused = (
        []
        if forms is not no_update
        else [
            (document.devices[i].name, key, value)
            for (i, key), value in in_page.items()
            if i < len(now) and value != now[i][key]
        ]
    )
    menu = no_update if now == drawn else export_groups(document)
    return forms, now, refused_values(refused), menu


def _forms(
    document: Document,
    drawn: Sequence[Mapping[str, Any]],
    now: Sequence[Mapping[str, Any]],
    in_page: Mapping[tuple[int, str], Any],
) -> Any:
    """New forms after undo, a change by another tab, another order or preset; not for what was typed in them.

    What a person has typed and not yet finished, or what was refused, is not in the table and must stay in its field.
    """
    if now == drawn:
        return no_update
    if [each["name"] for each in now] != [
        each.get("name") for each in drawn
    ]:  # the headings have them too
        return device_forms(document)
    typed = all(
        in_page.get((i, key)) == new[key]
        for i, (old, new) in enumerate(zip(drawn, now, strict=True))
        for key in new
        if old.get(key) != new[key]
    )
    return no_update if typed else device_forms(document)
