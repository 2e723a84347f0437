"""Expands a selection of ops: to a region of one device, to a path, to corresponding ops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from editor.errors import PinError
from editor.graph.graph import Ints, Rows
from editor.graph.scopes.tree import scopes_of
from editor.placement.placement import Placement


def same_device_region(placement: Placement, op: int) -> list[int]:
    """The op and every op that ops of the same device connect to it."""
    graph, placed = placement.graph, placement.division.subgraph_of_op >= 0
    device = placement.assignment.device
    seen, stack = {op}, [op]
    while stack:
        current = stack.pop()
        for neighbour in (
            *graph.predecessors[current].tolist(),
            *graph.successors[current].tolist(),
        ):
            if neighbour not in seen and placed[neighbour] and device[neighbour] == device[op]:
                seen.add(neighbour)
                stack.append(neighbour)
    return sorted(seen)


def between(placement: Placement, first: Sequence[int], second: Sequence[int]) -> list[int]:
    """Two groups of ops and all ops on paths between them, in either direction.

    Raises:
        PinError: no path connects them.
    """
    graph = placement.graph
    for start, end in ((first, second), (second, first)):
        on_path = _reachable(graph.successors, start) & _reachable(graph.predecessors, end)
        if on_path:
            subgraph_of_op: Ints = placement.division.subgraph_of_op
            return sorted(op for op in on_path | {*first, *second} if subgraph_of_op[op] >= 0)
    names = [
        graph.display_name(ops[0])
        if len(ops) == 1
        else f"{len(ops)} ops from {graph.display_name(ops[0])}"
        for ops in (first, second)
    ]
    raise PinError(f"no path leads from {names[0]!r} to {names[1]!r} or vice versa")


def _reachable(edges: Rows, start: Sequence[int]) -> set[int]:
    seen, stack = set(start), list(start)
    while stack:
        for neighbour in edges[stack.pop()].tolist():
            if neighbour not in seen:
                seen.add(neighbour)
                stack.append(neighbour)
    return seen


EXPANSIONS = ("type", "alike", "block", "subgraph", "upstream", "downstream", "neighbours")


def expand_selection(placement: Placement, ops: Sequence[int], mode: str) -> list[int]:
    """Ops related to the given ops, see ``Document.expand_selection``; without constants.

    Raises:
        PinError: the mode is unknown.
    """
    graph, subgraph_of_op = placement.graph, placement.division.subgraph_of_op
    start = [op for op in ops if 0 <= op < len(graph) and subgraph_of_op[op] >= 0]
    if mode == "type":
        kinds = {(graph.op_domains[op], graph.op_types[op]) for op in start}
        result = {
            op for op in range(len(graph)) if (graph.op_domains[op], graph.op_types[op]) in kinds
        }
    elif mode == "alike":
        scopes = scopes_of(graph)
        result = {other for op in start for other in scopes.corresponding_ops(op)}
    elif mode == "block":
        scopes = scopes_of(graph)
        result = {*start} | {
            inner
            for op in start
            if op in scopes.of_op
            for inner in scopes.scopes[scopes.of_op[op]].ops
        }
    elif mode == "subgraph":
        result = set(np.flatnonzero(np.isin(subgraph_of_op, subgraph_of_op[start])).tolist())
    elif mode in ("upstream", "downstream"):
        rows = graph.predecessors if mode == "upstream" else graph.successors
        result = _reachable(rows, start)
    elif mode == "neighbours":
        both = (graph.predecessors, graph.successors)
        result = {*start} | {
            neighbour for op in start for edges in both for neighbour in edges[op].tolist()
        }
    else:
        raise PinError(
            f"unknown mode {mode!r} to expand a selection; choose one of: {', '.join(EXPANSIONS)}"
        )
    return sorted(op for op in result if subgraph_of_op[op] >= 0)
