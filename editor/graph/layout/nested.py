"""Layout of a graph whose nodes are in nested boxes.

Every box is laid out separately, innermost first, and is then one large node of the enclosing layout. So a box
contains only its own nodes (compound graphs after Sugiyama and Misue, 1991, one level at a time). Edges enter a box
through its upper border and leave it through the lower one.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from editor.graph.graph import Ints
from editor.graph.layout.layered import Drawing, Floats, Wrap, draw
from editor.groups import common_length, grouped

SIDE, PAD, LABEL = 18.0, 12.0, 16.0
"""Padding inside a box in pixels: at the sides, above and below, and for the label above."""
_LANE = 6.0
_WAYS = (
    Wrap(),
    Wrap(in_one_from=0.9),
    Wrap(height=250.0, in_one_from=0.9),
    Wrap(height=170.0, in_one_from=0.9),
)
"""Boxes in columns, by how much of the height the box around them leaves."""
_CANVAS = Wrap(740.0, 370.0)
"""The canvas between the cards of a window of 1280 x 720: with open tables a fifth less high, without a fifth higher."""
_ENOUGH = 0.6
"""The zoom from which no more columns are tried."""
_WORTH = 1.2
"""How many times larger a drawing must be that stands in more columns."""
_TRIED_TO = 400
"""Nodes; drawings of more take longer than a picture of the beginning is worth."""
_MODEL = -1
"""Number of the outermost box, which is not drawn."""

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Box:
    """A rectangle given by its centre."""

    x: float
    y: float
    width: float
    height: float

    def touches(self, other: Box) -> bool:
        """Whether they have a point in common."""
        return (
            abs(self.x - other.x) < (self.width + other.width) / 2
            and abs(self.y - other.y) < (self.height + other.height) / 2
        )


@dataclass(frozen=True, eq=False)
class NestedDrawing:
    """Positions in pixels at zoom 1."""

    x: Floats
    y: Floats
    bends: dict[int, Points]
    """Edge number -> points on the edge"""
    faint: frozenset[int]
    """Edges of hubs."""
    boxes: dict[int, Box]
    """Number -> box, outer boxes first"""
    size: tuple[float, float]
    """Width and height of everything"""


def draw_nested(
    rank: Ints,
    source: Ints,
    target: Ints,
    around: Sequence[tuple[int, ...]],
    size: tuple[float, float],
    small: Collection[int] = (),
) -> NestedDrawing:
    """Lays out a graph.

    Args:
        rank: [node] rank in a topological order. Edges against it are drawn reversed; they exist where a node
            represents several ops.
        source, target: the edges; none from a node to itself.
        around: [node] numbers (from 0) of its enclosing boxes, outermost first. A box always has the same parent.
        size: width and height of a node.
        small: inputs and outputs, which nothing stands aside for; their layers make no drawing too long for one column.
    """
    tree = _Tree(rank, source, target, around)
    first, *further = _WAYS if len(around) <= _TRIED_TO else _WAYS[:1]
    best = _Nested(tree, size, small, first).draw()
    for way in further:
        if _CANVAS.zoom(*best.size) >= _ENOUGH:
            break
        other = _Nested(tree, size, small, way).draw()
        if _CANVAS.zoom(*other.size) > _WORTH * _CANVAS.zoom(*best.size):
            best = other
    return best


def topological_ranks(rank: Ints, source: Ints, target: Ints) -> Ints:
    """Ranks in which no edge goes against the order, where that is possible; among equals the given ones decide.

    A node that represents several ops has the rank of its first one, and may read what is made after that.

    Args:
        rank: [node] ranks.
        source, target: the edges; none from a node to itself.
    """
    if (rank[source] < rank[target]).all():
        return rank
    after: list[list[int]] = [[] for _ in rank]
    for a, b in zip(source.tolist(), target.tolist(), strict=True):
        after[a].append(b)
    waits = np.bincount(target, minlength=len(rank))
    ready = [(int(rank[node]), node) for node in np.flatnonzero(waits == 0).tolist()]
    rest = iter(sorted(zip(rank.tolist(), range(len(rank)), strict=True)))
    found, place = np.full(len(rank), -1), 0
    heapq.heapify(ready)
    while place < len(rank):
        if not ready:  # a cycle: it begins with the node of the least rank
            ready.append(next(each for each in rest if found[each[1]] < 0))
        node = heapq.heappop(ready)[1]
        if found[node] >= 0:
            continue
        found[node], place = place, place + 1
        for b in after[node]:
            waits[b] -= 1
            if not waits[b] and found[b] < 0:
                heapq.heappush(ready, (int(rank[b]), b))
    return found


@dataclass
class _Inside:
    """Contents of a box, relative to its centre."""

    width: float
    height: float
    in_columns: bool
    """Whether this or what is in it is read from left to right"""
    at: dict[int, tuple[float, float]] = field(default_factory=dict)
    boxes: dict[int, Box] = field(default_factory=dict)
    bends: dict[int, Points] = field(default_factory=dict)
    """Points of edges that begin and end in the box."""
    leaving: dict[int, Points] = field(default_factory=dict)
    entering: dict[int, Points] = field(default_factory=dict)

    def add(self, other: _Inside, x: float, y: float) -> None:
        """Adds the contents of an inner box whose centre is at (x, y)."""
        self.at |= {node: (x + px, y + py) for node, (px, py) in other.at.items()}
        self.boxes |= {n: Box(x + b.x, y + b.y, b.width, b.height) for n, b in other.boxes.items()}
        for own, inner in (
            (self.bends, other.bends),
            (self.leaving, other.leaving),
            (self.entering, other.entering),
        ):
            own |= {edge: moved(points, x, y) for edge, points in inner.items()}

    def mirror(self) -> None:
        """Swaps left and right."""
        self.at = {node: (-x, y) for node, (x, y) in self.at.items()}
        self.boxes = {n: Box(-b.x, b.y, b.width, b.height) for n, b in self.boxes.items()}
        for ways in (self.bends, self.leaving, self.entering):
            ways |= {edge: [(-x, y) for x, y in points] for edge, points in ways.items()}


def moved(points: Points, x: float, y: float) -> Points:
    """The points, moved by (x, y)."""
    return [(x + px, y + py) for px, py in points]


def _joined(before: Points, points: Points, after: Points) -> Points:
    """Points inside the box that an edge leaves, on this level, and inside the box that it enters.

    Where an edge turns into another column right below or above a box, it does so below or above where it crosses the
    box's border, and not its middle, from where it would come back the same way.
    """
    if before and len(points) > 1 and points[0][1] == points[1][1]:
        points = [(before[-1][0], points[0][1]), *points[1:]]
    if after and len(points) > 1 and points[-1][1] == points[-2][1]:
        points = [*points[:-1], (after[0][0], points[-1][1])]
    return [*before, *points, *after]


class _Tree:
    """Nodes, boxes and edges by box; an edge belongs to the innermost box around both ends and to each border it crosses."""

    def __init__(
        self, rank: Ints, source: Ints, target: Ints, around: Sequence[tuple[int, ...]]
    ) -> None:
        self.rank, self.source, self.target, self.around = (
            rank.tolist(),
            source.tolist(),
            target.tolist(),
            around,
        )
        self.nodes: dict[int, list[int]] = {_MODEL: []}
        self.inner: dict[int, list[int]] = {_MODEL: []}
        self.depth: dict[int, int] = {_MODEL: 0}
        self.first: dict[int, int] = {}  # rank of the first node in each box
        for node in sorted(range(len(around)), key=self.rank.__getitem__):
            self._settle(node)
        self.edges: dict[int, list[int]] = {}
        self.leaving: dict[int, list[int]] = {}
        self.entering: dict[int, list[int]] = {}
        for edge in range(len(self.source)):
            self._file(edge)

    def _settle(self, node: int) -> None:
        boxes = self.around[node]
        for depth, box in enumerate(boxes, 1):
            if box not in self.nodes:
                self.nodes[box], self.inner[box], self.depth[box] = [], [], depth
                self.inner[boxes[depth - 2] if depth > 1 else _MODEL].append(box)
                self.first[box] = self.rank[node]
        self.nodes[boxes[-1] if boxes else _MODEL].append(node)

    def _file(self, edge: int) -> None:
        a, b = self.around[self.source[edge]], self.around[self.target[edge]]
        shared = common_length(a, b)
        self.edges.setdefault(a[shared - 1] if shared else _MODEL, []).append(edge)
        if self._begin(self.source[edge], shared) < self._begin(self.target[edge], shared):
            for box in a[shared:]:
                self.leaving.setdefault(box, []).append(edge)
            for box in b[shared:]:
                self.entering.setdefault(box, []).append(edge)

    def _begin(self, node: int, depth: int) -> int:
        """Rank of a node, or of its enclosing box at a depth."""
        boxes = self.around[node]
        return self.first[boxes[depth]] if len(boxes) > depth else int(self.rank[node])


class _Nested:
    def __init__(
        self, tree: _Tree, size: tuple[float, float], small: Collection[int], wrap: Wrap
    ) -> None:
        self.tree, self.wrap = tree, wrap
        self.small = frozenset(small)
        self.width, self.height = size
        self.faint: set[int] = set()

    def draw(self) -> NestedDrawing:
        """Lays out the whole graph."""
        everything = self._inside(_MODEL)
        positions = np.array(
            [everything.at[node] for node in range(len(self.tree.around))]
        ).reshape(-1, 2)
        return NestedDrawing(
            positions[:, 0],
            positions[:, 1],
            everything.bends,
            frozenset(self.faint),
            everything.boxes,
            (everything.width, everything.height),
        )

    def _inside(self, box: int) -> _Inside:
        """Lays out a box with its contents."""
        nodes, inner = (
            self.tree.nodes[box],
            [self._inside(number) for number in self.tree.inner[box]],
        )
        level = _Level(self.tree, box)
        wide = np.array(
            [self.width] * len(nodes) + [one.width for one in inner] + [0.0] * level.ports
        )
        high = np.array(
            [self.height] * len(nodes) + [one.height for one in inner] + [self.height] * level.ports
        )
        small = [i for i, node in enumerate(nodes) if node in self.small]
        drawing = level.draw(self.wrap, wide, high - self.height, small)
        count = len(wide) - level.ports
        x, y, wide, high = drawing.x[:count], drawing.y[:count], wide[:count], high[:count]
        lanes = [px for points in drawing.bends.values() for px, _ in points] + drawing.x[
            count:
        ].tolist()
        left = min([*(x - wide / 2).tolist(), *(px - _LANE for px in lanes)], default=0.0) - SIDE
        right = max([*(x + wide / 2).tolist(), *(px + _LANE for px in lanes)], default=0.0) + SIDE
        top = float((y - high / 2).min(initial=np.inf)) - PAD - LABEL
        bottom = float((y + high / 2).max(initial=-np.inf)) + PAD
        around = [
            py for points in drawing.bends.values() for _, py in points
        ]  # edges turn below and above columns
        top, bottom = (
            min([top, *(py - _LANE - LABEL for py in around)]),
            max([bottom, *(py + _LANE for py in around)]),
        )
        if not count:
            top = bottom = 0.0
        in_columns = drawing.in_columns or any(one.in_columns for one in inner)
        inside = _Inside(right - left, bottom - top, in_columns)
        if box != _MODEL:
            inside.boxes[box] = Box(0.0, 0.0, inside.width, inside.height)
        dx, dy = -(left + right) / 2, -(top + bottom) / 2
        _mirror(level, drawing, inner)
        for i in [*small, *reversed(small)]:  # one may make room for the next, at either side
            _straighten(i, level, drawing, inner, wide, high)
        for i, node in enumerate(nodes):
            inside.at[node] = (float(x[i]) + dx, float(y[i]) + dy)
        for i, one in enumerate(inner, len(nodes)):
            inside.add(one, float(x[i]) + dx, float(y[i]) + dy)
        self._route(level, drawing, inside, (dx, dy))
        return inside

    def _route(
        self, level: _Level, drawing: Drawing, inside: _Inside, move: tuple[float, float]
    ) -> None:
        """Joins the points of edges on this level with those of inner levels."""
        for number, (key, edges) in enumerate(level.edges.items()):
            points = moved(drawing.bends.get(number, []), *move)
            if number in drawing.faint:
                self.faint.update(edges)
            for edge in edges:
                if key[0] in level.above:
                    inner = inside.entering.get(edge, [])
                    x = (
                        inner[0][0] if inner and not points else float(drawing.x[key[0]]) + move[0]
                    )  # straight down
                    inside.entering[edge] = [(x, -inside.height / 2), *_joined([], points, inner)]
                elif key[1] in level.below:
                    inner = inside.leaving.get(edge, [])
                    x = inner[-1][0] if inner and not points else float(drawing.x[key[1]]) + move[0]
                    inside.leaving[edge] = [*_joined(inner, points, []), (x, inside.height / 2)]
                else:
                    along = points if level.start[edge] == key[0] else points[::-1]
                    whole = _joined(
                        inside.leaving.pop(edge, []), along, inside.entering.pop(edge, [])
                    )
                    if whole:
                        inside.bends[edge] = whole


def _mirror(level: _Level, drawing: Drawing, inner: Sequence[_Inside]) -> None:
    """Mirrors boxes into which more edges would come in the wrong order than in the right one.

    A box is laid out before those around it, when nothing says from which side its edges come. Columns stay in their order.
    """
    boxes = {level.sides + i: one for i, one in enumerate(inner)}
    into = grouped(
        (b, (number, a, edges)) for number, ((a, b), edges) in enumerate(level.edges.items())
    )
    for number_of_box, box in boxes.items():  # in the order of the run: sources before
        if box.in_columns:
            continue
        ways = []
        for number, a, edges in into.get(number_of_box, ()):
            points = drawing.bends.get(number)
            lane = points[-1][0] if points else float(drawing.x[a])
            out = boxes[a].leaving if a in boxes else {}
            ways += [
                (lane, out[edge][-1][0] if edge in out else 0.0, box.entering[edge][0][0])
                for edge in edges
                if edge in box.entering
            ]
        places = np.array([x for *_, x in sorted(ways)])
        if np.triu(np.sign(places[:, None] - places)).sum() > 0:  # further left, but comes later
            box.mirror()


def _straighten(
    i: int, level: _Level, drawing: Drawing, inner: Sequence[_Inside], wide: Floats, high: Floats
) -> None:
    """Puts an input or output right above or below where its only edge crosses the border of a box.

    Only where nothing stands or passes in its row on the way there: so nothing is crossed that was not before.
    """
    x, y = drawing.x, drawing.y
    ways = [number for number, ends in enumerate(level.edges) if i in ends]
    (a, b), edges = list(level.edges.items())[ways[0]] if ways else ((i, i), [])
    other = a + b - i
    if len(ways) != 1 or len(edges) != 1 or ways[0] in drawing.bends:
        return
    if not 0 <= other - level.sides < len(inner):
        return
    box = inner[other - level.sides]
    points = (box.entering if i == a else box.leaving).get(edges[0])
    if points is None:
        return
    wish = float(x[other]) + points[0 if i == a else -1][0]
    row = set(np.flatnonzero(abs(y[: len(wide)] - y[i]) < (high + high[i]) / 2).tolist())
    there = [Box(x[v], y[v], wide[v], high[v]) for v in row if v != i]
    there += [
        Box(*((p + q) / 2 for p, q in zip(one, two, strict=True)), *abs(np.subtract(one, two)))
        for number, ends in enumerate(level.edges)
        for one, two in pairwise(
            [
                *((x[v], y[v]) for v in ends[:1] if v not in row),
                *drawing.bends.get(number, ()),
                *((x[v], y[v]) for v in ends[1:] if v not in row),
            ]
        )
    ]
    way = Box((wish + x[i]) / 2, y[i], abs(wish - x[i]) + wide[i] + 2 * SIDE, high[i])
    if not any(one.touches(way) for one in there):
        x[i] = wish


class _Level:
    """The graph directly in a box: its nodes, its inner boxes, and ports for edges that cross its border."""

    def __init__(self, tree: _Tree, box: int) -> None:
        nodes, inner, depth = tree.nodes[box], tree.inner[box], tree.depth[box]
        index = {node: i for i, node in enumerate(nodes)}
        index_of_box = {number: i for i, number in enumerate(inner, len(nodes))}
        first = [tree.rank[node] for node in nodes] + [tree.first[number] for number in inner]
        self.edges: dict[tuple[int, int], list[int]] = {}
        """Ends on this level, in rank order -> edges"""
        self.start: dict[int, int] = {}
        ports: dict[tuple[str, int], int] = {}

        def at(node: int) -> int:
            boxes = tree.around[node]
            return index_of_box[boxes[depth]] if len(boxes) > depth else index[node]

        for edge in tree.edges.get(box, ()):
            a, b = at(tree.source[edge]), at(tree.target[edge])
            self.start[edge] = a
            self.edges.setdefault((a, b) if (first[a], a) < (first[b], b) else (b, a), []).append(
                edge
            )
        for edge in tree.entering.get(box, ()):
            port = ports.setdefault(("from", tree.source[edge]), len(first) + len(ports))
            self.edges.setdefault((port, at(tree.target[edge])), []).append(edge)
        for edge in tree.leaving.get(box, ()):
            a = at(tree.source[edge])
            self.edges.setdefault(
                (a, ports.setdefault(("to", a), len(first) + len(ports))), []
            ).append(edge)
        self.sides = len(nodes)
        self.ports = len(ports)
        self.above = frozenset(port for (way, _), port in ports.items() if way == "from")
        self.below = frozenset(ports.values()) - self.above

    def draw(self, wrap: Wrap, wide: Floats, taller: Floats, small: Collection[int]) -> Drawing:
        """Lays out nodes, boxes and ports in layers."""
        ends = np.array(list(self.edges), np.int64).reshape(-1, 2)
        return draw(
            len(wide),
            ends[:, 0],
            ends[:, 1],
            wide,
            taller,
            self.above,
            self.below,
            wrap=wrap,
            sides=self.sides,
            small=small,
        )
