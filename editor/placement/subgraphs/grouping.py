"""The interface of the rules that form subgraphs.

The graph of subgraphs must be acyclic, else no order of execution exists. Subgraphs are numbered in
topological order.
"""

from __future__ import annotations

from collections.abc import Callable

from editor.graph.graph import Graph, Ints

UNPLACED = -1
"""Number for an op without a subgraph of its own: a constant, copied into each subgraph that reads it."""

Grouping = Callable[[Graph, Ints, Ints], Ints]
"""(graph, [op] device, placed ops) -> [op] number of the subgraph, in topological order."""
