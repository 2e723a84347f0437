"""Views with less detail: blocks of the model, or subgraphs, as single nodes that open on demand.

Inputs and outputs of the model are beside its blocks; those that differ in numbers, such as caches, are one node.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from editor.graph.graph import Graph, Ints, cached_per_graph
from editor.graph.layout.layered import Floats
from editor.graph.layout.nested import Box, draw_nested, topological_ranks
from editor.graph.scopes.tree import Scopes, scopes_of
from editor.graph.states import states_of
from editor.groups import grouped
from editor.text import end_of_name, pluralize, shortened
from editor.web.drawing.elements import (
    NODE_HEIGHT,
    NODE_WIDTH,
    Edge,
    Element,
    Frame,
    Node,
    NodeData,
    edge_data,
    elements,
    name_of_terminal,
    rounded,
    segments,
    spans,
    split,
    visible_ops,
)
from editor.web.drawing.state_edges import edges_between_ops, edges_between_terminals
from editor.web.messages import DetailShown
from editor.workspace.document import Document

_MANY_ALIKE = 3
"""Tensors with one name but for its numbers that are one node, at least."""
_MOST_TERMINALS = 8
"""Nodes above or below the blocks; the last one has all that is beyond."""
_SHOWN_EDGES = 2
"""Edges of a node of many tensors; more show as those of hubs do, and do not spread the blocks."""


class Terminal(NamedTuple):
    """An input or output of the model, or many, without a position."""

    node: Node
    near: dict[int, list[int]]
    """Place of an op or block that reads or makes tensors -> these, the nearest to the border of the model first"""

    @property
    def is_hub(self) -> bool:
        """Whether its edges show with it only."""
        return "several" in self.node["classes"] and len(self.near) > _SHOWN_EDGES


def terminals(
    graph: Graph, node_of: Sequence[int], rank: Sequence[int]
) -> tuple[list[Terminal], list[Terminal]]:
    """The inputs that something drawn reads, and the outputs that something drawn makes.

    Args:
        graph: the model.
        node_of: per op the place of its node, or -1.
        rank: [place] of a node in the order of the run.
    """

    def near(tensors: Sequence[int], made: bool) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for tensor in tensors:
            producer = int(graph.tensor_producer[tensor])
            ops = graph.readers[tensor].tolist() if not made else [producer] * (producer >= 0)
            for place in dict.fromkeys(node_of[op] for op in ops if node_of[op] >= 0):
                found.setdefault(place, []).append(tensor)
        return dict(sorted(found.items(), key=lambda item: rank[item[0]], reverse=made))

    states = {name for state in states_of(graph) for name in (state.input, state.output)}
    sides: list[list[Terminal]] = []
    for made, every in ((False, graph.inputs.tolist()), (True, graph.outputs.tolist())):
        used = [tensor for tensor in dict.fromkeys(every) if near([tensor], made)]
        sides.append(
            [
                Terminal(_terminal_node(graph, tensors, every, made, states), near(tensors, made))
                for tensors in _alike(graph, used)
            ]
        )
    return sides[0], sides[1]


def terminal_edge(graph: Graph, terminal: Terminal, place: int, source: str, target: str) -> Edge:
    """An edge between a terminal and the node at a place, without bends."""
    tensors = terminal.near[place]
    data = edge_data(graph, f"{source}-{target}", source, target, tensors)
    return {"data": data, "classes": "faint" if terminal.is_hub else ""}


def _alike(graph: Graph, tensors: Sequence[int]) -> list[list[int]]:
    """Tensors by node, in the order of the first of each."""
    groups = grouped((_before_number(graph.tensor_names[tensor]), tensor) for tensor in tensors)
    found: list[list[int]] = []
    for start, group in groups.items():
        found += [group] if start and len(group) >= _MANY_ALIKE else [[tensor] for tensor in group]
    rest = [tensor for group in found[_MOST_TERMINALS - 1 :] for tensor in group]
    return found if len(found) <= _MOST_TERMINALS else [*found[: _MOST_TERMINALS - 1], rest]


def _before_number(name: str) -> str:
    return re.split(r"\d", name, maxsplit=1)[0]


def _terminal_node(
    graph: Graph, tensors: Sequence[int], every: Sequence[int], made: bool, states: set[str]
) -> Node:
    names, first = [graph.tensor_names[tensor] for tensor in tensors], tensors[0]
    starts = {_before_number(name) for name in names}
    alike = f"{min(starts)}*" if len(starts) == 1 and min(starts) else "others"
    name = name_of_terminal(alike if len(names) > 1 else names[0])
    data: NodeData = {
        "id": f"out{every.index(first)}" if made else f"in{first}",
        "label": name,
        "name": name,
        "find": " ".join(names).lower(),
        "tensor": first,
    }
    classes = "state terminal" if states.intersection(names) else "terminal"
    if len(names) > 1:
        data["label"] += f"\n{pluralize(len(names), 'output' if made else 'input')}"
        data["tensors"] = list(tensors)
        classes += " several"
    return {"data": data, "classes": classes, "position": {"x": 0.0, "y": 0.0}}


MOST_SHOWN = 1200
"""Nodes on the canvas at once."""
FIRST_SHOWN = 160
"""Nodes that a large model opens with, about."""
_OPS_AT_ONCE, _VIEW, _READABLE = 200, (752, 390), 0.4
"""Models open with every op where no more than so many fit between the cards of a window of 1280 pixels at a zoom at which
names can be read, as `assets/_first_view.js` has it."""
_VIEW_OF_BLOCKS = (664, 436)
"""What such a window has where its tables are closed and a notice is shown."""
_UNNAMED_AT_ONCE = 800
"""Models up to this size do so too where their only blocks are runs of ops."""
_PAIRS = 24
_MOST_FRAMED = 0.9
"""Share of all nodes that the frame of a block may hold which is open from the start."""
_FRAME_LETTER, _FRAME_MARGIN, _BESIDE_LINE = 7.4, 10, 5
"""Average width of a letter of a frame's name, and its distance from the frame's left border and from lines."""
_FRAME_NAME = (4, 11, 18)
"""Upper end, middle and lower end of a frame's name, below its border."""
_NAME = 17
"""Characters of a block's name that its node has room for."""
_TITLE = 24
"""Characters of the name with its note; a note that has no room is left to the tooltip."""


