"""Positions for a graph whose nodes lie in boxes inside boxes.

Every box is drawn by itself, innermost first, and then is one large node of the drawing around it. So a box holds
its own nodes and no others, whatever the graph is like (compound graphs after Sugiyama and Misue, 1991, one level
at a time). Edges come into a box through its upper border and leave it through the lower one, in lanes of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from editor.graph.graph import Ints
from editor.graph.layout.layered import Drawing, Floats, draw

SIDE, PAD, LABEL = 18.0, 12.0, 16.0
"""Room between a box and what it holds: at the sides, above and below, and above that for its name."""
_LANE = 6.0
_MODEL = -1
"""Number of the box around everything, which is not drawn."""

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Box:
    """A rectangle by its middle."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, eq=False)
class NestedDrawing:
    """Where things are; units are pixels at zoom 1."""

    x: Floats
    y: Floats
    bends: dict[int, Points]
    """Edge number -> points that the edge passes."""
    faint: frozenset[int]
    """Edges of hubs."""
    boxes: dict[int, Box]
    """Outer ones first."""


def draw_nested(rank: Ints, source: Ints, target: Ints, around: Sequence[tuple[int, ...]],
                size: tuple[float, float]) -> NestedDrawing:
    """Lays out a graph.

    Args:
        rank: of each node in an order of execution. Edges run with it, or are drawn as if they did: nodes
            may stand for several ops.
        source, target: the edges; none from a node to itself.
        around: per node the numbers (0 and up) of the boxes around it, outermost first. A box is always in the same box.
        size: width and height of a node.
    """
    return _Nested(rank, source, target, around, size).draw()


@dataclass
class _Inside:
    """What a box holds, relative to its middle."""

    width: float
    height: float
    at: dict[int, tuple[float, float]] = field(default_factory=dict)
    boxes: dict[int, Box] = field(default_factory=dict)
    bends: dict[int, Points] = field(default_factory=dict)
    """Of edges that begin and end in the box."""
    leaving: dict[int, Points] = field(default_factory=dict)
    entering: dict[int, Points] = field(default_factory=dict)

    def add(self, other: _Inside, x: float, y: float) -> None:
        """Takes over what an inner box holds, with that box's middle at a point."""
        self.at |= {node: (x + px, y + py) for node, (px, py) in other.at.items()}
        self.boxes |= {n: Box(x + b.x, y + b.y, b.width, b.height) for n, b in other.boxes.items()}
        for mine, its in ((self.bends, other.bends), (self.leaving, other.leaving), (self.entering, other.entering)):
            mine |= {edge: moved(points, x, y) for edge, points in its.items()}


def moved(points: Points, x: float, y: float) -> Points:
    """Points that far away."""
    return [(x + px, y + py) for px, py in points]


class _Tree:
    """Which boxes and edges are where; edges by the innermost box around both ends, and by the borders that they cross."""

    def __init__(self, rank: Ints, source: Ints, target: Ints, around: Sequence[tuple[int, ...]]) -> None:
        self.rank, self.source, self.target, self.around = rank.tolist(), source.tolist(), target.tolist(), around
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
        shared = next((i for i, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b)))
        self.edges.setdefault(a[shared - 1] if shared else _MODEL, []).append(edge)
        if self._begin(self.source[edge], shared) < self._begin(self.target[edge], shared):
            for box in a[shared:]:
                self.leaving.setdefault(box, []).append(edge)
            for box in b[shared:]:
                self.entering.setdefault(box, []).append(edge)

    def _begin(self, node: int, depth: int) -> int:
        """Rank of a node, or of the box at a depth that it is in."""
        boxes = self.around[node]
        return self.first[boxes[depth]] if len(boxes) > depth else int(self.rank[node])


