"""Sets of ops that a person means by pointing at one or two of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from editor.errors import PinError
from editor.graph.graph import Ints, Rows
from editor.graph.scopes.tree import scopes_of
from editor.placement.placement import Placement


def same_device_region(placement: Placement, op: int) -> list[int]:
    """The op and every op connected to it through ops of the same device."""
    graph, placed = placement.graph, placement.division.part >= 0
    device = placement.assignment.device
    seen, stack = {op}, [op]
    while stack:
        here = stack.pop()
        for near in (*graph.predecessors[here].tolist(), *graph.successors[here].tolist()):
            if near not in seen and placed[near] and device[near] == device[op]:
                seen.add(near)
                stack.append(near)
    return sorted(seen)


def between(placement: Placement, first: Sequence[int], second: Sequence[int]) -> list[int]:
    """Two groups of ops and all ops on paths from one to the other, whichever comes first.

    Raises:
        PinError: no path connects them.
    """
    graph = placement.graph
    for start, end in ((first, second), (second, first)):
        found = _reach(graph.successors, start) & _reach(graph.predecessors, end)
        if found:
            placed: Ints = placement.division.part
            return sorted(op for op in found | {*first, *second} if placed[op] >= 0)
    names = [graph.display_name(ops[0]) if len(ops) == 1 else f"{len(ops)} ops from {graph.display_name(ops[0])}"
             for ops in (first, second)]
    raise PinError(f"no path leads from {names[0]!r} to {names[1]!r} or back")


def _reach(edges: Rows, start: Sequence[int]) -> set[int]:
    seen, stack = set(start), list(start)
    while stack:
        for near in edges[stack.pop()].tolist():
            if near not in seen:
                seen.add(near)
                stack.append(near)
    return seen


EXPANSIONS = ("type", "twins", "block", "subgraph", "before", "after", "near")


def expand_selection(placement: Placement, ops: Sequence[int], mode: str) -> list[int]:
    """Ops that belong to some ops, see ``Document.grow``; constants have no place and are left out.

    Raises:
        PinError: there is no such way to grow.
    """
    graph, part = placement.graph, placement.division.part
    start = [op for op in ops if 0 <= op < len(graph) and part[op] >= 0]
    if mode == "type":
        kinds = {(graph.op_domains[op], graph.op_types[op]) for op in start}
        found = {op for op in range(len(graph)) if (graph.op_domains[op], graph.op_types[op]) in kinds}
    elif mode == "twins":
        scopes = scopes_of(graph)
        found = {twin for op in start for twin in scopes.corresponding_ops(op)}
    elif mode == "block":
        scopes = scopes_of(graph)
        found = {*start} | {inner for op in start if op in scopes.of_op for inner in scopes.scopes[scopes.of_op[op]].ops}
    elif mode == "subgraph":
        found = set(np.flatnonzero(np.isin(part, part[start])).tolist())
    elif mode in ("before", "after"):
        rows = graph.predecessors if mode == "before" else graph.successors
        found = _reach(rows, start)
    elif mode == "near":
        both = (graph.predecessors, graph.successors)
        found = {*start} | {near for op in start for edges in both for near in edges[op].tolist()}
    else:
        raise PinError(f"unknown way to expand a selection {mode!r}; choose one of: {', '.join(EXPANSIONS)}")
    return sorted(op for op in found if part[op] >= 0)

