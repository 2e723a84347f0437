"""The page of a set: how often its models run, and placing them again."""

from __future__ import annotations

from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, no_update
from dash.exceptions import PreventUpdate

from editor.errors import EditorError
from editor.web.app_state import AppState
from editor.web.pages.model_set import set_parts
from editor.web.panels.notice import notice
from editor.web.sets import change_runs, opened, place_again


def register(app: Dash, state: AppState) -> None:
    """Adds the callbacks."""
    fields = {"type": "set-runs", "name": ALL}

    @app.callback(
        Output({"type": "set-part", "at": ALL}, "children"),
        Output("notice", "children", allow_duplicate=True),
        Input(fields, "value"),
        Input("set-place", "n_clicks"),
        State(fields, "id"),
        State("set", "data"),
        prevent_initial_call=True,
        running=[(Output("set-place", "busy"), True, False)],
    )
    async def change(
        values: list[Any], clicks: int | None, ids: list[dict[str, str]], identity: str
    ) -> Any:
        placing = ctx.triggered_id == "set-place"
        if placing and not clicks:
            raise PreventUpdate
        places = [str(each["id"]["at"]) for each in ctx.outputs_list[0]]
        runs = {str(i.get("name")): value for i, value in zip(ids, values, strict=False)}
        try:
            if placing:
                with state.tasks.begin(identity, "Placing the models again") as task:
                    said = await state.long_work.run(place_again, state, identity, task)
                note = notice(said)
            elif await state.long_work.run(change_runs, state, identity, runs):
                note = None
            else:
                raise PreventUpdate  # a field was left as it was
            found = await state.long_work.run(opened, state, identity)
            parts = await state.long_work.run(set_parts, state, found)
        except EditorError as error:
            return [no_update] * len(places), notice(str(error), bad=True)
        return [parts.get(at, no_update) for at in places], note
