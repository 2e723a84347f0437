"""The graph as Cytoscape elements with positions, and what these carry; see also ``messages.Drawing``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, cast

import numpy as np
from typing_extensions import TypedDict

from editor.devices.published import assumed_bytes
from editor.graph.graph import Graph, Ints, bodies_in, cached_per_graph
from editor.graph.layout.layered import Drawing, Wrap, draw
from editor.graph.states import states_of
from editor.text import end_of_name, shortened


class NodeData(TypedDict):
    """An op, a graph input or output, or a closed block."""

    id: str
    label: str
    name: str
    find: str
    """Text that the search looks in."""
    op: NotRequired[int]
    ops: NotRequired[str]
    """Of a closed block, as ranges: "3-5 9"."""
    unit: NotRequired[int]
    """Number of the closed block, or of the subgraph."""
    far: NotRequired[str]
    """A closed block's name from afar."""
    tensor: NotRequired[int]
    tensors: NotRequired[list[int]]
    """Where it stands for several inputs or outputs; ``tensor`` is the first."""
    body: NotRequired[int]
    """Number of the first body of an op"""


class FrameData(TypedDict):
    """The border around an open block."""

    id: str
    label: str
    find: str
    scope: int
    op: int
    """The first op of the block."""
    ops: str
    """All its ops, as ranges."""
    w: float
    h: float
    room: float
    beside: float


class EdgeData(TypedDict):
    """What flows from one node to another."""

    id: str
    source: str
    target: str
    bytes: int
    shape: str
    """Of the tensor, or how many there are; written on the edge where there is room, but for "?"."""
    sizes: NotRequired[list[int]]
    """Bytes of several tensors: as they are, and with floats of 8 and of 16 bits; empty where a size is unknown."""
    pairs: NotRequired[list[list[int]]]
    """[producer, consumer] of the tensors between blocks."""
    states: NotRequired[list[list[str]]]
    """[output, input]: the edge leads from one step to the next."""
    weights: NotRequired[str]
    distances: NotRequired[str]


class Position(TypedDict):
    """The middle of a node."""

    x: float
    y: float


class Node(TypedDict):
    """An op, a graph input or output, or a closed block, as Cytoscape takes it."""

    data: NodeData
    classes: str
    position: Position


class Frame(TypedDict):
    """The border around an open block."""

    data: FrameData
    classes: str
    position: Position
    pannable: bool
    selectable: bool


class Edge(TypedDict):
    """An edge as Cytoscape takes it."""

    data: EdgeData
    classes: str


Element = Node | Frame | Edge


NODE_WIDTH, NODE_HEIGHT = 128, 38
_SIZES = {
    "group": (NODE_WIDTH + 14, 46),
    "terminal": (NODE_WIDTH, 26),
    "several": (NODE_WIDTH, 36),
    "op": (NODE_WIDTH, NODE_HEIGHT),
}
_NAME_LIMIT = 19
_LONGEST_TYPE = 60
"""Letters of a type of op; the page draws as many as a node has room for"""


def size_of(classes: str) -> tuple[int, int]:
    """Width and height of a node by its classes."""
    return _SIZES[classes.rsplit(maxsplit=1)[-1]]


def visible_ops(graph: Graph) -> list[int]:
    """Ops that are drawn: all but the constants, which follow their consumers."""
    return np.flatnonzero(~graph.op_is_constant).tolist()


@cached_per_graph
def elements(graph: Graph) -> list[Element]:
    """Nodes for ops, graph inputs and outputs; edges for tensors. Colours come later, with the plan."""
    return _Elements(graph).build()


