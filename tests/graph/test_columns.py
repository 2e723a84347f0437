"""Long drawings are cut into columns: everything stays readable, in order, and apart."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from editor.graph.layout.layered import READABLE, Drawing, Wrap, draw
from editor.web.drawing.styles import FAR_FONT

WIDE, HIGH = 128.0, 38.0


@st.composite
def long_graphs(draw_: st.DrawFn) -> list[tuple[int, int]]:
    """Chains of 20 to 120 nodes with shortcuts of any length, some of which end in one node."""
    count = draw_(st.integers(20, 120))
    ends = st.tuples(st.integers(0, count - 2), st.integers(2, 40))
    shortcuts = draw_(st.lists(ends, max_size=20))
    return sorted(
        {
            *pairwise(range(count)),
            *((a, min(a + far, count - 1)) for a, far in shortcuts if a + 1 < count - 1),
        }
    )


def laid_out(edges: list[tuple[int, int]], taller: np.ndarray | None = None) -> Drawing:
    ends = np.array(edges, np.int64).reshape(-1, 2)
    return draw(int(ends.max()) + 1, ends[:, 0], ends[:, 1], WIDE, taller, wrap=Wrap())


def size(drawing: Drawing) -> tuple[float, float]:
    return float(np.ptp(drawing.x)) + WIDE, float(np.ptp(drawing.y)) + HIGH


@given(long_graphs(), st.data())
def test_no_nodes_overlap_and_lines_around_columns_touch_none(
    edges: list[tuple[int, int]], data: st.DataObject
) -> None:
    count = max(map(max, edges)) + 1
    taller = np.array(
        [data.draw(st.sampled_from([0.0, 0.0, 0.0, 90.0, 400.0])) for _ in range(count)]
    )
    drawing = laid_out(edges, taller)
    x, y, half = drawing.x, drawing.y, (HIGH + taller) / 2
    beside = np.abs(x[:, None] - x) < WIDE - 0.1
    level = np.abs(y[:, None] - y) < half[:, None] + half - 0.1
    assert (beside & level).sum() == count, "only each with itself"
    for edge, points in drawing.bends.items():
        for (x1, y1), (x2, y2) in pairwise(points):
            if y1 == y2:  # below a column, or above one
                on = (
                    (x + WIDE / 2 > min(x1, x2))
                    & (x - WIDE / 2 < max(x1, x2))
                    & (np.abs(y - y1) < half)
                )
                assert not on.any(), f"edge {edges[edge]} goes through a node"


@given(long_graphs())
def test_layers_go_down_in_a_column_and_columns_to_the_right(edges: list[tuple[int, int]]) -> None:
    drawing = laid_out(edges)
    for a, b in edges:
        in_order = drawing.y[b] > drawing.y[a] or drawing.x[b] > drawing.x[a] + WIDE / 2
        assert in_order, "an edge goes down, or on to a column further right"


@given(long_graphs())
def test_edges_into_another_column_leave_downwards_and_arrive_from_above(
    edges: list[tuple[int, int]],
) -> None:
    drawing = laid_out(edges)
    for edge, (a, b) in enumerate(edges):
        if drawing.y[b] <= drawing.y[a] and edge not in drawing.faint:
            points = drawing.bends[edge]
            assert points[0][1] > drawing.y[a] and points[-1][1] < drawing.y[b]


@given(long_graphs(), st.data())
def test_what_comes_from_above_or_goes_below_passes_no_column(
    edges: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Down and up every column on the way, beside each other, such edges were a comb."""
    count = max(map(max, edges)) + 1
    inner = st.lists(st.integers(0, count - 1), min_size=1, max_size=6, unique=True)
    entering = [(count + i, to) for i, to in enumerate(data.draw(inner))]
    first = count + len(entering)
    leaving = [(begin, first + i) for i, begin in enumerate(data.draw(inner))]
    ends = np.array([*edges, *entering, *leaving], np.int64)
    drawing = draw(
        first + len(leaving),
        ends[:, 0],
        ends[:, 1],
        WIDE,
        above=[port for port, _ in entering],
        below=[port for _, port in leaving],
        wrap=Wrap(),
    )
    top = float(drawing.y[:count].min()) - HIGH / 2
    for edge in range(len(edges), len(ends)):
        for (_, y1), (_, y2) in pairwise(drawing.bends.get(edge, [])):
            assert y2 >= y1 or y1 < top, "up again only above all nodes"
    x, y = drawing.x[:count], drawing.y[:count]
    rows: dict[float, list[tuple[float, float, int]]] = {}
    for edge, points in drawing.bends.items():
        for (x1, y1), (x2, y2) in pairwise(points):
            if y1 == y2 and x1 != x2:
                begin, end = min(x1, x2), max(x1, x2)
                beside = (x + WIDE / 2 < begin) | (x - WIDE / 2 > end) | (np.abs(y - y1) > HIGH / 2)
                assert beside.all(), "through no node"
                rows.setdefault(y1, []).append((begin, end, int(ends[edge, 0])))
    for row in rows.values():
        for begin, end, a in row:
            for other_begin, other_end, b in row:
                assert a == b or end <= other_begin or other_end <= begin, "each has its own line"


