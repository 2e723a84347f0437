"""Layouts side by side, and hints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import html

from editor.partition.hints import Hint
from editor.text import human_bytes, human_seconds
from editor.web.parts import planned_badge, swatch
from editor.web.view import colours_of, op_costs
from editor.workspace.document import Document
from editor.workspace.layouts import Layout, differing, figures


def compare_panel() -> html.Div:
    """What stands in the Compare tab."""
    return html.Div([
        html.Div([dmc.Button("Compare", id="compare-start", size="xs"),
                  dmc.TextInput(id="layout-name", placeholder="Name of this layout", size="xs", w=190,
                                **{"aria-label": "Name of this layout"}),
                  dmc.Button("Keep this plan", id="layout-keep", size="xs", variant="default"),
                  dmc.Button("Look for hints", id="hints-start", size="xs", variant="default")], className="bench-controls"),
        html.Div(html.P("Compare sets this plan beside the layouts that you kept, beside what OpenVINO, Glow and ONNX Runtime "
                        "would do with the same devices, and beside the optimum. Hints are repaints that save time.",
                        className="hint wide"), id="compare-result")], className="bench")


def compare_view(document: Document, layouts: Sequence[Layout]) -> list[Any]:
    """The table of figures; differences are against the present plan."""
    costs, source = op_costs(document)
    now = document.partition
    base = figures(now, costs)
    colours = colours_of(document)
    slowest = base["predicted"]
    rows, bars = [], []
    for layout in layouts:
        if layout.partition is None:
            rows.append(html.Tr([html.Td(), html.Td(layout.name), html.Td(layout.problem, colSpan=7, className="reason")]))
            continue
        found = figures(layout.partition, costs)
        slowest = max(slowest, found["predicted"])
        bars.append((layout.name, found["predicted"]))
        ops = differing(now, layout.partition)
        mine = layout.partition is now
        spread = html.Span([html.Span([swatch(colours[n]), f"{c} "], title=f"{c} ops on {n}") for n, c in found["ops"].items()],
                           className="spread")
        buttons = [] if mine else [
            html.Button(f"{len(ops)} ops differ", className="link", title="Select the ops that are placed differently",
                        **{"data-layout-show": layout.name}),
            html.Button("Use", className="tool small", title=f"Make “{layout.name}” the current plan",
                        **{"data-layout-use": layout.name})]
        title = html.Td(html.B(layout.name) if mine else layout.name)
        rows.append(html.Tr([html.Td(_tick(layout.name)), title, html.Td(spread),
                             _cell(found["subgraphs"], base["subgraphs"], str),
                             _cell(found["transfers"], base["transfers"], str),
                             _cell(found["moved"], base["moved"], human_bytes),
                             _cell(found["predicted"], base["predicted"], human_seconds),
                             html.Td(str(found["pins"])), html.Td(buttons, className="buttons")]))
    head = [html.Th(t) for t in ("Show", "Layout", "Ops per device", "Subgraphs", "Transfers", "Moved",
                                 f"Predicted ({source})", "Pins")]
    head.append(html.Th(html.Span("Actions", className="unseen")))
    chart = [html.Div([html.Span(name, className="bar-name"), html.Span(className="bar", style={
        "width": f"{max(100 * value / slowest if slowest else 0, 0.5):.1f}%"}), html.Span(human_seconds(value))],
        className="bar-row") for name, value in bars]
    return [html.Table([html.Thead(html.Tr(head)), html.Tbody(rows)], className="plain", id="compare-table"),
            html.Div([html.Button("Side by side", className="tool small", id="panes-open",
                                  title="Draw the ticked layouts beside each other"),
                      html.Button("Page to attach, HTML", className="tool small", id="panes-attach",
                                  title="The ticked layouts side by side in one file that needs no server"),
                      html.Span("Tick two to four layouts.", className="hint")], className="row"),
            html.H3(f"Predicted latency, {source}"), html.Div(chart, className="bars")]


def _tick(name: str) -> html.Button:
    return html.Button(className="tick", title=f"Show “{name}” side by side", role="checkbox", **{
        "data-pane": name, "aria-checked": "false", "aria-label": f"Show {name} side by side"})


def _cell(value: float, base: float, form: Any) -> html.Td:
    change = value - base
    if abs(change) < 1e-9:
        return html.Td(form(value))
    text = f"+{form(change)}" if change > 0 else f"−{form(-change)}"
    return html.Td([form(value), " ", html.Span(text, className="delta worse" if change > 0 else "delta better")])


def hints_view(document: Document, found: Sequence[Hint]) -> list[Any]:
    """Repaints worth making, each with a button that makes it."""
    if not found:
        return [html.P("No repaint of one side of a transfer saves time by the present costs.", className="hint wide")]
    graph = document.graph
    index = {d.name: i for i, d in enumerate(document.devices)}
    rows = []
    for hint in found:
        what = graph.display_name(hint.ops[0]) if len(hint.ops) == 1 else f"{len(hint.ops)} ops"
        fewer = [f"−{human_seconds(hint.seconds)}"]
        if hint.subgraphs:
            fewer.append(f"{-hint.subgraphs:+d} subgraphs".replace("-", "−"))
        if hint.bytes:
            fewer.append(f"−{human_bytes(hint.bytes)}" if hint.bytes > 0 else f"+{human_bytes(-hint.bytes)}")
        rows.append(html.Tr([
            html.Td([f"Move {what} to ", html.B(hint.device)]), html.Td(", ".join(fewer), className="better"),
            html.Td(["because of ", html.Code(hint.tensor)]), html.Td(planned_badge() if hint.estimated else None),
            html.Td(html.Button("Apply", className="tool small", **{
                "data-hint": ",".join(map(str, hint.ops)), "data-device": str(index[hint.device]),
                "title": "Pin these ops"}))]))
    return [html.Table(html.Tbody(rows), className="plain", id="hints-table")]
