"""A plan in a notebook: the graph in the colours of the devices, and a brush that pins ops.

anywidget is an extra, which only this module imports; ``Plan.widget`` imports it when it is called. What is shown is drawn by
``widget.js``; a stroke comes here as a message, is solved, and goes back as new colours.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from editor.errors import EditorError
from editor.exports.dot import device_colour, text_colour
from editor.exports.first_page import headline
from editor.exports.report import drawing_of, drawn_ops, placed, report_of
from editor.text import as_utf8, pluralize

if TYPE_CHECKING:
    from editor.workspace.plan import Plan

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise EditorError(f"a widget needs anywidget ({error}): pip install anywidget") from error

MOST_OPS = 10_000
"""Ops of which each can be seen and painted when the whole graph is drawn."""


class PlanWidget(anywidget.AnyWidget):
    """The graph of a plan with a brush. Each stroke solves again; assigning ``plan`` shows another plan."""

    plan: Plan = traitlets.Instance("editor.workspace.plan.Plan")
    """The present plan. ``observe(callback, "plan")`` calls back after each stroke."""

    refused: str = traitlets.Unicode().tag(sync=True)
    """Why ops of the last stroke stayed where they were; "" where none did."""

    _esm = Path(__file__).with_name("widget.js")
    _css = Path(__file__).with_name("widget.css")
    _drawing = traitlets.Dict().tag(sync=True)
    _look = traitlets.Dict().tag(sync=True)
    _answered = traitlets.Int().tag(sync=True)

    def __init__(self, plan: Plan) -> None:
        self._past: list[Plan] = []
        super().__init__(plan=plan)
        self.on_msg(self._receive)

    def undo(self) -> None:
        """Shows the plan before the last change again; without one, nothing changes."""
        if self._past:
            self.plan = self._past[-1]

    @traitlets.validate("plan")
    def _check(self, proposal: Mapping[str, Any]) -> Plan:
        plan: Plan = proposal["value"]
        count = len(drawn_ops([plan.placement]))
        if count > MOST_OPS:
            raise EditorError(
                f"a widget draws every op, up to {MOST_OPS:,}; {plan.graph.name} has {count:,}: save the plan, and "
                "`hetero-editor open plan.json` shows it in blocks"
            )
        return plan

    @traitlets.observe("plan")
    def _follow(self, change: Mapping[str, Any]) -> None:
        before = change["old"] or None  # at first it is a mark of traitlets
        if self._past and self._past[-1] is self.plan:
            self._past.pop()
        elif before is not None:
            self._past.append(before)
        with self.hold_sync():
            self.refused = ""
            if before is None or before.graph is not self.plan.graph:
                self._ops = drawn_ops([self.plan.placement])
                self._drawing = drawing_of(self.plan.graph, self._ops)
            self._show()

    def _show(self) -> None:
        placement, keys = self.plan.placement, self._drawing["key"]
        report, reasons, pins = report_of(placement), dict[str, int](), self.plan.pins
        totals = report["totals"]
        facts = [pluralize(totals[name], name[:-1]) for name in ("subgraphs", "transfers", "pins")]
        self._look = {
            "title": as_utf8(self.plan.graph.name),  # of a file
            "devices": [
                {
                    "name": device["name"],
                    "fill": device_colour(number),
                    "ink": text_colour(device_colour(number)),
                    "ops": device["ops"],
                    "planned": device["planned"],
                }
                for number, device in enumerate(report["devices"])
            ],
            "device": [int(d) for d in placement.device_of_op[self._ops]],
            **placed(placement, self._ops, reasons),
            "reasons": list(reasons),
            "pins": [i for i, key in enumerate(keys) if key in pins],
            "status": " · ".join([headline(report), *facts]),
            "can_undo": bool(self._past),
        }

    def _receive(self, _widget: object, message: object, _buffers: object) -> None:
        """Does what the page asks, and counts it: the page waits for that."""
        with self.hold_sync():
            try:
                self.refused = self._act(message if isinstance(message, dict) else {})
            except EditorError as error:
                self.refused = str(error)
            self._answered += 1

    def _act(self, message: Mapping[str, Any]) -> str:
        if message.get("do") == "undo":
            self.undo()
            return ""
        chosen, number = message.get("ops"), message.get("device")
        if not isinstance(chosen, list):
            return ""
        ops = [self._ops[i] for i in chosen if type(i) is int and 0 <= i < len(self._ops)]
        if number is None:
            return self._pin(ops, None)
        if type(number) is int and 0 <= number < len(self.plan.devices):
            return self._pin(ops, number)
        return ""

    def _pin(self, ops: list[int], device: int | None) -> str:
        """Pins the ops that the device can run, or lets the ops go; returns why others stay."""
        plan, graph = self.plan, self.plan.graph
        constraints = plan.placement.constraints
        refused = [op for op in ops if device is not None and not constraints.able[op, device]]
        label = None if device is None else plan.devices[device].name
        stays = {graph.op_keys[op] for op in refused}
        keys = [key for op in ops if (key := graph.op_keys[op]) not in stays]
        changed = {key: label for key in keys if plan.pins.get(key) != label}
        if changed:
            self.plan = plan.repin(changed)
        if not refused or device is None:
            return ""
        first = refused[0]
        others = f", and {pluralize(len(refused) - 1, 'other op')}" if refused[1:] else ""
        return (
            f"{label} cannot run {graph.display_name(first)} ({graph.type_label(first)}){others}: "
            f"{constraints.inability(first, device)}"
        )


__all__ = ["PlanWidget"]
