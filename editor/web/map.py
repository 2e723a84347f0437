"""The whole model as packed arrays for the map: one position per op and one pair per edge."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any

import numpy as np

from editor.graph.drawing import draw
from editor.graph.graph import Graph
from editor.web.elements import NODE_HEIGHT, NODE_WIDTH, visible_ops


@lru_cache(maxsize=4)
def map_data(graph: Graph) -> dict[str, Any]:
    """Positions and edges of all visible ops, base64 of little-endian arrays.

    ``x`` and ``y`` are float32 in the order of the page's ``ops``; ``source`` and ``target`` are uint32
    positions in that order.
    """
    ops = np.array(visible_ops(graph), np.int64)
    place = np.full(len(graph), -1, np.int64)
    place[ops] = np.arange(len(ops))
    producer, consumer, _ = graph.edges
    real = (place[producer] >= 0) & (place[consumer] >= 0)
    pairs = np.unique(np.stack([place[producer[real]], place[consumer[real]]], axis=1), axis=0)
    drawing = draw(len(ops), pairs[:, 0], pairs[:, 1], NODE_WIDTH)
    return {"count": len(ops), "width": NODE_WIDTH, "height": NODE_HEIGHT, "x": _packed(drawing.x, "<f4"),
            "y": _packed(drawing.y, "<f4"), "source": _packed(pairs[:, 0], "<u4"), "target": _packed(pairs[:, 1], "<u4")}


def _packed(values: Any, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values.astype(kind)).tobytes()).decode()
