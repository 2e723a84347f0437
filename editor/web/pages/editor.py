"""The editor page of one document."""

from __future__ import annotations

from typing import Any

import dash_cytoscape as cyto
import dash_mantine_components as dmc
from dash import dcc, html

from editor.text import human_bytes
from editor.web.elements import elements, visible_ops
from editor.web.panels import inspector
from editor.web.panels.benchmark import benchmark_panel
from editor.web.panels.devices import tools_panel
from editor.web.panels.status import status
from editor.web.panels.tables import subgraph_table, transfer_table
from editor.web.parts import icon, icon_button
from editor.web.styles import stylesheet
from editor.web.view import view_of
from editor.workspace.document import Document

MAX_DRAWN_OPS = 6000
"""Above this, Cytoscape takes longer than people wait."""


def editor_page(document: Document) -> html.Div:
    """Everything there is to see of a document."""
    return html.Div([
        dcc.Store(id="doc", data=document.id), dcc.Store(id="view", data=view_of(document)),
        dcc.Store(id="stroke"), dcc.Store(id="selection"), dcc.Store(id="applied"), dcc.Store(id="linked"),
        dcc.Store(id="bench-stream"), dcc.Download(id="download"),
        _header(document),
        tools_panel(document),
        html.Main(_canvas(document), id="canvas", **{"aria-label": "Graph"}),
        html.Aside(inspector.empty(), id="inspector", className="panel", **{"aria-label": "Inspector"}),
        _dock(document),
        html.Footer(status(document), id="status", **{"aria-live": "polite"}),
    ], id="editor")


def _header(document: Document) -> html.Header:
    graph = document.graph
    sizes = "".join(f" · {name}={value}" for name, value in graph.define.items())
    return html.Header([
        dcc.Link([html.Span(className="logo"), html.Span("Hetero Editor", className="brand")], href="/open",
                 className="home", title="Open another model"),
        html.Div([html.Div(document.title, className="model-name"),
                  html.Div(f"{len(visible_ops(graph)):,} ops · {human_bytes(_weights(document))} of constants{sizes}",
                           className="model-what")], className="model", title=str(graph.path)),
        html.Span(className="spring"),
        dmc.TextInput(id="find", placeholder="Find op or tensor", size="xs", w=190, leftSection=icon("search"),
                      **{"aria-label": "Find an op by name, type or tensor"}),
        icon_button("undo", "undo", "Undo (Ctrl+Z)"), icon_button("redo", "redo", "Redo (Ctrl+Shift+Z)"),
        _export_menu(), dmc.Button("Benchmark", id="bench-open", size="xs",
                                   leftSection=html.Span(className="icon icon-play")),
        dmc.Tooltip(dmc.ColorSchemeToggle(lightIcon=icon("sun"), darkIcon=icon("moon"), id="scheme-toggle", size="md",
                                          variant="subtle", color="gray", **{"aria-label": "Light or dark"}),
                    label="Light or dark", openDelay=350, withArrow=True),
    ], id="header")


def _export_menu() -> dmc.Menu:
    items = [("affinity.dot", "Affinities, DOT"), ("subgraphs.dot", "Subgraphs, DOT"), ("affinity.svg", "Affinities, SVG"),
             ("subgraphs.svg", "Subgraphs, SVG"), ("plan.json", "Plan, JSON"), ("partition.log", "Partition log (Glow)")]
    return dmc.Menu([
        dmc.MenuTarget(dmc.Button("Export", id="export", size="xs", variant="default", leftSection=icon("download"))),
        dmc.MenuDropdown([dmc.MenuItem(label, id={"type": "export", "what": what}) for what, label in items])],
        shadow="md", position="bottom-end")


def _canvas(document: Document) -> list[Any]:
    count = len(visible_ops(document.graph))
    if count > MAX_DRAWN_OPS:
        return [html.Div([html.H3(f"{count:,} ops are too many to draw one by one"),
                          html.P("The tables below, the exports and the benchmark work; a collapsed view is not built yet.")],
                         className="empty"), html.Div(id="notice")]
    if not count:
        return [html.Div([html.H3("The model has no ops"), html.P("There is nothing to place.")], className="empty"),
                html.Div(id="notice")]
    return [
        cyto.Cytoscape(id="graph", elements=elements(document.graph), layout={"name": "preset", "fit": True, "padding": 24},
                       stylesheet=stylesheet("light"), style={"width": "100%", "height": "100%"}, minZoom=0.02, maxZoom=4,
                       boxSelectionEnabled=True, autoungrabify=True),
        html.Div(id="mode-hint", role="status"),
        html.Div(dmc.Select(id="colour-by", value="device", size="xs", w=142, allowDeselect=False, data=[
            {"value": "device", "label": "Colour: device"}, {"value": "level-device", "label": "Colour: device kind"},
            {"value": "level-unit", "label": "Colour: unit"}, {"value": "level-codegen", "label": "Colour: codegen"},
            {"value": "subgraph", "label": "Colour: subgraph"},
            {"value": "heat", "label": "Colour: time"}, {"value": "weight", "label": "Colour: memory"},
            {"value": "pinned", "label": "Colour: pinned"}],
            **{"aria-label": "What the colours mean"}), className="colour-by"),
        html.Div([icon_button("zoom-in", "plus", "Zoom in (+)", variant="default"),
                  icon_button("zoom-out", "minus", "Zoom out (−)", variant="default"),
                  icon_button("zoom-fit", "fit", "Fit (F)", variant="default")], className="zoom"),
        html.Div(id="notice"),
    ]


def _dock(document: Document) -> html.Section:
    return html.Section(dmc.Tabs([
        dmc.TabsList([dmc.TabsTab("Subgraphs", value="subgraphs"), dmc.TabsTab("Transfers", value="transfers"),
                      dmc.TabsTab("Benchmark", value="benchmark")]),
        dmc.TabsPanel(subgraph_table(document), value="subgraphs"),
        dmc.TabsPanel(transfer_table(document), value="transfers"),
        dmc.TabsPanel(benchmark_panel(), value="benchmark"),
    ], value="subgraphs", id="tabs", keepMounted=True), id="dock", **{"aria-label": "Tables and benchmark"})


def _weights(document: Document) -> int:
    return sum(s.memory.constants for s in document.partition.subgraphs)
