"""Inputs and outputs of the model beside its blocks; those that differ in numbers, such as caches, are one node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from editor.graph.graph import Graph
from editor.graph.states import states_of
from editor.text import pluralize
from editor.web.drawing.cytoscape_types import Edge, Node, NodeData
from editor.web.drawing.elements import edge_data, name_of_terminal

_MANY = 3
"""Tensors with one name but for its numbers that are one node, at least."""
_MOST = 8
"""Nodes above or below the blocks; the last one has all that is beyond."""
_SHOWN = 2
"""Edges of a node of many tensors; more show as those of hubs do, and do not spread the blocks."""


class Terminal(NamedTuple):
    """An input or output of the model, or many, without a position."""

    node: Node
    near: dict[int, list[int]]
    """Place of an op or block that reads or makes tensors -> these, the nearest to the border of the model first"""

    @property
    def is_hub(self) -> bool:
        """Whether its edges show with it only."""
        return "several" in self.node["classes"] and len(self.near) > _SHOWN


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
                Terminal(_node(graph, tensors, every, made, states), near(tensors, made))
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
    groups: dict[str, list[int]] = {}
    for tensor in tensors:
        groups.setdefault(_before_number(graph.tensor_names[tensor]), []).append(tensor)
    found: list[list[int]] = []
    for start, group in groups.items():
        found += [group] if start and len(group) >= _MANY else [[tensor] for tensor in group]
    rest = [tensor for group in found[_MOST - 1 :] for tensor in group]
    return found if len(found) <= _MOST else [*found[: _MOST - 1], rest]


def _before_number(name: str) -> str:
    return re.split(r"\d", name, maxsplit=1)[0]


def _node(
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
