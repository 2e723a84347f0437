"""Elements that are one component for Dash."""

from __future__ import annotations

import pytest
from dash import dcc, html

from editor.web.controls import Button, static_html


def test_static_elements_are_texts_and_tags_with_properties_and_children() -> None:
    made = static_html(
        "a",
        None,
        [html.Div([html.B("<b>"), None, 3], className="c", **{"data-op": "1"})],
        html.Hr(),
    )
    assert made.tree == [
        "a",
        ["div", {"className": "c", "data-op": "1"}, ["b", {}, "<b>"], "3"],
        ["hr", {}],
    ]


@pytest.mark.parametrize(
    "needs_dash",
    [
        Button("Start", id="start"),
        dcc.Link("home", href="/"),
        html.Div(html.Button("x", id={"type": "export", "what": "svg"})),
    ],
)
def test_what_has_a_callback_is_not_static(needs_dash: object) -> None:
    with pytest.raises(TypeError, match="needs Dash"):
        static_html(html.Div(), needs_dash)
