"""The page of a set: how often its models run, the memory that they share, and placing them again."""

from __future__ import annotations

import json
from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, html, no_update
from dash.exceptions import PreventUpdate

from editor.errors import EditorError
from editor.web.app_state import AppState
from editor.web.pages.model_set import set_body, set_parts, set_table
from editor.web.panels.notice import notice
from editor.web.panels.parts import problem
from editor.web.sets import (
    change_memory,
    change_runs,
    change_table,
    opened,
    place_again,
    steps_of,
    undo_placing,
)


def register(app: Dash, state: AppState) -> None:
    """Adds the callbacks."""
    fields, limits = {"type": "set-runs", "name": ALL}, {"type": "set-memory", "name": ALL}
    parts = Output({"type": "set-part", "at": ALL}, "children", allow_duplicate=True)
    said = Output("notice", "children", allow_duplicate=True)

    # Not one with the button: a field that is left for it would make it busy before it is clicked.
    @app.callback(
        parts,
        said,
        Output("set-table", "value"),
        Input(fields, "value"),
        Input(limits, "value"),
        State(fields, "id"),
        State(limits, "id"),
        State("set", "data"),
        prevent_initial_call=True,
    )
    async def change(
        values: list[Any],
        sizes: list[Any],
        ids: list[dict[str, str]],
        devices: list[dict[str, str]],
        identity: str,
    ) -> Any:
        runs, memory = _by_name(ids, values), _by_name(devices, sizes)
        text: Any = no_update
        try:
            if await state.long_work.run(change_memory, state, identity, memory):
                note = notice("“Place again” places the models within this memory.")
                text = set_table(await state.long_work.run(opened, state, identity))
            elif await state.long_work.run(change_runs, state, identity, runs):
                note = None
            else:
                raise PreventUpdate  # a field was left as it was
            return await _shown(identity), note, text
        except EditorError as error:
            return _unchanged(), notice(str(error), bad=True), no_update

    @app.callback(
        Output("set-body", "children"),
        said,
        Output("set-table-problem", "children"),
        Input("set-table-use", "n_clicks"),
        State("set-table", "value"),
        State("set", "data"),
        prevent_initial_call=True,
        running=[(Output("set-table-use", "busy"), True, False)],
    )
    async def use_table(clicks: int | None, text: str | None, identity: str) -> Any:
        if not clicks:
            raise PreventUpdate
        try:
            with state.tasks.begin(identity, "Placing the models on other devices") as task:
                placed = await state.long_work.run(change_table, state, identity, text or "", task)
            found = await state.long_work.run(opened, state, identity)
            return await state.long_work.run(set_body, state, found), notice(placed.words), None
        except EditorError as error:
            return no_update, None, problem(str(error), "The table was not changed")

    @app.callback(
        parts,
        said,
        Output("set-policy", "value"),
        Input("set-place", "n_clicks"),
        Input({"type": "set-within", "at": ALL}, "n_clicks"),
        State("set-policy", "value"),
        State("set", "data"),
        prevent_initial_call=True,
        running=[(Output("set-place", "busy"), True, False)],
    )
    async def place(_clicks: Any, _within: Any, policy: str | None, identity: str) -> Any:
        if not any(each["value"] for each in ctx.triggered):
            raise PreventUpdate
        chosen = (policy or "") if ctx.triggered_id == "set-place" else "memory"
        try:
            with state.tasks.begin(identity, "Placing the models again") as task:
                placed = await state.long_work.run(place_again, state, identity, task, chosen)
            undo = html.Button(
                "Undo",
                id={"type": "set-undo", "steps": json.dumps(placed.steps)},
                className="tool small",
                title="Each model as it was before it was placed with the set (Ctrl+Z)",
                **{"data-set-undo": ""},
            )
            way = undo if placed.steps else None
            return await _shown(identity), notice(placed.words, way=way), chosen
        except EditorError as error:
            return _unchanged(), notice(str(error), bad=True), no_update

    @app.callback(
        parts,
        said,
        Input({"type": "set-undo", "steps": ALL}, "n_clicks"),
        State("set", "data"),
        prevent_initial_call=True,
    )
    async def undo(_clicks: Any, identity: str) -> Any:
        if not isinstance(ctx.triggered_id, dict) or not any(e["value"] for e in ctx.triggered):
            raise PreventUpdate
        try:
            steps = steps_of(str(ctx.triggered_id["steps"]))
            await state.long_work.run(undo_placing, state, identity, steps)
            return await _shown(identity), notice("The models are as they were before.")
        except EditorError as error:
            return _unchanged(), notice(str(error), bad=True)

    async def _shown(identity: str) -> list[Any]:
        found = await state.long_work.run(opened, state, identity)
        made = await state.long_work.run(set_parts, state, found)
        return [made.get(str(each["id"]["at"]), no_update) for each in ctx.outputs_list[0]]


def _unchanged() -> list[Any]:
    return [no_update] * len(ctx.outputs_list[0])


def _by_name(ids: list[dict[str, str]], values: list[Any]) -> dict[str, Any]:
    """The values of fields by what they are of."""
    return {str(i.get("name")): value for i, value in zip(ids, values, strict=False)}
