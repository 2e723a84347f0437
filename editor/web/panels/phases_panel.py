"""Both phases of a language model in the tab Phases: the prompt and the tokens, placed each at their sizes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from dash import html

from editor.graph.graph import Graph
from editor.graph.states import Lengths, prompt_at, sequence_dim, states_of, tokens_of_step
from editor.kinds import Kind, too_close
from editor.placement.kept import moved_ops
from editor.placement.prompt_room import known_prompt
from editor.text import human_bytes, human_seconds, off_by, pluralize
from editor.web import controls
from editor.web.benchmark_state import JobOptions
from editor.web.panels.layout_figures import details_of
from editor.web.panels.parts import basis_badge, kind_badge, length_fields, same_as, swatch
from editor.web.view import colours_of, newest_lengths, plan_costs, step_of, tokens_run
from editor.workspace.document import Document
from editor.workspace.history import Run
from editor.workspace.phases import (
    OWN,
    PRESENT,
    PhaseChoice,
    Phases,
    holds,
    moved_between,
    of_phase,
)

_BEFORE = "the plan before, for both"


def has_phases(graph: Graph) -> bool:
    """Whether a model takes a prompt at once and then one token at a time."""
    return bool(sequence_dim(graph)) and any(
        state.axis >= 0 and not state.inside for state in states_of(graph)
    )


def phases_panel(document: Document, phases: Phases | None = None) -> html.Div:
    """What stands in the Phases tab: asks for the lengths of an answer, at first those of the newest run of tokens.

    Args:
        phases: what was found last for these sizes, or for those from which they were opened.
    """
    graph = document.graph
    newest = phases.lengths if phases else newest_lengths(document)
    prompt = prompt_at(graph) or JobOptions.prompt
    if newest is None:  # a longer one would be refused
        prompt = min(prompt, known_prompt(document.placement) or prompt)
    lengths = newest or Lengths(prompt, JobOptions.new)
    fields = ("phases-prompt-length", "phases-new-length")
    return html.Div(
        [
            html.Div(
                [
                    controls.Button("Place both phases", id="phases-start", primary=True),
                    *length_fields(fields, lengths.prompt, lengths.new),
                    controls.Button("Open the prompt", id="phases-prompt"),
                    controls.Button("Open a token", id="phases-token"),
                ],
                className="bench-controls beside-fields",
            ),
            html.Div(
                phases_view(document, phases)
                if phases
                else html.P(
                    "Prompt and tokens have their own sizes, times and memory; the plan is for one of them. "
                    "“Place both phases” looks for one placement that serves both, or one for each where that answers sooner.",
                    className="hint wide",
                ),
                id="phases-result",
            ),
        ],
        className="bench",
    )


def phases_view(document: Document, phases: Phases) -> list[Any]:
    """A row for each way to place the phases, the chosen one first, with what makes it the plan of the document's phase."""
    badge = basis_badge(phases.basis)
    head = [
        html.Th("Placement"),
        html.Th(["First token", html.Br(), f"of a prompt of {phases.lengths.prompt:,}"]),
        html.Th(
            ["Each token", html.Br(), f"at {phases.lengths.context} tokens of context"],
            title="The mean of the first and the last step of one token",
        ),
        html.Th(
            "Peak memory",
            title="What either phase needs at most, estimated, without what runtimes add",
        ),
    ]
    if is_apart := any(_between(each) for each, _ in phases.rows_with_present):
        means = (
            "The state moves once, from where the prompt leaves it; weights of subgraphs that only the prompt has are kept "
            "beside those of the tokens"
        )
        head.insert(3, html.Th("Between the phases", title=means))
    new = phases.lengths.new
    further = f" and {new - 1:,} times a token" if new > 1 else ""
    head.append(
        html.Th(
            [f"Answer of {pluralize(new, 'token')}", html.Br(), badge],
            title=f"The first token{further}, and the state once where it moves",
        )
    )
    head.append(html.Th(html.Span("Actions", className="unseen")))
    elsewhere = {
        name: len(moved_ops(document.placement, of_phase(document.graph, each).affinity))
        for name, each in phases.placements.items()
    }
    is_present = _is_present(document, phases)
    measured = _measured(document, phases)
    is_close, rows = _is_close(phases), phases.rows_with_present
    runs = [
        next((measured[name] for name in (each.name, *same) if name in measured), None)
        for each, same in rows
    ]
    table = html.Table(
        [
            html.Thead(html.Tr(head)),
            html.Tbody(
                [
                    _row(
                        each,
                        same,
                        each is phases.chosen and not is_close,
                        ""
                        if PRESENT in same and is_present
                        else _use(document, phases, each.name, elsewhere),
                        run,
                        PRESENT if is_present else _BEFORE,
                        is_apart,
                    )
                    for (each, same), run in zip(rows, runs, strict=True)
                ]
            ),
        ],
        className="plain",
        id="phases-table",
    )
    moved, chosen = len(moved_between(phases.prompt, phases.token)), runs[0]
    said = _said(document, phases, elsewhere[phases.chosen.name], is_close, bool(measured))
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
    doubts = _contradicted(measured.get(PRESENT), phases)
    notes = [note for note in phases.notes if note != phases.no_room]
    lengths = f"prompt={phases.lengths.prompt},new={phases.lengths.new}"
    path = shlex.quote(str(document.graph.path))
    command = f"hetero-editor partition {path} --like plan.json --phases {lengths} --out phases"
    named = f"“{phases.kept_with(document.placement)}”"
    save = html.Button(
        "Save plan.json of both", className="tool small", id={"type": "export", "what": "phases"}
    )
    return [
        _outdated(document, phases),
        html.P(
            [_answer(phases, moved, chosen), " "]
            + ([badge, *_doubtful(doubts)] if chosen is None else [chosen.badge]),
            className="phases-answer",
        ),
        html.P([phases.no_room, " ", shorter_prompt(phases.shorter)], className="hint wide warn")
        if phases.no_room
        else None,
        table,
        html.P(
            [" ".join([*notes, *doubts, said]), *_profile(phases)],
            className="hint wide",
        ),
        html.Table(html.Tbody(lines), className="plain"),
        html.P(
            [
                save,
                f" keeps {named}, for bench --generate and the export for onnxruntime-genai. The command line makes it, "
                "too: ",
                html.Code(command),
                " ",
                html.Button("Copy", className="link", **{"data-copy": command}),
                " from ",
                html.Button(
                    "this plan",
                    className="link",
                    title="Saves plan.json",
                    **{"data-command": "save-plan"},
                ),
                ".",
            ],
            className="hint wide",
        ),
    ]


