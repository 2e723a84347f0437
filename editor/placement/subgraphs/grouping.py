"""What rules of subgraphs share, and the rule of Glow's levels."""

from __future__ import annotations

import numpy as np

from editor.graph.graph import Graph, Ints
from editor.groups import grouped

UNPLACED = -1
"""Number for an op without a subgraph of its own: a constant, copied into each subgraph that reads it."""


def levels(graph: Graph, device: Ints, placed: Ints) -> Ints:
    """Glow's rule (Glow ``lib/Partitioner``, ``selectPartitions`` over the breadth-first levels).

    The level of an op is its longest distance to an output. Levels are visited from the farthest to the
    nearest, and a new subgraph starts whenever the device changes; within a level the ops of the current
    device come first.
    """
    is_placed = np.zeros(len(graph), bool)
    is_placed[placed] = True
    distance = [0] * len(graph)
    for op in reversed(graph.order.tolist()):
        if is_placed[op]:
            distance[op] = max(
                (distance[s] + 1 for s in graph.successors[op].tolist() if is_placed[s]), default=0
            )
    by_level = grouped((distance[op], op) for op in graph.order.tolist() if is_placed[op])
    subgraph_of_op = np.full(len(graph), UNPLACED, np.int64)
    current, number = -1, -1
    for level in sorted(by_level, reverse=True):
        for op in sorted(by_level[level], key=lambda op: (device[op] != current, device[op])):
            if device[op] != current:
                current, number = int(device[op]), number + 1
            subgraph_of_op[op] = number
    return subgraph_of_op
