"""How much of the graph is drawn: every op, blocks that open and close, or subgraphs; search; the map."""

from __future__ import annotations

import asyncio
from typing import Any

from dash import Dash, Input, Output, State, ctx, no_update
from dash.exceptions import PreventUpdate

from editor.errors import EditorError
from editor.graph.scopes.tree import scopes_of
from editor.web.app_state import Desk
from editor.web.drawing.collapsed import expand_level, first_detail, reveal, shown_elements
from editor.web.drawing.elements import visible_ops
from editor.web.drawing.map import map_data
from editor.workspace.document import Document


def register(app: Dash, desk: Desk) -> None:
    """Adds the callbacks."""

    @app.callback(Output("detail", "data"), Output("graph", "elements"), Output("selection", "data", allow_duplicate=True),
                  Output("detail-mode", "value"), Input("detail-ask", "data"), State("detail", "data"), State("doc", "data"),
                  prevent_initial_call=True)
    async def ask(wanted: dict[str, Any] | None, detail: dict[str, Any], document_id: str):
        if not wanted:
            raise PreventUpdate
        return await asyncio.to_thread(_ask, desk, wanted, detail, document_id)

    @app.callback(Output("graph", "elements", allow_duplicate=True), Input("view", "data"), State("detail", "data"),
                  State("doc", "data"), prevent_initial_call=True)
    async def follow(_view, detail: dict[str, Any], document_id: str):
        if not ctx.triggered or detail.get("mode") != "subgraphs":
            raise PreventUpdate
        return await asyncio.to_thread(lambda: shown_elements(desk.document(document_id), detail))

    @app.callback(Output("map-data", "data"), Input("map-ask", "data"), State("doc", "data"), prevent_initial_call=True)
    async def chart(asked, document_id: str):
        if not asked:
            raise PreventUpdate
        return await asyncio.to_thread(lambda: map_data(desk.document(document_id).graph))


def _ask(desk: Desk, wanted: dict[str, Any], detail: dict[str, Any], document_id: str):
    try:
        document = desk.document(document_id)
    except EditorError:
        raise PreventUpdate from None
    what, selection, found = wanted.get("do"), no_update, ""
    if what == "find":
        text, skip = str(wanted.get("text", "")), int(wanted.get("skip", 0))
        hits = _find(document, text)
        if not hits:
            return no_update, no_update, {"ops": [], "nothing": True, "say": f"Nothing is called “{text}”."}, no_update
        wanted, what = {"op": hits[skip % len(hits)]}, "reveal"
        found = f"{skip % len(hits) + 1} of {len(hits)}"
    if what == "reveal":
        op = int(wanted["op"])
        if not 0 <= op < len(document.graph) or document.graph.op_is_constant[op]:
            raise PreventUpdate
        selection = {"ops": [op], "select": True, "go": True, "say": found}
    changed = changed_detail(document, what or "", wanted, detail)
    if changed == detail:
        if what == "level" and wanted.get("deeper"):
            selection = {"ops": [], "say": "More would be too much to draw; open single blocks instead (double click or E)."}
        return no_update, no_update, selection, no_update
    return changed, shown_elements(document, changed), selection, changed["mode"]


def changed_detail(document: Document, what: str, wanted: dict[str, Any], detail: dict[str, Any]) -> dict[str, Any]:
    """What is drawn after a request: ``mode``, ``open``, ``close``, ``level`` or ``reveal``."""
    graph, opened = document.graph, list(detail.get("open", ()))
    scopes = scopes_of(graph)
    if what == "mode":
        return {**detail, "mode": wanted["mode"]}
    if what == "open" and detail["mode"] == "blocks":
        units = [int(u) for u in wanted["units"] if 0 < int(u) < len(scopes.scopes)]
        return {**detail, "open": list(dict.fromkeys([*opened, *units]))}
    if what == "close" and detail["mode"] == "blocks":
        inner = [n for op in wanted["ops"] for n in scopes.ancestors(scopes.of_op.get(int(op), 0)) if n in opened][:1]
        if wanted.get("scope") in opened:  # from the frame of an open block
            inner = [int(wanted["scope"])]
        gone = {n for number in inner for n in (number, *_below(scopes.scopes, number))}
        return {**detail, "open": [n for n in opened if n not in gone]}
    if what == "restore":
        was = wanted.get("detail") or {}
        opened = [int(n) for n in was.get("open", ()) if 0 < int(n) < len(scopes.scopes)]
        return {"mode": was["mode"], "open": opened} if was.get("mode") in ("ops", "blocks", "subgraphs") else detail
    if what == "level":
        return {"mode": "blocks", "open": expand_level(graph, opened) if wanted.get("deeper") else []}
    if what == "reveal" and detail["mode"] == "blocks":
        return {**detail, "open": reveal(graph, opened, int(wanted["op"]))}
    if what == "first":
        return first_detail(graph)
    return detail


def _below(scopes: Any, number: int) -> list[int]:
    found = []
    for child in scopes[number].children:
        found += [child, *_below(scopes, child)]
    return found


def _find(document: Document, text: str) -> list[int]:
    """Ops whose type, name or tensors hold a text."""
    graph, text = document.graph, text.strip().lower()
    hits = []
    for op in visible_ops(graph) if text else []:
        made = " ".join(graph.tensor_names[t] for t in graph.results[op].tolist() if t >= 0)
        if text in f"{graph.type_label(op)} {graph.op_names[op]} {made}".lower():
            hits.append(op)
    return hits
