"""The decisions of a plan at several sizes of its inputs, in the Compare tab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html

from editor.graph.dimension_meanings import sizes_in_words, words_of_dimension
from editor.placement.subgraphs.division import moved_in_words
from editor.text import human_bytes, in_words, pluralize
from editor.web import controls
from editor.web.panels.layout_figures import per_second, rate, spread_of_ops
from editor.web.panels.parts import basis_badge, swatch
from editor.web.view import colours_of
from editor.workspace.document import Document
from editor.workspace.sizes import AtSizes, words


def sizes_form(define: Mapping[str, int]) -> list[Any]:
    """Asks for sizes to compare, where the model leaves some open."""
    if not define:
        return []
    example = _example_sizes(define)
    return [
        html.H3("Several sizes of the inputs"),
        html.Div(
            [
                controls.Field(
                    id="sizes-list",
                    placeholder=example,
                    width=460,
                    **{"aria-label": "Sizes to compare"},
                ),
                controls.Button("Compare sizes", id="sizes-compare"),
                html.Span(
                    "The decisions of this plan, solved again at each size.", className="hint"
                ),
            ],
            className="bench-controls",
        ),
        html.P(_dimensions(define), className="hint wide", id="sizes-names"),
        html.Div(id="sizes-result"),
    ]


def _dimensions(define: Mapping[str, int]) -> list[Any]:
    """What the dimensions are called, their names beside it where these are others, and their sizes now."""
    parts: list[Any] = ["Now: "]
    for name, size in define.items():
        parts += [" · "] if len(parts) > 1 else []
        if _has_words(name):
            parts += [f"{words_of_dimension(name)} {size:,}, also called ", html.Code(name)]
        else:
            parts += [html.Code(name), f" {size:,}"]
    return parts


def _has_words(name: str) -> bool:
    return words_of_dimension(name) not in ("", name)


def _example_sizes(define: Mapping[str, int]) -> str:
    """Twice the present sizes. Two lengths or more go together, as a token and those before it: not all exist."""
    # What is one less than a power of two comes before a token, as the 127 positions before the 128th: so is the next.
    twice = {name: 2 * size + (size % 2 if size > 1 else 0) for name, size in define.items()}
    lengths = [name for name, size in define.items() if size > 1]
    if len(lengths) < 2:
        return " ".join(f"{name}={size},{twice[name]}" for name, size in define.items())
    now = " ".join(f"{name}={size}" for name, size in define.items())
    return f"{now}; {' '.join(f'{name}={twice[name]}' for name in lengths)}"


def sizes_view(document: Document, rows: Sequence[AtSizes], names: Sequence[str]) -> list[Any]:
    """A row for each combination of sizes; what the figures are stands once where they are all of one kind."""
    colours, limits = colours_of(document), {d.name: d.memory for d in document.devices}
    bases = {row.basis for row in rows if row.basis}
    shared = basis_badge(*bases) if len(bases) == 1 else None
    lines = []
    for row in rows:
        if row.problem:
            text = row.problem if row.possible else f"Impossible: {row.problem}"
            problem = html.Td(text, colSpan=7, className="reason lines")
            lines.append(html.Tr([_sizes_cell(row, names), problem]))
            continue
        f = row.figures
        held = [_memory_of(n, b, limits[n], colours[n]) for n, b in f["memory"].items() if b]
        lines.append(
            html.Tr(
                [
                    _sizes_cell(row, names),
                    html.Td(
                        [
                            in_words(f["predicted"], bool(f["assumed_speeds"])),
                            " ",
                            basis_badge(row.basis) if row.basis and not shared else None,
                        ]
                    ),
                    html.Td(rate(per_second(f), bool(f["assumed_speeds"]))),
                    html.Td(spread_of_ops(f["ops"], colours)),
                    html.Td(pluralize(row.moved_ops, "op")),
                    html.Td(str(f["subgraphs"])),
                    html.Td(moved_in_words(f["moved"], f["unknown"])),
                    html.Td(html.Span(held, className="spread")),
                ]
            )
        )
    head = [
        html.Th(t)
        for t in (
            "Sizes",
            ["Latency ", shared],
            ["Max requests/s ", shared],
            "Ops per device",
            "On other devices than now",
            "Subgraphs",
            "Transferred",
            "Most memory",
        )
    ]
    return [
        html.Table(
            [html.Thead(html.Tr(head)), html.Tbody(lines)], className="plain", id="sizes-table"
        )
    ]


def _sizes_cell(row: AtSizes, names: Sequence[str]) -> html.Td:
    """The sizes of a row, with the names that were typed as tooltip."""
    sizes = {name: row.define[name] for name in names}
    return html.Td(html.B(sizes_in_words(sizes)), title=words(row, names))


def _memory_of(name: str, size: int, limit: int | None, colour: str) -> html.Span:
    """What a device needs, marked where it has less."""
    over = limit is not None and size > limit
    what = f"{human_bytes(size)} on {name}" + (
        f", which has {human_bytes(limit)}" if over and limit is not None else ""
    )
    return html.Span(
        [swatch(colour), f"{human_bytes(size)}{' over' if over else ''} "],
        title=what,
        className="warn" if over else "",
    )
