"""Connected subgraphs: OpenVINO's rule, without its splits that nothing asks for.

Ops of one device that are joined by an edge, or that read the same graph input or weight, belong
together unless that would close a circle in the graph of subgraphs. Two ways lead there, and the one with
fewer subgraphs wins.

From above, as OpenVINO does it: start with whole components, and cut where an op is fed by what left its
own component and came back. From below: an op's level counts the changes of device on the way to it, and
components of equal device and level can never form a circle, because every edge between two of them raises
the level. In both, neighbours are then merged wherever no second path leads from one to the other.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from editor.graph.graph import Graph, Ints, TensorKind
from editor.placement.subgraphs.grouping import UNPLACED

_SEARCH_LIMIT = 64
"""Parts visited when looking for a second path; beyond, the two parts stay apart."""
_MOST_BITS = 1 << 18
"""Ops times boundaries above which cutting from above is too dear."""
_MOST_ROUNDS = 40


def connected(graph: Graph, device: Ints, placed: Ints) -> Ints:
    """Weakly connected subgraphs, as OpenVINO's HETERO forms them, but never more than needed for order.

    Returns:
        [op] number of the subgraph in an order of execution; ``UNPLACED`` for the other ops.
    """
    part = np.full(len(graph), UNPLACED, np.int64)
    if not len(placed):
        return part
    network = _Network(graph, device, placed)
    found = [groups for groups in (network.from_above(), network.groups(False), network.groups(True)) if groups]
    best = min(found, key=lambda g: len(set(g[:network.ops])))
    ranks = _ranks(network, best)
    assert len(ranks) == len(set(best[:network.ops])), "the graph of subgraphs has a circle"
    for node in range(network.ops):
        part[network.op_of[node]] = ranks[best[node]]
    return part


class _Network:
    """Placed ops, and as further nodes the sources that several ops of one device share."""

    def __init__(self, graph: Graph, device: Ints, placed: Ints) -> None:
        here = np.zeros(len(graph), bool)
        here[placed] = True
        self.op_of = [op for op in graph.order.tolist() if here[op]]
        self.ops = len(self.op_of)
        node = {op: i for i, op in enumerate(self.op_of)}
        self.device: list[int] = [int(device[op]) for op in self.op_of]
        self.before: list[list[int]] = [[node[p] for p in graph.predecessors[op].tolist() if here[p]]
                                        for op in self.op_of]
        for readers in self._shared_sources(graph, node):
            # OpenVINO gives a source the device of its first consumer; other devices read it without a boundary.
            home = self.device[readers[0]]
            same = [r for r in readers if self.device[r] == home]
            if same:
                self.device.append(home)
                self.before.append([])
                for reader in same:
                    self.before[reader].append(len(self.device) - 1)
        self.after: list[list[int]] = [[] for _ in self.device]
        for v, before in enumerate(self.before):
            for u in before:
                self.after[u].append(v)
        self.order = [*range(self.ops, len(self.device)), *range(self.ops)]

    def _shared_sources(self, graph: Graph, node: dict[int, int]) -> Iterable[list[int]]:
        made = graph.tensor_producer
        for tensor in range(len(graph.tensor_names)):
            source = made[tensor] < 0 or int(made[tensor]) not in node
            if source:
                readers = sorted(node[r] for r in graph.readers[tensor].tolist() if r in node)
                if len(readers) > 1 or (readers and graph.tensor_kind[tensor] == TensorKind.INPUT):
                    yield readers

    def from_above(self) -> list[int]:
        """A group number for each node, by cutting whole components; empty when that is too dear or finds no end."""
        boundary = {(u, v) for v, before in enumerate(self.before) for u in before if self.device[u] != self.device[v]}
        for _ in range(_MOST_ROUNDS):
            if len(boundary) * len(self.device) > _MOST_BITS:
                return []
            groups = _Groups(len(self.device))
            for v, before in enumerate(self.before):
                for u in before:
                    if (u, v) not in boundary:
                        groups.join(u, v)
            cuts = self._feedback_cuts(groups, boundary)
            if not cuts:
                part = [groups.find(v) for v in range(len(self.device))]
                ranks = _ranks(self, part)
                cuts = self._peel(part, boundary, ranks)
                if not cuts:
                    if len(ranks) < len(set(part[:self.ops])):
                        return []
                    self._merge(groups)
                    return [groups.find(v) for v in range(len(self.device))]
            boundary |= cuts
        return []

    def _peel(self, part: list[int], boundary: set[tuple[int, int]], ranks: dict[int, int]) -> set[tuple[int, int]]:
        """Cuts off the first op that other components of a circle feed; nothing when there is no circle."""
        stuck = set(part[:self.ops]) - ranks.keys()
        for v in range(self.ops) if stuck else ():
            near = self.before[v]
            if part[v] in stuck and any(part[u] in stuck and part[u] != part[v] for u in near):
                cuts = {(u, v) for u in near if part[u] == part[v] and (u, v) not in boundary}
                if cuts:
                    return cuts
        return set()

    def _feedback_cuts(self, groups: _Groups, boundary: set[tuple[int, int]]) -> set[tuple[int, int]]:
        """Edges inside a component that join what its feedback needs with what the feedback reaches.

        Sets of entries are integers, one bit each: an entry is a boundary edge, or a source by itself.
        """
        part = [groups.find(v) for v in range(len(self.device))]
        entries: list[tuple[int, int]] = [(v, v) for v in range(self.ops, len(self.device))] + sorted(boundary)
        bit = {entry: 1 << i for i, entry in enumerate(entries)}
        into: dict[int, int] = {}
        out_of: dict[int, int] = {}
        for (u, v), flag in bit.items():
            into[part[v]] = into.get(part[v], 0) | flag
            if u != v:
                out_of[part[u]] = out_of.get(part[u], 0) | flag
        above = [0] * len(self.device)
        for v in self.order:
            above[v] = bit.get((v, v), 0)
            for u in self.before[v]:
                above[v] |= above[u] | bit.get((u, v), 0)
        own = [above[v] & into.get(part[v], 0) for v in range(len(above))]
        feedback = [above[v] & out_of.get(part[v], 0) for v in range(len(above))]
        cuts: set[tuple[int, int]] = set()
        for v in self.order:
            if not feedback[v]:
                continue
            needs = 0
            for i in _bits(feedback[v]):
                needs |= own[entries[i][0]]
            for i in _bits(own[v]):
                u, w = entries[i]
                if u != w:  # where the feedback comes in again
                    needs |= own[w]
            cuts |= {(u, v) for u in self.before[v]
                     if (u, v) not in bit and not feedback[u] & feedback[v] and own[u] & needs}
        return cuts

    def groups(self, backward: bool) -> list[int]:
        """A group number for each node; levels are counted from the outputs when ``backward``."""
        level = self._levels(backward)
        groups = _Groups(len(self.device))
        for v, before in enumerate(self.before):
            for u in before:
                if self.device[u] == self.device[v] and level[u] == level[v]:
                    groups.join(u, v)
        self._merge(groups)
        return [groups.find(v) for v in range(len(self.device))]

    def _levels(self, backward: bool) -> list[int]:
        level = [0] * len(self.device)
        near = self.after if backward else self.before
        for v in reversed(self.order) if backward else self.order:
            level[v] = max((level[u] + (self.device[u] != self.device[v]) for u in near[v]), default=0)
        if not backward:  # a shared source goes as far down as its consumers allow
            for v in range(self.ops, len(self.device)):
                level[v] = min(level[t] for t in self.after[v])
        return level

    def _merge(self, groups: _Groups) -> None:
        """Joins parts of one device along edges where that closes no circle."""
        after: list[set[int]] = [set() for _ in self.device]
        for v, before in enumerate(self.before):
            for u in before:
                a, b = groups.find(u), groups.find(v)
                if a != b:
                    after[a].add(b)
        for v in self.order:
            for u in self.before[v]:
                a, b = groups.find(u), groups.find(v)
                if a != b and self.device[a] == self.device[b] and not _second_path(after, groups, a, b):
                    kept = groups.join(a, b)
                    after[kept] = {groups.find(t) for t in after[a] | after[b]} - {kept}


def _second_path(after: list[set[int]], groups: _Groups, start: int, end: int) -> bool:
    """Whether a path other than the direct edge leads from one part to another (or the search was given up)."""
    stack = [groups.find(t) for t in after[start] if groups.find(t) not in (end, start)]
    seen = set(stack)
    while stack:
        here = stack.pop()
        for t in after[here]:
            near = groups.find(t)
            if near == end:
                return True
            if near not in seen:
                seen.add(near)
                if len(seen) > _SEARCH_LIMIT:
                    return True
                stack.append(near)
    return False


def _bits(flags: int) -> Iterable[int]:
    """Numbers of the bits that are set."""
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
        """Makes one group of two; returns its representative."""
        a, b = self.find(a), self.find(b)
        self.parent[max(a, b)] = min(a, b)
        return min(a, b)


def _ranks(network: _Network, group: list[int]) -> dict[int, int]:
    """Numbers the groups that hold ops in a topological order; those on or behind a circle get no number."""
    real = set(group[:network.ops])
    after: dict[int, set[int]] = {g: set() for g in real}
    waiting = dict.fromkeys(real, 0)
    for v in range(network.ops):
        for u in network.before[v]:
            a, b = group[u], group[v]
            if u < network.ops and a != b and b not in after[a]:
                after[a].add(b)
                waiting[b] += 1
    first = {}
    for v in range(network.ops - 1, -1, -1):
        first[group[v]] = v
    ready = sorted((g for g in real if not waiting[g]), key=lambda g: -first[g])
    ranks: dict[int, int] = {}
    while ready:
        here = ready.pop()
        ranks[here] = len(ranks)
        for t in sorted(after[here], key=lambda g: -first[g]):
            waiting[t] -= 1
            if not waiting[t]:
                ready.append(t)
    return ranks
