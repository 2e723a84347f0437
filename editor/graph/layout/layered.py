"""Layered drawings: longest-path layers, barycentre sweeps, and long chains in columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from editor.graph.graph import Ints

Floats = npt.NDArray[np.float64]

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
_STEPS_TO_SOURCE = 16
"""From a source, at most, for a chain to begin there."""


@dataclass(frozen=True)
class Wrap:
    """When layers stand in several columns, and what these are to fit into."""

    width: float = 828.0
    height: float = 390.0
    """In pixels, about the graph's panel in a window of 1440 x 900"""
    in_one_from: float = READABLE
    """The zoom from which one column is kept"""

    def zoom(self, width: float, height: float) -> float:
        """At which a drawing fits."""
        return min(self.width / max(width, 1.0), self.height / max(height, 1.0))


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


def columns(
    wrap: Wrap,
    left: Floats,
    right: Floats,
    room: Floats,
    crossing: Ints,
    layer_gap: float,
    small: int = 0,
) -> Columns | None:
    """The best columns; None where one is best.

    Args:
        wrap: what they are to fit into.
        left, right: [layer] ends of what is in it.
        room: [layer] height beyond the usual one.
        crossing: [layer] how many different lines leave it downwards.
        layer_gap: distance of layers in a drawing of one column.
        small: how many layers do not count where one column is judged.
    """
    high = (len(room) - small) * layer_gap + float(room.sum())
    in_one = wrap.zoom(float(right.max() - left.min()), high)
    if in_one >= wrap.in_one_from:
        return None
    below = np.cumsum(room + GAP)  # [layer] where it ends
    long = below[-1] / max(float(np.median(right - left)), 1.0)
    most = int(2 + 2 * np.sqrt(wrap.width / wrap.height * long))
    ways = [_cheap(below, count, crossing) for count in range(2, min(most, len(room)) + 1)]
    tried = [_measured(wrap, first, left, right, below) for first in ways]
    if not tried or max(tried) < 1.2 * in_one:
        return None
    enough = next((i for i, zoom in enumerate(tried) if zoom >= CLEAR), int(np.argmax(tried)))
    return _placed(ways[enough], left, right, room, crossing)


def _measured(wrap: Wrap, first: Ints, left: Floats, right: Floats, below: Floats) -> float:
    """At which zoom columns fit."""
    width = float((np.maximum.reduceat(right, first) - np.minimum.reduceat(left, first)).sum())
    return wrap.zoom(width, float(np.diff(np.r_[0.0, below[first[1:] - 1], below[-1]]).max()))


def _cheap(below: Floats, count: int, crossing: Ints) -> Ints:
    """The first layer of each of so many columns of about one length, cut where few edges cross."""
    long = below[-1] / count
    first = [0]
    for end in (long * np.arange(1, count)).tolist():
        low, high = np.searchsorted(below, [end - _WINDOW * long, end + _WINDOW * long])
        near = np.arange(max(int(low), first[-1]), max(int(high), int(low) + 1))
        near = near[near < len(below) - 1]
        if not len(near) and first[-1] < low < len(below):  # in the tall last layer: before it
            near = np.array([low - 1])
        if len(near):
            cost = crossing[near] * _CROSSING + np.abs(below[near] - end) / long
            first.append(int(near[np.argmin(cost)]) + 1)
    return _merged(first, below)


def _merged(first: list[int], below: Floats) -> Ints:
    """Without cuts between columns that together are no longer than the longest: what stands beside a tall layer."""
    begin = [0.0, *(float(below[layer - 1]) for layer in first[1:])]
    end = [*begin[1:], float(below[-1])]
    longest = max(np.subtract(end, begin))
    kept, top = [0], 0.0
    for layer, start, stop in list(zip(first, begin, end, strict=True))[1:]:
        if stop - top > longest:
            kept.append(layer)
            top = start
    return np.array(kept)


def _placed(first: Ints, left: Floats, right: Floats, room: Floats, crossing: Ints) -> Columns:
    of_layer = np.zeros(len(room), np.int64)
    of_layer[first[1:]] = 1
    of_layer = np.cumsum(of_layer)
    above = np.cumsum(room + GAP) - room - GAP
    begin, end = np.minimum.reduceat(left, first), np.maximum.reduceat(right, first)
    lanes = np.r_[
        0.0, np.maximum(crossing[first[1:] - 1] - 1, 0) * _STEP
    ]  # room for edges that go up, before each column
    at = np.cumsum(lanes + end - begin) - (end - begin)
    return Columns(
        of_layer, above - above[first][of_layer], (at - begin)[of_layer], at + end - begin
    )