def first_detail(graph: Graph) -> DetailShown:
    """What a document opens with: every op where all names can be read at once, blocks of other models that have some."""
    opened, scopes = _open_first(graph), scopes_of(graph)
    modules = any(unit >= 0 and not scopes.scopes[unit].is_run for unit in _units(graph, opened))
    every = _readable_at_once(graph) if modules else len(visible_ops(graph)) <= _UNNAMED_AT_ONCE
    return {"mode": "ops" if every else "blocks", "open": list(opened)}


def _readable_at_once(graph: Graph) -> bool:
    return len(visible_ops(graph)) <= _OPS_AT_ONCE and _is_readable(elements(graph))


def _is_readable(drawn: list[Element], view: tuple[int, int] = _VIEW) -> bool:
    at = [node["position"] for node in split(drawn)[0]]
    wide = max(p["x"] for p in at) - min(p["x"] for p in at) + NODE_WIDTH if at else 0
    high = max(p["y"] for p in at) - min(p["y"] for p in at) + NODE_HEIGHT if at else 0
    return wide * _READABLE <= view[0] and high * _READABLE <= view[1]


def too_many(graph: Graph) -> str:
    """Why every op cannot be drawn; "" where it can."""
    count, most = len(visible_ops(graph)), MOST_SHOWN * 5
    if count <= most:
        return ""
    return (
        f"Every op can be drawn up to {most:,} ops; this model has {count:,}: open blocks instead"
    )


def expand_level(graph: Graph, opened: Sequence[int]) -> list[int]:
    """One level deeper everywhere, as far as the canvas holds it."""
    wider = [*opened, *sorted(unit for unit in _units(graph, opened) if unit >= 0)]
    return wider if len(_units(graph, wider)) <= MOST_SHOWN else list(opened)


def all_closed(graph: Graph) -> list[int]:
    """What is open where everything is closed: nothing, but for a block that holds the whole model."""
    opened: list[int] = []
    while True:
        units = _units(graph, opened)
        if len(units) != 1 or min(units) < 0:
            return opened
        opened += units


def reveal(graph: Graph, opened: Sequence[int], op: int) -> list[int]:
    """Opens every block around an op; others close when it gets too much."""
    scopes = scopes_of(graph)
    around = scopes.ancestors(scopes.of_op[op])
    wider = list(dict.fromkeys([*opened, *around]))
    return (
        wider
        if len(_units(graph, wider)) <= MOST_SHOWN
        else list(dict.fromkeys([*_open_first(graph), *around]))
    )


