"""The requests that a placement can finish: by the load of its busiest processor, and by those in flight."""

from __future__ import annotations

from editor.placement.costs import Costs
from editor.placement.placement import Placement, Settings


def aims_at_throughput(settings: Settings) -> bool:
    """Whether a policy decides by the busiest device, and not by the time of one run."""
    return settings.policy == "pipeline" or (
        settings.policy == "optimal" and settings.policy_options.get("objective") == "throughput")


def predicted_rate(placement: Placement, costs: Costs, in_flight: int) -> float:
    """Requests per second with ``in_flight`` of them at the same time; 0 for a plan that takes no time.

    The busiest processor is never idle, or each request takes as long as alone, whichever is slower (Little, 1961).
    """
    alone = placement.price(costs).total
    between = max(placement.busiest_seconds(costs), alone / in_flight)
    return 1 / between if between else 0.0
