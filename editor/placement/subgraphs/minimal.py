"""Fewest subgraphs, by draining one device after the other."""

from __future__ import annotations

import numpy as np

from editor.graph.graph import Graph, Ints, distinct
from editor.placement.subgraphs.grouping import UNPLACED


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
    if len(distinct(device[placed])) > 2:
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
