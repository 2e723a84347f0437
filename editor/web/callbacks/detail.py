"""How much of the graph is drawn: every op, blocks that open and close, or subgraphs; search; the map."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dash import Dash, Input, Output, State, ctx, no_update
from dash.exceptions import PreventUpdate

from editor.errors import EditorError
from editor.graph.scopes.tree import Scopes, scopes_of
from editor.web import messages as m
from editor.web.app_state import AppState
from editor.web.drawing.collapsed import all_closed, expand_level, reveal, shown_elements
from editor.web.drawing.cytoscape_types import Element
from editor.web.drawing.elements import visible_ops
from editor.web.drawing.map import map_data
from editor.web.panels.notice import notice
from editor.web.validation import RELOAD, require
from editor.workspace.document import Document

MODES = ("ops", "blocks", "subgraphs")


class Change(NamedTuple):
    """What a request comes to: another level of detail, and ops to select."""

    detail: m.Detail
    selection: m.Selection | None = None


def register(app: Dash, state: AppState) -> None:
    """Adds the callbacks."""

    @app.callback(
        Output("detail", "data"),
        Output("graph", "elements"),
        Output("selection", "data", allow_duplicate=True),
        Output("detail-mode", "value"),
        Output("notice", "children", allow_duplicate=True),
        Input("detail-request", "data"),
        State("detail", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def change(
        request: m.DetailRequest | None, detail: m.Detail, document_id: str
    ) -> tuple[Any, ...]:
        if not request:
            raise PreventUpdate
        return await asyncio.to_thread(_answer, state, request, detail, document_id)

    @app.callback(
        Output("graph", "elements", allow_duplicate=True),
        Input("view", "data"),
        State("detail", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def follow(_view: Any, detail: m.Detail, document_id: str) -> list[Element]:
        if not ctx.triggered or _known(detail)["mode"] != "subgraphs":
            raise PreventUpdate
        return await asyncio.to_thread(lambda: shown_elements(state.document(document_id), detail))

    @app.callback(
        Output("map-data", "data"),
        Input("map-request", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def chart(request: int | None, document_id: str) -> m.MapData:
        if not request:
            raise PreventUpdate
        return await asyncio.to_thread(lambda: map_data(state.document(document_id).graph))


def _answer(
    state: AppState, request: m.DetailRequest, detail: m.Detail, document_id: str
) -> tuple[Any, ...]:
    try:
        document, detail = state.document(document_id), _known(detail)
        changed, selection = changed_detail(document, request, detail)
    except EditorError as error:
        return (*[no_update] * 4, notice(str(error), bad=True))
    chosen = no_update if selection is None else selection
    if changed == detail:
        return no_update, no_update, chosen, no_update, no_update
    return changed, shown_elements(document, changed), chosen, changed["mode"], no_update


def _known(detail: m.Detail) -> m.Detail:
    """What the page says is drawn.

    Raises:
        EditorError: it is malformed, or there is no such mode.
    """
    require(detail, m.Detail, "what is drawn")
    _check_mode(detail["mode"])
    return detail


def _check_mode(mode: str) -> None:
    if mode not in MODES:
        raise EditorError(
            f"The graph cannot be drawn as {mode!r}; choose one of: {', '.join(MODES)}."
        )


def changed_detail(document: Document, request: Mapping[str, Any], detail: m.Detail) -> Change:
    """What is drawn after a request.

    Raises:
        EditorError: the request is unknown or malformed.
    """
    name = str(request.get("do"))
    if name not in HANDLERS:
        raise EditorError(
            f"The page sent a request that the server does not know: {name!r}. {RELOAD}"
        )
    expected, handler = HANDLERS[name]
    require(request, expected, f"the request {name!r}")
    return handler(document, request, detail)


def _mode(document: Document, request: m.ModeRequest, detail: m.Detail) -> Change:
    _check_mode(request["mode"])
    return Change({**detail, "mode": request["mode"]})


def _open(document: Document, request: m.OpenBlocksRequest, detail: m.Detail) -> Change:
    if detail["mode"] != "blocks":
        return Change(detail)
    units = [unit for unit in request["units"] if 0 < unit < len(scopes_of(document.graph).scopes)]
    return Change({**detail, "open": list(dict.fromkeys([*detail["open"], *units]))})


def _close(document: Document, request: m.CloseBlocksRequest, detail: m.Detail) -> Change:
    if detail["mode"] != "blocks":
        return Change(detail)
    scopes, opened = scopes_of(document.graph), detail["open"]
    inner = [
        n for op in request["ops"] for n in scopes.ancestors(scopes.of_op.get(op, 0)) if n in opened
    ][:1]
    if (
        scope := request.get("scope")
    ) in opened and scope is not None:  # from the frame of an open block
        inner = [scope]
    closed = {n for number in inner for n in (number, *_below(scopes, number))}
    return Change({**detail, "open": [n for n in opened if n not in closed]})


def _level(document: Document, request: m.LevelRequest, detail: m.Detail) -> Change:
    opened = (
        expand_level(document.graph, detail["open"])
        if request["deeper"]
        else all_closed(document.graph)
    )
    changed: m.Detail = {"mode": "blocks", "open": opened}
    if changed == detail and request["deeper"]:
        return Change(
            detail,
            {
                "ops": [],
                "message": "More would be too much to draw; open single blocks instead "
                "(double click or E).",
            },
        )
    return Change(changed)


def _restore(document: Document, request: m.RestoreRequest, detail: m.Detail) -> Change:
    before, count = request["detail"], len(scopes_of(document.graph).scopes)
    if before["mode"] not in MODES:
        return Change(detail)
    return Change({"mode": before["mode"], "open": [n for n in before["open"] if 0 < n < count]})


def _reveal(document: Document, request: m.RevealRequest, detail: m.Detail) -> Change:
    kept = [number for number in detail["open"] if number not in request["close"]]
    return _to_op(document, request["op"], {**detail, "open": kept}, "")


def _find(document: Document, request: m.FindRequest, detail: m.Detail) -> Change:
    text, skip = request["text"].strip(), request["skip"]
    hits = _named(document, text.lower())
    if not hits:
        return Change(
            detail, {"ops": [], "missing": True, "message": f"Nothing is called “{text}”."}
        )
    place = skip % len(hits)
    return _to_op(document, hits[place], detail, f"Match {place + 1} of {len(hits)} (Enter: next)")


def _to_op(document: Document, op: int, detail: m.Detail, message: str) -> Change:
    """Opens the blocks around an op, and selects it."""
    if not 0 <= op < len(document.graph) or document.graph.op_is_constant[op]:
        return Change(detail)
    selection: m.Selection = {"ops": [op], "select": True, "reveal": True, "message": message}
    if detail["mode"] != "blocks":
        return Change(detail, selection)
    return Change({**detail, "open": reveal(document.graph, detail["open"], op)}, selection)


def _below(scopes: Scopes, number: int) -> list[int]:
    found = []
    for child in scopes.scopes[number].children:
        found += [child, *_below(scopes, child)]
    return found


def _named(document: Document, text: str) -> list[int]:
    """Ops whose type, name or tensors hold a text."""
    graph, hits = document.graph, []
    for op in visible_ops(graph) if text else []:
        made = " ".join(graph.tensor_names[t] for t in graph.op_outputs[op].tolist() if t >= 0)
        if text in f"{graph.type_label(op)} {graph.op_names[op]} {made}".lower():
            hits.append(op)
    return hits


HANDLERS: dict[str, tuple[type, Callable[[Document, Any, m.Detail], Change]]] = {
    "mode": (m.ModeRequest, _mode),
    "open": (m.OpenBlocksRequest, _open),
    "close": (m.CloseBlocksRequest, _close),
    "level": (m.LevelRequest, _level),
    "restore": (m.RestoreRequest, _restore),
    "reveal": (m.RevealRequest, _reveal),
    "find": (m.FindRequest, _find),
}
"""By ``do``: the type that the request must have, and what it does."""
