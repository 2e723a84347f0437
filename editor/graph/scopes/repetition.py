"""Layers of a model that does not name them: the repetition that covers most of its order of execution."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np

from editor.graph.graph import Graph

_SHORTEST, _LONGEST = 8, 1024
"""Ops of a repeated block."""
_COVERED = 0.3
_HEAD = 4
"""Ops by which the beginning of a layer that differs in its middle is recognised."""
_MOST_WAYS = 8
"""Phases that are compared in full."""
_SLACK = 0.3
"""By how much the first layer may be longer or shorter."""


def cut_costs(graph: Graph, placed: Sequence[int]) -> list[int]:
    """How many tensors cross each place of an order of execution: ``costs[i]`` is for a cut before ``placed[i]``."""
    position = np.full(len(graph) + 1, -1, np.int64)  # the last entry stands for "no op"
    position[list(placed)] = np.arange(len(placed))
    first = position[graph.tensor_producer]
    last = np.full(len(graph.tensor_names), -1, np.int64)
    np.maximum.at(last, graph.reads.values, position[graph.reads.row_of_value])
    real = (first >= 0) & (last > first)
    change = np.bincount(first[real] + 1, minlength=len(placed) + 2) - np.bincount(last[real] + 1, minlength=len(placed) + 2)
    costs: list[int] = np.cumsum(change)[:len(placed) + 1].tolist()
    return costs


def repeated_runs(kinds: Sequence[str], costs: Sequence[int]) -> list[tuple[int, int]]:
    """(begin, end) of each layer, empty where nothing repeats.

    A repetition can be cut at any phase. The right one is where the fewest tensors cross; a residual network has several
    such places per layer, of which the one that makes most whole layers is taken.
    """
    start, period, length = _longest(kinds)
    if not length:
        return []
    phases = range(start, start + period)
    crossing = [sum(costs[phase:start + length + 1:period]) / len(costs[phase:start + length + 1:period]) for phase in phases]
    least = min(crossing)
    ways = [_layers(kinds, costs, phase, period, start + length)
            for phase, cost in zip(phases, crossing, strict=True) if cost <= least + 0.01]
    ways = sorted(filter(None, ways), key=len)[-_MOST_WAYS:]
    return max(ways, default=[], key=lambda layers: (len(layers), _likeness(kinds, layers)))


def _likeness(kinds: Sequence[str], layers: list[tuple[int, int]]) -> int:
    """Ops that the first layer has in common with the last."""
    (a, b), (c, d) = layers[0], layers[-1]
    return sum(m.size for m in SequenceMatcher(None, kinds[a:b], kinds[c:d], autojunk=False).get_matching_blocks())


def _layers(kinds: Sequence[str], costs: Sequence[int], phase: int, period: int, end: int) -> list[tuple[int, int]]:
    """Whole periods from a phase on, and the first layer before them where it only differs a little."""
    whole = [(begin, begin + period) for begin in range(phase, end - period + 1, period)]
    head = kinds[phase:phase + _HEAD]
    low, high = phase - int(period * (1 + _SLACK)), phase - int(period * (1 - _SLACK))
    places = [i for i in range(max(low, 0), max(high + 1, 0)) if kinds[i:i + _HEAD] == head]
    if places and whole:
        first = min(places, key=lambda i: (costs[i], abs(phase - i - period)))
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