def with_ends(found: Columns, room: Floats, above: bool, below: bool) -> Columns:
    """Columns with a layer above the first of them, and one below the last.

    Args:
        found: the columns without.
        room: [layer of these] height beyond the usual one.
        above, below: which of the two there are.
    """
    of_layer = np.r_[found.of_layer[:1][:above], found.of_layer, found.of_layer[-1:][:below]]
    shift = np.r_[found.shift[:1][:above], found.shift, found.shift[-1:][:below]]
    top = np.r_[
        np.full(int(above), -GAP), found.top, np.full(int(below), found.top[-1] + room[-1] + GAP)
    ]
    return Columns(of_layer, top, shift, found.right)


def turns(
    found: Columns,
    rows: Sequence[Sequence[int]],
    down: Sequence[Sequence[object]],
    x: Floats,
    room: Floats,
) -> dict[int, tuple[float, float, float]]:
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
        bottom, between = (
            float(found.top[layer] + room[layer]) + _TURN,
            float(found.right[found.of_layer[layer]]),
        )
        for i, v in enumerate(begins):
            last = len(begins) - 1 - i
            result[v] = (bottom + last * _STEP, between + last * _STEP, -_TURN - i * _STEP)
    return result


LAYER_GAP = 74.0
NODE_GAP = 26.0
LANE_WIDTH = 14.0
_HUB_FAN_OUT = 12
_ENTRY = 0.05
"""How strongly a lane pulls at the nodes at its ends; an edge to the next layer has 1, so that skips bend nothing."""
_PULL = 0.1
"""Share of this by which the lane moves the node, and not the node the lane."""
_TERMINAL = 0.02
"""How strongly the inputs and outputs of a model pull at its blocks: these stand in a line without regard to them."""
_LANE = 0.005
"""How strongly a lane keeps its place beside nodes, which have 1."""
_SWEEPS = 6
_STRAIGHTENING = 8
_SNAP = 7.0
"""A node that is less than this beside the one above it, in pixels, stands below it: sweeps come near, and not there."""
_ROW = 26.0
"""From the middle of a row to where nodes end, blocks included, which are drawn a little larger than they are laid out."""
_WIDER = 8.0
"""Of such a block at each side, at most."""
_BESIDE = 5.0
"""How far above the middle of a side an edge arrives, and below it one leaves."""


@dataclass(frozen=True, eq=False)
class Drawing:
    """Positions in pixels at zoom 1."""

    x: Floats
    y: Floats
    bends: dict[int, list[tuple[float, float]]]
    """Edge number -> points on the edge, for edges that span layers"""
    faint: frozenset[int]
    """Edges of hubs, drawn faint and straight."""
    in_columns: bool = False
    """Whether layers stand in several columns, which are read from left to right"""


