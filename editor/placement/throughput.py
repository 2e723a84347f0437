"""The most requests that a placement can finish: the load of its busiest processor."""

from __future__ import annotations

from editor.placement.costs import Costs, processors
from editor.placement.placement import Placement, Settings
from editor.placement.policies.problem import Problem


def aims_at_throughput(settings: Settings) -> bool:
    """Whether a policy decides by the busiest device, and not by the time of one run."""
    return settings.policy == "pipeline" or (
        settings.policy == "optimal" and settings.policy_options.get("objective") == "throughput")


def busiest_seconds(placement: Placement, costs: Costs) -> float:
    """Load of the busiest processor in one run, transfers included: the least time between two requests."""
    placed = placement.placed_ops
    problem = Problem.of(placement.graph, costs, placement.constraints.allowed, placed, processor=processors(placement.devices))
    return float(problem.busy(placement.assignment.device[placed]).max(initial=0.0))
