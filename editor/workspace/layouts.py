"""Layouts: named sets of decisions for comparison, ready-made or stored by the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from editor.devices.device import Device
from editor.errors import EditorError
from editor.placement.costs import Costs
from editor.placement.device_profile import best_source
from editor.placement.placement import Placement, Settings, solve
from editor.placement.throughput import busiest_seconds
from editor.runtimes.base import Capability

READY_MADE: dict[str, Settings] = {
    "as OpenVINO would": Settings("priority", subgraphs="connected"),
    "as Glow would": Settings("priority", subgraphs="levels"),
    "as ONNX Runtime would": Settings("priority", subgraphs="connected"),
    "least latency": Settings("optimal", {"objective": "latency"}),
    "best throughput": Settings("optimal", {"objective": "throughput"}),
}
"""Layout name -> settings, without pins: the rules of other tools, and the policies of the editor."""
WITHIN_MEMORY: dict[str, Settings] = {"least latency within memory": Settings("memory")}
"""The same, where a device has a limit."""

COST_POLICIES = frozenset({"optimal", "memory", "pipeline"})
"""Policies that decide by costs."""


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
    ready_made: bool = False
    """Nobody kept it under this name: it is a rule of another tool, a policy, or a single device."""


def ready_made(now: Placement) -> list[Layout]:
    """What other tools, the policies and single devices would do, with the costs of the plan: estimates where those were
    chosen, else measured ones where profiles exist."""
    source = "estimate" if chosen_costs(now.settings) == "estimate" else best_source(now.graph, now.devices)
    within = WITHIN_MEMORY if any(d.memory is not None for d in now.devices) else {}
    made = READY_MADE | within | _on_one_device(now)
    return [replace(layout_of(name, _with_costs(settings, source), now), ready_made=True) for name, settings in made.items()]


def _on_one_device(now: Placement) -> dict[str, Settings]:
    """The whole model on each device that can run it, which is what a split has to beat.

    Not on those that are much slower than their hardware: beside them all others look alike.
    """
    if len(now.devices) == 1:
        return {}
    able = now.constraints.able[~now.graph.op_is_constant]
    return {f"all on {device.name}": Settings("priority", {"first": device.name})
            for d, device in enumerate(now.devices) if able[:, d].all() and device.slowdown <= 1}


def chosen_costs(settings: Settings) -> str:
    """The costs that were chosen, or that a policy decides by; "" where neither is."""
    return str(settings.policy_options.get("costs", "estimate" if settings.policy in COST_POLICIES else ""))


def _with_costs(settings: Settings, source: str) -> Settings:
    if settings.policy == "priority" or source == "estimate":
        return settings
    return replace(settings, policy_options={**settings.policy_options, "costs": source})


def figures(placement: Placement, costs: Costs) -> dict[str, Any]:
    """Figures of a layout: seconds by the given costs, bytes, counts.

    ``busiest`` is the load of the busiest processor, the least time between two requests.
    """
    division = placement.division
    return {"unknown": division.unknown_transfers, "busiest": busiest_seconds(placement, costs),
            "subgraphs": len(placement.subgraphs), "transfers": sum(len(b.to_devices) for b in division.boundaries),
            "moved": division.bytes_moved, "pins": len(placement.settings.pins), "ops": dict(placement.op_counts),
            "memory": placement.run_memory.peaks,
            "predicted": placement.price(costs).total}


def differing(a: Placement, b: Placement) -> list[int]:
    """Ops that two layouts of one model assign to devices of different names."""
    names = [np.array([d.name for d in each.devices])[each.assignment.device] for each in (a, b)]
    return np.flatnonzero(a.constraints.placed & (names[0] != names[1])).tolist()


def tidy_name(text: str) -> str:
    """The name of a layout as it is stored; "" where nothing is left of it."""
    return " ".join(text.split())[:80]


def twins_of(layouts: Sequence[Layout]) -> dict[str, str]:
    """Name of a ready-made layout -> name of an earlier layout that is the same plan.

    Those with other devices, and those that were kept under a name of their own, are nobody's twin.
    """
    first: dict[tuple[bytes, bytes], str] = {}
    twins: dict[str, str] = {}
    for layout in layouts:
        if layout.placement is None or layout.other_devices:
            continue
        placement = layout.placement
        key = (placement.assignment.device[placement.placed_ops].tobytes(), placement.division.subgraph_of_op.tobytes())
        if key in first and layout.ready_made:
            twins[layout.name] = first[key]
        first.setdefault(key, layout.name)
    return twins


def layout_of(name: str, settings: Settings, now: Placement, devices: Sequence[Device] | None = None,
              answers: Sequence[Capability] | None = None) -> Layout:
    """Decisions solved for the devices of a placement, or for others and what those can run."""
    other = devices is not None
    try:
        if devices is None:
            devices, answers = now.devices, now.constraints.capabilities
        return Layout(name, settings, solve(now.graph, devices, settings, answers), "", other)
    except EditorError as error:
        return Layout(name, settings, None, str(error).splitlines()[0], other)
