"""The editor page of one document."""

from __future__ import annotations

from typing import Any

import dash_cytoscape as cyto
import numpy as np
from dash import dcc, html

from editor.graph.dimension_meanings import context_dim, sizes_in_words, total_that_follows
from editor.graph.graph import Graph
from editor.placement.search import examples
from editor.text import human_bytes, pluralize
from editor.web import controls
from editor.web.benchmark_state import JobOptions
from editor.web.controls import static_html
from editor.web.drawing.collapsed import first_detail, shown_elements, too_many
from editor.web.drawing.elements import visible_ops
from editor.web.drawing.styles import stylesheet
from editor.web.messages import Ribbon
from editor.web.panels import inspector
from editor.web.panels.benchmark_panel import benchmark_panel
from editor.web.panels.compare import compare_panel
from editor.web.panels.device_form import device_form_panel
from editor.web.panels.devices import tools_panel, way_back
from editor.web.panels.export_menu import export_menu, notes_of_plan
from editor.web.panels.fallback_table import fallbacks_panel
from editor.web.panels.missing_weights import missing_weights
from editor.web.panels.notice import notice
from editor.web.panels.parts import LONGEST, icon_button, scheme_toggle, size_field
from editor.web.panels.phases_panel import has_phases, phases_panel
from editor.web.panels.rules_panel import rules_panel
from editor.web.panels.status import status
from editor.web.panels.tables import subgraph_table, transfer_table
from editor.web.panels.verdict import verdict
from editor.web.panels.words import WORDS
from editor.web.view import view_of
from editor.workspace.document import Document
from editor.workspace.history import Record, SetRecord
from editor.workspace.longest import has_longest
from editor.workspace.phases import Phases


def _details(graph: Graph) -> list[dict[str, Any]]:
    """Levels of detail; one that the canvas cannot hold is disabled, and says why."""
    why = too_many(graph)
    every = {"value": "ops", "label": "Every op: too many", "disabled": True, "title": why}
    return [
        every if why else {"value": "ops", "label": "Every op"},
        {"value": "blocks", "label": "Blocks"},
        {"value": "subgraphs", "label": "Subgraphs"},
    ]


def editor_page(
    document: Document,
    ribbon: Ribbon,
    options: JobOptions,
    of: SetRecord | None = None,
    greeting: str = "",
    origin: Record | None = None,
    phases: Phases | None = None,
) -> html.Div:
    """Everything there is to see of a document.

    Args:
        document: what is shown.
        ribbon: a run of it.
        options: those of its last measurement.
        of: the set that it is a model of.
        greeting: what a notice says where nothing is wrong; "" for none.
        origin: the document at the sizes from which a person comes; the notice leads back.
        phases: how prompt and tokens were placed last.
    """
    return html.Div(
        [
            controls.Store(id="doc", data=document.id),
            controls.Store(id="view", data=view_of(document)),
            controls.Store(id="ribbon", data=ribbon),
            controls.Store(id="export-notes", data=notes_of_plan(document.placement)),
            controls.Store(id="detail", data=first_detail(document.graph)),
            controls.Store(
                id="styles", data={scheme: stylesheet(scheme) for scheme in ("light", "dark")}
            ),
            *(controls.Store(id=name) for name in ("plan", "selection", "run", "resized")),
            controls.Deferred(dcc.Download(id="download")),
            html.Div(id="live", className="unseen", role="status"),
            html.Div(id="connection", hidden=True, role="alert"),
            _header(document, of),
            tools_panel(document),
            html.Div(
                [
                    html.Section(
                        static_html(verdict(document)),
                        id="verdict",
                        **{"aria-live": "polite", "aria-label": "What the plan takes"},
                    ),
                    html.Section(_ribbon(), id="ribbon", **{"aria-label": "The run in order"}),
                ],
                id="ribbon-box",
            ),
            html.Main(
                _canvas(document, greeting, origin),
                id="canvas",
                tabIndex=0,
                **{"aria-label": "Graph; the arrow keys go from op to op"},
            ),
            html.Div(
                static_html(_panes()),
                id="panes",
                hidden=True,
                role="region",
                **{"aria-label": "Layouts side by side"},
            ),
            static_html(
                html.Nav(
                    [
                        html.Div(
                            className=f"resize resize-{name}",
                            tabIndex=0,
                            role="separator",
                            title="Drag to resize, double click to reset",
                            **{
                                "data-resize": name,
                                "aria-label": f"Size of the {what}",
                                "aria-valuenow": "0",
                            },
                        )
                        for name, what in (
                            ("tools", "tools"),
                            ("inspector", "inspector"),
                            ("dock", "tables"),
                        )
                    ],
                    className="edges",
                    **{"aria-label": "Panel sizes"},
                ),
                _palette(document.graph),
            ),
            html.Aside(
                controls.Deferred(static_html(inspector.plan(document))),
                id="inspector",
                className="panel",
                **{"aria-label": "Inspector"},
            ),
            _dock(document, options, phases),
            html.Footer(
                static_html(status(document)),
                id="status",
                **{"aria-live": "polite", "aria-label": "Figures of the plan"},
            ),
        ],
        id="editor",
        className="no-dock",
    )


