"""A body of an If, Loop or Scan as a picture, in the colour of the op that it is placed with."""

from __future__ import annotations

from typing import Any

from editor.errors import EditorError
from editor.exports.dot import text_colour
from editor.graph.graph import Graph, bodies_in, bodies_of
from editor.graph.layout.layered import Wrap, draw
from editor.text import pluralize, shortened
from editor.web.controls import StaticHtml
from editor.web.drawing.elements import NODE_HEIGHT, NODE_WIDTH
from editor.web.view import colours_of
from editor.workspace.document import Document

_MOST = 4000
"""Ops that are drawn."""
_MARGIN = 24
_NAME = 19


def body_view(document: Document, number: int) -> StaticHtml:
    """The path to a body, its picture, and buttons for the bodies inside it.

    Raises:
        EditorError: the model has no such body.
    """
    graph = document.graph
    if not 0 <= number < len(bodies_of(graph)):
        raise EditorError("This model has no such body.")
    close = ["button", {"className": "close", "aria-label": "Close", "data-close": ""}, "×"]
    return StaticHtml(tree=[close, *_path(graph, number), _picture(document, number)])


def _path(graph: Graph, number: int) -> list[Any]:
    """The op and the bodies around, each to be opened."""
    bodies = bodies_of(graph)
    around: list[Any] = []
    while number >= 0:
        body = bodies[number]
        holder = (
            graph.display_name(body.owner)
            if body.around < 0
            else bodies[body.around].ops[body.holder].name
            or bodies[body.around].ops[body.holder].op_type
        )
        around.insert(0, _button(f"{holder}: {body.name}", number))
        if body.around >= 0:
            around.insert(0, " › ")
        number = body.around
    return [["nav", {"className": "breadcrumbs", "aria-label": "Bodies around"}, *around]]


def _button(text: str, number: int) -> list[Any]:
    return ["button", {"className": "link", "data-body": str(number)}, text]


def _picture(document: Document, number: int) -> list[Any]:
    graph, body = document.graph, bodies_of(document.graph)[number]
    device = document.devices[int(document.placement.assignment.device[body.owner])].name
    fill = colours_of(document)[device]
    if not body.ops:
        return ["p", {"className": "hint"}, "It has no ops: its outputs are values from outside."]
    if len(body.ops) > _MOST:
        return ["p", {"className": "hint"}, f"{len(body.ops):,} ops are too many for a picture."]
    drawing = draw(len(body.ops), body.source, body.target, NODE_WIDTH, wrap=Wrap())
    left, top = float(drawing.x.min()) - NODE_WIDTH / 2, float(drawing.y.min()) - NODE_HEIGHT / 2
    width = float(drawing.x.max()) + NODE_WIDTH / 2 - left + 2 * _MARGIN
    height = float(drawing.y.max()) + NODE_HEIGHT / 2 - top + 2 * _MARGIN
    lines = [
        [
            "polyline",
            {
                "points": " ".join(
                    f"{x:.1f},{y:.1f}"
                    for x, y in (
                        (float(drawing.x[a]), float(drawing.y[a])),
                        *drawing.bends.get(i, []),
                        (float(drawing.x[b]), float(drawing.y[b]) - NODE_HEIGHT / 2),
                    )
                )
            },
        ]
        for i, (a, b) in enumerate(zip(body.source.tolist(), body.target.tolist(), strict=True))
        if i not in drawing.faint
    ]
    ink = text_colour(fill)
    boxes = [
        _box(graph, number, i, float(drawing.x[i]), float(drawing.y[i]), fill, ink)
        for i in range(len(body.ops))
    ]
    view = f"{left - _MARGIN:.0f} {top - _MARGIN:.0f} {width:.0f} {height:.0f}"
    words = f"{pluralize(len(body.ops), 'op')} in the {body.name}, placed on {device} as one op"
    size: dict[str, Any] = {
        "viewBox": view,
        "width": f"{width:.0f}",
        "height": f"{height:.0f}",
        "role": "img",
        "aria-label": words,
    }
    svg = ["svg", size, *lines, *boxes]
    return ["div", {"className": "body-picture", "tabIndex": "0"}, svg]


def _box(
    graph: Graph, number: int, position: int, x: float, y: float, fill: str, ink: str
) -> list[Any]:
    op = bodies_of(graph)[number].ops[position]
    inside = bodies_in(graph, number, position)
    more: dict[str, Any] = (
        {"data-body": str(inside[0]), "className": "holder", "role": "button", "tabIndex": 0}
        if inside
        else {}
    )
    rect = {
        "x": f"{x - NODE_WIDTH / 2:.1f}",
        "y": f"{y - NODE_HEIGHT / 2:.1f}",
        "width": NODE_WIDTH,
        "height": NODE_HEIGHT,
        "rx": 5,
        "fill": fill,
    }
    words = "open its body" if inside else shortened(op.name or op.key, _NAME)
    return [
        "g",
        more,
        ["title", {}, f"{op.op_type} {op.name or op.key}"],
        ["rect", rect],
        ["text", {"x": f"{x:.1f}", "y": f"{y - 3:.1f}", "fill": ink}, shortened(op.op_type, _NAME)],
        ["text", {"x": f"{x:.1f}", "y": f"{y + 11:.1f}", "fill": ink, "className": "small"}, words],
    ]
