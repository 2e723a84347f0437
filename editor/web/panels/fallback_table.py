"""The Fallbacks tab: which ops are off their preferred device, why, what that costs, and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from dash import html

from editor.graph.states import tokens_of_step
from editor.kinds import Kind
from editor.placement.fallbacks import (
    Fallback,
    chosen_elsewhere,
    fallbacks,
    lost_in_words,
    without_room,
)
from editor.text import human_bytes, human_seconds, in_words, pluralize
from editor.web import controls
from editor.web.controls import static_html
from editor.web.panels.no_room import no_room_table
from editor.web.panels.parts import (
    basis_badge,
    condition_title,
    fallback_button,
    kind_badge,
    plan_as_button,
    swatch,
    unpin_forced_button,
    with_link,
)
from editor.web.view import colours_of, measured_medians, op_costs
from editor.workspace.document import Document

MOST_ROWS = 100
_MOST_TYPES = 4
_MOST_TOOK = 2
"""Subgraphs of a row whose times stand one below the other."""
_TIME_LOST = 9
"""Columns up to that of the time lost"""
_TOOK = "Medians of the benchmark of this plan, of whole subgraphs: other ops in them count too"
_PARTS = (
    "Against these ops on the preferred device; overhead: transfers and the starts of subgraphs"
)


def fallbacks_panel(document: Document) -> html.Div:
    """What stands in the tab; the styles put the summary beside the buttons, and what these find above the table."""
    problem = document.graph.weights_problem
    return html.Div(
        [
            html.Div(
                [
                    controls.Button(
                        "Suggest improvements",
                        id="hints-start",
                        title="Finds moves that reduce latency and fit into memory.",
                    ),
                    *(
                        [
                            controls.Button(
                                "Try other forms",
                                id="advise-start",
                                disabled=bool(problem),
                                title=problem
                                or "Rewrites ops that fall back, and compares the outputs.",
                            )
                        ]
                        if document.graph.is_onnx
                        else []
                    ),
                    html.Span("The second needs the weights, which are missing.", className="hint")
                    if problem and document.graph.is_onnx
                    else None,
                ],
                className="bench-controls",
            ),
            html.Div(id="hints-result"),
            html.Div(id="advice-result"),
            html.Div(static_html(fallbacks_view(document)), id="fallbacks"),
        ],
        className="bench fallbacks",
    )


def fallbacks_view(document: Document) -> list[Any]:
    """The table, or why there is none."""
    costs, basis = op_costs(document)
    found = fallbacks(document.placement, costs)
    forced, by_policy = _forced(document), _by_policy(document)
    full = without_room(document.placement)
    lacking = [_without_room(document, name, ops) for name, ops in full.items()]
    blocks = [no_room_table(document, name, ops) for name, ops in full.items()]
    if not found:
        mark = "no-choice" if len(document.devices) == 1 else "" if forced else "no-fallbacks"
        why = _none(document, bool(lacking))
        said = html.P(why, className=f"hint wide fallbacks-said {mark}")
        return [*forced, said, *lacking, *blocks]
    colours = colours_of(document)
    ops = sum(len(f.ops) for f in found)
    tokens = tokens_of_step(document.graph)
    run = "run" if not tokens else "token" if tokens == 1 else f"prompt of {tokens:,} tokens"
    head = [
        html.Th(name)
        for name in (
            *("Preferred", "Why not", "Op", "Ops", "Layers", "Runs on", "Subgraphs"),
            "Transferred",
        )
    ]
    head.append(
        html.Th(
            [f"Time lost per {run} " if tokens else "Time lost ", basis_badge(basis)],
            title=f"What these ops add to a {run}; the rows add up to the total. A benchmark cannot tell: it does not run the "
            "ops on the device that refuses them",
        )
    )
    if medians := measured_medians(document)[0]:
        head.append(html.Th(["Subgraphs took ", kind_badge(Kind.MEASUREMENT)], title=_TOOK))
    head.append(html.Th(html.Span("Actions", className="unseen")))
    of_type = Counter(
        document.graph.type_label(op) for op in document.placement.placed_ops.tolist()
    )
    falling = Counter(document.graph.type_label(op) for f in found for op in f.ops)
    rows = [
        _row(
            document,
            i,
            fallback,
            colours,
            sum(of_type[one] for one in fallback.op_types),
            sum(falling[one] for one in fallback.op_types),
            medians,
        )
        for i, fallback in enumerate(found[:MOST_ROWS])
    ]
    total, rough = sum(f.seconds for f in found), any(f.rough for f in found)
    rest, sums = found[MOST_ROWS:], []
    if rest:
        sums.append(
            _sum_row(
                pluralize(len(rest), "more reason"),
                sum(len(f.ops) for f in rest),
                sum(f.seconds for f in rest),
                rough,
                len(head),
            )
        )
    if len(found) > 1:
        sums.append(_sum_row("Total", ops, total, rough, len(head)))
    change = f"{in_words(abs(total), rough)} {'less' if total > 0 else 'more'}"
    gains = ""
    if total <= 0:
        gains = ": nothing is lost" + (" in all" if any(f.seconds > 0 for f in found) else "")
    order = f" Devices are tried in this order: {', '.join(d.name for d in document.devices)}."
    they = "it" if ops == 1 else "all of them"
    said = [
        f", for {pluralize(len(found), 'reason')}. If {they} ran there, a {run} would take {change}, "
        f"by {basis.kind}{gains}.{order if document.placement.settings.policy == 'priority' else ''}",
    ]
    return [
        *forced,
        html.P(
            [html.B(f"{pluralize(ops, 'op')} that the preferred device does not take"), *said],
            className="hint wide fallbacks-said",
        ),
        *lacking,
        *by_policy,
        html.Table(
            [html.Thead(html.Tr(head)), html.Tbody(rows), html.Tfoot(sums)],
            className="plain",
            id="fallbacks-table",
        ),
        *blocks,
    ]


def _by_policy(document: Document) -> list[Any]:
    """Ops that no device refused, that are not on the first one that may run them, and not for want of memory."""
    full = {op for ops in without_room(document.placement).values() for op in ops}
    lines = []
    for name, every in chosen_elsewhere(document.placement).items():
        if ops := [op for op in every if op not in full]:
            words = f" could run on {name}; the policy has {'it' if len(ops) == 1 else 'them'} elsewhere"
            lines.append(_line(f"{len(ops):,} more {'op' if len(ops) == 1 else 'ops'}", words, ops))
    return lines


def _without_room(document: Document, name: str, ops: Sequence[int]) -> html.P:
    """The sentence about ops that are elsewhere because a device is full; a table has their blocks."""
    device = document.devices[document.placement.device_number(name)]
    taken = human_bytes(document.placement.run_memory.peaks[name])
    words = (
        f" {'has' if len(ops) == 1 else 'have'} no room on {name}, where {taken} of {device.limit_text} are taken; "
        "their blocks stand below"
    )
    return _line(pluralize(len(ops), "op"), words, ops)


def _line(count: str, words: str, ops: Sequence[int]) -> html.P:
    return html.P(
        [
            html.B(count),
            f"{words}. {'Its' if len(ops) == 1 else 'Their'} reasons stand in the inspector. ",
            fallback_button("Select", "select", ",".join(map(str, ops)), "Select these ops"),
        ],
        className="hint wide",
    )


def _forced(document: Document) -> list[Any]:
    """Ops that are on their preferred device by force: they hide what falls back."""
    ops = document.placement.forced_ops
    if not ops:
        return []
    return [
        html.P(
            [
                f"{pluralize(len(ops), 'op')} forced onto a device that does not take {'it' if len(ops) == 1 else 'them'}; "
                "figures assume that it does. ",
                fallback_button("Select", "select", ",".join(map(str, ops)), "Select these ops"),
                " ",
                unpin_forced_button(),
            ],
            className="hint wide warn",
        )
    ]


def _none(document: Document, says_more: bool) -> str:
    """Why there is no table; ``says_more``: what has no room follows, and is not told twice."""
    first = document.devices[0].name
    elsewhere = sum(n for name, n in document.placement.op_counts.items() if name != first)
    if len(document.devices) == 1:
        return f"There is only one device, {first}. Add another one to place ops on it."
    if not elsewhere:
        return (
            f"No automatic fallbacks: all ops run on {first}, the first device. Choose another policy, reorder the devices, or "
            "paint ops."
        )
    settings = document.placement.settings
    policy = "the memory of the devices" if settings.policy == "memory" else "the policy"
    held = [
        *(["rules"] if settings.rules else []),
        *(["pins"] if settings.pins else []),
    ]
    causes = [*([policy] if settings.policy != "priority" or not held else []), *held]
    why = " or ".join([", ".join(causes[:-1]), causes[-1]] if causes[1:] else causes)
    constraints, placed = document.placement.constraints, document.placement.placed_ops
    unable = int((~constraints.able[placed, 0]).sum())
    if unable:
        verb = "is" if elsewhere == 1 else "are"
        return (
            f"No automatic fallbacks: {pluralize(elsewhere, 'op')} {verb} elsewhere because of {why}. "
            f"{first}, the first device, cannot run {unable:,} of them."
        )
    text = f"No automatic fallbacks: every op may run on {first}, the first device."
    if says_more and why == "the memory of the devices":
        return text
    verb = "is" if elsewhere == 1 else "are"
    return f"{text} {pluralize(elsewhere, 'op')} {verb} elsewhere because of {why}."


def _row(
    document: Document,
    number: int,
    fallback: Fallback,
    colours: dict[str, str],
    of_types: int,
    falling: int,
    medians: Sequence[float],
) -> html.Tr:
    """A row of the table.

    Args:
        document: the plan.
        number: of the row.
        fallback: what it is of.
        colours: of the devices.
        of_types: all ops of these types in the model; a rule is for all of them, also those that did not fall back.
        falling: those of them that did.
        medians: [subgraph] measured seconds; empty without a benchmark of this plan.
    """
    ops = ",".join(map(str, fallback.ops))
    devices = [html.Span([swatch(colours[name]), f"{name} "]) for name in fallback.devices]
    why: list[Any] = [with_link(fallback.reason, fallback.source)]
    if fallback.by_rule:
        all_of_them = fallback.by_rule == len(fallback.ops)
        words = "by rule" if all_of_them else f"{fallback.by_rule:,} by rule"
        title = "A rule of the tab Rules sends them there, whatever the policy"
        why.append(html.Span([" ", html.Span(words, className="badge", title=title)]))
    actions = []
    if fallback.plan_as:
        device = document.placement.device_number(fallback.wanted)
        actions.append(plan_as_button(device, fallback.wanted, fallback.plan_as))
    actions += [
        fallback_button("Select", "select", ops, "Select these ops"),
        fallback_button(
            "+ neighbours",
            "neighbours",
            ops,
            "Select these ops and their neighbours, to move them together",
        ),
    ]
    constraints, chosen = document.placement.constraints, list(fallback.ops)
    wanted = document.placement.device_number(fallback.wanted)
    if all(constraints.excluded(op, wanted) for op in chosen):
        title = f"Opens Devices: the lists of {fallback.wanted} keep these ops from it"
        actions.append(fallback_button("Edit the lists", "lists", str(wanted), title))
    able = constraints.able[chosen].sum(axis=1)
    has_choice = of_types > falling or bool((able > 1).any())
    if has_choice and fallback.by_rule < len(fallback.ops):
        all_of_type = (
            f"all {of_types:,} {fallback.op_type}"
            if of_types > 1
            else f"the only {fallback.op_type}"
        )
        label, tail = "Rule", ""
        if of_types > len(fallback.ops):
            label = f"Rule for all {of_types:,} {_few(fallback.op_types, 1)}"
            tail = f": {falling:,} of them {'falls' if falling == 1 else 'fall'} back"
        actions.append(
            fallback_button(
                label,
                "rule",
                f"{','.join(fallback.op_types)}|{fallback.devices[0]}",
                f"Sends {all_of_type} to {fallback.devices[0]}, whatever the policy{tail}",
            )
        )
    return html.Tr(
        [
            html.Td([swatch(colours[fallback.wanted]), fallback.wanted]),
            html.Td(why, className="reason", title=condition_title(fallback.condition)),
            html.Td(html.B(_few(fallback.op_types)), title=fallback.op_type),
            html.Td(f"{len(fallback.ops):,}"),
            html.Td(str(fallback.layers or "—")),
            html.Td(devices),
            html.Td(str(fallback.subgraphs)),
            html.Td(human_bytes(fallback.bytes)),
            html.Td(
                [fallback.lost, html.Div(fallback.parts, className="hint", title=_PARTS)],
            ),
            *([_took(document, fallback, medians)] if medians else []),
            html.Td(actions, className="buttons"),
        ],
        **{"data-row": str(number)},
    )


def _took(document: Document, fallback: Fallback, medians: Sequence[float]) -> html.Td:
    """What a benchmark of this plan measured of the subgraphs that the ops are in."""
    part = document.placement.division.subgraph_of_op
    numbers = sorted({int(part[op]) for op in fallback.ops})
    each = [f"subgraph {number}: {human_seconds(medians[number])}" for number in numbers]
    if len(each) <= _MOST_TOOK:
        return html.Td([html.Div(text) for text in each], className="took")
    total = human_seconds(sum(medians[number] for number in numbers))
    return html.Td(f"{total} in {len(each):,} subgraphs", title="\n".join(each))


def _sum_row(words: str, ops: int, seconds: float, rough: bool, columns: int) -> html.Tr:
    return html.Tr(
        [
            html.Td(words, colSpan=3),
            html.Td(f"{ops:,}"),
            html.Td(colSpan=4),
            html.Td(lost_in_words(seconds, rough)),
            html.Td(colSpan=columns - _TIME_LOST),
        ]
    )


def _few(names: Sequence[str], most: int = _MOST_TYPES) -> str:
    """The first of some names, and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} + {len(names) - most} more"