class _Elements:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.ids: list[str] = []
        self.index: dict[str, int] = {}
        self.nodes: list[Node] = []
        self.edges: dict[tuple[str, str], list[int]] = {}

    def build(self) -> list[Element]:
        """All elements."""
        graph = self.graph
        states = {name for state in states_of(graph) for name in (state.input, state.output)}

        def terminal(tensor: int) -> str:
            return "state terminal" if graph.tensor_names[tensor] in states else "terminal"

        for tensor in graph.inputs.tolist():
            if len(graph.readers[tensor]) or tensor in graph.outputs:
                self._node(
                    f"in{tensor}",
                    graph.tensor_names[tensor],
                    terminal(tensor),
                    graph.tensor_names[tensor],
                    tensor=tensor,
                )
        for op in visible_ops(graph):
            made = [graph.tensor_names[t] for t in graph.op_outputs[op].tolist() if t >= 0]
            find = " ".join([graph.type_label(op), graph.op_names[op], *made])
            self._node(f"op{op}", graph.op_types[op], "op", find, op=op)
        for position, tensor in enumerate(graph.outputs.tolist()):
            self._node(
                f"out{position}",
                graph.tensor_names[tensor],
                terminal(tensor),
                graph.tensor_names[tensor],
                tensor=tensor,
            )
        self._connect()
        pairs = list(self.edges)
        source = np.array([self.index[s] for s, _ in pairs], np.int64)
        target = np.array([self.index[t] for _, t in pairs], np.int64)
        count = len(self.ids)
        drawing = draw(count, source, target, NODE_WIDTH, wrap=Wrap(), sides=count)
        for i, node in enumerate(self.nodes):
            node["position"] = rounded(float(drawing.x[i]), float(drawing.y[i]))
        return [*self.nodes, *(self._edge(i, pair, drawing) for i, pair in enumerate(pairs))]

    def _node(
        self, identity: str, label: str, classes: str, find: str, op: int = -1, tensor: int = -1
    ) -> None:
        # ``find`` is the text that the search looks in.
        self.index[identity] = len(self.ids)
        self.ids.append(identity)
        shown = (
            shortened(" ".join(label.split()), _LONGEST_TYPE)
            if tensor < 0
            else name_of_terminal(label)
        )
        data: NodeData = {"id": identity, "label": shown, "name": shown, "find": find.lower()}
        if op >= 0:
            data["op"] = op
        if op >= 0 and self.graph.op_is_atomic[op] and (bodies := bodies_in(self.graph, -1, op)):
            data["body"], classes = bodies[0], f"holder {classes}"
        if tensor >= 0:
            data["tensor"] = tensor
        self.nodes.append({"data": data, "classes": classes, "position": {"x": 0.0, "y": 0.0}})

    def _connect(self) -> None:
        graph = self.graph
        for op in visible_ops(graph):
            for tensor in graph.op_reads[op].tolist():
                producer = int(graph.tensor_producer[tensor])
                self._join(f"op{producer}" if producer >= 0 else f"in{tensor}", f"op{op}", tensor)
        for position, tensor in enumerate(graph.outputs.tolist()):
            producer = int(graph.tensor_producer[tensor])
            self._join(
                f"op{producer}" if producer >= 0 else f"in{tensor}", f"out{position}", tensor
            )

    def _join(self, source: str, target: str, tensor: int) -> None:
        if source in self.index and target in self.index:
            self.edges.setdefault((source, target), []).append(tensor)

    def _edge(self, number: int, pair: tuple[str, str], drawing: Drawing) -> Edge:
        data = edge_data(self.graph, f"e{number}", *pair, self.edges[pair])
        classes = "faint" if number in drawing.faint else ""
        bends = drawing.bends.get(number)
        if bends:
            start, end = (
                (float(drawing.x[self.index[i]]), float(drawing.y[self.index[i]])) for i in pair
            )
            data["weights"], data["distances"] = segments(start, end, bends)
            classes = "bent"
        return {"data": data, "classes": classes}


def name_of_terminal(name: str) -> str:
    """As much of the end as there is room for: key and value differ there."""
    return end_of_name(" ".join(name.split()), _NAME_LIMIT)


def edge_data(
    graph: Graph, identity: str, source: str, target: str, tensors: Sequence[int]
) -> EdgeData:
    """An edge that has the shape of its tensor, "1×64×56×56"; of several, how many and their sizes by width of the floats."""
    distinct = list(dict.fromkeys(tensors))
    sizes, shape = graph.tensor_bytes[distinct], graph.tensor_shapes[distinct[0]]
    data: EdgeData = {
        "id": identity,
        "source": source,
        "target": target,
        "bytes": int(np.maximum(sizes, 0).sum()),
        "shape": "?" if shape is None else "×".join(map(str, shape)) or "scalar",
    }
    if len(distinct) > 1:
        data["shape"] = f"{len(distinct)} tensors"
        forms = ("", "int8", "float16") if (sizes >= 0).all() else ()
        data["sizes"] = [int(assumed_bytes(graph, form)[distinct].sum()) for form in forms]
    return data


def rounded(x: float, y: float) -> Position:
    """A position as it is sent: a tenth of a pixel is enough."""
    return {"x": round(x, 1), "y": round(y, 1)}


def split(shown: Sequence[Element]) -> tuple[list[Node], list[Frame], list[Edge]]:
    """Elements by kind, each in the order in which they are drawn."""
    nodes = [cast("Node", e) for e in shown if "position" in e and e["classes"] != "frame"]
    frames = [cast("Frame", e) for e in shown if e["classes"] == "frame"]
    return nodes, frames, [e for e in shown if "position" not in e]


def segments(
    start: tuple[float, float], end: tuple[float, float], bends: list[tuple[float, float]]
) -> tuple[str, str]:
    """Weights and distances: bend points relative to the straight line, as Cytoscape's ``segments`` edges want them."""
    along = np.array(end) - start
    length = float(np.hypot(*along)) or 1.0
    weights, distances = [], []
    for point in bends:
        offset = np.array(point) - start
        weights.append(f"{float(offset @ along) / length**2:.4f}")
        distances.append(f"{float(along[0] * offset[1] - along[1] * offset[0]) / length:.1f}")
    return " ".join(weights), " ".join(distances)


def spans(ops: Ints) -> str:
    """Ascending numbers as ranges: 3, 4, 5 and 9 are "3-5 9"."""
    if not len(ops):
        return ""
    ends = np.flatnonzero(np.diff(ops) != 1)
    return " ".join(
        str(a) if a == b else f"{a}-{b}"
        for a, b in zip(ops[[0, *(ends + 1)]].tolist(), ops[[*ends, -1]].tolist(), strict=True)
    )


def ops_of(text: str) -> list[int]:
    """The numbers again."""
    ends = [[int(number) for number in part.split("-")] for part in text.split()]
    return [op for end in ends for op in range(end[0], end[-1] + 1)]
