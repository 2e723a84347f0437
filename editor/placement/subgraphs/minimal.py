"""From affinities to subgraphs: which ops run as one unit.

A group of ops is a subgraph; the graph of subgraphs must be acyclic, else no order of execution
exists. Groups are numbered in such an order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from editor.errors import EditorError
from editor.graph.graph import Graph, Ints
from editor.placement.subgraphs.connected import connected_groups

UNPLACED = -1
"""Group of an op without a place of its own (a constant)."""

Grouping = Callable[[Graph, Ints, Ints], Ints]


def minimal(graph: Graph, device: Ints, placed: Ints) -> Ints:
    """Fewest subgraphs: ops of one device share a subgraph even where they are not connected.

    Draining: take every op of one device that is ready until none is left, then switch device. For
    two devices the better of the two starting devices is the exact minimum (groups must alternate,
    and taking more now never hurts). For more devices the next one is chosen by looking ahead, from
    the inputs and from the outputs, and the best of these runs is kept; O(V + E) each.

    Args:
        graph: the model.
        device: [op] index of the device.
        placed: ops that have a place of their own.

    Returns:
        [op] number of the subgraph, in an order of execution; ``UNPLACED`` for the other ops.
    """
    if not len(placed):
        return np.full(len(graph), UNPLACED, np.int64)
    forward = _Drain(graph, device, placed, backward=False)
    best = min((forward.run(start) for start in forward.starts), key=_parts)
    if len(np.unique(device[placed])) > 2:
        backward = _Drain(graph, device, placed, backward=True)
        for start in backward.starts:
            parts = backward.run(start)
            if _parts(parts) < _parts(best):
                best = [_parts(parts) - 1 - p if p >= 0 else p for p in parts]
    return np.array(best, np.int64)


def _parts(parts: list[int]) -> int:
    return max(parts) + 1


class _Drain:
    """Kahn's algorithm with one queue of ready ops per device."""

    def __init__(self, graph: Graph, device: Ints, placed: Ints, backward: bool) -> None:
        count = len(graph)
        here = np.zeros(count, bool)
        here[placed] = True
        before, after = (graph.successors, graph.predecessors) if backward else (graph.predecessors, graph.successors)
        edge_is_placed = here[before.values] & here[before.row_of_value]
        self.waiting = np.bincount(before.row_of_value[edge_is_placed], minlength=count).tolist()
        values, ptr, mask = after.values.tolist(), after.ptr.tolist(), here.tolist()
        self.after = [[v for v in values[ptr[i]:ptr[i + 1]] if mask[v]] if mask[i] else [] for i in range(count)]
        self.device: list[int] = device.tolist()
        self.placed = placed.tolist()
        self.ready_first = [op for op in self.placed if self.waiting[op] == 0]
        self.starts = sorted({self.device[op] for op in self.ready_first})
        self.devices: list[int] = sorted({self.device[op] for op in self.placed})

    def run(self, start: int) -> list[int]:
        """Groups when ``start`` is drained first."""
        parts = [UNPLACED] * len(self.device)
        waiting = self.waiting.copy()
        ready: dict[int, list[int]] = {d: [] for d in self.devices}
        for op in self.ready_first:
            ready[self.device[op]].append(op)
        part, left, current = 0, len(self.placed), start
        while True:
            left -= self._drain(ready, current, waiting, parts, part)
            if not left:
                return parts
            current = self._next(ready, waiting)
            part += 1

    def _drain(self, ready: dict[int, list[int]], current: int, waiting: list[int], parts: list[int], part: int) -> int:
        queue, device, taken = ready[current], self.device, 0
        while queue:
            op = queue.pop()
            parts[op] = part
            taken += 1
            for reader in self.after[op]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    ready[device[reader]].append(reader)
        return taken

    def _next(self, ready: dict[int, list[int]], waiting: list[int]) -> int:
        """The device whose draining would take the most ops; the earlier one in the table on a tie."""
        candidates: list[int] = [d for d in self.devices if ready[d]]
        if len(candidates) == 1:
            return candidates[0]
        return max(candidates, key=lambda d: (self._would_take(ready, d, waiting), -d))

    def _would_take(self, ready: dict[int, list[int]], current: int, waiting: list[int], limit: int = 256) -> int:
        """Ops that draining a device would take, counted up to a limit to stay linear."""
        lowered: dict[int, int] = {}
        queue, taken = list(ready[current]), 0
        while queue and taken < limit:
            op = queue.pop()
            taken += 1
            for reader in self.after[op]:
                lowered[reader] = lowered.get(reader, waiting[reader]) - 1
                if not lowered[reader] and self.device[reader] == current:
                    queue.append(reader)
        return taken


def connected(graph: Graph, device: Ints, placed: Ints) -> Ints:
    """Weakly connected subgraphs, as OpenVINO's HETERO forms them, but never more than needed for order."""
    return connected_groups(graph, device, placed)


def levels(graph: Graph, device: Ints, placed: Ints) -> Ints:
    """Glow's rule (Glow ``lib/Partitioner``, ``selectPartitions`` over the breadth-first levels).

    The level of an op is its longest distance to an output. Levels are walked from the farthest to the
    nearest, and a new subgraph starts whenever the device changes; within a level the ops of the current
    device come first.
    """
    here = np.zeros(len(graph), bool)
    here[placed] = True
    distance = [0] * len(graph)
    for op in reversed(graph.order.tolist()):
        if here[op]:
            distance[op] = max((distance[s] + 1 for s in graph.successors[op].tolist() if here[s]), default=0)
    by_level: dict[int, list[int]] = {}
    for op in graph.order.tolist():
        if here[op]:
            by_level.setdefault(distance[op], []).append(op)
    part = np.full(len(graph), UNPLACED, np.int64)
    current, number = -1, -1
    for level in sorted(by_level, reverse=True):
        for op in sorted(by_level[level], key=lambda op: (device[op] != current, device[op])):
            if device[op] != current:
                current, number = int(device[op]), number + 1
            part[op] = number
    return part


GROUPINGS: dict[str, Grouping] = {"minimal": minimal, "connected": connected, "levels": levels}


def grouping_of(name: str) -> Grouping:
    """The rule of a name.

    Raises:
        EditorError: there is none.
    """
    if name not in GROUPINGS:
        raise EditorError(f"unknown way to form subgraphs {name!r}; there is {', '.join(GROUPINGS)}")
    return GROUPINGS[name]
