"""Names of policies, objectives and rules to choose from; listing them imports no implementation."""

from __future__ import annotations

POLICY_NAMES = ("memory", "optimal", "pipeline", "priority", "rules")
OBJECTIVES = ("latency", "throughput")
"""Objectives of policy ``optimal``."""
COST_SOURCES = ("estimate", "measured")
CODEGEN_CHOICES = ("op", "subgraph")
"""Whether the codegen of a device and unit is chosen per op or per subgraph."""
PRESENT = "this plan"
"""Name of the present plan among others that it is compared with."""
SUBGRAPH_RULES = ("connected", "levels", "minimal")
