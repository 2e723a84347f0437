"""The graph as Cytoscape elements with positions."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from editor.graph.graph import Graph
from editor.graph.layout.layered import Drawing, draw

NODE_WIDTH, NODE_HEIGHT = 128, 38
_NAME_LIMIT = 19


def visible_ops(graph: Graph) -> list[int]:
    """Ops that are drawn: all but the constants, which follow their consumers."""
    return np.flatnonzero(~graph.op_is_constant).tolist()


@lru_cache(maxsize=8)
def elements(graph: Graph) -> list[dict[str, Any]]:
    """Nodes for ops, graph inputs and outputs; edges for tensors. Colours come later, with the plan."""
    return _Elements(graph).build()


class _Elements:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.ids: list[str] = []
        self.index: dict[str, int] = {}
        self.nodes: list[dict[str, Any]] = []
        self.edges: dict[tuple[str, str], list[int]] = {}

    def build(self) -> list[dict[str, Any]]:
        """All elements."""
        graph = self.graph
        for tensor in graph.inputs.tolist():
            if len(graph.readers[tensor]) or tensor in graph.outputs:
                self._node(f"in{tensor}", graph.tensor_names[tensor], "terminal", graph.tensor_names[tensor], tensor=tensor)
        for op in visible_ops(graph):
            made = [graph.tensor_names[t] for t in graph.results[op].tolist() if t >= 0]
            find = " ".join([graph.type_label(op), graph.op_names[op], *made])
            self._node(f"op{op}", graph.op_types[op], "op", find, op=op)
        for position, tensor in enumerate(graph.outputs.tolist()):
            self._node(f"out{position}", graph.tensor_names[tensor], "terminal", graph.tensor_names[tensor], tensor=tensor)
        self._connect()
        pairs = list(self.edges)
        source = np.array([self.index[s] for s, _ in pairs], np.int64)
        target = np.array([self.index[t] for _, t in pairs], np.int64)
        drawing = draw(len(self.ids), source, target, NODE_WIDTH)
        for i, node in enumerate(self.nodes):
            node["position"] = {"x": round(float(drawing.x[i]), 1), "y": round(float(drawing.y[i]), 1)}
        return self.nodes + [self._edge(i, pair, drawing) for i, pair in enumerate(pairs)]

    def _node(self, identity: str, label: str, classes: str, find: str, **data: int) -> None:
        # ``find`` is the text that the search looks in.
        self.index[identity] = len(self.ids)
        self.ids.append(identity)
        shown = _short(label)
        self.nodes.append({"data": {"id": identity, "label": shown, "name": shown, "find": find.lower(), **data},
                           "classes": classes})

    def _connect(self) -> None:
        graph = self.graph
        for op in visible_ops(graph):
            for tensor in graph.reads[op].tolist():
                producer = int(graph.tensor_producer[tensor])
                self._join(f"op{producer}" if producer >= 0 else f"in{tensor}", f"op{op}", tensor)
        for position, tensor in enumerate(graph.outputs.tolist()):
            producer = int(graph.tensor_producer[tensor])
            self._join(f"op{producer}" if producer >= 0 else f"in{tensor}", f"out{position}", tensor)

    def _join(self, source: str, target: str, tensor: int) -> None:
        if source in self.index and target in self.index:
            self.edges.setdefault((source, target), []).append(tensor)

    def _edge(self, number: int, pair: tuple[str, str], drawing: Drawing) -> dict[str, Any]:
        size = sum(max(int(self.graph.tensor_bytes[t]), 0) for t in set(self.edges[pair]))
        data: dict[str, Any] = {"id": f"e{number}", "source": pair[0], "target": pair[1], "size": size}
        classes = "faint" if number in drawing.faint else ""
        bends = drawing.bends.get(number)
        if bends:
            start, end = ((float(drawing.x[self.index[i]]), float(drawing.y[self.index[i]])) for i in pair)
            data |= segments(start, end, bends)
            classes = "bent"
        return {"data": data, "classes": classes}


def segments(start: tuple[float, float], end: tuple[float, float], bends: list[tuple[float, float]]) -> dict[str, str]:
    """Bend points relative to the straight line, as Cytoscape's ``segments`` edges want them."""
    along = np.array(end) - start
    length = float(np.hypot(*along)) or 1.0
    weights, distances = [], []
    for point in bends:
        offset = np.array(point) - start
        weights.append(f"{float(offset @ along) / length ** 2:.4f}")
        distances.append(f"{float(along[0] * offset[1] - along[1] * offset[0]) / length:.1f}")
    return {"weights": " ".join(weights), "distances": " ".join(distances)}


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _NAME_LIMIT else text[:_NAME_LIMIT - 1] + "…"
