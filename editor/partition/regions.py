"""Sets of ops that a person means by pointing at one or two of them."""

from __future__ import annotations

from editor.errors import PinError
from editor.graph.graph import Ints, Rows
from editor.partition.partition import Partition


def same_device_region(partition: Partition, op: int) -> list[int]:
    """The op and every op connected to it through ops of the same device."""
    graph, placed = partition.graph, partition.division.part >= 0
    device = partition.assignment.device
    seen, stack = {op}, [op]
    while stack:
        here = stack.pop()
        for near in (*graph.predecessors[here].tolist(), *graph.successors[here].tolist()):
            if near not in seen and placed[near] and device[near] == device[op]:
                seen.add(near)
                stack.append(near)
    return sorted(seen)


def between(partition: Partition, first: int, second: int) -> list[int]:
    """Both ops and all ops on paths from one to the other, whichever comes first.

    Raises:
        PinError: no path connects them.
    """
    graph = partition.graph
    for start, end in ((first, second), (second, first)):
        found = _reach(graph.successors, start) & _reach(graph.predecessors, end)
        if found:
            placed: Ints = partition.division.part
            return sorted(op for op in found if placed[op] >= 0)
    raise PinError(f"no path leads from {graph.display_name(first)!r} to {graph.display_name(second)!r} or back")


def _reach(edges: Rows, start: int) -> set[int]:
    seen, stack = {start}, [start]
    while stack:
        for near in edges[stack.pop()].tolist():
            if near not in seen:
                seen.add(near)
                stack.append(near)
    return seen