def owners(graph: Graph, opened: Iterable[int]) -> Ints:
    """Per visible op: the closed block that stands for it, or -1-op where it stands for itself."""
    owner = np.array(_owner_of_scope(scopes_of(graph), {0, *opened}), np.int64)[
        _innermost_blocks(graph)
    ]
    return np.where(owner >= 0, owner, -1 - np.flatnonzero(~graph.op_is_constant))


def first_blocks(graph: Graph) -> dict[int, int]:
    """Op -> the closed block that it is in where the graph shows blocks as at first; without the ops outside of these."""
    owner = owners(graph, _open_first(graph)).tolist()
    return {op: n for op, n in zip(visible_ops(graph), owner, strict=True) if n >= 0}


@cached_per_graph
def _innermost_blocks(graph: Graph) -> Ints:
    """Per visible op: the innermost block around it."""
    of_op = scopes_of(graph).of_op
    return np.array([of_op[op] for op in visible_ops(graph)], np.int64)


def _owner_of_scope(scopes: Scopes, opens: set[int]) -> list[int]:
    """Per block: the outermost closed block around it (itself included), -1 where all are open."""
    owner = [-1] * len(scopes.scopes)
    for scope in scopes.scopes[1:]:  # parents come first
        above = owner[scope.parent]
        owner[scope.number] = (
            above
            if above >= 0
            else -1
            if scope.number in opens or len(scope.ops) == 1
            else scope.number
        )
    return owner


def _units(graph: Graph, opened: Iterable[int]) -> set[int]:
    return set(np.unique(owners(graph, opened)).tolist())


@cached_per_graph
def _open_first(graph: Graph) -> tuple[int, ...]:
    """Blocks that are open at first: of those around the layers of a model as deep as all of it can be read at once."""
    levels = _levels(graph)
    for opened in reversed(levels):
        drawn = _blocks(graph, opened, first=opened)
        if len(_units(graph, opened)) > 1 and _is_readable(drawn, _VIEW_OF_BLOCKS):
            return opened
    return levels[-1]


@cached_per_graph
def _levels(graph: Graph) -> tuple[tuple[int, ...], ...]:
    """Blocks around the layers of a model, ever deeper; all down to some depth where nothing repeats."""
    scopes = scopes_of(graph)
    around = {above for number in scopes.repeated for above in scopes.ancestors(number)[1:]}
    opened: list[int] = []
    levels: list[tuple[int, ...]] = [()]
    level = list(scopes.scopes[0].children)
    while level:
        level = [number for number in level if number in around or not scopes.repeated]
        wider = opened + level
        if len(_units(graph, wider)) > FIRST_SHOWN:
            break
        opened = wider
        levels.append(tuple(opened))
        level = [child for number in level for child in scopes.scopes[number].children]
    return tuple(levels)


def shown_elements(document: Document, detail: DetailShown) -> list[Element]:
    """Elements for a level of detail.

    Args:
        document: what is drawn.
        detail: ``mode`` is ``ops``, ``blocks`` or ``subgraphs``; ``open`` numbers of open blocks.
    """
    graph = document.graph
    mode = detail["mode"]
    if mode == "subgraphs":
        parts = document.placement.division.subgraph_of_op[visible_ops(graph)].astype(np.int64)
        return _grouped(graph, parts, lambda part: (f"subgraph {part}", ""), "s", far="s")
    if mode == "blocks":
        return _blocks(graph, detail["open"], _open_first(graph))
    if too_many(graph):
        return shown_elements(document, {"mode": "blocks", "open": list(_open_first(graph))})
    return [*elements(graph), *edges_between_terminals(graph)]


def _blocks(graph: Graph, opened: Iterable[int], first: Iterable[int]) -> list[Element]:
    """Elements of a graph with some blocks open; ``first`` are those that are so from the start."""
    scopes, owner = scopes_of(graph), owners(graph, opened)
    framed = _framed(graph, opened, owner, set(first))
    return _grouped(graph, owner, lambda number: _title(scopes, number), "g", framed)


def _title(scopes: Scopes, number: int) -> tuple[str, str]:
    """A closed block's name, and how often it repeats, or how many layers it holds."""
    twins, layers = len(scopes.scopes[number].identical), scopes.layers_in(number)
    note = f"1 of {twins}" if twins > 1 else f"{layers} layers" if layers > 1 else ""
    return scopes.scopes[number].label, note


