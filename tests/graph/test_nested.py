"""Boxes inside boxes: each holds its own nodes and no others, and edges cross its upper and lower border only."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from editor.graph.layout.layered import READABLE, Wrap
from editor.graph.layout.nested import Box, NestedDrawing, draw_nested, topological_ranks
from editor.web.drawing.elements import EdgeData, ops_of, segments, spans
from editor.web.drawing.preview import _bends

SIZE = (128.0, 38.0)
Drawn = tuple[list[tuple[int, int]], list[tuple[int, ...]], NestedDrawing]


@st.composite
def drawings(draw: st.DrawFn) -> Drawn:
    """Random graphs in random trees of boxes; boxes need not be convex, so that edges between them run both ways."""
    count = draw(st.integers(1, 14))
    edges = draw(
        st.lists(
            st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(
                lambda e: e[0] < e[1]
            ),
            unique=True,
            max_size=30,
        )
        if count > 1
        else st.just([])
    )
    parent = {box: draw(st.integers(-1, box - 1)) for box in range(draw(st.integers(0, 5)))}
    around = []
    for _ in range(count):
        box, boxes = draw(st.sampled_from([-1, *parent])), []
        while box >= 0:
            boxes.append(box)
            box = parent[box]
        around.append(tuple(reversed(boxes)))
    rank = np.array(draw(st.permutations(range(count))) if draw(st.booleans()) else range(count))
    ends = np.array(edges, np.int64).reshape(-1, 2)
    return edges, around, draw_nested(rank, ends[:, 0], ends[:, 1], around, SIZE)


def touching(a: Box, b: Box) -> bool:
    return (
        abs(a.x - b.x) < (a.width + b.width) / 2 - 0.1
        and abs(a.y - b.y) < (a.height + b.height) / 2 - 0.1
    )


def within(inner: Box, outer: Box) -> bool:
    return (
        abs(inner.x - outer.x) <= (outer.width - inner.width) / 2 + 0.1
        and abs(inner.y - outer.y) <= (outer.height - inner.height) / 2 + 0.1
    )


@given(drawings())
def test_boxes_contain_only_their_own_nodes(drawn: Drawn) -> None:
    _, around, drawing = drawn
    nodes = [Box(float(x), float(y), *SIZE) for x, y in zip(drawing.x, drawing.y, strict=True)]
    assert set(drawing.boxes) == {box for boxes in around for box in boxes}
    for a, b in combinations(nodes, 2):
        assert not touching(a, b)
    for number, box in drawing.boxes.items():
        for node, boxes in zip(nodes, around, strict=True):
            assert within(node, box) if number in boxes else not touching(node, box)
    for (a, one), (b, other) in combinations(drawing.boxes.items(), 2):
        nested = any(a in boxes and b in boxes for boxes in around)
        assert not touching(one, other) or (nested and (within(one, other) or within(other, one)))
    order = list(drawing.boxes)
    assert all(
        order.index(a) < order.index(b) for boxes in around for a, b in combinations(boxes, 2)
    ), "outer ones first"


@given(drawings())
def test_bends_are_in_the_common_boxes_of_both_ends(drawn: Drawn) -> None:
    edges, around, drawing = drawn
    for edge, points in drawing.bends.items():
        a, b = edges[edge]
        for box in (drawing.boxes[number] for number in set(around[a]) & set(around[b])):
            assert all(within(Box(x, y, 0, 0), box) for x, y in points)


def test_an_edge_out_of_a_box_avoids_the_nodes_below_it() -> None:
    """0 -> 1 -> 2 in a box, and 0 -> 3 below the box."""
    drawing = draw_nested(
        np.arange(4), np.array([0, 1, 0, 2]), np.array([1, 2, 3, 3]), [(0,), (0,), (0,), ()], SIZE
    )
    box, points = drawing.boxes[0], drawing.bends[2]
    assert points[-1][1] == box.y + box.height / 2, "it leaves through the lower border"
    assert points[0][1] < drawing.y[1] < drawing.y[2] < points[-2][1]
    for x, _ in points[:-1]:
        assert all(abs(x - drawing.x[node]) > SIZE[0] / 2 for node in (1, 2))


def test_edges_between_boxes_turn_where_they_cross_the_border() -> None:
    """They went on to the middle below the box, and back from there: a spike."""
    count, per_box = (
        240,
        40,
    )  # long chains in boxes, in columns, with a second line that leaves each box beside its middle
    source = [*range(count - 1), *range(0, count - per_box, per_box)]
    target = [*range(1, count), *range(per_box, count, per_box)]
    ends = np.array([source, target], np.int64)
    drawing = draw_nested(
        np.arange(count), ends[0], ends[1], [(node // per_box,) for node in range(count)], SIZE
    )
    turns = 0
    for edge, points in drawing.bends.items():
        if source[edge] // per_box == target[edge] // per_box:
            continue
        a, b = drawing.boxes[source[edge] // per_box], drawing.boxes[target[edge] // per_box]
        for one, two, three in zip(points, points[1:], points[2:], strict=False):
            if one[1] == a.y + a.height / 2 and one[1] < two[1] == three[1]:
                turns += 1
                assert one[0] == two[0], "straight down out of the box"
            if three[1] == b.y - b.height / 2 and one[1] == two[1] < three[1]:
                turns += 1
                assert two[0] == three[0], "and straight down into the next"
    assert turns


def test_two_tall_boxes_stand_beside_each_other() -> None:
    """An encoder above a taller decoder: the middle of the drawing is in the decoder, and nothing was cut."""
    source, target = np.arange(19), np.arange(1, 20)
    drawing = draw_nested(
        np.arange(20), source, target, [(int(node >= 8),) for node in range(20)], SIZE
    )
    encoder, decoder = drawing.boxes[0], drawing.boxes[1]
    assert encoder.x + encoder.width / 2 < decoder.x - decoder.width / 2


@given(
    st.tuples(*[st.floats(-500, 500)] * 4),
    st.lists(st.tuples(st.floats(-500, 500), st.floats(-500, 500)), max_size=5),
)
def test_bends_are_converted_for_cytoscape(
    ends: tuple[float, ...], points: list[tuple[float, float]]
) -> None:
    start, end = ends[:2], ends[2:]
    if abs(start[0] - end[0]) + abs(start[1] - end[1]) < 20:
        return
    weights, distances = segments(start, end, points)
    data: EdgeData = {
        "id": "e",
        "source": "a",
        "target": "b",
        "bytes": 0,
        "weights": weights,
        "distances": distances,
    }
    for found, wanted in zip(_bends(start, end, data), points, strict=True):
        assert np.allclose(found, wanted, atol=0.5)


@given(st.sets(st.integers(0, 300)))
def test_spans_contain_every_number(numbers: set[int]) -> None:
    text = spans(np.array(sorted(numbers), np.int64))
    assert ops_of(text) == sorted(numbers)
    assert len(text.split()) == sum(number - 1 not in numbers for number in numbers)


@given(
    st.permutations(range(8)),
    st.permutations(range(8)),
    st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda e: e[0] != e[1])),
)
def test_ranks_follow_all_edges_where_they_make_no_cycle(
    ranks: list[int], order: list[int], drawn: set[tuple[int, int]]
) -> None:
    edges = np.array(sorted(drawn), np.int64).reshape(-1, 2)
    found = topological_ranks(np.array(ranks), edges[:, 0], edges[:, 1])
    assert sorted(found.tolist()) == list(range(8))
    acyclic = np.array([e for e in edges if order[e[0]] < order[e[1]]], np.int64).reshape(-1, 2)
    found = topological_ranks(np.array(ranks), acyclic[:, 0], acyclic[:, 1])
    assert (found[acyclic[:, 0]] < found[acyclic[:, 1]]).all()


def test_edges_from_a_chain_into_parallel_boxes_do_not_cross() -> None:
    """Four stages that follow each other, and a head for each of them: the skips of SegFormer."""
    source = np.array([0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7])
    target = np.array([1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8])
    drawing = draw_nested(np.arange(9), source, target, [(0,)] * 4 + [(1,)] * 4 + [()], SIZE)
    under, above = (
        drawing.boxes[0].y + drawing.boxes[0].height / 2,
        drawing.boxes[1].y - drawing.boxes[1].height / 2,
    )
    ways = [
        next(
            (x1, x2)
            for (x1, y1), (x2, y2) in pairwise(drawing.bends[edge])
            if (y1, y2) == (under, above)
        )
        for edge in range(3, 7)
    ]
    assert [x for _, x in sorted(ways)] == sorted(x for _, x in ways), "in the same order"


def test_an_input_stands_right_above_where_its_edge_enters_a_box() -> None:
    """It stood above the middle of the box, and its edge was a slanted stub: SegFormer again."""
    source = np.array([0, 1, 2, 3, 1, 2, 3, 4, 5])
    target = np.array([1, 2, 3, 4, 5, 5, 5, 5, 6])
    around = [(), (0,), (0,), (0,), (0,), (), ()]
    drawing = draw_nested(np.arange(7), source, target, around, SIZE, small=[0, 6])
    assert [x for x, _ in drawing.bends.get(0, ())] == [drawing.x[0]]
    assert drawing.x[0] == drawing.x[1] != drawing.boxes[0].x


@given(drawings())
def test_inputs_and_outputs_that_stand_straight_touch_nothing(drawn: Drawn) -> None:
    edges, around, _ = drawn
    ends = np.array(edges, np.int64).reshape(-1, 2)
    small = [
        node
        for node, boxes in enumerate(around)
        if not boxes and sum(node in edge for edge in edges) < 2
    ]
    rank = np.arange(len(around))
    drawing = draw_nested(rank, ends[:, 0], ends[:, 1], around, SIZE, small)
    places = zip(drawing.x, drawing.y, strict=True)
    nodes = [Box(float(x), float(y), *SIZE) for x, y in places]
    for a, b in combinations(nodes, 2):
        assert not touching(a, b)
    for node in small:
        assert not any(touching(nodes[node], box) for box in drawing.boxes.values())


def test_ops_beside_a_tall_box_stand_in_one_column_before_and_one_behind_it() -> None:
    """Each op behind it had a column of its own."""
    source, target = np.arange(29), np.arange(1, 30)
    inside = [(0,) if 7 <= node < 23 else () for node in range(30)]
    drawing = draw_nested(np.arange(30), source, target, inside, SIZE)
    before, behind = set(drawing.x[:7].tolist()), set(drawing.x[23:].tolist())
    assert len(before) == len(behind) == 1
    assert max(before) < drawing.boxes[0].x < min(behind)


def test_what_is_in_boxes_stays_readable_beside_open_tables() -> None:
    """A column of boxes between ops was drawn so small that a window of 1280 x 720 showed its beginning only."""
    stages = [stage for stage, layers in enumerate((3, 4, 6, 3)) for _ in range(layers)]
    inside = [(), (), *((0, 1 + stage) for stage in stages), (), (), ()]
    source = np.arange(len(inside) - 1)
    drawing = draw_nested(np.arange(len(inside)), source, source + 1, inside, SIZE)
    assert Wrap(740.0, 300.0).zoom(*drawing.size) > READABLE
    for a, b in pairwise(range(len(inside))):
        assert drawing.y[b] > drawing.y[a] or drawing.x[b] > drawing.x[a], "down, or to the right"


def test_a_box_in_columns_is_not_mirrored() -> None:
    """Two chains end at a tall one; inputs that come from the other side do not turn the order of reading around."""
    first, second, tall = range(5), range(5, 10), range(10, 40)
    chains = [pair for chain in (first, second, tall) for pair in pairwise(chain)]
    edges = [*chains, (4, 10), (9, 10), (43, 0), (42, 0), (41, 3), (40, 9)]
    ends = np.array(edges, np.int64).T
    rank = np.r_[np.arange(40), np.arange(-4, 0)]
    boxes = [(0,)] * 40 + [()] * 4
    drawing = draw_nested(rank, ends[0], ends[1], boxes, SIZE, range(40, 44))
    along = drawing.x[10:40]
    assert (np.diff(along) >= 0).all() and along[0] < along[-1]


def test_what_feeds_a_chain_and_its_last_output_leaves_it_straight() -> None:
    edges = [*pairwise(range(6)), (4, 6), (5, 7), (8, 0), (9, 1)]
    ends = np.array(edges, np.int64).T
    rank = np.r_[np.arange(6), 6, 7, -2, -1]
    drawing = draw_nested(rank, ends[0], ends[1], [()] * 10, SIZE, range(6, 10))
    assert np.ptp(drawing.x[:6]) == 0


def test_an_edge_out_of_an_early_column_leaves_the_box_below_that_column() -> None:
    """It went below all columns to the right border, and came back outside."""
    edges = [*pairwise(range(61)), (10, 61)]
    ends = np.array(edges, np.int64).T
    boxes = [(0,)] * 60 + [()] * 2
    drawing = draw_nested(np.arange(62), ends[0], ends[1], boxes, SIZE)
    box, points = drawing.boxes[0], drawing.bends[len(edges) - 1]
    assert drawing.x[10] < drawing.x[59], "in columns"
    (out,) = [x for x, y in points if y == box.y + box.height / 2]
    assert abs(out - drawing.x[10]) < SIZE[0]