def draw(
    count: int,
    source: Ints,
    target: Ints,
    width: float | Floats,
    taller: Floats | None = None,
    above: Collection[int] = (),
    below: Collection[int] = (),
    wrap: Wrap | None = None,
    sides: int = 0,
    small: Collection[int] = (),
) -> Drawing:
    """Lays out an acyclic graph.

    Args:
        count: number of nodes.
        source, target: the edges.
        width: one width for all nodes, or [node] width.
        taller: [node] extra height beyond the usual one; its layer grows downwards.
        above, below: nodes without predecessors for a first layer of their own, and nodes without successors for a
            last layer of their own; they do not affect the layers of other nodes.
        wrap: what several columns are to fit into, where one would be too long to read; None keeps one.
        sides: the first so many nodes are of the usual height, and edges that span layers may use their sides.
        small: inputs and outputs, which nothing stands aside for; their layers make no drawing too long for one column.
    """
    if count == 0:
        return Drawing(np.zeros(0), np.zeros(0), {}, frozenset())
    layer = _layers(count, source, target, above, below)
    lanes = _Lanes(count, source, target, layer, small)
    order = _order(lanes)
    widths = np.broadcast_to(np.asarray(width, np.float64), count)
    x = _positions(lanes, order, widths)
    level, more = layer.astype(np.int64), np.zeros(count) if taller is None else taller
    room = np.zeros(int(level.max()) + 1)
    np.maximum.at(room, level, more)
    alone = np.setdiff1d(level, np.delete(level, list(small))) if small else ()
    found = (
        _columns(wrap, lanes, order, x, widths, room, bool(above), bool(below), len(alone))
        if wrap
        else None
    )
    every = np.array(lanes.layer)
    if found is None:
        turn, top = {}, np.arange(len(room)) * LAYER_GAP + np.cumsum(room) - room
    else:
        x, top = x + found.shift[every], found.top
        turn = turns(found, order, lanes.down, x, room)
    outside = _outside(
        lanes, source, target, frozenset(above), frozenset(below), x, top + room, turn
    )
    _put_straight(lanes, source, target, outside, x)
    bends = {}
    for edge, chain in lanes.chain_of_edge.items():
        along, end = [int(source[edge]), *chain], int(target[edge])
        if edge in outside:
            i, at = outside[edge]
            row = [
                (float(x[v]), at)
                for v in ([along[0], [*along, end][i + 1]] if at < 0 else [along[i], end])
            ]
            rest = _points(
                along[i + 1 :] if at < 0 else along[: i + 1], end, lanes, x, top, room, {}
            )
            points = row + rest if at < 0 else rest + row
        else:
            points = _points(along, end, lanes, x, top, room, turn)
        if any(not x[along[0]] == px == x[end] for px, _ in points):  # no straight line down
            bends[edge] = points
    if sides:
        _Sides(order, x, top[level], widths, sides, level).use(source, target, bends)
    bends = {edge: _without_straight(points) for edge, points in bends.items()}
    y = top[level] + more / 2
    return Drawing(x[:count], y, bends, frozenset(lanes.faint), found is not None)


def _outside(
    lanes: _Lanes,
    source: Ints,
    target: Ints,
    above: frozenset[int],
    below: frozenset[int],
    x: Floats,
    bottom: Floats,
    turn: dict[int, tuple[float, float, float]],
) -> dict[int, tuple[int, float]]:
    """Edges from above into a later column, and from an earlier one to below: they go over or under all columns.

    They would go down and up every column on their way, one beside the other. Per edge: which of its nodes turns there, and
    the y of its way, which is its own; negative above.
    """
    over, under = {}, {}
    for edge, chain in lanes.chain_of_edge.items():
        along = [int(source[edge]), *chain]
        turns = [i for i, v in enumerate(along) if v in turn]
        if turns and along[0] in above:
            over[edge] = (turns[-1], along[turns[-1]])
        elif turns and int(target[edge]) in below:
            under[edge] = (turns[0], along[turns[0]])
    found: dict[int, tuple[int, float]] = {}
    lowest = max([*bottom.tolist(), *(low for low, _, _ in turn.values())])
    highest = min((high for _, _, high in turn.values()), default=0.0)
    for ways, begin, step in ((over, highest, -_STEP), (under, lowest, _STEP)):
        order = sorted({v for _, v in ways.values()}, key=lambda v: (lanes.layer[v], x[v]))
        place = {v: begin + (i + 1) * step for i, v in enumerate(order)}
        found |= {edge: (i, place[v]) for edge, (i, v) in ways.items()}
    return found


def _put_straight(
    lanes: _Lanes, source: Ints, target: Ints, outside: dict[int, tuple[int, float]], x: Floats
) -> None:
    """Puts ends of edges that go over or under all columns above or below where these turn, if they have no other edge."""
    edges_of = Counter([*source.tolist(), *target.tolist()])
    for edge, (i, at) in outside.items():
        along = [int(source[edge]), *lanes.chain_of_edge[edge], int(target[edge])]
        end, turn = (along[0], along[i + 1]) if at < 0 else (along[-1], along[i])
        if edges_of[end] == 1:
            x[end] = x[turn]


