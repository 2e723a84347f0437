"""How much of the graph is drawn: every op, blocks that open and close, or subgraphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from editor.graph.scopes.tree import Scopes, scopes_of
from editor.web import messages as m
from editor.web.drawing.collapsed import (
    all_closed,
    expand_level,
    first_detail,
    reveal,
    shown_elements,
    too_many,
)
from editor.web.drawing.elements import visible_ops
from editor.workspace.document import Document


class Change(NamedTuple):
    """What a change comes to: another level of detail, and ops to select."""

    detail: m.DetailShown
    selection: m.Selection | None = None


def drawing_of(document: Document, request: m.DrawingRequest) -> m.Drawing:
    """What is drawn after a change; without one, what is drawn now."""
    detail = first_detail(document.graph)
    if request.detail is not None:
        detail = {"mode": request.detail.mode, "open": request.detail.open}
    change = Change(detail)
    if request.change is not None:
        change = HANDLERS[type(request.change)](document, request.change, detail)
    stays = request.change is not None and change.detail == detail
    drawn = None if stays else shown_elements(document, change.detail)
    return {"detail": change.detail, "elements": drawn, "selection": change.selection}


def _mode(document: Document, change: m.DrawMode, detail: m.DetailShown) -> Change:
    if change.mode == "ops" and (why := too_many(document.graph)):
        return Change(detail, {"ops": [], "message": f"{why}."})
    return Change({**detail, "mode": change.mode})


def _open(document: Document, change: m.OpenBlocks, detail: m.DetailShown) -> Change:
    if detail["mode"] != "blocks":
        return Change(detail)
    units = [unit for unit in change.units if 0 < unit < len(scopes_of(document.graph).scopes)]
    return Change({**detail, "open": list(dict.fromkeys([*detail["open"], *units]))})


def _close(document: Document, change: m.CloseBlocks, detail: m.DetailShown) -> Change:
    if detail["mode"] != "blocks":
        return Change(detail)
    scopes, opened = scopes_of(document.graph), detail["open"]
    inner = [
        n for op in change.ops for n in scopes.ancestors(scopes.of_op.get(op, 0)) if n in opened
    ][:1]
    if (scope := change.scope) in opened and scope is not None:  # from the frame of an open block
        inner = [scope]
    closed = {n for number in inner for n in (number, *_below(scopes, number))}
    return Change({**detail, "open": [n for n in opened if n not in closed]})


def _level(document: Document, change: m.ChangeLevel, detail: m.DetailShown) -> Change:
    opened = (
        expand_level(document.graph, detail["open"])
        if change.deeper
        else all_closed(document.graph)
    )
    changed: m.DetailShown = {"mode": "blocks", "open": opened}
    if changed == detail and change.deeper:
        return Change(
            detail,
            {
                "ops": [],
                "message": "More would be too much to draw; open single blocks instead "
                "(double click or E).",
            },
        )
    return Change(changed)


def _restore(document: Document, change: m.Restore, detail: m.DetailShown) -> Change:
    before, count = change.detail, len(scopes_of(document.graph).scopes)
    mode = "blocks" if before.mode == "ops" and too_many(document.graph) else before.mode
    return Change({"mode": mode, "open": [n for n in before.open if 0 < n < count]})


def _reveal(document: Document, change: m.Reveal, detail: m.DetailShown) -> Change:
    kept = [number for number in detail["open"] if number not in change.close]
    return _to_op(document, change.op, {**detail, "open": kept}, "")


def _find(document: Document, change: m.Find, detail: m.DetailShown) -> Change:
    text, skip = change.text.strip(), change.skip
    hits = _named(document, text.lower())
    if not hits:
        return Change(
            detail, {"ops": [], "missing": True, "message": f"Nothing is called “{text}”."}
        )
    place = skip % len(hits)
    return _to_op(document, hits[place], detail, f"Match {place + 1} of {len(hits)} (Enter: next)")


def _to_op(document: Document, op: int, detail: m.DetailShown, message: str) -> Change:
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


HANDLERS: dict[type, Callable[[Document, Any, m.DetailShown], Change]] = {
    m.DrawMode: _mode,
    m.OpenBlocks: _open,
    m.CloseBlocks: _close,
    m.ChangeLevel: _level,
    m.Restore: _restore,
    m.Reveal: _reveal,
    m.Find: _find,
}
"""What each kind of change does."""
