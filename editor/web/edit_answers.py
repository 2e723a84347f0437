"""Answers a request of edits: applies them, and says what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from editor.errors import EditorError, WorkspaceError
from editor.graph.graph import Ints
from editor.graph.states import what_a_run_makes
from editor.placement.choices import SUBGRAPH_RULES, policy_choices
from editor.placement.device_profile import unprofiled
from editor.text import in_words, pluralize
from editor.web import messages as m
from editor.web.app_state import AppState
from editor.web.controls import static_html
from editor.web.edit_queue import (
    Answer,
    changes_of_others,
    describe_changes,
    refuse_unseen,
)
from editor.web.edits import apply
from editor.web.panels.devices import outcome, way_back
from editor.web.panels.notice import notice, refusal_notice, watts_notice
from editor.web.panels.parts import problem
from editor.web.panels.status import last_shown, status
from editor.web.panels.verdict import verdict
from editor.web.sets import follow_set
from editor.web.view import figures_of, policy_value, view_of
from editor.workspace.document import Document, Refusal
from editor.workspace.folders import Author, acting_as
from editor.workspace.history import Change


def _component(content: Any) -> m.Component | None:
    """Elements as a component of the page."""
    return None if content is None else dict(static_html(content).to_plotly_json())


class _Before(NamedTuple):
    """The figures that the page shows; and devices and subgraphs of ops, and the step, with what others did since."""

    figures: m.Figures
    devices: Ints
    subgraphs: Ints
    step: int
    rule: str
    """How subgraphs are formed"""
    table: frozenset[str]
    """Names of the devices"""


def answer_edits(state: AppState, document_id: str, request: m.Edits) -> m.EditsAnswer:
    """Applies the edits of a page.

    Raises:
        WorkspaceError: they could not be stored; the page sends them again.
        EditorError: the document cannot be opened.
    """
    document, queue = state.document(document_id), state.pages.get(request.page)
    with queue.lock:
        shown = last_shown(document)
        edits = queue.numbered(request.edits)
        before = queue.before(edits, lambda: _refreshed(document))
        document.refresh()
        others = changes_of_others(document, request.page, request.seen)
        answers = queue.apply(
            edits,
            lambda sequence, edit: _applied(
                state,
                document,
                Author(request.page, sequence, queue.name, state.server_name),
                edit,
                others,
            ),
        )
        with suppress(
            EditorError
        ):  # a model of its set cannot be read: the page of the set says so
            follow_set(state, document)
        said = (
            _notice(state, document, answers, others, edits[-1][1] if edits else None)
            or _lost_profile(document, request, before)
            or _added(document, request, before)
            or _other_rule(document, request, before)
            or _moved_too(document, request, before)
            or _new_costs(document, request, before, shown)
            or _solved_anew(document, request)
            or _no_change(document, request, before)
        )
        is_back = (
            edits[-1][1].do in ("undo", "redo", "step") if edits else False
        )  # not worse than it was
        panels: dict[str, m.Component | None] = {
            "status": _component(status(document, None if is_back else before.figures)),
            "verdict": _component(verdict(document)),
            "outcome": _component(outcome(document)),
            "better": None,  # is worked out when no other edit follows
            "notice": _component(said[1]),
        }
        device_problems = [a.device_problem for a in answers if a.device_problem is not None]
        if device_problems:
            wrong = device_problems[-1]
            said_of_it = (
                problem(wrong, "This change was not made").to_plotly_json() if wrong else None
            )
            panels |= dict.fromkeys(("device-problem", "memory-problem"), said_of_it)
        return {
            "view": view_of(document),
            "figures": figures_of(document),
            "sequence": queue.last,
            "selection": _selection(answers),
            "message": said[0],
            "panels": panels,
        }


def _refreshed(document: Document) -> _Before:
    figures = figures_of(document)
    document.refresh()
    placement = document.placement
    ops = placement.assignment.device, placement.division.subgraph_of_op
    table = frozenset(d.name for d in document.devices)
    return _Before(figures, *ops, document.history.cursor, placement.settings.subgraphs, table)


def _applied(
    state: AppState,
    document: Document,
    author: Author,
    edit: m.Edit,
    others: list[Change],
) -> Answer:
    refuse_unseen(edit, others, state.server_name)
    in_form = edit.do in ("device-field", "add-device", "remove-device")
    with acting_as(author):
        try:
            return Answer(apply(state, document, edit), edit.message, "" if in_form else None)
        except WorkspaceError:
            raise
        except EditorError as error:
            if not in_form:
                raise
            return Answer(device_problem=str(error))


_Said = tuple[str, Any]
"""A message as a text, and as it stands over the graph."""


def _notice(
    state: AppState,
    document: Document,
    answers: list[Answer],
    others: list[Change],
    last: m.Edit | None = None,
) -> _Said | None:
    """The message of the last edit that has one, else what others did; ``last`` is the last edit."""
    for answer in reversed(answers):
        if isinstance(answer.outcome, Refusal):
            names = [d.name for d in document.devices]
            number = names.index(answer.outcome.device)
            source = document.devices[number].published.source
            return answer.outcome.reason, refusal_notice(answer.outcome, number, source)
        if answer.message and answer.without_watts and isinstance(last, m.Automatic):
            return answer.message.text, watts_notice(answer.without_watts, last)
        if answer.message is not None:
            text, way = answer.message.text, None
            if answer.message.bad and isinstance(last, m.HistoryEdit | m.GoToStep):
                way = way_back(document)
            if way is not None:
                text = f"That step cannot be had at these sizes, which have a history of their own. {text}"
            return text, notice(text, answer.message.bad, answer.way_out, way)
    if not others:
        return None
    text = describe_changes(others, state.server_name)
    return text, notice(text)


def _no_change(document: Document, request: m.Edits, before: _Before) -> _Said:
    """Says so where an edit leaves every op where it was: nothing else on the page would tell.

    That is another policy or other costs, and what is undone or done again.
    """
    placement, history = document.placement, document.history
    last = request.edits[-1].do if request.edits else ""
    if not np.array_equal(before.devices, placement.assignment.device):
        return "", None
    same_cut = np.array_equal(before.subgraphs, placement.division.subgraph_of_op)
    if last in ("undo", "redo") and same_cut and before.step != history.cursor:
        step = history.steps[before.step if last == "undo" else history.cursor]
        text = f"{'Undone' if last == 'undo' else 'Done again'}: {step.label}."
        return text, notice(text)
    if last != "automatic":
        return "", None
    text = "No change: same placement" + ("." if same_cut else ", other subgraphs.")
    if placement.settings.policy == "memory" and all(d.memory is None for d in placement.devices):
        text += " No device has a limit of its memory."
        return text, notice(text, command=("show-Memory", "Set one"))
    pinned = len(placement.settings.pins)
    if pinned == len(placement.placed_ops):
        text += f" All {pinned:,} ops are pinned."
        return text, notice(text, command=("reset", "Unpin all"))
    return text, notice(text)


def _added(document: Document, request: m.Edits, before: _Before) -> _Said | None:
    """Says what a device that was added is called, and where it stands."""
    if not request.edits or request.edits[-1].do != "add-device":
        return None
    names = [d.name for d in document.devices]
    new = next((name for name in names if name not in before.table), None)
    if new is None:
        return None
    above = names[: names.index(new)]
    text = f"{new} is in the table now, {f'below {above[-1]}' if above else 'the first one'}; ↑ and ↓ change its place."
    if above and document.placement.settings.policy == "priority":
        text += " By priority it takes only what no device above it takes."
    return text, notice(text)


def _other_rule(document: Document, request: m.Edits, before: _Before) -> _Said | None:
    """Says so where a layout that is used forms subgraphs by another rule: that holds for what follows, too."""
    rule = document.placement.settings.subgraphs
    if not request.edits or request.edits[-1].do != "use-layout" or rule == before.rule:
        return None
    was, now = (SUBGRAPH_RULES[each].label for each in (before.rule, rule))
    text = f"Subgraphs are formed by the rule of that layout now: {now}, before: {was} (More, Subgraphs)."
    return text, notice(text)


_LEAST_CHANGE = 0.005
"""Share of a time from which a change is told"""
_FEW_MOVED = 10
"""Ops that move with others that are painted, without a word"""


def _moved_too(document: Document, request: m.Edits, before: _Before) -> _Said | None:
    """Says so where more ops changed their device than were painted: the policy placed the rest anew."""
    last = request.edits[-1] if request.edits else None
    if not isinstance(last, m.Paint):
        return None
    placed = document.placement.placed_ops
    changed = placed[before.devices[placed] != document.placement.assignment.device[placed]]
    others = len(np.setdiff1d(changed, last.ops))
    if others <= max(_FEW_MOVED, len(last.ops)):
        return None
    policy = policy_choices()[policy_value(document.placement.settings)]
    text = f"{others:,} other ops moved, too: “{policy}” placed the rest anew around the pins."
    return text, notice(text, command=("keep-others", "Keep them where they were"))


def _new_costs(
    document: Document, request: m.Edits, before: _Before, shown: Mapping[str, Any] | None
) -> _Said | None:
    """Says what a profile that came since changes: the time that is worked out, and where the policy places ops."""
    now = figures_of(document)
    if not request.edits or request.edits[-1].do != "show" or not shown or now["rate"]:
        return None
    new, old = now["predicted"], shown["predicted"]
    if not new or not old or abs(new - old) < _LEAST_CHANGE * old:
        return None
    placed = document.placement.placed_ops
    moved = int((before.devices != document.placement.assignment.device)[placed].sum())
    words = [in_words(*each) for each in ((new, now["rough"]), (old, shown["rough"]))]
    made = what_a_run_makes(document.graph)
    text = f"By the new costs {words[0]}{made}, {words[1]} before"
    text += _changed_parts(now, shown)
    text += f"; the policy placed {pluralize(moved, 'op')} elsewhere." if moved else "."
    return text, notice(text)


def _changed_parts(now: Mapping[str, Any], shown: Mapping[str, Any]) -> str:
    """In which parts of a run two figures differ: " (ops 2.5 ms, 2.4 ms before; transfers and starts …)"."""

    def parts(each: Mapping[str, Any]) -> dict[str, str]:
        between = each["between"] or 0.0
        return {
            "ops": in_words(each["predicted"] - between, each["rough"]),
            "transfers and starts": in_words(between, each["rough"]),
        }

    after, was = parts(now), parts(shown)
    said = [
        f"{name} {after[name]}, {was[name]} before" for name in after if after[name] != was[name]
    ]
    return f" ({'; '.join(said)})" if said else ""


def _solved_anew(document: Document, request: m.Edits) -> _Said | None:
    """Says so where a step of the history is not the placement that it was: costs, or what devices take, have changed since."""
    if not request.edits or request.edits[-1].do not in ("undo", "redo", "step"):
        return None
    if not document.solved_anew:
        return None
    label = document.history.current.label
    text = f"“{label}” is solved anew, by what is known now: ops are elsewhere than they were at that step."
    return text, notice(text)


def _lost_profile(document: Document, request: m.Edits, before: _Before) -> _Said | None:
    """Says so where a change of a device leaves figures without the profile that they came from."""
    last = request.edits[-1].do if request.edits else ""
    if (
        last not in ("device-field", "add-device")
        or before.figures["basis"] == figures_of(document)["basis"]
    ):
        return None
    if not (names := unprofiled(document.graph, document.devices)):
        return None
    text = f"Figures are estimates now: there is no profile of {' and '.join(names)} as the table has it."
    return text, notice(text, command=("run-bench-profile", "Profile now"))


def _selection(answers: list[Answer]) -> m.Selection | None:
    """The ops that the last choosing edit chose."""
    for answer in reversed(answers):
        if isinstance(answer.outcome, list):
            return {"ops": answer.outcome, "select": True, "count": True}
    return None