def _said(
    document: Document, phases: Phases, elsewhere: int, is_close: bool, is_measured: bool
) -> str:
    """Which placement is best, and how the present plan is related to it.

    Args:
        document: of the present plan.
        phases: the placements.
        elsewhere: ops that the present plan has on another device than the best one.
        is_close: whether the figures cannot tell which is best.
        is_measured: whether figures of different kinds stand beside each other.
    """
    moved, present = len(moved_between(phases.prompt, phases.token)), "It is the present plan."
    used = phases.in_use(document.placement)
    if moved:
        runs = "runs" if moved == 1 else "run"
        best = (
            f"{pluralize(moved, 'op')} {runs} on another device for the prompt than for the tokens."
        )
        present = f"The present plan is that of {_phase(document)}."
        if used and used != OWN:
            present = f"The present plan is “{used}”."
        elif used:
            present += f" “Open {_other_phase(document)}” opens the other one, and the export for onnxruntime-genai has both."
    elif is_close:
        best, present = (
            "Which of these placements is best is too close to call.",
            "The first one is the present plan."
            if PRESENT in phases.rows_with_present[0][1]
            else "",
        )
    else:
        by = f" by {phases.basis.kind}" if is_measured else ""
        bold = " (in bold)" if len(phases.rows_with_present) > 1 else ""
        best = f"One placement for both phases is best{by}{bold}."
    if elsewhere and used in ("", phases.chosen.name):
        are = "is" if elsewhere == 1 else "are"
        present = f"The present plan is another one: {pluralize(elsewhere, 'op')} {are} elsewhere."
    pins = len(document.placement.settings.pins) if _is_present(document, phases) else 0
    held = f" Each way holds the {pluralize(pins, 'pin')} of the plan." if pins else ""
    return f"{best} {present}".rstrip() + held


