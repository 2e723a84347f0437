"""Ops that are elsewhere because the memory of a device is full, block by block: a table of the Fallbacks tab."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dash import html

from editor.graph.scopes.tree import scopes_of
from editor.placement.chosen_costs import assumed_speeds, is_assumed
from editor.placement.fallbacks import lost_in_words
from editor.placement.run_memory import weight_bytes, weight_shrinkage
from editor.text import human_bytes, pluralize
from editor.web.drawing.collapsed import first_blocks
from editor.web.panels.parts import basis_badge, fallback_button
from editor.web.view import op_costs
from editor.workspace.document import Document

_MOST_ROWS = 100


@dataclass(frozen=True)
class LeftOut:
    """Ops of one block that a device has no room for."""

    block: str
    """Its name; of ops beside the blocks that are shown at first, "rest of" what is around these"""
    ops: tuple[int, ...]
    of: int
    """All ops of the block; 0 of a rest"""
    bytes: int
    """Weights of these ops, as the device would hold them"""
    seconds: float | None
    """What the ops take where they are, less what they would take on the device; None where it is not known"""


def left_out(document: Document, device: int, ops: Sequence[int]) -> list[LeftOut]:
    """Ops without room on a device by the blocks that the graph shows at first, the largest loss first.

    Args:
        document: the plan.
        device: number of the device that is full.
        ops: those that may run on it and are elsewhere.
    """
    graph, placement, (costs, _) = document.graph, document.placement, op_costs(document)
    scopes, shown = scopes_of(graph), first_blocks(graph)
    size = weight_bytes(graph, placement.placed_ops)
    there = size / weight_shrinkage(graph, document.devices, size)[device]
    closed, groups = set(shown.values()), dict[int, list[int]]()
    for op in ops:
        groups.setdefault(shown.get(op, scopes.of_op.get(op, 0)), []).append(op)
    found = []
    for number, members in groups.items():
        here = costs.op[members, placement.assignment.device[members]].sum()
        lost = float(here - costs.op[members, device].sum())
        block = scopes.scopes[number]
        is_rest = number not in closed and len(block.ops) > 1
        found.append(
            LeftOut(
                f"rest of {block.label}" if is_rest else block.label,
                tuple(members),
                0 if is_rest else len(block.ops),
                int(there[members].sum()),
                lost if math.isfinite(lost) else None,
            )
        )
    return sorted(found, key=lambda one: (one.seconds is None, -(one.seconds or 0), -one.bytes))


def no_room_table(document: Document, name: str, ops: Sequence[int]) -> html.Table:
    """A row for each block with ops that have no room on the device of this name."""
    device, (costs, basis) = document.placement.device_number(name), op_costs(document)
    rough = is_assumed(document.devices, costs, device) or bool(
        assumed_speeds(document.placement, costs)
    )
    found = left_out(document, device, ops)
    head = [html.Th(text) for text in (f"No room on {name}", "Ops", "Weights")]
    head += [
        html.Th(
            ["Time lost ", basis_badge(basis)],
            title=f"What these ops take where they are, less what they would take on {name}; without transfers",
        ),
        html.Th(html.Span("Actions", className="unseen")),
    ]
    rest, known = found[_MOST_ROWS:], [one.seconds for one in found if one.seconds is not None]
    sums = []
    if rest:
        sums.append(html.Tr(html.Td(pluralize(len(rest), "more block"), colSpan=len(head))))
    if len(found) > 1:
        total = lost_in_words(sum(known), rough) if known else "not known"
        cells = ("Total", f"{len(ops):,}", human_bytes(sum(one.bytes for one in found)), total)
        sums.append(html.Tr([*map(html.Td, cells), html.Td()]))
    return html.Table(
        [
            html.Thead(html.Tr(head)),
            html.Tbody([_row(one, rough) for one in found[:_MOST_ROWS]]),
            html.Tfoot(sums),
        ],
        className="plain no-room",
    )


def _row(one: LeftOut, rough: bool) -> html.Tr:
    count = len(one.ops)
    some = f"{count:,} of {one.of:,}" if one.of > count else f"{count:,}"
    lost = "not known" if one.seconds is None else lost_in_words(one.seconds, rough)
    return html.Tr(
        [
            html.Td(html.B(one.block)),
            html.Td(some),
            html.Td(human_bytes(one.bytes)),
            html.Td(lost),
            html.Td(
                fallback_button(
                    "Select",
                    "select",
                    ",".join(map(str, one.ops)),
                    f"Select these ops: {one.block}",
                ),
                className="buttons",
            ),
        ]
    )
