"""Strokes: what the page asks for, applied to the document, and everything that follows from it."""

from __future__ import annotations

import asyncio
from typing import Any

from dash import Dash, Input, Output, State, html, no_update
from dash.exceptions import PreventUpdate

from editor.errors import EditorError
from editor.placement.filter import matching
from editor.placement.rules import parse_rules
from editor.web.app_state import Desk
from editor.web.panels import inspector
from editor.web.panels.benchmark import stale
from editor.web.panels.devices import device_list, history_list, outcome, pins_summary
from editor.web.panels.hover import hover
from editor.web.panels.notice import notice, refusal_notice
from editor.web.panels.status import status
from editor.web.panels.tables import subgraph_rows, transfer_rows
from editor.web.view import codegen_value, costs_value, figures_of, policy_value, view_of
from editor.workspace.document import Document, Refusal
from editor.workspace.layouts import differing


def register(app: Dash, desk: Desk) -> None:
    """Adds the callbacks."""

    @app.callback(Output("view", "data"), Output("devices", "children"), Output("pins", "children"),
                  Output("subgraphs", "rowData"), Output("transfers", "rowData"), Output("status", "children"),
                  Output("notice", "children"), Output("selection", "data", allow_duplicate=True),
                  Output("policy", "value"), Output("grouping", "value"), Output("costs", "value"),
                  Output("codegen", "value"), Output("outcome", "children"),
                  Output("bench-stale", "children"), Output("history", "children"),
                  Input("stroke", "data"), State("doc", "data"), prevent_initial_call=True)
    async def stroke(wanted: dict[str, Any] | None, document_id: str):
        if not wanted:
            raise PreventUpdate
        return await asyncio.to_thread(_stroke, desk, wanted, document_id)

    @app.callback(Output("hover", "children"), Input("hover-ask", "data"), State("doc", "data"), prevent_initial_call=True)
    async def rest(asked: dict[str, Any] | None, document_id: str):
        if not asked:
            raise PreventUpdate
        return await asyncio.to_thread(_hover, desk, asked, document_id)

    @app.callback(Output("inspector", "children"), Input("selection", "data"), Input("view", "data"),
                  State("doc", "data"), prevent_initial_call=True)
    async def inspect(selection: dict[str, Any] | None, _view, document_id: str):
        return await asyncio.to_thread(_inspect, desk, selection or {}, document_id)


def _hover(desk: Desk, asked: dict[str, Any], document_id: str) -> list[Any]:
    document = desk.document(document_id)
    count = len(document.graph)
    ops = [int(op) for op in asked.get("ops", ()) if 0 <= int(op) < count]
    pairs = [[int(a), int(b)] for a, b in asked.get("pairs", ()) if 0 <= int(a) < count and 0 <= int(b) < count]
    # The number makes every answer another one, so that the page learns of each.
    return [*hover(document, ops, pairs), html.I(str(asked.get("number")), hidden=True)]


def _stroke(desk: Desk, wanted: dict[str, Any], document_id: str):
    try:
        document = desk.document(document_id)
    except EditorError as error:
        return (*[no_update] * 6, notice(str(error), bad=True), *[no_update] * 8)
    before = figures_of(document)
    said = wanted.get("say")  # what an import came to
    message, selection = notice(str(said[0]), bad=bool(said[1])) if said else None, no_update
    try:
        answer = _adopt_or_apply(desk, document, wanted)
        if isinstance(answer, Refusal):
            message = refusal_notice(answer, [d.name for d in document.devices].index(answer.device))
        elif isinstance(answer, list):
            selection = {"ops": answer, "select": True, "count": True}
    except EditorError as error:
        message = notice(str(error), bad=True)
    return (view_of(document), device_list(document), pins_summary(document), subgraph_rows(document),
            transfer_rows(document), status(document, before), message, selection,
            policy_value(document.placement.settings), document.placement.settings.subgraphs,
            costs_value(document.placement.settings), codegen_value(document.placement.settings), outcome(document),
            stale(desk.benchmarks.get(document.id), document),
            history_list(document))


