"""Rules ``minimal``: fewest subgraphs, by draining one device after the other; and ``levels``, which is Glow's."""

from __future__ import annotations

import itertools

import numpy as np

from editor.graph.graph import Graph, Ints, distinct, mask_of
from editor.groups import grouped

UNPLACED = -1
_MOST_COUNTED = 256
"""Number for an op without a subgraph of its own: a constant, copied into each subgraph that reads it."""


def levels(graph: Graph, device: Ints, placed: Ints) -> Ints:
    """Glow's rule (Glow ``lib/Partitioner``, ``selectPartitions`` over the breadth-first levels).

    The level of an op is its longest distance to an output. Levels are visited from the farthest to the
    nearest, and a new subgraph starts whenever the device changes; within a level the ops of the current
    device come first.
    """
    is_placed = mask_of(len(graph), placed)
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


_WORTH_SHORTENING = 4000
"""ops x subgraphs: more would take longer than it is worth in the search of a policy."""


def minimal(graph: Graph, device: Ints, placed: Ints) -> Ints:
    """Fewest subgraphs: ops of one device share a subgraph even where they are not connected.

    Draining takes every ready op of one device until none is left, then switches device. For two
    devices, the better of the two starting devices gives the exact minimum (subgraphs must alternate,
    and taking more ops early never hurts). For more devices, look-ahead chooses the next device, once
    from the inputs and once from the outputs, and the better result is kept; O(V + E) each. Where that takes
    a few ms, turns that the rest can do without are then left out: of 300 random graphs of 24 ops on three
    devices 288 come out with the least number (254 without), on four devices 276 (171).

    Args:
        graph: the model.
        device: [op] index of the device.
        placed: ops that belong to a subgraph; not the constants that follow their consumers.

    Returns:
        [op] number of the subgraph, in topological order; ``UNPLACED`` for the other ops.
    """
    if not len(placed):
        return np.full(len(graph), UNPLACED, np.int64)
    forward = _Drain(graph, device, placed, backward=False)
    best = min((forward.run(start) for start in forward.starts), key=_count)
    if len(distinct(device[placed])) > 2:
        backward = _Drain(graph, device, placed, backward=True)
        for start in backward.starts:
            reverse = backward.run(start)
            if _count(reverse) < _count(best):
                best = [_count(reverse) - 1 - s if s >= 0 else s for s in reverse]
        if len(placed) * _count(best) <= _WORTH_SHORTENING:
            best = forward.shortened(_turns(best, device))
    return np.array(best, np.int64)


def _turns(subgraph_of_op: list[int], device: Ints) -> list[int]:
    """[subgraph] its device, in the order in which they run."""
    found = dict(zip(subgraph_of_op, device.tolist(), strict=True))
    return [found[subgraph] for subgraph in range(_count(subgraph_of_op))]


def _count(subgraph_of_op: list[int]) -> int:
    return max(subgraph_of_op) + 1


class _Drain:
    """Kahn's algorithm with one queue of ready ops per device."""

    def __init__(self, graph: Graph, device: Ints, placed: Ints, backward: bool) -> None:
        count = len(graph)
        is_placed = mask_of(count, placed)
        predecessors, successors = graph.predecessors, graph.successors
        if backward:
            predecessors, successors = successors, predecessors
        edge_is_placed = is_placed[predecessors.values] & is_placed[predecessors.row_of_value]
        self.waiting = np.bincount(
            predecessors.row_of_value[edge_is_placed], minlength=count
        ).tolist()
        values, ptr, mask = successors.values.tolist(), successors.ptr.tolist(), is_placed.tolist()
        self.successors = [
            [v for v in values[ptr[i] : ptr[i + 1]] if mask[v]] if mask[i] else []
            for i in range(count)
        ]
        self.device: list[int] = device.tolist()
        self.placed = placed.tolist()
        self.ready_first = [op for op in self.placed if self.waiting[op] == 0]
        self.starts = sorted({self.device[op] for op in self.ready_first})
        self.devices: list[int] = sorted({self.device[op] for op in self.placed})

    def run(self, start: int) -> list[int]:
        """[op] number of the subgraph when device ``start`` is drained first."""
        subgraph_of_op, waiting, ready = self._start()
        subgraph, left, current = 0, len(self.placed), start
        while True:
            left -= self._drain(ready, current, waiting, subgraph_of_op, subgraph)
            if not left:
                return subgraph_of_op
            current = self._next(ready, waiting)
            subgraph += 1

    def shortened(self, turns: list[int]) -> list[int]:
        """[op] number of the subgraph when devices are drained in these turns, without those that are not needed.

        A turn that is left out joins the turns of one device before and after it.
        """
        best, at = self._follow(turns), 0
        while at < len(turns):
            fewer = [d for d, _ in itertools.groupby(turns[:at] + turns[at + 1 :])]
            found = self._follow(fewer)
            if UNPLACED in (found[op] for op in self.placed):
                at += 1
            else:
                turns, best, at = fewer, found, max(at - 1, 0)
        return best

    def _follow(self, turns: list[int]) -> list[int]:
        """[op] number of the subgraph; ``UNPLACED`` also where the turns end before the op is ready."""
        subgraph_of_op, waiting, ready = self._start()
        for subgraph, current in enumerate(turns):
            self._drain(ready, current, waiting, subgraph_of_op, subgraph)
        return subgraph_of_op

    def _start(self) -> tuple[list[int], list[int], dict[int, list[int]]]:
        """[op] no subgraph, [op] number of predecessors to wait for, and the ready ops of each device."""
        ready: dict[int, list[int]] = {d: [] for d in self.devices}
        for op in self.ready_first:
            ready[self.device[op]].append(op)
        return [UNPLACED] * len(self.device), self.waiting.copy(), ready

    def _drain(
        self,
        ready: dict[int, list[int]],
        current: int,
        waiting: list[int],
        subgraph_of_op: list[int],
        subgraph: int,
    ) -> int:
        """Assigns the ready ops of a device, and those that become ready, to a subgraph; returns their number."""
        queue, device, taken = ready[current], self.device, 0
        while queue:
            op = queue.pop()
            subgraph_of_op[op] = subgraph
            taken += 1
            for reader in self.successors[op]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    ready[device[reader]].append(reader)
        return taken

    def _next(self, ready: dict[int, list[int]], waiting: list[int]) -> int:
        """Returns the device with the most ops to drain; on a tie the earlier one in the table."""
        candidates: list[int] = [d for d in self.devices if ready[d]]
        if len(candidates) == 1:
            return candidates[0]
        return max(candidates, key=lambda d: (self._drainable(ready, d, waiting), -d))

    def _drainable(self, ready: dict[int, list[int]], current: int, waiting: list[int]) -> int:
        """Counts the ops that draining a device would take; stops at ``_MOST_COUNTED`` to stay linear."""
        lowered: dict[int, int] = {}
        queue, taken = list(ready[current]), 0
        while queue and taken < _MOST_COUNTED:
            op = queue.pop()
            taken += 1
            for reader in self.successors[op]:
                lowered[reader] = lowered.get(reader, waiting[reader]) - 1
                if not lowered[reader] and self.device[reader] == current:
                    queue.append(reader)
        return taken