def _framed(
    graph: Graph, opened: Iterable[int], owner: Ints, first: set[int]
) -> dict[int, tuple[int, ...]]:
    """Per owner the open blocks around it that get a frame, outermost first.

    That is all that a person opened. One that is open from the start gets none where it would hold nearly everything, or where
    others run between its ops: in a frame, a chain would be torn in two.
    """
    scopes, opened = scopes_of(graph), set(opened)
    units = np.unique(owner).tolist()
    innermost = {
        unit: scopes.of_op[-1 - unit] if unit < 0 else scopes.scopes[unit].parent for unit in units
    }
    around = {
        unit: [n for n in reversed(scopes.ancestors(number)) if n in opened]
        for unit, number in innermost.items()
    }
    held = Counter(number for numbers in around.values() for number in numbers)
    drawn = {
        n
        for n, count in held.items()
        if n not in first
        or (1 < count < len(around) * _MOST_FRAMED and n not in _interrupted(graph))
    }
    return {unit: tuple(n for n in numbers if n in drawn) for unit, numbers in around.items()}


@cached_per_graph
def _interrupted(graph: Graph) -> frozenset[int]:
    """Blocks that may be open from the start, and that a path leaves and comes back to."""
    producer, consumer, _ = graph.edges
    reads: list[list[int]] = [[] for _ in range(len(graph))]
    for a, b in zip(producer.tolist(), consumer.tolist(), strict=True):
        reads[b].append(a)
    order = [op for op in graph.order.tolist() if not graph.op_is_constant[op]]
    return frozenset(
        n
        for n in _levels(graph)[-1]
        if _comes_back(set(scopes_of(graph).scopes[n].ops), order, reads)
    )


def _comes_back(inside: set[int], order: Sequence[int], reads: Sequence[Sequence[int]]) -> bool:
    """Whether some path between two ops of a set has others on it; ``order`` is topological."""
    after: set[int] = set()  # ops outside that depend on the set
    for op in order:
        if op in inside:
            if any(read in after for read in reads[op]):
                return True
        elif any(read in inside or read in after for read in reads[op]):
            after.add(op)
    return False


def _frame(
    scopes: Scopes, number: int, box: Box, inside: Sequence[tuple[float, float]], lines: Floats
) -> Frame:
    """A labelled frame around what is in an open block.

    The name is left of its first node, which is what one looks at; right of it, between lines, or shorter, where a line
    would go through it.

    Args:
        scopes: the blocks.
        number: of the block.
        box: around its nodes.
        inside: their places.
        lines: [line] x and y of both ends; of all edges.
    """
    name, times = scopes.scopes[number].label, len(scopes.scopes[number].identical)
    room = box.width - 2 * _FRAME_MARGIN
    ways = [f"{name} (1 of {times} alike)" if times > 1 else name, name, _own_name(name)]
    top, left = min(y for _, y in inside), box.x - box.width / 2 + _FRAME_MARGIN
    first = min(x for x, y in inside if y == top)
    crossed = _crossings(lines, box.y - box.height / 2)
    places: list[tuple[str, float, float]] = []  # a name, where it begins, and its width
    for label in [way for way in ways if len(way) * _FRAME_LETTER <= room] or ways[-1:]:
        wide = min(len(label) * _FRAME_LETTER, room)
        before = first - NODE_WIDTH / 2 - _FRAME_MARGIN - wide
        behind = first + NODE_WIDTH / 2 + _FRAME_MARGIN
        places += [
            (label, max(before, left), wide),
            (label, min(behind, left + room - wide), wide),
        ]
        beside = np.sort(crossed) + _BESIDE_LINE
        places += [
            (label, begin, wide)
            for begin in beside[(beside > left) & (beside < left + room - wide)].tolist()
        ]
    free = [
        place
        for place in places
        if not ((crossed > place[1]) & (crossed < place[1] + place[2])).any()
    ]
    label, begin, wide = (free or places)[0]
    return {
        "data": {
            "id": f"f{number}",
            "label": label,
            "find": "",
            "scope": number,
            "op": min(scopes.scopes[number].ops),
            "ops": spans(np.array(sorted(scopes.scopes[number].ops), np.int64)),
            "w": round(box.width, 1),
            "h": round(box.height, 1),
            "room": round(room, 1),
            "beside": round(begin + wide / 2 - box.x, 1),
        },
        "pannable": True,
        "selectable": False,
        "classes": "frame",
        "position": rounded(box.x, box.y),
    }


