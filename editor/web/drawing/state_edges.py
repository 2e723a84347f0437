"""Dashed edges from what a step leaves to what the next step reads. They take no part in the layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from editor.graph.graph import Graph, cached_per_graph
from editor.graph.states import State, states_of
from editor.web.drawing.elements import Edge, EdgeData, Node, elements, segments, size_of, split

MOST_SHOWN = 8
"""States; where a model has more, an edge shows with one of its ends only."""
_NAMED = 24
"""States that an edge names."""
_BESIDE = 16
"""Distance of a bend from the wider end."""

Point = tuple[float, float]


@cached_per_graph
def edges_between_terminals(graph: Graph) -> list[Edge]:
    """Edges where every op is drawn: from output to input, or from what sets a state inside to what reads it."""
    position = {graph.tensor_names[t]: i for i, t in enumerate(graph.outputs.tolist())}
    inside = _inside(graph)

    def ends(state: State) -> tuple[str, str]:
        if state.inside:
            read, kept = inside[state.input]
            return f"op{kept}", f"op{read}"
        return f"out{position[state.output]}", f"in{graph.tensor_index[state.input]}"

    return _edges(graph, split(elements(graph))[0], ends)


def edges_between_ops(graph: Graph, nodes: Sequence[Node], node_of: Sequence[int]) -> list[Edge]:
    """Edges between ops and blocks: from what makes an output to the last that reads the input.

    Args:
        graph: the model.
        nodes: ops and blocks.
        node_of: per op of the graph its place in ``nodes``, or -1.
    """
    inside = _inside(graph)

    def ends(state: State) -> tuple[str, str] | None:
        if state.inside:
            read, kept = inside[state.input]
        else:
            kept = int(graph.tensor_producer[graph.tensor_index[state.output]])
            readers = graph.readers[graph.tensor_index[state.input]].tolist()
            # A cache is measured first, and then read by the op that makes it longer.
            read = max(readers, key=lambda op: int(graph.rank[op]), default=-1)
        if kept < 0 or read < 0 or node_of[kept] < 0 or node_of[read] < 0:
            return None
        return nodes[node_of[kept]]["data"]["id"], nodes[node_of[read]]["data"]["id"]

    return _edges(graph, nodes, ends)


def _inside(graph: Graph) -> dict[str, tuple[int, int]]:
    """Tensor that is read -> the ops that read and set the state."""
    return {
        graph.tensor_names[int(graph.op_outputs[read][0])]: (read, kept)
        for read, kept in graph.state_pairs
    }


def _edges(
    graph: Graph, nodes: Sequence[Node], ends: Callable[[State], tuple[str, str] | None]
) -> list[Edge]:
    states, number = states_of(graph), {n["data"]["id"]: i for i, n in enumerate(nodes)}
    joined: dict[tuple[str, str], list[State]] = {}
    for state in states:
        pair = ends(state)
        if pair is not None and number.keys() >= set(pair):
            joined.setdefault(pair, []).append(state)
    if not joined:
        return []
    boxes = np.array([[*n["position"].values(), *size_of(n["classes"])] for n in nodes], float)
    faint = ["faint"] if len(states) > MOST_SHOWN else []
    found: list[Edge] = []
    for (source, target), kept in joined.items():
        data: EdgeData = {
            "id": f"state-{source}-{target}",
            "source": source,
            "target": target,
            "bytes": 0,
            "shape": "?",
            "states": [[state.output, state.input] for state in kept[:_NAMED]],
        }
        classes = ["state", *faint]
        if bends := _bends(boxes, number[source], number[target]):
            start, end = (tuple(boxes[number[name], :2].tolist()) for name in (source, target))
            data["weights"], data["distances"] = segments(start, end, bends)
            classes.append("bent")
        found.append({"data": data, "classes": " ".join(classes)})
    return found


def _bends(boxes: NDArray[np.float64], source: int, target: int) -> list[Point]:
    """Around the other nodes: straight, or by the right or the left, whichever is behind the fewest of them."""
    if source == target:
        return []
    (x0, y0), (x1, y1) = boxes[[source, target], :2].tolist()
    wide = float(boxes[[source, target], 2].max()) / 2 + _BESIDE
    others = np.delete(boxes, [source, target], axis=0)
    right, left = max(x0, x1) + wide, min(x0, x1) - wide
    ways: list[list[Point]] = [[], [(right, y0), (right, y1)], [(left, y0), (left, y1)]]
    return min(ways, key=lambda way: _hidden(others, [(x0, y0), *way, (x1, y1)]))


def _hidden(boxes: NDArray[np.float64], way: Sequence[Point]) -> int:
    """How often a way is behind a box."""
    return sum(int(np.count_nonzero(_meets(boxes, start, end))) for start, end in pairwise(way))


def _meets(boxes: NDArray[np.float64], start: Point, end: Point) -> NDArray[np.bool_]:
    """[box] whether a straight line goes through it."""
    first, last = np.zeros(len(boxes)), np.ones(len(boxes))
    for axis in (0, 1):
        way = (end[axis] - start[axis]) or 1e-9
        near = (boxes[:, axis] - boxes[:, 2 + axis] / 2 - start[axis]) / way
        far = (boxes[:, axis] + boxes[:, 2 + axis] / 2 - start[axis]) / way
        first = np.maximum(first, np.minimum(near, far))
        last = np.minimum(last, np.maximum(near, far))
    return first < last
