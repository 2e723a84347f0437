"""The whole model as packed arrays for the map: one position per op and one pair per edge."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from editor.graph.graph import Graph, cached_per_graph
from editor.graph.layout.layered import Wrap, draw
from editor.web.drawing.elements import NODE_HEIGHT, NODE_WIDTH, visible_ops
from editor.web.messages import MapData


@cached_per_graph
def map_data(graph: Graph) -> MapData:
    """Positions and edges of all visible ops, base64 of little-endian arrays.

    ``x`` and ``y`` are float32 in the order of the page's ``ops``; ``source`` and ``target`` are uint32
    positions in that order; ``type`` is uint16 positions in ``types``.
    """
    ops = np.array(visible_ops(graph), np.int64)
    place = np.full(len(graph), -1, np.int64)
    place[ops] = np.arange(len(ops))
    producer, consumer, _ = graph.edges
    real = (place[producer] >= 0) & (place[consumer] >= 0)
    pairs = np.unique(np.stack([place[producer[real]], place[consumer[real]]], axis=1), axis=0)
    types = sorted({graph.op_types[op] for op in ops.tolist()})
    place_of = {name: i for i, name in enumerate(types)}
    drawing = draw(len(ops), pairs[:, 0], pairs[:, 1], NODE_WIDTH, wrap=Wrap())
    return {
        "count": len(ops),
        "width": NODE_WIDTH,
        "height": NODE_HEIGHT,
        "x": packed(drawing.x, "<f4"),
        "y": packed(drawing.y, "<f4"),
        "source": packed(pairs[:, 0], "<u4"),
        "target": packed(pairs[:, 1], "<u4"),
        "types": types,
        "type": packed(np.array([place_of[graph.op_types[op]] for op in ops.tolist()]), "<u2"),
    }


def packed(values: Any, kind: str) -> str:
    """An array as base64 of a little-endian type."""
    return base64.b64encode(np.ascontiguousarray(values.astype(kind)).tobytes()).decode()
