"""Both phases of a language model in the Compare tab: the prompt and the tokens, placed each at their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from editor.graph.graph import Graph
from editor.graph.states import sequence_dim, states_of
from editor.text import human_bytes, pluralize
from editor.web import controls
from editor.web.panels.parts import basis_badge, swatch
from editor.web.view import colours_of
from editor.workspace.document import Document
from editor.workspace.phases import PhaseChoice, Phases, moved_between

DEFAULT_LENGTHS = "prompt=512,new=64"


def has_phases(graph: Graph) -> bool:
    """Whether a model takes a prompt at once and then one token at a time."""
    return bool(sequence_dim(graph)) and any(
        state.axis >= 0 and not state.inside for state in states_of(graph)
    )


def phases_form(graph: Graph) -> list[Any]:
    """Asks for the lengths of an answer, where the model has phases."""
    if not has_phases(graph):
        return []
    return [
        html.H3("Prompt and tokens"),
        html.Div(
            [
                controls.Field(
                    id="phases-lengths",
                    value=DEFAULT_LENGTHS,
                    placeholder=DEFAULT_LENGTHS,
                    width=190,
                    **{"aria-label": "Tokens of the prompt, and new tokens"},
                ),
                controls.Button("Place both phases", id="phases-start"),
                controls.Button("Open the prompt", id="phases-prompt"),
                controls.Button("Open a token", id="phases-token"),
                html.Span(
                    "The prompt runs once, each token after it sees all before; this plan is of one of them.",
                    className="hint",
                ),
            ],
            className="bench-controls",
        ),
        html.Div(id="phases-result"),
    ]


def phases_view(document: Document, phases: Phases) -> list[Any]:
    """A row for each way to place the phases, the chosen one first."""
    badge = basis_badge(phases.basis)
    head = [
        html.Th("Placement"),
        html.Th(["First token", html.Br(), f"of a prompt of {phases.lengths.prompt:,}"]),
        html.Th(
            ["Each token", html.Br(), f"at {phases.lengths.context} tokens of context"],
            title="The mean of the first and the last step of one token",
        ),
        html.Th("State moves once"),
        html.Th("Weights twice"),
    ]
    new = phases.lengths.new
    further = f" and {new - 1:,} times a token" if new > 1 else ""
    head.append(
        html.Th(
            [f"Answer of {pluralize(new, 'token')} ", badge],
            title=f"The first token{further}, and the state once where it moves",
        )
    )
    table = html.Table(
        [
            html.Thead(html.Tr(head)),
            html.Tbody([_row(each, same, each is phases.chosen) for each, same in phases.rows]),
        ],
        className="plain",
        id="phases-table",
    )
    moved = len(moved_between(phases.prompt, phases.token))
    said = (
        f"{pluralize(moved, 'op')} {'runs' if moved == 1 else 'run'} on another device for the prompt than for the tokens."
        if moved
        else "Both phases have the same placement."
    )
    prompt, token = f"Prompt of {phases.lengths.prompt}", "each token"
    counts = (
        [(prompt, phases.prompt), (token.capitalize(), phases.token)]
        if moved
        else [(f"{prompt}, {token}", phases.token)]
    )
    colours = colours_of(document)
    lines = [
        html.Tr(
            [
                html.Td(html.B(name)),
                *(
                    html.Td([swatch(colours[d]), f"{count:,} on {d}"])
                    for d, count in placement.op_counts.items()
                    if count
                ),
            ]
        )
        for name, placement in counts
    ]
    command = (
        f"hetero-editor partition MODEL --phases prompt={phases.lengths.prompt},new={phases.lengths.new} writes a "
        "plan of both, which bench --generate and the export for onnxruntime-genai run."
    )
    return [
        html.P(said, className="hint wide"),
        table,
        html.Table(html.Tbody(lines), className="plain"),
        html.P(command, className="hint wide"),
    ]


def _row(choice: PhaseChoice, same: Sequence[str], is_chosen: bool) -> html.Tr:
    """A way to place the phases, with the names of the others that come to the same."""
    also = html.Div(f"the same: {'; '.join(same)}", className="hint")
    name = html.Td([html.B(choice.name) if is_chosen else choice.name, also if same else None])
    if choice.problem:
        words = f"Does not fit: {choice.problem}."
        return html.Tr([name, html.Td(words, colSpan=5, className="reason lines")])
    extra = ", ".join(f"{human_bytes(size)} on {d}" for d, size in choice.extra_weights.items())
    return html.Tr(
        [
            name,
            html.Td(choice.in_words(choice.first_token)),
            html.Td(choice.in_words(choice.token)),
            html.Td(choice.in_words(choice.handover) if choice.handover else "no"),
            html.Td(extra or "none"),
            html.Td(html.B(choice.in_words(choice.answer))),
        ]
    )
