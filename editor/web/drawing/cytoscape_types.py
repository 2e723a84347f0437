"""What the elements of the graph carry, as Cytoscape takes them; see also ``messages.Drawing``."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict


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
