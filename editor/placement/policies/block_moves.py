"""Moves whole blocks of a placement into room that devices have left.

A search that frees some ops at a time keeps a layer where it is when each of its ops alone would not pay for the transfers.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np

from editor.graph.graph import Bools, Graph, Ints
from editor.graph.scopes.tree import scopes_of
from editor.placement.costs import Costs, price
from editor.placement.policies.memory_words import Excess
from editor.placement.policies.problem import Floats
from editor.placement.policies.task import Task

_LEAST_OPS = 3
_LEAST_GAIN = 1e-4
"""Of the price: less is not worth another look at all blocks."""


def moved_blocks(task: Task, costs: Costs, limits: Floats, best: tuple[float, Ints], seconds: float) -> tuple[float, Ints]:
    """The placement with blocks on devices where they cost less and fit, one after the other, the most promising first.

    Args:
        task: what is placed.
        costs: of the task.
        limits: [device] bytes.
        best: price and devices of a placement that fits.
        seconds: for all of it.
    """
    graph, placed = task.constraints.graph, task.placed
    blocks, until = _blocks(graph, task.constraints.placed), perf_counter() + seconds
    worse = False
    while perf_counter() < until and not task.should_stop():
        before = best[0]
        for ops, d in _moves(blocks, costs, task.constraints.allowed, best[1], worse):
            if perf_counter() >= until or task.should_stop():
                break
            device = best[1].copy()
            device[ops] = d
            total = price(graph, costs, device, placed).total
            if total < best[0] * (1 - _LEAST_GAIN) and not Excess.of(task, device, limits).total:
                best = total, device
        if best[0] == before and worse:
            break
        worse = best[0] == before  # then blocks whose ops alone would take longer, too: transfers may pay for that
    return best


def _blocks(graph: Graph, placed: Bools) -> list[Ints]:
    """[block] its ops with a device of their own; the outer ones first."""
    scopes = scopes_of(graph).scopes[1:]
    found = [np.array([op for op in scope.ops if placed[op]], np.int64) for scope in scopes]
    return sorted((ops for ops in found if len(ops) >= _LEAST_OPS), key=len, reverse=True)


def _moves(blocks: list[Ints], costs: Costs, allowed: Bools, device: Ints, worse: bool) -> Iterator[tuple[Ints, int]]:
    """Ops of a block that may go to a device, and the device; those first that gain most for their ops alone.

    With ``worse`` also those that gain nothing.
    """
    found = []
    for ops in blocks:
        for d in range(allowed.shape[1]):
            mine = ops[allowed[ops, d] & (device[ops] != d)]
            gain = float(costs.op[mine, device[mine]].sum() - costs.op[mine, d].sum())
            if len(mine) and (gain > 0 or worse):
                found.append((gain, mine, d))
    found.sort(key=lambda move: -move[0])
    yield from ((mine, d) for _, mine, d in found)
