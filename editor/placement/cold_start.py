"""What a subgraph takes longer because other devices ran before it.

Meanwhile its weights and values have left the caches, and its runtime's threads sleep. Ops run slower until both are back:
for as long as the subgraph takes, or for as long as others displaced, whichever is less, and with less and less effect. So
two large subgraphs lose as much as two middle-sized ones, and a subgraph beside a few foreign ops loses next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from editor.graph.flops import Floats
from editor.graph.graph import Ints

_ROUNDING = 1e-9
"""Share of a run: what is less is no time but the rounding of sums."""


@dataclass(frozen=True)
class ColdStart:
    """Of a device."""

    most: float = 0.0
    """Seconds that a subgraph takes longer at most"""
    constant: float = 1e-3
    """Seconds of ops after which all but 1/e of that is reached"""

    def seconds(self, ops: Floats, gap: Floats) -> Floats:
        """[subgraph] seconds that it takes longer; ``ops`` and ``gap`` are [subgraph] seconds (see `gaps`)."""
        lost: Floats = self.most * -np.expm1(-np.minimum(ops, gap) / self.constant)
        return lost


def gaps(device: Ints, seconds: Floats) -> Floats:
    """[subgraph] seconds that ops of others ran since the last subgraph of its device; runs follow each other.

    Args:
        device: [subgraph] device, in the order in which they run.
        seconds: [subgraph] what its ops take.
    """
    end = np.cumsum(seconds)
    found = np.zeros(len(device))
    for d in np.unique(device):
        mine = np.flatnonzero(device == d)
        before = np.roll(end[mine], 1)
        before[0] -= end[-1]  # in the run before
        found[mine] = np.maximum(end[mine] - seconds[mine] - before, 0.0)
    found[found < _ROUNDING * end[-1:].sum()] = 0.0  # of the sums; a fit would divide by it
    return found