def _columns(
    wrap: Wrap,
    lanes: _Lanes,
    rows: list[list[int]],
    x: Floats,
    width: Floats,
    room: Floats,
    above: bool,
    below: bool,
    small: int,
) -> Columns | None:
    """The layers in columns, where one would be too long; those ``above`` and ``below`` get no columns of their own."""
    half = np.r_[width / 2 + NODE_GAP / 2, np.full(len(x) - lanes.real, LANE_WIDTH / 2)]
    left, right = np.full(len(room), np.inf), np.full(len(room), -np.inf)
    np.minimum.at(left, lanes.layer, x - half)
    np.maximum.at(right, lanes.layer, x + half)
    crossing = np.array([sum(1 for v in row if lanes.down[v]) for row in rows])
    inner = slice(int(above), len(room) - int(below))
    if inner.stop - inner.start < 2:
        return None
    found = columns(wrap, left[inner], right[inner], room[inner], crossing[inner], LAYER_GAP, small)
    return None if found is None else with_ends(found, room[inner], above, below)


def _points(
    along: list[int],
    target: int,
    lanes: _Lanes,
    x: Floats,
    top: Floats,
    room: Floats,
    turn: dict[int, tuple[float, float, float]],
) -> list[tuple[float, float]]:
    """Points on an edge: where it crosses a layer, straight down beside tall nodes, and around the end of a column."""
    points: list[tuple[float, float]] = []
    for v, after in pairwise([*along, target]):
        if v >= lanes.real:
            at, begin = float(x[v]), float(top[lanes.layer[v]])
            points += [(at, begin - _ROW), (at, begin + float(room[lanes.layer[v]]) + _ROW)]
        if v in turn:
            low, between, high = turn[v]
            points += [(float(x[v]), low), (between, low), (between, high), (float(x[after]), high)]
    return points


