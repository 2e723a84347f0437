"""Which costs the figures of a plan come from: those that were chosen, else the best that are known."""

from __future__ import annotations

from collections.abc import Sequence

from editor.devices.device import Device
from editor.graph.graph import Graph
from editor.kinds import Basis
from editor.placement.costs import Costs
from editor.placement.device_profile import basis_of, best_source, costs_of
from editor.placement.placement import Placement, Settings

COST_POLICIES = frozenset({"optimal", "memory", "pipeline"})
"""Policies that decide by costs."""


def chosen_costs(settings: Settings) -> str:
    """The costs that were chosen, or that a policy decides by; "" where neither is."""
    return str(settings.policy_options.get("costs", "estimate" if settings.policy in COST_POLICIES else ""))


def source_of_figures(graph: Graph, devices: Sequence[Device], settings: Settings) -> str:
    """``measured`` (by profiles) or ``estimate``, on the page, in reports and on the command line alike.

    Only what ran is compared with the best costs that are known (`editor.execution.measure.prediction`).
    """
    return "estimate" if chosen_costs(settings) == "estimate" else best_source(graph, devices)


def costs_of_plan(placement: Placement) -> tuple[Costs, Basis]:
    """Costs of a plan's figures; and what to call these, with which devices that it does not use have nothing to do."""
    source = source_of_figures(placement.graph, placement.devices, placement.settings)
    costs = costs_of(placement.graph, placement.devices, source)
    return costs, basis_of(costs, source, placement.used_numbers)