def _crossings(lines: Floats, top: float) -> Floats:
    """Where lines go through the row of a frame's name, at its upper, middle and lower end."""
    (x0, y0, x1, y1), found = lines.T, []
    for y in (top + low for low in _FRAME_NAME):
        meets = (y0 - y) * (y1 - y) <= 0
        share = (y - y0[meets]) / np.where(y1 == y0, 1.0, y1 - y0)[meets]
        found.append(x0[meets] + share * (x1 - x0)[meets])
    return np.concatenate(found)


def _grouped(
    graph: Graph,
    owner: Ints,
    name_of: Callable[[int], tuple[str, str]],
    prefix: str,
    around: Mapping[int, tuple[int, ...]] | None = None,
    far: str = "",
) -> list[Element]:
    """Frames, then inputs, one node per owner, by its first op, outputs, and edges; negative owners are ops by themselves.

    Args:
        graph: the model.
        owner: per visible op.
        name_of: an owner's name, and a note on it, or "".
        prefix: of the nodes' ids.
        around: per owner the blocks whose frames it is in, outermost first.
        far: what stands before an owner's number from afar, in place of its own name.
    """
    ops = np.flatnonzero(~graph.op_is_constant)
    units, unit_of = _in_order_of_appearance(owner)
    members = np.split(
        ops[np.argsort(unit_of, kind="stable")], np.cumsum(np.bincount(unit_of))[:-1]
    )
    place = np.full(len(graph), -1)
    place[ops] = unit_of
    producer, consumer, tensor = graph.edges
    between = (place[producer] >= 0) & (place[consumer] >= 0) & (place[producer] != place[consumer])
    producer, consumer, tensor = producer[between], consumer[between], tensor[between]
    keys, edge_of = _in_order_of_appearance(place[producer] * len(units) + place[consumer])
    source, target = keys // len(units), keys % len(units)
    order = np.empty(len(graph), np.int64)
    order[graph.order] = np.arange(len(graph))
    rank = np.full(len(units), len(graph))
    np.minimum.at(rank, unit_of, order[ops])
    rank = topological_ranks(rank, source, target)
    inputs, outputs = terminals(graph, place.tolist(), rank.tolist())
    ends = _ends(inputs, outputs, len(units))
    drawn = np.array([end[:2] for end in ends if end[3]], np.int64).reshape(-1, 2)
    source, target = np.r_[source, drawn[:, 0]], np.r_[target, drawn[:, 1]]
    rank = np.r_[rank, np.arange(-len(inputs), 0), len(graph) + 1 + np.arange(len(outputs))]
    boxes = [around[unit] if around else () for unit in units.tolist()]
    boxes += [()] * (len(inputs) + len(outputs))
    small = range(len(units), len(boxes))
    drawing = draw_nested(rank, source, target, boxes, (NODE_WIDTH, NODE_HEIGHT), small)
    places = list(zip(drawing.x.tolist(), drawing.y.tolist(), strict=True))
    nodes = [
        _node(graph, int(unit), members[i], name_of, prefix, far, places[i])
        for i, unit in enumerate(units)
    ]
    for terminal, at in zip([*inputs, *outputs], places[len(units) :], strict=True):
        nodes.append({**terminal.node, "position": rounded(*at)})
    reads = np.stack([producer, consumer, tensor], axis=1)[np.argsort(edge_of, kind="stable")]
    of_edge = np.split(reads, np.cumsum(np.bincount(edge_of, minlength=len(keys)))[:-1])
    bends_of = {
        i: segments(places[source[i]], places[target[i]], points)
        for i, points in drawing.bends.items()
    }
    edges = []
    for i, (a, b) in enumerate(zip(source[: len(keys)].tolist(), target.tolist(), strict=False)):
        edges.append(
            _edge(
                graph,
                nodes[a]["data"]["id"],
                nodes[b]["data"]["id"],
                of_edge[i],
                i in drawing.faint,
                bends_of.get(i),
            )
        )
    number = len(keys)
    for a, b, terminal, in_layout in ends:
        edge = terminal_edge(
            graph, terminal, min(a, b), nodes[a]["data"]["id"], nodes[b]["data"]["id"]
        )
        if in_layout:
            _shape(edge, number in drawing.faint, bends_of.get(number))
            number += 1
        edges.append(edge)
    inside = grouped(
        (number, place) for place, numbers in zip(places, boxes, strict=True) for number in numbers
    )
    ways = [
        [places[source[i]], *drawing.bends.get(i, ()), places[target[i]]]
        for i in range(len(source))
        if i not in drawing.faint
    ]
    lines = np.array([[*a, *b] for way in ways for a, b in pairwise(way)]).reshape(-1, 4)
    return [
        *(
            _frame(scopes_of(graph), number, box, inside[number], lines)
            for number, box in drawing.boxes.items()
        ),
        *nodes[len(units) : len(units) + len(inputs)],
        *nodes[: len(units)],
        *nodes[len(units) + len(inputs) :],
        *edges,
        *edges_between_ops(graph, nodes, place.tolist()),
    ]