def _without_straight(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points without those between two others on one line across or down."""
    kept: list[tuple[float, float]] = []
    for point in points:
        if len(kept) > 1 and any(kept[-2][i] == kept[-1][i] == point[i] for i in (0, 1)):
            kept.pop()
        kept.append(point)
    return kept


class _Sides:
    """Where edges beside a chain begin and end: at the sides of its nodes, where nothing stands between."""

    def __init__(
        self, rows: list[list[int]], x: Floats, y: Floats, width: Floats, sides: int, level: Ints
    ) -> None:
        self.x, self.y, self.half, self.sides, self.level = x, y, width / 2, sides, level
        self.left = np.full(len(y), -np.inf)
        self.right = np.full(len(y), np.inf)
        """[node] where the next node beside it ends"""
        for row in rows:
            for u, v in pairwise([v for v in row if v < len(y)]):
                self.left[v], self.right[u] = x[u] + self.half[u], x[v] - self.half[v]
        self.taken: dict[tuple[int, bool], list[tuple[float, float, int]]] = {}

    def use(self, source: Ints, target: Ints, bends: dict[int, list[tuple[float, float]]]) -> None:
        """Changes the ends of edges in place."""
        for edge, points in bends.items():
            begin = self._end(int(source[edge]), points[0][0], leaves=True)
            end = self._end(int(target[edge]), points[-1][0], leaves=False)
            bends[edge] = [*begin, *points, *reversed(end)]

    def _end(self, v: int, lane: float, *, leaves: bool) -> list[tuple[float, float]]:
        """Points from a node to a lane."""
        x, y, half = float(self.x[v]), float(self.y[v]), float(self.half[v])
        if v >= self.sides:
            return []
        if (
            abs(lane - x) <= half + _WIDER
        ):  # straight down from where it is; an arrow there would be askew
            return [(lane, y + _ROW)] if leaves else []
        way = 1.0 if lane > x else -1.0
        border, down = x + way * half, _BESIDE if leaves else -_BESIDE
        if self.left[v] < lane < self.right[v] and self._takes(v, border, lane, leaves):
            return [((border + way * _WIDER + lane) / 2, y + down), (lane, y + down)]
        return [(x + way * half / 2, y + (_ROW if leaves else -_ROW))]

    def _takes(self, v: int, border: float, lane: float, leaves: bool) -> bool:
        """Whether no other node's edges use this line, which is taken then."""
        line = self.taken.setdefault((int(self.level[v]), leaves), [])
        begin, end = sorted((border, lane))
        if any(a < end and begin < b and u != v for a, b, u in line):
            return False
        line.append((begin, end, v))
        return True


def _layers(
    count: int, source: Ints, target: Ints, above: Collection[int], below: Collection[int]
) -> Floats:
    successors: list[list[int]] = [[] for _ in range(count)]
    predecessors: list[list[int]] = [[] for _ in range(count)]
    excluded = {*above, *below}
    for s, t in zip(source.tolist(), target.tolist(), strict=True):
        if s not in excluded and t not in excluded:
            successors[s].append(t)
            predecessors[t].append(s)
    waiting = [len(b) for b in predecessors]
    order = [v for v in range(count) if not waiting[v]]
    layer = [0] * count
    for v in order:  # the loop body appends to the list
        for t in successors[v]:
            layer[t] = max(layer[t], layer[v] + 1)
            waiting[t] -= 1
            if not waiting[t]:
                order.append(t)
    for v in reversed(order):
        incoming, outgoing = len(predecessors[v]), len(successors[v])
        if outgoing and incoming <= min(1, outgoing) and (not incoming or outgoing == 1):
            lowest = min(layer[t] for t in successors[v]) - 1
            # A source, or a link of a chain that starts at one, moves down to its consumer.
            if not incoming or (lowest > layer[v] and _starts_at_source(v, predecessors)):
                layer[v] = lowest
    result = np.array(layer, np.float64) + bool(above)
    if excluded:
        result[list(above)] = 0
        result[list(below)] = result.max() + 1
    return result


def _starts_at_source(v: int, predecessors: list[list[int]]) -> bool:
    for _ in range(_STEPS_TO_SOURCE):
        if not predecessors[v]:
            return True
        if len(predecessors[v]) > 1:
            return False
        v = predecessors[v][0]
    return False


class _Lanes:
    """The graph with a dummy node on every layer that a long edge crosses; edges of one source share these nodes."""

    def __init__(
        self,
        count: int,
        source: Ints,
        target: Ints,
        layer: Floats,
        small: Collection[int] = (),
    ) -> None:
        self._small = frozenset(small)
        self.layer: list[int] = layer.astype(int).tolist()
        self.real = count
        self.up: list[list[tuple[int, float]]] = [[] for _ in range(count)]
        self.down: list[list[tuple[int, float]]] = [[] for _ in range(count)]
        self.chain_of_edge: dict[int, list[int]] = {}
        self.faint: set[int] = set()
        fan_out = np.bincount(source, minlength=count)
        lane: dict[tuple[int, int], int] = {}
        for edge, (s, t) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
            span = self.layer[t] - self.layer[s]
            if span > 1 and fan_out[s] > _HUB_FAN_OUT:
                self.faint.add(edge)
                continue
            self._route(edge, s, t, lane)

    def _route(self, edge: int, s: int, t: int, lane: dict[tuple[int, int], int]) -> None:
        chain: list[int] = []
        previous = s
        for level in range(self.layer[s] + 1, self.layer[t]):
            dummy = lane.get((s, level))
            if dummy is None:
                dummy = lane[s, level] = len(self.layer)
                self.layer.append(level)
                self.up.append([])
                self.down.append([])
                self._link(previous, dummy, 4.0 if previous >= self.real else _ENTRY)
            chain.append(dummy)
            previous = dummy
        self._link(previous, t, _ENTRY if chain else 1.0)
        self.chain_of_edge[edge] = chain

    def _link(self, s: int, t: int, weight: float) -> None:
        if s in self._small or t in self._small:
            weight *= _TERMINAL
        self.down[s].append((t, weight))
        self.up[t].append((s, weight))


def _order(lanes: _Lanes) -> list[list[int]]:
    """Nodes of each layer from left to right."""
    rows: list[list[int]] = [[] for _ in range(max(lanes.layer) + 1)]
    for v, level in enumerate(lanes.layer):
        rows[level].append(v)
    position = [0.0] * len(lanes.layer)
    for row in rows:
        _number(row, position)
    for sweep in range(_SWEEPS):
        downward = sweep % 2 == 0
        neighbours = lanes.up if downward else lanes.down
        for row in rows if downward else reversed(rows):
            wish = {
                v: sum(position[u] for u, _ in neighbours[v]) / len(neighbours[v])
                if neighbours[v]
                else position[v]
                for v in row
            }
            row.sort(key=lambda v: wish[v])
            _number(row, position)
    return rows


def _number(row: Sequence[int], position: list[float]) -> None:
    middle = (len(row) - 1) / 2
    for i, v in enumerate(row):
        position[v] = i - middle


def _positions(lanes: _Lanes, rows: list[list[int]], width: Floats) -> Floats:
    half = [
        *(width / 2 + NODE_GAP / 2).tolist(),
        *[LANE_WIDTH / 2] * (len(lanes.layer) - lanes.real),
    ]
    x = [0.0] * len(lanes.layer)
    for row in rows:
        at = 0.0
        for v in row:
            x[v] = at + half[v]
            at += 2 * half[v]
        for v in row:
            x[v] -= at / 2
    for sweep in range(_STRAIGHTENING):
        downward = sweep % 2 == 0
        for row in rows if downward else reversed(rows):
            _settle(row, lanes.up if downward else lanes.down, lanes, half, x)
    _draw_together(rows, lanes, half, x)
    _snap(rows, lanes, half, x)
    return np.array(x)


def _snap(rows: list[list[int]], lanes: _Lanes, half: list[float], x: list[float]) -> None:
    """Puts nodes and lanes that are nearly below what leads to them right below it, where their row has room."""
    for row in rows:
        for i, v in enumerate(row):
            near = [u for u, weight in lanes.up[v] if weight >= 1.0]
            if len(near) != 1 or not 0 < abs(x[near[0]] - x[v]) < _SNAP:
                continue
            wish = x[near[0]]
            low = x[row[i - 1]] + half[row[i - 1]] + half[v] if i else -np.inf
            high = x[row[i + 1]] - half[row[i + 1]] - half[v] if i + 1 < len(row) else np.inf
            if low - _SNAP <= wish <= high + _SNAP:
                x[v] = wish


def _draw_together(rows: list[list[int]], lanes: _Lanes, half: list[float], x: list[float]) -> None:
    """Moves parts that no lane joins with the largest one towards it: edges of hubs have no lanes, and nothing else pulls."""
    part = _parts(lanes)
    sizes = Counter(part)
    if len(sizes) < 2:
        return
    largest = sizes.most_common(1)[0][0]
    left: dict[int, float] = {}  # part -> room to the left of it, in all rows
    right: dict[int, float] = {}
    for row in rows:
        for u, v in pairwise(row):
            if part[u] != part[v]:
                room = x[v] - half[v] - x[u] - half[u]
                left[part[v]] = min(left.get(part[v], np.inf), room)
                right[part[u]] = min(right.get(part[u], np.inf), room)
    for v in range(len(x)):
        mine = part[v]
        if mine != largest and (mine in left) != (mine in right):  # at one side of all others
            x[v] += right[mine] if mine in right else -left[mine]


def _parts(lanes: _Lanes) -> list[int]:
    """[node] a number that all nodes have which lanes join."""
    part = [-1] * len(lanes.layer)
    for start in range(len(part)):
        waiting = [start] if part[start] < 0 else []
        while waiting:
            v = waiting.pop()
            if part[v] < 0:
                part[v] = start
                waiting += [u for u, _ in lanes.up[v]] + [u for u, _ in lanes.down[v]]
    return part


def _settle(
    row: list[int],
    neighbours: list[list[tuple[int, float]]],
    lanes: _Lanes,
    half: list[float],
    x: list[float],
) -> None:
    """Moves the nodes of a layer as close to their neighbours as order and gaps allow."""
    offset, shift, wishes, weights = 0.0, [], [], []
    for i, v in enumerate(row):
        if i:
            offset += half[row[i - 1]] + half[v]
        near = neighbours[v]
        if v < lanes.real:  # its lanes come to its side
            near = [(u, w if u < lanes.real else w * _PULL) for u, w in near]
        total = sum(w for _, w in near)
        wish = sum(x[u] * w for u, w in near) / total if total else x[v]
        shift.append(offset)
        wishes.append(wish - offset)
        weights.append(total * (1.0 if v < lanes.real else _LANE) if total else 0.01)
    for v, value, moved in zip(row, _isotonic(wishes, weights), shift, strict=True):
        x[v] = value + moved


def _isotonic(values: list[float], weights: list[float]) -> list[float]:
    """The non-decreasing sequence nearest to ``values`` (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        mean, mass, size = value, weight, 1
        while blocks and blocks[-1][0] > mean:
            other_mean, other_mass, other_size = blocks.pop()
            mean = (mean * mass + other_mean * other_mass) / (mass + other_mass)
            mass, size = mass + other_mass, size + other_size
        blocks.append((mean, mass, size))
    return [mean for mean, _, size in blocks for _ in range(size)]