def apply(document: Document, wanted: dict[str, Any]) -> Refusal | list[int] | None:
    """One stroke. Returns what was refused, or ops to select, or nothing.

    Raises:
        EditorError: the stroke cannot be done; the document is as before.
    """
    what, ops = wanted.get("do"), [int(op) for op in wanted.get("ops", ())]
    count = len(document.graph)
    device = wanted.get("device")
    if any(not 0 <= op < count for op in ops) or not (device is None or 0 <= int(device) < len(document.devices)):
        raise EditorError("This stroke does not fit the document; reload the page.")
    chosen = _chosen(document, str(what), ops, wanted)
    if chosen is not None:
        if wanted.get("unpin"):
            document.unpin(chosen)
            return None
        return chosen if device is None else document.paint(chosen, int(device))
    if what == "paint" and device is not None:
        return document.paint(ops, int(device), bool(wanted.get("force")))
    if what == "automatic":
        document.set_automatic(*_automatic(document, wanted), str(wanted["grouping"]))
    elif what == "raise" and device:
        names = [d.name for d in document.devices]
        names.insert(int(device) - 1, names.pop(int(device)))
        document.reorder(names)
    elif what == "order":
        document.reorder([str(name) for name in wanted.get("names", ())])
    elif what == "rules":
        document.set_rules(parse_rules(wanted.get("rules", []), "the list of rules"))
    elif what == "label":
        document.pin(ops, str(wanted.get("label")))
    else:
        simple: dict[Any, Any] = {
            "unpin": lambda: document.unpin(ops), "reset": document.unpin, "undo": document.undo, "redo": document.redo,
            "step": lambda: document.go(int(wanted.get("step", -1)))}
        simple.get(what, lambda: None)()
    return None


def _chosen(document: Document, what: str, ops: list[int], wanted: dict[str, Any]) -> list[int] | None:
    """Ops that a region tool or a filter means; None for other strokes."""
    if what == "region":
        return document.region(ops[0])
    if what == "between":
        first = [int(op) for op in wanted.get("from", ())]
        if not first or not ops or any(not 0 <= op < len(document.graph) for op in first):
            raise EditorError("Choose two ops, one after the other.")
        return document.between(first, ops)
    if what == "filter":
        return matching(document.placement, str(wanted.get("text", "")))
    if what == "rule-ops":
        rules, number = document.placement.settings.rules, int(wanted.get("rule", -1))
        return rules[number].matches(document.graph, ~document.graph.op_is_constant) if 0 <= number < len(rules) else []
    if what == "grow":
        return document.expand_selection(ops, str(wanted.get("how")))
    return None


def _automatic(document: Document, wanted: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Policy and options; options that the page has no list for stay as they are."""
    policy, _, objective = str(wanted["policy"]).partition(":")
    options = {k: v for k, v in document.placement.settings.policy_options.items()
               if k not in ("objective", "costs", "codegen")}
    if objective:
        options["objective"] = objective
    if wanted.get("codegen") == "subgraph":
        options["codegen"] = "subgraph"
    if wanted.get("costs") == "measured" and policy in ("optimal", "memory", "pipeline"):
        options["costs"] = "measured"
    return policy, options


def _adopt_or_apply(desk: Desk, document: Document, wanted: dict[str, Any]) -> Refusal | list[int] | None:
    if wanted.get("do") in ("use-layout", "show-layout"):
        layout = next((one for one in document.layouts() if one.name == wanted.get("name")), None)
        if layout is None or layout.placement is None:
            raise EditorError("There is no such layout any more; compare again.")
        if wanted["do"] == "show-layout":
            return differing(document.placement, layout.placement)
        document.adopt(layout.name, layout.settings)
        return None
    if wanted.get("do") == "adopt":
        adopt(desk, document, str(wanted.get("name")))
        return None
    return apply(document, wanted)


def adopt(desk: Desk, document: Document, name: str) -> None:
    """Makes a candidate of the last tuning the current plan.

    Raises:
        EditorError: there is no such candidate.
    """
    state = desk.benchmarks.get(document.id)
    tuned = state.job.result(0) if state is not None and state.kind == "tune" and state.job.done else None
    if state is None or tuned is None or name not in tuned.settings:
        raise EditorError("There is no tuned plan of that name any more; tune again.")
    document.adopt(f"tuned: {name}", tuned.settings[name])
    state.version = document.version  # this is the plan that was measured


def _inspect(desk: Desk, selection: dict[str, Any], document_id: str):
    try:
        document = desk.document(document_id)
    except EditorError:
        raise PreventUpdate from None
    ops = [op for op in selection.get("ops", ()) if 0 <= op < len(document.graph)]
    tensor = selection.get("tensor")
    if len(ops) == 1:
        return inspector.op(document, ops[0])
    if ops:
        return inspector.several(document, ops)
    if isinstance(tensor, int) and 0 <= tensor < len(document.graph.tensor_names):
        return inspector.tensor(document, tensor)
    return inspector.empty()
