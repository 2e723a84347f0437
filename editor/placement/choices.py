"""The registry of policies, their options and the rules of subgraphs: one entry for each.

The command line, the page, the docs and the solver read it. It names functions instead of importing them, so that
`--help` loads no implementation. A new policy is a module and an entry here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PolicyEntry:
    """A policy of the automatic mode."""

    name: str
    home: str
    """``module:function`` below ``editor.placement.policies``; the function maps a ``Task`` to an ``Assignment``."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Objective, or "" for a policy without one -> label in the page."""
    by_costs: bool = False
    """Whether it decides by costs, so that a profile changes its decisions."""

    @property
    def choices(self) -> dict[str, str]:
        """Value in the page (``optimal:latency``) -> label."""
        return {
            f"{self.name}:{key}" if key else self.name: label for key, label in self.labels.items()
        }


POLICIES = (
    PolicyEntry("priority", "task:priority", {"": "Priority: first capable device"}),
    # Rules apply under every policy; `rules` places the remaining ops by `priority`.
    PolicyEntry("rules", "task:priority"),
    PolicyEntry(
        "optimal",
        "optimal:optimal",
        {"latency": "Optimal: least latency", "throughput": "Optimal: throughput"},
        by_costs=True,
    ),
    PolicyEntry("memory", "memory:memory", {"": "Optimal within memory"}, by_costs=True),
    PolicyEntry("pipeline", "pipeline:pipeline", {"": "Pipeline: one stage each"}, by_costs=True),
)
POLICY_NAMES = tuple(sorted(entry.name for entry in POLICIES))
COST_POLICIES = frozenset(entry.name for entry in POLICIES if entry.by_costs)
OBJECTIVES = ("latency", "throughput")
"""Objectives of policy ``optimal``."""
COST_SOURCES = ("estimate", "measured")
CODEGEN_CHOICES = ("op", "subgraph")
"""Whether the codegen of a device and unit is chosen per op or per subgraph."""
OPTIONS: Mapping[str, str] = {
    "objective": "what `optimal` minimises: latency or throughput",
    "costs": "estimate, or measured: by a profile",
    "codegen": "op, or subgraph: one code generator for each subgraph",
    "first": "the device that `priority` prefers",
    "search": "seconds that `optimal` and `memory` may search; default: 0.5",
}
"""Options of all policies, with what they do; a policy ignores those of the others, so they survive a change of policy."""
SUBGRAPH_RULES: Mapping[str, str] = {
    "connected": "connected:connected",
    "levels": "grouping:levels",
    "minimal": "minimal:minimal",
}
"""Rule that forms subgraphs -> ``module:function`` below ``editor.placement.subgraphs``."""
PRESENT = "this plan"
"""Name of the present plan among others that it is compared with."""