def _palette(graph: Graph) -> html.Div:
    """All commands; `assets/palette.js` fills the list. A filter of this model is an example in one of them."""
    return html.Div(
        [
            html.Div(
                className="palette-field",
                contentEditable="true",
                role="combobox",
                spellCheck="false",
                **{
                    "aria-label": "Command",
                    "aria-controls": "palette-list",
                    "aria-expanded": "true",
                    "data-placeholder": "What would you like to do?",
                },
            ),
            html.Ul(id="palette-list", role="listbox", **{"aria-label": "Commands"}),
        ],
        id="palette",
        hidden=True,
        role="dialog",
        **{"aria-label": "Commands", "data-filter": "".join(examples(graph)[-1:])},
    )


def _header(document: Document, of: SetRecord | None) -> html.Header:
    graph = document.graph
    constants = f"{human_bytes(_weights(document))} of constants"
    return html.Header(
        [
            controls.Link(
                static_html(
                    html.Span(className="logo"), html.Span("Hetero Editor", className="brand")
                ),
                href="/open",
                className="home",
                title="Open another model",
            ),
            html.Div(
                [
                    html.H1(document.title, className="model-name"),
                    html.Div(
                        [
                            controls.Link(
                                f"← {of.title}",
                                href=f"/set/{of.id}",
                                className="link set-back",
                                title="Back to the set of models",
                            )
                            if of is not None
                            else None,
                            html.Span(
                                pluralize(len(visible_ops(graph)), "op"), className="model-ops"
                            ),
                            html.Span("·"),
                            html.Span(constants, className="model-constants", title=constants),
                            *_sizes(document),
                        ],
                        className="model-what",
                    ),
                ],
                className="model",
                title=str(graph.path),
            ),
            html.Span(className="spring"),
            html.Div(
                [
                    controls.Field(
                        id="find",
                        placeholder=f"Find: {', or '.join(examples(graph)) or 'blocks, ops and tensors'}",
                        icon="search",
                        **{"aria-label": "Find blocks, ops, tensors and commands"},
                    ),
                    html.Div(
                        [
                            html.Ul(id="search-list", role="listbox", **{"aria-label": "Results"}),
                            html.Div(id="search-note", role="status"),
                        ],
                        id="search-box",
                        hidden=True,
                    ),
                ],
                className="search",
            ),
            static_html(
                icon_button("undo", "undo", "Undo (Ctrl+Z)"),
                icon_button("redo", "redo", "Redo (Ctrl+Shift+Z)"),
                icon_button("palette-open", "palette", "All commands (Ctrl+K)"),
                icon_button("help-open", "help", "Help: keys and words (?)"),
            ),
            export_menu(document),
            controls.Button(
                "Benchmark",
                id="bench-open",
                primary=True,
                icon="play",
                disabled=bool(graph.weights_problem),
                title=graph.weights_problem,
            ),
            static_html(scheme_toggle()),
        ],
        id="header",
    )


def _sizes(document: Document) -> list[Any]:
    """Input sizes, and a form to change them: pins and layouts are kept."""
    graph = document.graph
    define = graph.define
    if not define:
        return []
    phases = html.Button(
        "A placement each for prompt and tokens",
        className="tool small",
        title="Opens the tab Phases",
        **{"data-command": "run-phases-start"},
    )
    raw = ", ".join(f"{name}={size}" for name, size in define.items())
    follows = total_that_follows(graph)
    context = context_dim(graph)
    form = [
        size_field("size", name, size, className="context" if name == context else "")
        for name, size in define.items()
        if name != follows
    ]
    together = "Total tokens are past and new ones together. " if follows else ""
    return [
        html.Span("·"),
        controls.Popover(
            [
                *form,
                html.P(
                    f"{together}Opens the model with these sizes; pins and kept layouts come along.",
                    className="hint",
                ),
                html.Div(id="sizes-refused"),
                controls.Button("Apply", id="sizes-apply", primary=True),
                controls.Button("Longest context", id="sizes-longest", title=LONGEST)
                if has_longest(document.placement)
                else None,
                phases if has_phases(graph) else None,
            ],
            id="sizes-open",
            label=sizes_in_words(define),
            title=f"Change the input sizes: {raw}",
            link=True,
        ),
    ]