def test_two_hundred_ops_in_a_row_can_be_read_at_once() -> None:
    wide, high = size(laid_out([*pairwise(range(202))]))
    zoom = Wrap().zoom(wide, high)
    assert zoom >= READABLE and zoom * FAR_FONT >= 8


def test_short_and_wide_drawings_stay_in_one_column() -> None:
    assert len(set(laid_out([*pairwise(range(10))]).x)) == 1
    wide = [(0, i) for i in range(1, 60)]
    assert len(set(laid_out(wide).y)) == 2


def test_the_longest_chains_are_cut_too() -> None:
    wide, high = size(laid_out([*pairwise(range(20_000))]))
    assert 1 < wide / high < 4


def test_what_only_feeds_a_hub_stands_beside_the_first_ops() -> None:
    """Nothing pulled it along while the rest of a Llama drifted 36,000 pixels to the left: the drawing was 17 times as wide."""
    edges, previous, node = [], 0, 1
    joins = []
    for _ in range(60):
        a, b, c, d, x, y = range(node, node + 6)
        edges += [(previous, a), (a, b), (previous, c), (b, d), (c, d), (x, b), (y, b)]
        joins.append(d)
        previous, node = d, node + 6
    edges += [(node, node + 1), *((node + 1, d) for d in joins[::3])]
    ends = np.array(sorted(edges), np.int64)
    drawing = draw(node + 2, ends[:, 0], ends[:, 1], WIDE)
    assert len(drawing.faint) == len(joins[::3]) and abs(drawing.x[node] - drawing.x[0]) < 4 * WIDE


@given(st.integers(3, 11))
def test_what_feeds_every_layer_does_not_bend_their_chain(layers: int) -> None:
    """A mask of a language model is read by all layers, and their line stays straight."""
    chain, mask = list(range(1, layers)), layers
    drawing = laid_out([*pairwise([0, *chain]), *((mask, v) for v in chain)])
    assert float(np.ptp(drawing.x[chain])) < 3


@given(long_graphs())
def test_edges_beside_a_chain_begin_and_end_at_sides_and_pass_no_node(
    edges: list[tuple[int, int]],
) -> None:
    ends = np.array(edges, np.int64)
    count = int(ends.max()) + 1
    drawing = draw(count, ends[:, 0], ends[:, 1], WIDE, wrap=Wrap(), sides=count)
    x, y = drawing.x, drawing.y
    lines: list[tuple[float, float, float, set[int]]] = []
    for edge, points in drawing.bends.items():
        source, target = edges[edge]
        own = (np.arange(count) == source) | (np.arange(count) == target)
        for (
            px,
            py,
        ) in points:  # Cytoscape draws no edge that bends inside its nodes; blocks are 142 x 46
            inside = (np.abs(x - px) < 71) & (np.abs(y - py) < 23)
            assert not (inside & own).any(), f"edge {edges[edge]} bends inside its node"
        middle = [(float(x[source]), float(y[source])), *points]
        for (x1, y1), (x2, y2) in pairwise([*middle, (float(x[target]), float(y[target]))]):
            across = (x + WIDE / 2 > min(x1, x2)) & (x - WIDE / 2 < max(x1, x2))
            down = (y + HIGH / 2 > min(y1, y2)) & (y - HIGH / 2 < max(y1, y2))
            if x1 == x2 or y1 == y2:
                assert not (across & down & ~own).any(), f"edge {edges[edge]} goes through a node"
            if y1 == y2:
                lines.append((y1, min(x1, x2), max(x1, x2), {source, target}))
    for i, (height, begin, end, nodes) in enumerate(lines):
        for other_height, other_begin, other_end, others in lines[:i]:
            apart = other_height != height or end <= other_begin or other_end <= begin
            assert apart or nodes & others, "lines of different nodes lie on each other"


def test_a_skip_leaves_and_arrives_at_the_side_of_a_chain_that_stays_straight() -> None:
    edges = [*pairwise(range(8)), (1, 4), (4, 7)]
    ends = np.array(sorted(edges), np.int64)
    drawing = draw(8, ends[:, 0], ends[:, 1], WIDE, sides=8)
    assert len(set(drawing.x)) == 1, "what goes beside bends nothing"
    for edge, points in drawing.bends.items():
        source, target = ends[edge].tolist()
        assert 0 < points[0][1] - drawing.y[source] < HIGH / 2, "below the middle of its side"
        assert 0 < drawing.y[target] - points[-1][1] < HIGH / 2, "above the middle of its side"
        assert all(abs(x - drawing.x[0]) > WIDE / 2 for x, _ in points)
