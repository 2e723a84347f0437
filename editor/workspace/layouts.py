"""Layouts: named sets of decisions for comparison, ready-made or stored by the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from editor.devices.table import load_devices
from editor.errors import EditorError
from editor.placement.choices import PRESENT
from editor.placement.chosen_costs import assumed_speeds, source_of_figures
from editor.placement.costs import Costs
from editor.placement.energy import joules_of
from editor.placement.placement import Placement, Settings, solve
from editor.placement.unsplit import on_one_device
from editor.workspace.recorded import hetero_devices, settings_of_hetero
from editor.workspace.solver import first_decisions, identity, settings_of

Solve = Callable[[Mapping[str, Any]], Placement]
"""The placement that decisions give."""
Progress = Callable[[int, int, str], None]
"""Called with (done, total, what comes next); what it raises ends the work."""

READY_MADE: dict[str, Settings] = {
    "OpenVINO HETERO rule (simulated)": Settings("priority", subgraphs="connected"),
    "Glow rule (simulated)": Settings("priority", subgraphs="levels"),
    "ONNX Runtime rule (simulated)": Settings("priority", subgraphs="connected"),
    "least latency": Settings("optimal", {"objective": "latency"}),
    "best throughput": Settings("optimal", {"objective": "throughput"}),
}
"""Layout name -> settings, without pins: the rules of other tools, and the policies of the editor."""
OF_OTHER_TOOLS = tuple(READY_MADE)[:3]
BY_OPENVINO = "OpenVINO HETERO (its own query_model)"
"""What ``query_model`` of HETERO says, where the plan has devices of OpenVINO; it is asked when the layout is."""
WITHIN_MEMORY: dict[str, Settings] = {"optimal within memory": Settings("memory")}
"""The same, where a device has a limit."""
AUDITED = "audited"
"""The key of the decisions of a layout that an audit made, with what was recorded beyond the placement."""
LEAST_ENERGY: dict[str, Settings] = {"least energy": Settings("optimal", {"objective": "energy"})}
"""The same, where the watts of all devices are stated."""


@dataclass(frozen=True, eq=False)
class Layout:
    """A named set of decisions and its placement."""

    name: str
    settings: Settings
    placement: Placement | None
    problem: str
    """Why there is no placement; "" when there is."""
    other_devices: bool = False
    """It was kept with another device table than that of the plan, and is solved for that one."""
    is_step: bool = False
    """Whether it is a step of the history that was measured."""
    ready_made: bool = False
    """Whether it is a rule of another tool, a policy, or a single device, and not a layout that was kept."""
    audited: Mapping[str, Any] | None = None
    """What an audit recorded: the device that was ``wanted``, ops ``removed``, and ``astray`` by reason."""

    @property
    def unsplit(self) -> bool:
        """Whether it is the whole model on one device."""
        return self.ready_made and "first" in self.settings.policy_options


class MeasuredStep(NamedTuple):
    """A step of the history of which a benchmark was kept."""

    plan: str
    """``Placement.fingerprint`` of what was measured"""
    decisions: Mapping[str, Any]


class LayoutList:
    """The layouts of a plan by name; each is solved when it is asked for."""

    def __init__(
        self,
        now: Placement,
        kept: Mapping[str, Mapping[str, Any]],
        solve: Solve,
        steps: Mapping[str, MeasuredStep] = MappingProxyType({}),
    ) -> None:
        """The present plan, then what was kept, steps that were measured, and what is ready-made.

        Args:
            now: the present plan.
            kept: name -> decisions. A kept layout has the devices that it was kept with, in the present order where they are
                the present ones.
            solve: solves decisions; it may remember them.
            steps: name -> a step of the history; those that are the plan of another layout, or lead elsewhere by now, are none.
        """
        self._now, self._solve = now, solve
        self._entries = [dict(d.entry) for d in now.devices]
        self._same = sorted(map(identity, now.devices))
        self._kept = dict(kept)
        self._steps = {name: step for name, step in steps.items() if name not in kept}
        asked = {BY_OPENVINO: None} if hetero_devices(now.devices) else {}
        made: dict[str, Settings | None] = {**asked, **ready_made_settings(now)}
        self._ready_made = {name: made[name] for name in made if name not in kept}
        """None: OpenVINO is asked for the settings"""

    def get(self, name: str) -> Layout | None:
        """One of them; None where there is none of that name."""
        if name == PRESENT:
            return Layout(PRESENT, self._now.settings, self._now, "")
        if name in self._kept:
            return self._of(name, self._kept[name])
        if name in self._steps:
            return replace(self._of(name, self._steps[name].decisions), is_step=True)
        if name in self._ready_made:
            return replace(self._of_ready_made(name), ready_made=True)
        return None

    def all(self, progress: Progress | None = None) -> list[Layout]:
        """All of them, the present plan first."""
        names = [PRESENT, *self._kept, *self._ready_made, *self._steps]
        found = []
        for number, name in enumerate(names):
            if progress:
                progress(number, len(names), name)
            found.append(self.get(name))
        layouts = [layout for layout in found if layout is not None]
        first = {
            each.placement.fingerprint: each.name
            for each in reversed(layouts)
            if each.placement is not None
        }
        return [each for each in layouts if not each.is_step or self._tells(each, first)]

    def _tells(self, step: Layout, first: Mapping[str, str]) -> bool:
        """Whether a step is still the plan that was measured, and no layout before it is the same plan."""
        plan = self._steps[step.name].plan
        return first.get(plan) == step.name

    def _of_ready_made(self, name: str) -> Layout:
        try:
            settings = self._ready_made[name] or settings_of_hetero(self._now)
        except EditorError as error:
            return Layout(name, Settings(), None, str(error).splitlines()[0])
        return self._of(name, first_decisions(settings, self._entries))

    def _of(self, name: str, decisions: Mapping[str, Any]) -> Layout:
        settings = settings_of(decisions)
        other = sorted(map(identity, load_devices(decisions["devices"]))) != self._same
        try:
            placement = self._solve(decisions if other else {**decisions, "devices": self._entries})
        except EditorError as error:
            return Layout(name, settings, None, str(error).splitlines()[0], other)
        return Layout(name, settings, placement, "", other, audited=decisions.get(AUDITED))


def ready_made(now: Placement, names: Sequence[str] | None = None) -> list[Layout]:
    """What OpenVINO says, and what other tools, the policies and single devices would do; all, or those of some names."""

    def solved(decisions: Mapping[str, Any]) -> Placement:
        return solve(now.graph, now.devices, settings_of(decisions), now.constraints.capabilities)

    layouts = LayoutList(now, {}, solved)
    if names is None:
        return layouts.all()[1:]
    found = [layouts.get(name) for name in names]
    return [layout for layout in found if layout is not None]


def of_other_tools(now: Placement) -> list[Layout]:
    """What other tools would do. OpenVINO is asked where the plan has its devices, and its rule is followed elsewhere."""
    asked = ready_made(now, [BY_OPENVINO])
    if asked and asked[0].placement is not None:
        return asked + ready_made(now, OF_OTHER_TOOLS[1:])
    return ready_made(now, OF_OTHER_TOOLS)


def ready_made_settings(now: Placement) -> dict[str, Settings]:
    """Layout name -> settings of what other tools, the policies and single devices would do.

    With the costs of the plan: estimates where those were chosen, else measured ones where profiles exist.
    """
    source = source_of_figures(now.graph, now.devices, now.settings)
    within = WITHIN_MEMORY if any(d.memory is not None for d in now.devices) else {}
    energy = LEAST_ENERGY if all(d.power is not None for d in now.devices) else {}
    made = READY_MADE | within | energy | on_one_device(now)
    return {name: _with_costs(settings, source) for name, settings in made.items()}


def _with_costs(settings: Settings, source: str) -> Settings:
    if settings.policy == "priority" or source == "estimate":
        return settings
    return replace(settings, policy_options={**settings.policy_options, "costs": source})


def reasons_of_difference(here: Placement, there: Placement) -> list[tuple[str, list[int]]]:
    """Why ops are on another device than in a layout of a tool that takes the first device that can run an op.

    Returns:
        each reason in words, with its ops; the most common first.
    """
    constraints = here.constraints
    index = {device.name: i for i, device in enumerate(here.devices)}
    reasons: dict[str, list[int]] = {}
    for op in differing(here, there):
        own = here.devices[here.assignment.device[op]].name
        other = there.devices[there.assignment.device[op]].name
        if here.graph.op_keys[op] in constraints.pins:
            why = "pinned"
        elif other not in index:
            why = f"this plan has no {other}"
        elif refused := constraints.reason(op, index[other]):
            why = refused if refused.startswith(f"{other}: ") else f"{other}: {refused}"
        else:
            why = f"{other} can run it; {own} is the choice of the policy {here.settings.policy}"
        reasons.setdefault(f"on {own}, there on {other}: {why}", []).append(op)
    return sorted(reasons.items(), key=lambda entry: -len(entry[1]))


def figures(placement: Placement, costs: Costs) -> dict[str, Any]:
    """Figures of a layout: seconds by the given costs, bytes, counts.

    ``busiest`` is the load of the busiest processor, the least time between two requests. ``joules`` is None where the watts
    of a device are not stated.
    """
    division, joules = placement.division, joules_of(placement, costs)
    return {
        "unknown": division.unknown_transfers,
        "busiest": placement.busiest_seconds(costs),
        "subgraphs": len(placement.subgraphs),
        "transfers": division.transfer_count,
        "moved": division.bytes_moved,
        "pins": len(placement.settings.pins),
        "ops": dict(placement.op_counts),
        "memory": placement.run_memory.peaks,
        "predicted": placement.price(costs).total,
        "assumed_speeds": assumed_speeds(placement, costs),
        "joules": sum(joules.values()) if len(joules) == len(placement.used_devices) else None,
    }


def differing(a: Placement, b: Placement) -> list[int]:
    """Ops that two layouts of one model assign to devices of different names; constants, pinned ones too, are none."""
    names = [np.array([d.name for d in each.devices])[each.assignment.device] for each in (a, b)]
    return np.flatnonzero(~a.graph.op_is_constant & (names[0] != names[1])).tolist()


def same_plan(a: Placement, b: Placement) -> bool:
    """Whether two layouts of one model have the same ops on the same devices, in the same subgraphs."""
    return not differing(a, b) and np.array_equal(
        a.division.subgraph_of_op, b.division.subgraph_of_op
    )


def tidy_name(text: str) -> str:
    """The name of a layout as it is stored; "" where nothing is left of it."""
    return " ".join(text.split())[:80]


def duplicate_layouts(layouts: Sequence[Layout]) -> dict[str, str]:
    """Name of a ready-made layout -> name of an earlier layout that is the same plan; not splitting comes before rules.

    Those with other devices, and those that were kept under a name of their own, are not duplicates.
    """
    first: dict[tuple[bytes, bytes], str] = {}
    twins: dict[str, str] = {}
    for layout in sorted(layouts, key=lambda each: each.ready_made and not each.unsplit):
        if layout.placement is None or layout.other_devices:
            continue
        placement = layout.placement
        key = (
            placement.assignment.device[placement.placed_ops].tobytes(),
            placement.division.subgraph_of_op.tobytes(),
        )
        if key in first and layout.ready_made:
            twins[layout.name] = first[key]
        first.setdefault(key, layout.name)
    return twins