def _answer(phases: Phases, moved: int, measured: _Measured | None) -> html.Span:
    """Sums up the chosen placement in a sentence, by what it took where that was measured."""
    best, new = phases.chosen, phases.lengths.new
    splits = (
        "The prompt and the tokens have a placement each"
        if moved
        else "One placement serves the prompt and the tokens"
    )
    first, token, answer = map(best.in_words, (best.first_token, best.token, best.answer))
    if measured is not None:
        first, token, answer = map(human_seconds, (measured.first, measured.token, measured.answer))
    return html.Span(
        [
            f"{splits}: {first} until the first token, then {token} for each; ",
            html.B(f"{answer} for {pluralize(new, 'token')}"),
        ]
    )


def shorter_prompt(tokens: int) -> html.Button | None:
    """What places the phases with a prompt that fits; None where none is known."""
    if not tokens:
        return None
    words = f"Place a prompt of {tokens:,}"
    return html.Button(words, className="tool small", **{"data-prompt-of": tokens})


def _profile(phases: Phases) -> list[Any]:
    """What measures the sizes that have no profile, where there are such."""
    if not phases.unprofiled:
        return []
    title = "Measures every op on each real device at these sizes, and places both phases again"
    words, look = "Profile these sizes", "tool small"
    return [" ", html.Button(words, id="phases-profile", className=look, title=title)]


def _is_present(document: Document, phases: Phases) -> bool:
    """Whether the plan is still the one that the ways were found for; where that does not fit, its devices are not known."""
    if phases.present.devices:
        return _has(document, phases.present)
    return document.placement.fingerprint == phases.plan


def _has(document: Document, choice: PhaseChoice) -> bool:
    """Whether the plan has the devices that a way is known to have in its phase."""
    placement = document.placement
    devices = tuple(placement.assignment.device[placement.placed_ops].tolist())
    return bool(choice.devices) and devices == choice.devices[tokens_of_step(document.graph) == 1]


def _outdated(document: Document, phases: Phases) -> html.Div:
    """Says that the plan has changed since, and is none of the ways."""
    same = _is_present(document, phases) or any(_has(document, each) for each in phases.choices)
    return html.Div(
        "The plan has changed since: place both phases again.",
        className="outdated",
        hidden=same,
        role="status",
        **{"data-step-of": step_of(document, plan_costs(document)[1]) if same else "another"},
    )


def _phase(document: Document) -> str:
    """The phase that the open sizes are of."""
    return "the tokens" if tokens_of_step(document.graph) == 1 else "the prompt"


def _other_phase(document: Document) -> str:
    """What the button that opens the other phase is called after."""
    return "the prompt" if tokens_of_step(document.graph) == 1 else "a token"


def tokens_of_plan(graph: Graph, lengths: Lengths) -> int:
    """Tokens of the context that ways to place both phases are made for, in the phase of a graph's sizes."""
    return lengths.before_last if tokens_of_step(graph) == 1 else lengths.prompt


def _use(document: Document, phases: Phases, name: str, elsewhere: Mapping[str, int]) -> Any:
    """What makes a way the plan, where it is another one; "" where it cannot be."""
    if name not in elsewhere:
        return ""  # the present plan, or a way that does not fit
    is_kept = name != OWN or phases.in_use(document.placement) == OWN
    if not elsewhere[name] and is_kept:
        return "in use" if name == OWN else f"the present plan of {_phase(document)}"
    if not holds(document.placement, phases.placements[name]):
        tokens = tokens_of_plan(document.graph, phases.lengths)
        return html.Button(
            f"Use at {pluralize(tokens, 'token')}",
            id={"type": "phase-open", "name": name},
            className="tool small",
            title="It has no room for the sizes that are open: this opens those that it was placed for",
        )
    title = (
        f"Make it the plan of the sizes that are open: {pluralize(elsewhere[name], 'op')} by pins"
    )
    if name == OWN:
        title += f"; “Open {_other_phase(document)}” then opens the other placement"
    return html.Button("Use", className="tool small", title=title, **{"data-phase-use": name})


def _contradicted(measured: _Measured | None, phases: Phases) -> list[str]:
    """How far the times are from what was measured of the present plan, where that is far."""
    if measured is None or not measured.answer:
        return []
    off = off_by(phases.present.answer / measured.answer)
    worked_out = phases.basis.kind.participle
    return [f"By what was measured, the {worked_out} times are {off}."] if off else []


