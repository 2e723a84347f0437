"""Rule ``connected``: OpenVINO's weakly connected subgraphs, without its unnecessary splits.

Ops of one device that an edge joins, or that read the same graph input or weight, share a subgraph
unless that would close a cycle in the graph of subgraphs. Two algorithms run, and the one with fewer
subgraphs wins.

Top down, as OpenVINO does: start with the weakly connected components, and cut where a path leaves a
component and re-enters it. Bottom up: an op's level counts the device changes on the way to it; components
of equal device and level cannot form a cycle, because every edge between two of them raises the level.
Both then merge neighbours unless a second path joins them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from editor.graph.graph import Graph, Ints, TensorKind, mask_of
from editor.placement.subgraphs.minimal import UNPLACED

_SEARCH_LIMIT = 64
"""Groups visited when looking for a second path; beyond, the two groups are not merged."""
_MOST_BITS = 1 << 18
"""Ops times boundary edges above which the top-down algorithm takes too long."""
_MOST_ROUNDS = 40


def connected(graph: Graph, device: Ints, placed: Ints) -> Ints:
    """Weakly connected subgraphs as OpenVINO's HETERO forms them, split only where a cycle requires it.

    Returns:
        [op] number of the subgraph, in topological order; ``UNPLACED`` for the other ops.
    """
    subgraph_of_op = np.full(len(graph), UNPLACED, np.int64)
    if not len(placed):
        return subgraph_of_op
    network = _Network(graph, device, placed)
    results = [
        groups
        for groups in (network.top_down(), network.bottom_up(False), network.bottom_up(True))
        if groups
    ]
    best = min(results, key=lambda g: len(set(g[: network.ops])))
    ranks = _topological_numbers(network, best)
    assert len(ranks) == len(set(best[: network.ops])), "the graph of subgraphs has a cycle"
    for node in range(network.ops):
        subgraph_of_op[network.op_of[node]] = ranks[best[node]]
    return subgraph_of_op


class _Network:
    """Placed ops as nodes; graph inputs and weights that several ops of one device read are further nodes."""

    def __init__(self, graph: Graph, device: Ints, placed: Ints) -> None:
        is_placed = mask_of(len(graph), placed)
        self.op_of = [op for op in graph.order.tolist() if is_placed[op]]
        self.ops = len(self.op_of)
        node = {op: i for i, op in enumerate(self.op_of)}
        self.device: list[int] = [int(device[op]) for op in self.op_of]
        self.predecessors: list[list[int]] = [
            [node[p] for p in graph.predecessors[op].tolist() if is_placed[p]] for op in self.op_of
        ]
        for readers in self._shared_sources(graph, node):
            # OpenVINO gives a source the device of its first consumer; other devices read it without a boundary.
            source_device = self.device[readers[0]]
            same = [r for r in readers if self.device[r] == source_device]
            if same:
                self.device.append(source_device)
                self.predecessors.append([])
                for reader in same:
                    self.predecessors[reader].append(len(self.device) - 1)
        self.successors: list[list[int]] = [[] for _ in self.device]
        for v, sources in enumerate(self.predecessors):
            for u in sources:
                self.successors[u].append(v)
        self.order = [*range(self.ops, len(self.device)), *range(self.ops)]

    def _shared_sources(self, graph: Graph, node: dict[int, int]) -> Iterable[list[int]]:
        producer = graph.tensor_producer
        for tensor in range(len(graph.tensor_names)):
            if producer[tensor] < 0 or int(producer[tensor]) not in node:
                readers = sorted(node[r] for r in graph.readers[tensor].tolist() if r in node)
                if len(readers) > 1 or (readers and graph.tensor_kind[tensor] == TensorKind.INPUT):
                    yield readers

    def top_down(self) -> list[int]:
        """[node] group, by cutting components; empty when that takes too long or does not converge."""
        boundary = {
            (u, v)
            for v, sources in enumerate(self.predecessors)
            for u in sources
            if self.device[u] != self.device[v]
        }
        for _ in range(_MOST_ROUNDS):
            if len(boundary) * len(self.device) > _MOST_BITS:
                return []
            groups = _Groups(len(self.device))
            for v, sources in enumerate(self.predecessors):
                for u in sources:
                    if (u, v) not in boundary:
                        groups.join(u, v)
            cuts = self._feedback_cuts(groups, boundary)
            if not cuts:
                group = [groups.find(v) for v in range(len(self.device))]
                ranks = _topological_numbers(self, group)
                cuts = self._peel(group, boundary, ranks)
                if not cuts:
                    if len(ranks) < len(set(group[: self.ops])):
                        return []
                    self._merge(groups)
                    return [groups.find(v) for v in range(len(self.device))]
            boundary |= cuts
        return []

    def _peel(
        self, group: list[int], boundary: set[tuple[int, int]], ranks: dict[int, int]
    ) -> set[tuple[int, int]]:
        """Edges that cut off the first op with an input from another component of a cycle; none without a cycle."""
        cyclic = set(group[: self.ops]) - ranks.keys()
        for v in range(self.ops) if cyclic else ():
            predecessors = self.predecessors[v]
            if group[v] in cyclic and any(
                group[u] in cyclic and group[u] != group[v] for u in predecessors
            ):
                cuts = {
                    (u, v) for u in predecessors if group[u] == group[v] and (u, v) not in boundary
                }
                if cuts:
                    return cuts
        return set()

    def _feedback_cuts(
        self, groups: _Groups, boundary: set[tuple[int, int]]
    ) -> set[tuple[int, int]]:
        """Edges inside a component to cut where a path that left the component re-enters it (feedback).

        Sets of entries are integers with one bit per entry: a boundary edge, or a shared source.
        """
        group = [groups.find(v) for v in range(len(self.device))]
        entries: list[tuple[int, int]] = [
            (v, v) for v in range(self.ops, len(self.device))
        ] + sorted(boundary)
        bit = {entry: 1 << i for i, entry in enumerate(entries)}
        into: dict[int, int] = {}
        out_of: dict[int, int] = {}
        for (u, v), flag in bit.items():
            into[group[v]] = into.get(group[v], 0) | flag
            if u != v:
                out_of[group[u]] = out_of.get(group[u], 0) | flag
        upstream = [0] * len(self.device)
        for v in self.order:
            upstream[v] = bit.get((v, v), 0)
            for u in self.predecessors[v]:
                upstream[v] |= upstream[u] | bit.get((u, v), 0)
        own = [upstream[v] & into.get(group[v], 0) for v in range(len(upstream))]
        feedback = [upstream[v] & out_of.get(group[v], 0) for v in range(len(upstream))]
        cuts: set[tuple[int, int]] = set()
        for v in self.order:
            if not feedback[v]:
                continue
            needs = 0
            for i in _bits(feedback[v]):
                needs |= own[entries[i][0]]
            for i in _bits(own[v]):
                u, w = entries[i]
                if u != w:  # the edge by which the feedback re-enters
                    needs |= own[w]
            cuts |= {
                (u, v)
                for u in self.predecessors[v]
                if (u, v) not in bit and not feedback[u] & feedback[v] and own[u] & needs
            }
        return cuts

    def bottom_up(self, backward: bool) -> list[int]:
        """[node] group, by levels; ``backward`` counts the levels from the outputs."""
        level = self._levels(backward)
        groups = _Groups(len(self.device))
        for v, sources in enumerate(self.predecessors):
            for u in sources:
                if self.device[u] == self.device[v] and level[u] == level[v]:
                    groups.join(u, v)
        self._merge(groups)
        return [groups.find(v) for v in range(len(self.device))]

    def _levels(self, backward: bool) -> list[int]:
        level = [0] * len(self.device)
        neighbours = self.successors if backward else self.predecessors
        for v in reversed(self.order) if backward else self.order:
            level[v] = max(
                (level[u] + (self.device[u] != self.device[v]) for u in neighbours[v]), default=0
            )
        if not backward:  # a shared source takes the lowest level of its consumers
            for v in range(self.ops, len(self.device)):
                level[v] = min(level[t] for t in self.successors[v])
        return level

    def _merge(self, groups: _Groups) -> None:
        """Merges groups of one device along edges where that closes no cycle."""
        after: list[set[int]] = [set() for _ in self.device]
        for v, sources in enumerate(self.predecessors):
            for u in sources:
                a, b = groups.find(u), groups.find(v)
                if a != b:
                    after[a].add(b)
        for v in self.order:
            for u in self.predecessors[v]:
                a, b = groups.find(u), groups.find(v)
                if (
                    a != b
                    and self.device[a] == self.device[b]
                    and not _second_path(after, groups, a, b)
                ):
                    kept = groups.join(a, b)
                    after[kept] = {groups.find(t) for t in after[a] | after[b]} - {kept}


def _second_path(after: list[set[int]], groups: _Groups, start: int, end: int) -> bool:
    """Whether a path other than the direct edge joins two groups; True when the search exceeds its limit."""
    stack = [groups.find(t) for t in after[start] if groups.find(t) not in (end, start)]
    seen = set(stack)
    while stack:
        for t in after[stack.pop()]:
            neighbour = groups.find(t)
            if neighbour == end:
                return True
            if neighbour not in seen:
                seen.add(neighbour)
                if len(seen) > _SEARCH_LIMIT:
                    return True
                stack.append(neighbour)
    return False


def _bits(flags: int) -> Iterable[int]:
    """Indices of the bits that are set."""
    while flags:
        low = flags & -flags
        yield low.bit_length() - 1
        flags ^= low


class _Groups:
    """Union-find with path halving."""

    def __init__(self, count: int) -> None:
        self.parent = list(range(count))

    def find(self, v: int) -> int:
        """The representative of a node's group."""
        parent = self.parent
        while parent[v] != v:
            parent[v] = parent[parent[v]]
            v = parent[v]
        return v

    def join(self, a: int, b: int) -> int:
        """Merges two groups; returns the representative."""
        a, b = self.find(a), self.find(b)
        self.parent[max(a, b)] = min(a, b)
        return min(a, b)


def _topological_numbers(network: _Network, group: list[int]) -> dict[int, int]:
    """Group -> topological number, for groups that contain ops; groups on or after a cycle have none."""
    with_ops = set(group[: network.ops])
    after: dict[int, set[int]] = {g: set() for g in with_ops}
    waiting = dict.fromkeys(with_ops, 0)
    for v in range(network.ops):
        for u in network.predecessors[v]:
            a, b = group[u], group[v]
            if u < network.ops and a != b and b not in after[a]:
                after[a].add(b)
                waiting[b] += 1
    first = {group[v]: v for v in range(network.ops - 1, -1, -1)}
    ready = sorted((g for g in with_ops if not waiting[g]), key=lambda g: -first[g])
    ranks: dict[int, int] = {}
    while ready:
        current = ready.pop()
        ranks[current] = len(ranks)
        for t in sorted(after[current], key=lambda g: -first[g]):
            waiting[t] -= 1
            if not waiting[t]:
                ready.append(t)
    return ranks