class _Nested:
    def __init__(self, rank: Ints, source: Ints, target: Ints, around: Sequence[tuple[int, ...]],
                 size: tuple[float, float]) -> None:
        self.tree = _Tree(rank, source, target, around)
        self.width, self.height = size
        self.faint: set[int] = set()

    def draw(self) -> NestedDrawing:
        """The whole drawing."""
        everything = self._inside(_MODEL)
        places = np.array([everything.at[node] for node in range(len(self.tree.around))]).reshape(-1, 2)
        return NestedDrawing(places[:, 0], places[:, 1], everything.bends, frozenset(self.faint), everything.boxes)

    def _inside(self, box: int) -> _Inside:
        """Draws a box with all that is in it."""
        nodes, inner = self.tree.nodes[box], [self._inside(number) for number in self.tree.inner[box]]
        level = _Level(self.tree, box)
        wide = np.array([self.width] * len(nodes) + [one.width for one in inner] + [0.0] * level.ports)
        high = np.array([self.height] * len(nodes) + [one.height for one in inner] + [self.height] * level.ports)
        drawing = level.draw(wide, high - self.height)
        real = len(wide) - level.ports
        x, y, wide, high = drawing.x[:real], drawing.y[:real], wide[:real], high[:real]
        lanes = [px for points in drawing.bends.values() for px, _ in points] + drawing.x[real:].tolist()
        left = min([*(x - wide / 2).tolist(), *(px - _LANE for px in lanes)], default=0.0) - SIDE
        right = max([*(x + wide / 2).tolist(), *(px + _LANE for px in lanes)], default=0.0) + SIDE
        top = float((y - high / 2).min(initial=np.inf)) - PAD - LABEL
        bottom = float((y + high / 2).max(initial=-np.inf)) + PAD
        if not real:
            top = bottom = 0.0
        found = _Inside(right - left, bottom - top)
        if box != _MODEL:
            found.boxes[box] = Box(0.0, 0.0, found.width, found.height)
        dx, dy = -(left + right) / 2, -(top + bottom) / 2
        for i, node in enumerate(nodes):
            found.at[node] = (float(x[i]) + dx, float(y[i]) + dy)
        for i, one in enumerate(inner, len(nodes)):
            found.add(one, float(x[i]) + dx, float(y[i]) + dy)
        self._route(level, drawing, found, (dx, dy))
        return found

    def _route(self, level: _Level, drawing: Drawing, found: _Inside, move: tuple[float, float]) -> None:
        """Points of the edges on this level, joined with those further in."""
        for number, (key, edges) in enumerate(level.edges.items()):
            points = moved(drawing.bends.get(number, []), *move)
            if number in drawing.faint:
                self.faint.update(edges)
            for edge in edges:
                if key[0] in level.above:
                    port = (float(drawing.x[key[0]]) + move[0], -found.height / 2)
                    found.entering[edge] = [port, *points, *found.entering.get(edge, [])]
                elif key[1] in level.below:
                    port = (float(drawing.x[key[1]]) + move[0], found.height / 2)
                    found.leaving[edge] = [*found.leaving.get(edge, []), *points, port]
                else:
                    along = points if level.start[edge] == key[0] else points[::-1]
                    whole = [*found.leaving.pop(edge, []), *along, *found.entering.pop(edge, [])]
                    if whole:
                        found.bends[edge] = whole


class _Level:
    """The graph of what lies directly in a box: its nodes, its inner boxes, and ports for edges that cross its border."""

    def __init__(self, tree: _Tree, box: int) -> None:
        nodes, inner, depth = tree.nodes[box], tree.inner[box], tree.depth[box]
        place = {node: i for i, node in enumerate(nodes)}
        place_of_box = {number: i for i, number in enumerate(inner, len(nodes))}
        first = [tree.rank[node] for node in nodes] + [tree.first[number] for number in inner]
        self.edges: dict[tuple[int, int], list[int]] = {}
        """By their ends on this level, in an order without cycles."""
        self.start: dict[int, int] = {}
        ports: dict[tuple[str, int], int] = {}

        def at(node: int) -> int:
            boxes = tree.around[node]
            return place_of_box[boxes[depth]] if len(boxes) > depth else place[node]

        for edge in tree.edges.get(box, ()):
            a, b = at(tree.source[edge]), at(tree.target[edge])
            self.start[edge] = a
            self.edges.setdefault((a, b) if (first[a], a) < (first[b], b) else (b, a), []).append(edge)
        for edge in tree.entering.get(box, ()):
            port = ports.setdefault(("from", tree.source[edge]), len(first) + len(ports))
            self.edges.setdefault((port, at(tree.target[edge])), []).append(edge)
        for edge in tree.leaving.get(box, ()):
            a = at(tree.source[edge])
            self.edges.setdefault((a, ports.setdefault(("to", a), len(first) + len(ports))), []).append(edge)
        self.ports = len(ports)
        self.above = frozenset(port for (way, _), port in ports.items() if way == "from")
        self.below = frozenset(ports.values()) - self.above

    def draw(self, wide: Floats, taller: Floats) -> Drawing:
        """Nodes, boxes and ports in layers."""
        ends = np.array(list(self.edges), np.int64).reshape(-1, 2)
        return draw(len(wide), ends[:, 0], ends[:, 1], wide, taller, self.above, self.below)


__all__ = ["Box", "NestedDrawing", "draw_nested"]
