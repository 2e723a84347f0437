"""What every rule that forms subgraphs has in common.

A group of ops is a subgraph; the graph of subgraphs must be acyclic, else no order of execution
exists. Groups are numbered in such an order.
"""

from __future__ import annotations

from collections.abc import Callable

from editor.graph.graph import Graph, Ints

UNPLACED = -1
"""Group of an op without a place of its own (a constant)."""

Grouping = Callable[[Graph, Ints, Ints], Ints]
"""(graph, [op] device, placed ops) -> [op] number of the subgraph, in an order of execution."""