def _canvas(document: Document, greeting: str, origin: Record | None) -> list[Any]:
    count, notes = len(visible_ops(document.graph)), document.graph.own_notes
    said = ". ".join(notes)
    words = "\n".join(filter(None, (greeting, said)))
    if not count:
        return [
            html.Div(
                [html.H3("The model has no ops"), html.P("There is nothing to place.")],
                className="empty",
            ),
            html.Div(id="notice"),
        ]
    return [
        cyto.Cytoscape(
            id="graph",
            elements=shown_elements(document, first_detail(document.graph)),
            layout={"name": "preset", "fit": False},
            autoRefreshLayout=False,
            stylesheet=stylesheet("light"),
            style={"width": "100%", "height": "100%"},
            minZoom=0.005,
            maxZoom=4,
            boxSelectionEnabled=True,
            autoungrabify=True,
        ),
        html.Div(
            [
                controls.Select(
                    id="detail-mode",
                    value=first_detail(document.graph)["mode"],
                    width=142,
                    data=_details(document.graph),
                    title=too_many(document.graph),
                    **{"aria-label": "How much is drawn"},
                ),
                controls.Select(
                    id="colour-by",
                    value="device",
                    width=142,
                    data=[
                        {"value": "device", "label": "Colour: device"},
                        {"value": "level-device", "label": "Colour: device kind"},
                        {"value": "level-unit", "label": "Colour: unit"},
                        {"value": "level-codegen", "label": "Colour: codegen"},
                        {"value": "subgraph", "label": "Colour: subgraph"},
                        {"value": "heat", "label": "Colour: time"},
                        {"value": "weight", "label": "Colour: memory"},
                        {"value": "error", "label": "Colour: error"},
                        {"value": "pinned", "label": "Colour: pinned"},
                    ],
                    **{"aria-label": "What the colours mean"},
                ),
                missing_weights([document]),
            ],
            className="colour-by",
        ),
        html.Div(id="mode-hint", role="status"),
        static_html(
            html.Div(id="legend", hidden=True, role="group", **{"aria-label": "Legend"}),
            html.Div(id="lines", hidden=True, role="group", **{"aria-label": "Dashed lines"}),
            html.Div(
                [html.Canvas(id="map"), html.Div(id="map-note")],
                id="map-box",
                hidden=True,
                role="region",
                **{"aria-label": "Map of the whole model"},
            ),
            html.Div(
                [
                    icon_button("map-toggle", "map", "Map of the whole model (M)", framed=True),
                    icon_button("zoom-in", "plus", "Zoom in (+)", framed=True),
                    icon_button("zoom-out", "minus", "Zoom out (−)", framed=True),
                    icon_button("zoom-fit", "fit", "Fit (F)", framed=True),
                ],
                className="zoom",
            ),
        ),
        html.Div(id="hover", hidden=True, role="tooltip"),
        html.Div(id="ribbon-hover", hidden=True, role="tooltip"),
        html.Dialog(html.Div(id="body-content"), id="body-view", **{"aria-label": "Body of an op"}),
        static_html(
            html.Div(
                _help(),
                id="help",
                hidden=True,
                role="dialog",
                tabIndex=-1,
                **{"aria-label": "Help"},
            ),
            html.Div(
                id="context-menu",
                hidden=True,
                role="menu",
                **{"aria-label": "Commands for what was clicked"},
            ),
        ),
        html.Div(
            notice(words, bad=bool(said), way=way_back(document, origin) if origin else None)
            if words
            else None,
            id="notice",
        ),
    ]


