"""The Fallbacks tab: which ops are not on the device that was wanted, why, what that costs, and what to do about it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dash import html

from editor.placement.fallbacks import Fallback, chosen_elsewhere, fallbacks, seconds_without
from editor.text import human_bytes, human_seconds, pluralize
from editor.web import controls
from editor.web.controls import static_html
from editor.web.panels.parts import basis_badge, swatch, with_link
from editor.web.view import colours_of, op_costs
from editor.workspace.document import Document

MOST_ROWS = 100


def fallbacks_panel(document: Document) -> html.Div:
    """What stands in the tab."""
    return html.Div(
        [
            html.Div(static_html(fallbacks_view(document)), id="fallbacks"),
            html.Div(
                [
                    controls.Button("Suggest improvements", id="hints-start"),
                    html.Span(
                        "Repaints that save time and fit into the memory of the devices.",
                        className="hint",
                    ),
                ],
                className="bench-controls",
            ),
            html.Div(id="hints-result"),
        ],
        className="bench",
    )


def fallbacks_view(document: Document) -> list[Any]:
    """The table, or why there is none."""
    costs, basis = op_costs(document)
    found = fallbacks(document.placement, costs)
    forced = _forced(document)
    if not found:
        return [*forced, html.P(_none(document), className="hint wide")]
    colours = colours_of(document)
    ops = sum(len(f.ops) for f in found)
    head = [
        html.Th(t)
        for t in ("Wanted", "Why not", "Op", "Ops", "Layers", "Runs on", "Subgraphs", "Moved")
    ]
    head.append(
        html.Th(
            "Time lost",
            title="What a run takes longer because of these ops, if all others were where they were "
            "wanted",
        )
    )
    head.append(html.Th(html.Span("Actions", className="unseen")))
    of_type = Counter(
        document.graph.type_label(op) for op in document.placement.placed_ops.tolist()
    )
    rows = [
        _row(i, fallback, colours, of_type[fallback.op_type])
        for i, fallback in enumerate(found[:MOST_ROWS])
    ]
    more = (
        [html.P(f"And {pluralize(len(found) - MOST_ROWS, 'more kind')}.", className="hint")]
        if len(found) > MOST_ROWS
        else []
    )
    reasons = {(f.wanted, f.reason) for f in found}
    chosen = sum(chosen_elsewhere(document.placement).values())
    verb = "is" if chosen == 1 else "are"
    by_policy = (
        f" {pluralize(chosen, 'more op')} may run on an earlier device and {verb} elsewhere by the policy; each says "
        "why when it is selected."
        if chosen
        else ""
    )
    now, without = (
        document.placement.price(costs).total,
        seconds_without(document.placement, costs, found),
    )
    gains = " Falling back gains time here." if without >= now else ""
    said = [
        f", for {pluralize(len(reasons), 'reason')}. With every op on its preferred device a run would take "
        f"{human_seconds(without)} instead of {human_seconds(now)} ",
        basis_badge(basis),
        f"{gains} The order of the devices is the order of wishes. Rows share transfers, so they do not add up.{by_policy}",
    ]
    return [
        *forced,
        html.P(
            [html.B(f"{pluralize(ops, 'op')} not on the device that was wanted"), *said],
            className="hint wide",
        ),
        html.Table(
            [html.Thead(html.Tr(head)), html.Tbody(rows)], className="plain", id="fallbacks-table"
        ),
        *more,
    ]


def _forced(document: Document) -> list[Any]:
    """Ops that are where they were wanted, by force: they hide what falls back."""
    ops = document.placement.forced_ops
    if not ops:
        return []
    return [
        html.P(
            [
                f"{pluralize(len(ops), 'op')} forced onto a device that cannot run them; figures assume that it can. ",
                _action("Select", "select", ",".join(map(str, ops)), "Select these ops"),
            ],
            className="hint wide warn",
        )
    ]


def _none(document: Document) -> str:
    first = document.devices[0].name
    elsewhere = sum(n for name, n in document.placement.op_counts.items() if name != first)
    if len(document.devices) == 1:
        return f"There is only one device, {first}. Add another one to place ops on it."
    if not elsewhere:
        return (
            f"Nothing falls back: all ops run on {first}, the first device. Choose another policy, reorder the devices, or "
            "paint ops."
        )
    constraints, placed = document.placement.constraints, document.placement.placed_ops
    unable = int((~constraints.able[placed, 0]).sum())
    if unable:
        verb = "is" if elsewhere == 1 else "are"
        return (
            f"Nothing falls back by itself: {pluralize(elsewhere, 'op')} {verb} elsewhere because of the policy, rules or "
            f"pins. {first}, the first device, cannot run {unable:,} of them."
        )
    return (
        f"Nothing falls back: every op may run on {first}, the first device. {pluralize(elsewhere, 'op')} "
        f"{'is' if elsewhere == 1 else 'are'} elsewhere because of the policy, rules or pins."
    )


def _row(number: int, fallback: Fallback, colours: dict[str, str], of_type: int) -> html.Tr:
    """``of_type``: all ops of the type in the model; a rule is for all of them, also those that did not fall back."""
    ops = ",".join(map(str, fallback.ops))
    devices = [html.Span([swatch(colours[name]), f"{name} "]) for name in fallback.devices]
    return html.Tr(
        [
            html.Td([swatch(colours[fallback.wanted]), fallback.wanted]),
            html.Td(with_link(fallback.reason, fallback.source), className="reason"),
            html.Td(html.B(fallback.op_type)),
            html.Td(str(len(fallback.ops))),
            html.Td(str(fallback.layers or "—")),
            html.Td(devices),
            html.Td(str(fallback.subgraphs)),
            html.Td(human_bytes(fallback.bytes)),
            html.Td(fallback.lost),
            html.Td(
                [
                    _action("Select", "select", ops, "Select these ops"),
                    _action(
                        "+ neighbours",
                        "neighbours",
                        ops,
                        "Select these ops and their neighbours, to move them together",
                    ),
                    _action(
                        "Rule" if of_type <= len(fallback.ops) else f"Rule for all {of_type:,}",
                        "rule",
                        f"{fallback.op_type}|{fallback.devices[0]}",
                        f"Sends all {of_type:,} {fallback.op_type} to {fallback.devices[0]}, whatever the policy",
                    ),
                ],
                className="buttons",
            ),
        ],
        **{"data-row": str(number)},
    )


def _action(label: str, what: str, value: str, title: str) -> html.Button:
    return html.Button(
        label, className="tool small", title=title, **{"data-fallback": what, "data-value": value}
    )
