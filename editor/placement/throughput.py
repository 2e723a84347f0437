"""The requests that a placement can finish: by the load of its busiest processor, and by those in flight."""

from __future__ import annotations

from editor.placement.costs import Costs, processors
from editor.placement.placement import Placement, Settings
from editor.placement.policies.problem import Problem, busiest_load


def aims_at_throughput(settings: Settings) -> bool:
    """Whether a policy decides by the busiest device, and not by the time of one run."""
    return settings.policy == "pipeline" or (
        settings.policy == "optimal" and settings.policy_options.get("objective") == "throughput")


def busiest_seconds(placement: Placement, costs: Costs) -> float:
    """Load of the busiest processor in one run, with transfers and launches: the least time between two requests.

    No processor is busy for longer than a whole run, which a profile may have measured to be faster than the sum of its ops.
    """
    placed = placement.placed_ops
    problem = Problem.of(placement.graph, costs, placement.constraints.allowed, placed, processor=processors(placement.devices))
    busiest = busiest_load(placement.graph, costs, problem, placement.assignment.device, placed)
    return min(busiest, placement.price(costs).total)


def predicted_rate(placement: Placement, costs: Costs, in_flight: int) -> float:
    """Requests per second with ``in_flight`` of them at the same time; 0 for a plan that takes no time.

    The busiest processor is never idle, or each request takes as long as alone, whichever is slower (Little, 1961).
    """
    alone = placement.price(costs).total
    between = max(busiest_seconds(placement, costs), alone / in_flight)
    return 1 / between if between else 0.0