def _ribbon() -> list[Any]:
    """The line above the graph; `assets/ribbon.js` draws it."""
    return [
        static_html(html.Canvas(id="ribbon-canvas", role="img")),
        html.Div(
            [
                static_html(
                    html.Span(id="ribbon-text", role="status"),
                    html.Button(
                        "‹",
                        className="mini",
                        title="Previous device switch ([)",
                        **{
                            "data-command": "previous-change",
                            "aria-label": "Previous device switch",
                        },
                    ),
                    html.Button(
                        "›",
                        className="mini",
                        title="Next device switch (])",
                        **{"data-command": "next-change", "aria-label": "Next device switch"},
                    ),
                ),
                controls.Select(
                    id="ribbon-by",
                    value="seconds",
                    width=110,
                    data=[
                        {"value": "seconds", "label": "Width: time"},
                        {"value": "bytes", "label": "Width: bytes"},
                        {"value": "ops", "label": "Width: ops"},
                    ],
                    **{"aria-label": "What the widths mean"},
                ),
            ],
            className="ribbon-words",
        ),
    ]


def _panes() -> list[Any]:
    def tool(label: str, title: str, **data: str) -> html.Button:
        return html.Button(
            label,
            className="tool small",
            title=title,
            **{f"data-panes-{k}": v for k, v in data.items()},
        )

    return [
        html.Div(
            [
                tool("Side by side", "One pane each; they move together", mode="side"),
                tool("Swipe", "Two layouts in one pane; drag the line", mode="swipe"),
                tool("Blink", "Two layouts in turn", mode="blink"),
                html.Span(className="panes-note", role="status"),
                tool("Only differences", "Dim all ops that all layouts place alike", only=""),
                tool("←", "Previous difference", step="-1"),
                tool("→", "Next difference", step="1"),
                tool("Fit", "All of the model", fit=""),
                html.Span(className="spring"),
                html.Button(
                    "×", className="close", **{"data-panes-close": "", "aria-label": "Close"}
                ),
            ],
            className="panes-bar",
        ),
        html.Div(className="panes-grid"),
        html.Div(className="panes-tip", hidden=True),
    ]


def _help() -> list[Any]:
    """The sheet: `assets/commands.js` fills in the keys from its table when it is opened."""
    return [
        html.Div(
            [
                html.H3("Words"),
                html.Button(
                    "×", className="close", **{"data-command": "help-open", "aria-label": "Close"}
                ),
            ]
        ),
        html.Dl(
            [part for word, meaning in WORDS.items() for part in (html.Dt(word), html.Dd(meaning))]
        ),
        html.H3("Keyboard"),
        html.Table(),
        html.P(
            "The folder docs of the project has tutorials and references; python -m editor --help lists the commands.",
            className="hint",
        ),
    ]


def _dock(document: Document, options: JobOptions, phases: Phases | None) -> html.Section:
    panels = {
        "fallbacks": fallbacks_panel(document),
        "subgraphs": subgraph_table(document),
        "transfers": transfer_table(document),
        "memory": html.Div(
            [html.Div(id="memory-problem", role="alert"), html.Div(id="memory")], className="bench"
        ),
        **({"phases": phases_panel(document, phases)} if has_phases(document.graph) else {}),
        "benchmark": benchmark_panel(document, options),
        "devices": device_form_panel(document),
        "rules": rules_panel(),
        "compare": compare_panel(document),
    }
    # The grids' script is as large as all others together: it comes when one of their tabs is opened.
    tabs = [
        {"value": name, "label": name.capitalize(), "lazy": name in ("subgraphs", "transfers")}
        for name in panels
    ]
    return html.Section(
        [
            controls.Tabs(list(panels.values()), id="tabs", value="fallbacks", tabs=tabs),
            static_html(
                html.Div(
                    [
                        html.Button(
                            label,
                            className="mini",
                            title=f"Show or hide the {what} ({key})",
                            **{"data-command": f"toggle-{name}"},
                        )
                        for name, label, what, key in (
                            ("tools", "Tools", "tools", "Shift+T"),
                            ("inspector", "Inspector", "inspector", "Shift+I"),
                            ("dock", "Tables", "tables", "Shift+B"),
                        )
                    ],
                    className="panel-toggles",
                    role="group",
                    **{"aria-label": "Panels to show"},
                )
            ),
        ],
        id="dock",
        **{"aria-label": "Tables and benchmark"},
    )


def _weights(document: Document) -> int:
    """Bytes of all constants that an op of the plan reads, each once; what constants are made from does not count."""
    graph = document.graph
    of_the_plan = ~graph.op_is_constant[graph.op_reads.row_of_value]
    read = np.unique(graph.op_reads.values[of_the_plan])
    constant = read[graph.tensor_is_constant[read]]
    return int(np.maximum(graph.tensor_bytes[constant], 0).sum())
