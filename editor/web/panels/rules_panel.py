"""The Rules tab: a list that can be edited and ordered, drawn by ``assets/rules.js``; rules and affinities from files."""

from __future__ import annotations

from dash import dcc, html

from editor.imports.formats import words


def rules_panel() -> html.Div:
    """What stands in the Rules tab."""
    return html.Div(
        [
            html.Div(
                [
                    html.Button("Add rule", className="tool small", **{"data-rules": "add"}),
                    dcc.Upload(
                        html.Button(
                            "Load rules …",
                            className="tool small",
                            title="YAML or JSON; Glow's partition config too",
                        ),
                        id="rules-file",
                        max_size=1 << 20,
                    ),
                    dcc.Upload(
                        html.Button(
                            "Import affinities or times …",
                            className="tool small",
                            title=f"{words(times=False)}; or times of another machine: {words(times=True)}",
                        ),
                        id="import-file",
                        max_size=256 << 20,
                    ),
                    html.Span(
                        "The first rule that matches an op decides; pins of single ops come before rules.",
                        className="hint",
                    ),
                ],
                className="row",
            ),
            html.Div(id="rules-list"),
        ],
        className="bench",
        id="rules",
    )
