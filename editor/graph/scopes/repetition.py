"""Finds the layers of a model without module names: the repetition that covers most of the topological order."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np

from editor.graph.graph import Graph

_SHORTEST, _LONGEST = 8, 1024
"""Least and most ops of a repeated block."""
_COVERED = 0.3
_HEAD = 4
"""Number of op types that identify the beginning of a layer."""
_MAX_PHASES = 8
"""Most phases to compare in full."""
_SLACK = 0.3
"""Share by which the first layer may be longer or shorter."""


def cut_costs(graph: Graph, placed: Sequence[int]) -> list[int]:
    """[i] number of tensors that cross a cut before ``placed[i]``; ``placed`` is in topological order."""
    position = np.full(len(graph) + 1, -1, np.int64)  # the last entry is for "no producer"
    position[list(placed)] = np.arange(len(placed))
    first = position[graph.tensor_producer]
    last = np.full(len(graph.tensor_names), -1, np.int64)
    np.maximum.at(last, graph.op_reads.values, position[graph.op_reads.row_of_value])
    crossing = (first >= 0) & (last > first)
    size = len(placed) + 2
    change = np.bincount(first[crossing] + 1, minlength=size) - np.bincount(last[crossing] + 1, minlength=size)
    costs: list[int] = np.cumsum(change)[:len(placed) + 1].tolist()
    return costs


def repeated_runs(kinds: Sequence[str], costs: Sequence[int]) -> list[tuple[int, int]]:
    """(begin, end) of each layer; empty where nothing repeats.

    A repetition can start at any phase. The best phase is where the fewest tensors cross; a residual network has several
    such phases per layer, of which the one with the most complete layers is chosen.
    """
    start, period, length = _longest(kinds)
    if not length:
        return []
    phases = range(start, start + period)
    crossing = [sum(costs[phase:start + length + 1:period]) / len(costs[phase:start + length + 1:period]) for phase in phases]
    least = min(crossing)
    candidates = [_layers(kinds, costs, phase, period, start + length)
            for phase, cost in zip(phases, crossing, strict=True) if cost <= least + 0.01]
    candidates = sorted(filter(None, candidates), key=len)[-_MAX_PHASES:]
    return max(candidates, default=[], key=lambda layers: (len(layers), _similarity(kinds, layers)))


def _similarity(kinds: Sequence[str], layers: list[tuple[int, int]]) -> int:
    """Number of ops that the first and the last layer have in common."""
    (a, b), (c, d) = layers[0], layers[-1]
    return sum(m.size for m in SequenceMatcher(None, kinds[a:b], kinds[c:d], autojunk=False).get_matching_blocks())


def _layers(kinds: Sequence[str], costs: Sequence[int], phase: int, period: int, end: int) -> list[tuple[int, int]]:
    """Complete periods from a phase on, preceded by the first layer where it differs only a little."""
    whole = [(begin, begin + period) for begin in range(phase, end - period + 1, period)]
    head = kinds[phase:phase + _HEAD]
    low, high = phase - int(period * (1 + _SLACK)), phase - int(period * (1 - _SLACK))
    candidates = [i for i in range(max(low, 0), max(high + 1, 0)) if kinds[i:i + _HEAD] == head]
    if candidates and whole:
        first = min(candidates, key=lambda i: (costs[i], abs(phase - i - period)))
        return [(first, phase), *whole]
    return whole


def _longest(kinds: Sequence[str]) -> tuple[int, int, int]:
    """(start, period, length) of the repetition that covers most of a sequence; length 0 where there is none."""
    codes = np.unique(kinds, return_inverse=True)[1] if len(kinds) else np.zeros(0, np.int64)
    best, covered = (0, 1, 0), 0
    for period in range(_SHORTEST, min(len(codes) // 2, _LONGEST) + 1):
        differ = np.flatnonzero(codes[period:] != codes[:-period])
        edges = np.concatenate([[-1], differ, [len(codes) - period]])
        at = int(np.diff(edges).argmax())
        run, start = int(edges[at + 1] - edges[at] - 1), int(edges[at] + 1)
        count = run // period + 1
        if run >= period and count * period > covered + best[1] // 2:
            best, covered = (start, period, run + period), count * period
    return best if covered >= _COVERED * len(codes) else (0, 1, 0)
