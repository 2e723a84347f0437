"""Names that a person chooses from, without what they stand for: whoever only lists them imports nothing else."""

from __future__ import annotations

POLICY_NAMES = ("memory", "optimal", "pipeline", "priority", "rules")
OBJECTIVES = ("latency", "throughput")
"""Of policy ``optimal``."""
COST_SOURCES = ("estimate", "measured")
CODEGEN_CHOICES = ("op", "subgraph")
"""Whether entries of one device and unit are chosen per op or once per subgraph."""
SUBGRAPH_RULES = ("connected", "levels", "minimal")