def _ends(
    inputs: Sequence[Terminal], outputs: Sequence[Terminal], units: int
) -> list[tuple[int, int, Terminal, bool]]:
    """Edges of inputs and outputs: their ends, and whether they take part in the layout, of a hub's only the first."""
    return [
        (
            *((place, number) if number >= units + len(inputs) else (number, place)),
            terminal,
            not (i and terminal.is_hub),
        )
        for number, terminal in enumerate([*inputs, *outputs], units)
        for i, place in enumerate(terminal.near)
    ]


def _in_order_of_appearance(values: Ints) -> tuple[Ints, Ints]:
    """Different values in the order in which they first appear, and for every place the number of its value."""
    different, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(different), np.int64)
    number[order] = np.arange(len(different))
    return different[order], number[inverse]


def _node(
    graph: Graph,
    unit: int,
    ops: Ints,
    name_of: Callable[[int], tuple[str, str]],
    prefix: str,
    far: str,
    at: tuple[float, float],
) -> Node:
    position = rounded(*at)
    if unit < 0:
        op = int(ops[0])
        return {
            "data": {
                "id": f"op{op}",
                "label": graph.op_types[op],
                "name": graph.op_types[op],
                "op": op,
                "find": f"{graph.op_types[op]} {graph.op_names[op]} {graph.op_keys[op]}".lower(),
            },
            "classes": "op",
            "position": position,
        }
    name, note = name_of(unit)
    shown = _block_name(name)
    note = (
        "" if "1 of" in note and name[-1:].isdigit() else note
    )  # "layers.8 (1 of 31)" reads like a number
    note = f" ({note})" if note and len(shown) + len(note) + 3 <= _TITLE else ""
    return {
        "data": {
            "id": f"{prefix}{unit}",
            "label": shown,
            "name": shown + note,
            "far": f"{far}{unit}" if far else _own_name(name),
            "ops": spans(ops),
            "unit": unit,
            "find": name.lower(),
        },
        "classes": "op group",
        "position": position,
    }


def _own_name(name: str) -> str:
    """A block's name without the layer that it is in."""
    return name.rpartition(" / ")[2]


def _block_name(name: str) -> str:
    """As much of a name as a node has room for; of a block in a layer its number and its own name."""
    if len(name) <= _NAME:
        return name
    layer, slash, own = name.rpartition(" / ")
    if not slash:
        return end_of_name(name, _NAME)
    number = layer[len(layer.rstrip("0123456789")) :]
    brief = f"{number} / {own}"
    return shortened(brief, _NAME)


def _edge(
    graph: Graph, source: str, target: str, reads: Ints, faint: bool, bends: tuple[str, str] | None
) -> Edge:
    """``reads``: producer, consumer and tensor, a row each."""
    data = edge_data(graph, f"{source}-{target}", source, target, reads[:, 2].tolist())
    data["pairs"] = reads[:_PAIRS, :2].tolist()
    edge: Edge = {"data": data, "classes": ""}
    _shape(edge, faint, bends)
    return edge


def _shape(edge: Edge, faint: bool, bends: tuple[str, str] | None) -> None:
    """Gives an edge its way, or hides it."""
    if bends:
        edge["data"]["weights"], edge["data"]["distances"] = bends
    if faint or edge["classes"] == "faint":
        edge["classes"] = "faint"
    elif bends:
        edge["classes"] = "bent"
