"""Cuts a drawing that is much longer than wide into columns, as text is, so that all of it can be read at once.

Layers keep their order: from top to bottom in a column, columns from left to right. An edge from the end of one column
to the start of the next goes below the first, up between the two, and into the second from above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from editor.graph.graph import Ints

Floats = npt.NDArray[np.float64]

VIEW = (828.0, 390.0)
"""Width and height in pixels that a drawing has room for, about: the graph's panel in a window of 1440 x 900."""
READABLE, CLEAR = 0.4, 2 / 3
"""A drawing that fits at the first zoom stays in one column; more columns than the second needs are not made."""
GAP = 54.0
"""Distance of layers in columns, in pixels."""
_TURN, _STEP = 34.0, 7.0
"""Distance of the first edge that turns from the middle of a row, and of each further one."""
_WINDOW = 0.12
"""A column may be this share longer or shorter than the others where that cuts fewer edges."""
_CROSSING = 0.12
"""Share of a column's length that one edge less is worth."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Where layers are, in pixels."""

    of_layer: Ints
    """[layer] number of its column"""
    top: Floats
    """[layer] y of the middle of its nodes, of the usual height"""
    shift: Floats
    """[layer] what is added to x"""
    right: Floats
    """[column] where it ends"""

    @property
    def ends(self) -> list[int]:
        """The last layer of each column but the last."""
        return np.flatnonzero(np.diff(self.of_layer)).tolist()


def columns(left: Floats, right: Floats, room: Floats, crossing: Ints, layer_gap: float) -> Columns | None:
    """The best columns; None where one is best.

    Args:
        left, right: [layer] ends of what is in it.
        room: [layer] height beyond the usual one.
        crossing: [layer] how many different lines leave it downwards.
        layer_gap: distance of layers in a drawing of one column.
    """
    in_one = _zoom(float(right.max() - left.min()), len(room) * layer_gap + float(room.sum()))
    if in_one >= READABLE:
        return None
    below = np.cumsum(room + GAP)  # [layer] where it ends
    most = int(2 + 2 * np.sqrt(VIEW[0] / VIEW[1] * below[-1] / max(float(np.median(right - left)), 1.0)))
    tried = [_measured(_even(below, count), left, right, below) for count in range(2, min(most, len(room)) + 1)]
    if not tried or max(tried) < 1.2 * in_one:
        return None
    enough = next((i for i, zoom in enumerate(tried) if zoom >= CLEAR), int(np.argmax(tried)))
    first = _cheap(below, 2 + enough, crossing)
    return _placed(first, left, right, room, crossing)


def _zoom(width: float, height: float) -> float:
    return min(VIEW[0] / max(width, 1.0), VIEW[1] / max(height, 1.0))


def _even(below: Floats, count: int) -> Ints:
    """The first layer of each of so many columns of about one length."""
    ends = below[-1] * np.arange(1, count) / count
    return np.unique(np.r_[0, np.clip(np.searchsorted(below, ends) + 1, 0, len(below) - 1)])


def _measured(first: Ints, left: Floats, right: Floats, below: Floats) -> float:
    """At which zoom columns fit."""
    width = float((np.maximum.reduceat(right, first) - np.minimum.reduceat(left, first)).sum())
    return _zoom(width, float(np.diff(np.r_[0.0, below[first[1:] - 1], below[-1]]).max()))


def _cheap(below: Floats, count: int, crossing: Ints) -> Ints:
    """As `_even`, but cut near there where few edges cross."""
    long = below[-1] / count
    first = [0]
    for end in (long * np.arange(1, count)).tolist():
        low, high = np.searchsorted(below, [end - _WINDOW * long, end + _WINDOW * long])
        near = np.arange(max(int(low), first[-1]), max(int(high), int(low) + 1))
        near = near[near < len(below) - 1]
        if not len(near) and first[-1] < len(below) - 1:  # a tall layer is there: before it
            near = np.array([min(max(int(low) - 1, first[-1]), len(below) - 2)])
        if len(near):
            cost = crossing[near] * _CROSSING + np.abs(below[near] - end) / long
            first.append(int(near[np.argmin(cost)]) + 1)
    return np.array(first)


def _placed(first: Ints, left: Floats, right: Floats, room: Floats, crossing: Ints) -> Columns:
    of_layer = np.zeros(len(room), np.int64)
    of_layer[first[1:]] = 1
    of_layer = np.cumsum(of_layer)
    above = np.cumsum(room + GAP) - room - GAP
    begin, end = np.minimum.reduceat(left, first), np.maximum.reduceat(right, first)
    lanes = np.r_[0.0, np.maximum(crossing[first[1:] - 1] - 1, 0) * _STEP]  # room for edges that go up, before each column
    at = np.cumsum(lanes + end - begin) - (end - begin)
    return Columns(of_layer, above - above[first][of_layer], (at - begin)[of_layer], at + end - begin)


def with_ends(found: Columns, room: Floats, above: bool, below: bool) -> Columns:
    """Columns with a layer above the first of them, and one below the last.

    Args:
        found: the columns without.
        room: [layer of these] height beyond the usual one.
        above, below: which of the two there are.
    """
    of_layer = np.r_[found.of_layer[:1][:above], found.of_layer, found.of_layer[-1:][:below]]
    shift = np.r_[found.shift[:1][:above], found.shift, found.shift[-1:][:below]]
    top = np.r_[np.full(int(above), -GAP), found.top, np.full(int(below), found.top[-1] + room[-1] + GAP)]
    return Columns(of_layer, top, shift, found.right)


def turns(found: Columns, rows: Sequence[Sequence[int]], down: Sequence[Sequence[object]], x: Floats,
          room: Floats) -> dict[int, tuple[float, float, float]]:
    """Of each node that begins an edge into the next column: y below its column, x between the two, y above the next one.

    No two such edges cross: the leftmost goes lowest, then up rightmost, and enters the next column lowest.

    Args:
        found: the columns.
        rows: [layer] nodes from left to right.
        down: [node] its edges into the next layer.
        x: [node] where it is now.
        room: [layer] height beyond the usual one.
    """
    result = {}
    for layer in found.ends:
        begins = sorted((v for v in rows[layer] if down[v]), key=lambda v: x[v])
        bottom, between = float(found.top[layer] + room[layer]) + _TURN, float(found.right[found.of_layer[layer]])
        for i, v in enumerate(begins):
            last = len(begins) - 1 - i
            result[v] = (bottom + last * _STEP, between + last * _STEP, -_TURN - i * _STEP)
    return result


__all__ = ["Columns", "Floats", "columns", "turns", "with_ends"]