def _doubtful(doubts: Sequence[str]) -> list[Any]:
    """Stands after the sentence whose seconds are far from what was measured."""
    title = " ".join(doubts)
    return [" ", html.Span("doubtful", className="noisy doubtful", title=title)] if doubts else []


def _is_close(phases: Phases) -> bool:
    """Whether no other way that differs takes more than such figures can tell."""
    others = [
        each.answer
        for each, _ in phases.rows_with_present
        if not each.problem and each is not phases.chosen
    ]
    return bool(others) and all(
        too_close(answer, phases.chosen.answer, phases.basis) for answer in others
    )


class _Measured:
    """What a run of the present plan took, in the columns of the table."""

    def __init__(self, run: Run, phases: Phases) -> None:
        first, token = float(run.figures["first_token"]), float(run.figures["median"])
        self.first, self.token, self.answer = first, token, first + (phases.lengths.new - 1) * token
        self._kind = phases.basis.kind
        self.badge = kind_badge(Kind.MEASUREMENT, detail=details_of(run, "tokens", human_seconds))
        prompt = int(run.figures["prompt"])
        self._of = "" if prompt == phases.lengths.prompt else f"with a prompt of {prompt:,}; "

    def cell(self, seconds: float, worked_out: str, is_bold: bool = False) -> list[Any]:
        """A figure with its kind, and what was worked out below it."""
        return [
            html.B(human_seconds(seconds)) if is_bold else human_seconds(seconds),
            " ",
            self.badge,
            html.Div(f"{self._of}{self._kind.participle} {worked_out}", className="hint"),
        ]


def _measured(document: Document, phases: Phases) -> dict[str, _Measured]:
    """Name of a way -> what was measured of it: of the plan that the ways were found for, and of a placement for each phase."""
    runs = {PRESENT: tokens_run(document, phases.lengths, phases.plan)}
    if phases.in_use(document.placement) == OWN:
        runs[OWN] = tokens_run(document, phases.lengths, document.placement.fingerprint, True)
    return {name: _Measured(run, phases) for name, run in runs.items() if run is not None}


def _on_each(sizes: Mapping[str, int]) -> str:
    """Bytes by device, each of which stays on one line: "36.7 MB on A, 38 MB on B"."""
    said = [f"{human_bytes(size)} on {name}" for name, size in sizes.items() if size]
    return ", ".join(each.replace(" ", "\u00a0") for each in said)


def _between(choice: PhaseChoice) -> str:
    """What the phases of a way do not share: "state in 1.2 ms; 8 MB on A twice"; "" for nothing."""
    moved = f"state in {choice.in_words(choice.handover)}" if choice.handover else ""
    twice = _on_each(choice.extra_weights)
    return "; ".join(filter(None, (moved, f"{twice} twice" if twice else "")))


def _row(
    choice: PhaseChoice,
    same: Sequence[str],
    is_chosen: bool,
    use: Any,
    measured: _Measured | None,
    present: str,
    is_apart: bool,
) -> html.Tr:
    """A way to place the phases, with the names of the others that come to the same, and what makes it the plan.

    Args:
        present: what the plan is called that the ways were found for.
        is_apart: whether there is a column of what the phases do not share.
    """
    shown = PRESENT if PRESENT in same else choice.name
    also = same_as({each: each for each in (choice.name, *same) if each != shown})
    shown = present if shown == PRESENT else shown
    over = html.Div("no room for what runtimes add", className="hint warn", title=choice.tight)
    tight = over if choice.tight else None
    name = html.Td([html.B(shown) if is_chosen else shown, also, tight])
    if choice.problem:
        words = f"Does not fit: {choice.problem}."
        return html.Tr([name, html.Td(words, colSpan=5 + is_apart, className="reason lines")])
    first, token, answer = (
        choice.in_words(each) for each in (choice.first_token, choice.token, choice.answer)
    )
    cells: tuple[Any, ...] = first, token, html.B(answer) if is_chosen else answer
    if measured is not None:
        cells = (
            measured.cell(measured.first, first),
            measured.cell(measured.token, token),
            measured.cell(measured.answer, answer, is_chosen),
        )
    return html.Tr(
        [
            name,
            html.Td(cells[0]),
            html.Td(cells[1]),
            html.Td(_between(choice) or "nothing", className="by-device") if is_apart else None,
            html.Td(_on_each(choice.peaks), className="by-device"),
            html.Td(cells[2]),
            html.Td(use),
        ]
    )
