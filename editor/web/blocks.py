"""Views with less detail: blocks of the model, or subgraphs, as single nodes that open on demand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from editor.graph.drawing import draw
from editor.graph.graph import Graph
from editor.graph.scopes import Scopes, scopes_of
from editor.web.elements import NODE_HEIGHT, NODE_WIDTH, elements, visible_ops
from editor.workspace.document import Document

MOST_SHOWN = 1200
"""Nodes on the canvas at once."""
FIRST_SHOWN = 160
"""Nodes that a large model opens with, about."""
OPS_AT_ONCE = 800
"""Models up to this size open with every op."""
_PAIRS = 24
_FRAME_SIDE, _FRAME_PAD, _FRAME_LABEL = 16, 7, 13
_MOST_FRAMED = 0.9
"""Share of all nodes that a frame may hold."""
_NAME = 17
"""Characters of a block's name that its node has room for."""


def first_detail(graph: Graph) -> dict[str, Any]:
    """What a document opens with: every op of a small model, blocks of a large one."""
    count = len(visible_ops(graph))
    return {"mode": "ops" if count <= OPS_AT_ONCE else "blocks", "open": _open_for(graph, FIRST_SHOWN)}


def expand_level(graph: Graph, opened: Sequence[int]) -> list[int]:
    """One level deeper everywhere, as far as the canvas holds it."""
    wider = [*opened, *sorted(unit for unit in _units(graph, opened) if unit >= 0)]
    return wider if len(_units(graph, wider)) <= MOST_SHOWN else list(opened)


def reveal(graph: Graph, opened: Sequence[int], op: int) -> list[int]:
    """Opens every block around an op; others close when it gets too much."""
    scopes = scopes_of(graph)
    around = scopes.ancestors(scopes.of_op[op])
    wider = list(dict.fromkeys([*opened, *around]))
    return wider if len(_units(graph, wider)) <= MOST_SHOWN else list(dict.fromkeys([*_open_for(graph, FIRST_SHOWN), *around]))


def owners(graph: Graph, opened: Iterable[int]) -> list[int]:
    """Per visible op: the closed block that stands for it, or -1-op where it stands for itself."""
    scopes, opens = scopes_of(graph), {0, *opened}
    owner_of_scope = _owner_of_scope(scopes, opens)
    return [owner_of_scope[scopes.of_op[op]] if owner_of_scope[scopes.of_op[op]] >= 0 else -1 - op
            for op in visible_ops(graph)]


def _owner_of_scope(scopes: Scopes, opens: set[int]) -> list[int]:
    """Per block: the outermost closed block around it (itself included), -1 where all are open."""
    owner = [-1] * len(scopes.scopes)
    for scope in scopes.scopes[1:]:  # parents come first
        above = owner[scope.parent]
        owner[scope.number] = above if above >= 0 else -1 if scope.number in opens or len(scope.ops) == 1 else scope.number
    return owner


def _units(graph: Graph, opened: Iterable[int]) -> set[int]:
    return set(owners(graph, opened))


@lru_cache(maxsize=16)
def _open_cached(graph: Graph, most: int) -> tuple[int, ...]:
    """Blocks that are open at first: those around the layers of a model, all down to some depth where nothing repeats."""
    scopes = scopes_of(graph)
    around = {above for number in scopes.repeated for above in scopes.ancestors(number)[1:]}
    opened: list[int] = []
    level = list(scopes.scopes[0].children)
    while level:
        level = [number for number in level if number in around or not scopes.repeated]
        wider = opened + level
        if len(_units(graph, wider)) > most:
            break
        opened = wider
        level = [child for number in level for child in scopes.scopes[number].children]
    return tuple(opened)


def _open_for(graph: Graph, most: int) -> list[int]:
    return list(_open_cached(graph, most))


def shown_elements(document: Document, detail: dict[str, Any]) -> list[dict[str, Any]]:
    """Elements for a level of detail.

    Args:
        document: what is drawn.
        detail: ``mode`` is ``ops``, ``blocks`` or ``subgraphs``; ``open`` numbers of open blocks.
    """
    graph = document.graph
    mode = detail.get("mode", "ops")
    if mode == "subgraphs":
        parts = document.partition.division.part[visible_ops(graph)].tolist()
        titles = {s.id: f"subgraph {s.id}" for s in document.partition.subgraphs}
        return _grouped(graph, [int(p) for p in parts], titles, "s", {})
    if mode == "blocks":
        scopes = scopes_of(graph)
        names = {s.number: s.label for s in scopes.scopes}
        twins = {s.number: len(s.twins) for s in scopes.scopes}
        opened = detail.get("open", ())
        shown = _grouped(graph, owners(graph, opened), names, "g", twins)
        return [*frames(scopes, opened, [e for e in shown if "position" in e]), *shown]
    if len(visible_ops(graph)) > MOST_SHOWN * 5:
        return shown_elements(document, {"mode": "blocks", "open": _open_for(graph, FIRST_SHOWN)})
    return elements(graph)


def frames(scopes: Scopes, opened: Iterable[int], nodes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A labelled frame around the nodes of each open block, outer ones first.

    None where it would hold most of the picture, or nodes of other blocks as well.
    """
    x = np.array([n["position"]["x"] for n in nodes])
    y = np.array([n["position"]["y"] for n in nodes])
    inside: dict[int, list[int]] = {}
    for i, node in enumerate(nodes):
        data = node["data"]
        around = scopes.ancestors(data["unit"])[1:] if "unit" in data else scopes.ancestors(scopes.of_op[data["op"]])
        for number in around:
            inside.setdefault(number, []).append(i)
    wanted = sorted(number for number in set(opened) & set(inside) if 1 < len(inside[number]) < len(nodes) * _MOST_FRAMED)
    nested = {number: sum(other != number and number in scopes.ancestors(other) for other in wanted) for number in wanted}
    found = []
    for number in wanted:
        own = np.array(inside[number])
        more = 6 * min(nested[number], 3)
        beside = NODE_WIDTH / 2 + _FRAME_SIDE + more
        left, right = x[own].min() - beside, x[own].max() + beside
        top = y[own].min() - NODE_HEIGHT / 2 - _FRAME_PAD - _FRAME_LABEL - more
        bottom = y[own].max() + NODE_HEIGHT / 2 + _FRAME_PAD + more
        touched = ((x + NODE_WIDTH / 2 > left) & (x - NODE_WIDTH / 2 < right)
                   & (y + NODE_HEIGHT / 2 > top) & (y - NODE_HEIGHT / 2 < bottom))
        if int(touched.sum()) == len(own):
            scope = scopes.scopes[number]
            twins = f" ×{len(scope.twins)}" if len(scope.twins) > 1 else ""
            wide, high, middle, centre = (round(float(v), 1) for v in (right - left, bottom - top, (left + right) / 2,
                                                                       (top + bottom) / 2))
            found.append({"data": {"id": f"f{number}", "label": scope.label + twins, "find": "", "scope": number,
                                   "op": min(scope.ops), "w": wide, "h": high},
                          "pannable": True, "classes": "frame", "position": {"x": middle, "y": centre}})
    return found


def _grouped(graph: Graph, owner: Sequence[int], names: dict[int, str], prefix: str,
             twins: dict[int, int]) -> list[dict[str, Any]]:
    """One node per owner; negative owners are ops by themselves."""
    ops = visible_ops(graph)
    members: dict[int, list[int]] = {}
    for op, unit in zip(ops, owner, strict=True):
        members.setdefault(unit, []).append(op)
    units = sorted(members, key=lambda unit: members[unit][0])
    place = {unit: i for i, unit in enumerate(units)}
    unit_of = {op: place[unit] for op, unit in zip(ops, owner, strict=True)}
    producer, consumer, tensor = graph.edges
    pairs: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for p, c, t in zip(producer.tolist(), consumer.tolist(), tensor.tolist(), strict=True):
        a, b = unit_of.get(p), unit_of.get(c)
        if a is not None and b is not None and a != b:
            pairs.setdefault((a, b), []).append((p, c, t))
    order = np.empty(len(graph), np.int64)
    order[graph.order] = np.arange(len(graph))
    first = [int(order[members[u]].min()) for u in units]
    keys = list(pairs)
    # Blocks need not be convex: for the layout an edge runs with the order of execution of its blocks.
    ends = [(a, b) if (first[a], a) <= (first[b], b) else (b, a) for a, b in keys]
    drawing = draw(len(units), np.array([a for a, _ in ends], np.int64), np.array([b for _, b in ends], np.int64), NODE_WIDTH)
    nodes = [_node(graph, unit, members[unit], names, prefix, twins, (float(drawing.x[i]), float(drawing.y[i])))
             for i, unit in enumerate(units)]
    identities = [n["data"]["id"] for n in nodes]
    return nodes + [_edge(graph, identities[a], identities[b], pairs[a, b], i in drawing.faint)
                    for i, (a, b) in enumerate(keys)]


def _node(graph: Graph, unit: int, ops: list[int], names: dict[int, str], prefix: str, twins: dict[int, int],
          at: tuple[float, float]) -> dict[str, Any]:
    position = {"x": round(at[0], 1), "y": round(at[1], 1)}
    if unit < 0:
        op = ops[0]
        return {"data": {"id": f"op{op}", "label": graph.op_types[op], "name": graph.op_types[op], "op": op,
                         "find": f"{graph.op_types[op]} {graph.op_names[op]} {graph.op_keys[op]}".lower()},
                "classes": "op", "position": position}
    repeated = f" ×{twins[unit]}" if twins.get(unit, 1) > 1 else ""
    name = names[unit]
    shown = _short(name)
    return {"data": {"id": f"{prefix}{unit}", "label": shown, "name": shown + repeated, "ops": ops, "unit": unit,
                     "find": name.lower()}, "classes": "op group", "position": position}


def _short(name: str) -> str:
    """As much of a name as a node has room for; of a block in a layer its number and its own name."""
    if len(name) <= _NAME:
        return name
    layer, slash, own = name.rpartition(" / ")
    if not slash:
        return "…" + name[1 - _NAME:]
    number = layer[len(layer.rstrip("0123456789")):]
    brief = f"{number} / {own}"
    return brief if len(brief) <= _NAME else brief[:_NAME - 1] + "…"


def _edge(graph: Graph, source: str, target: str, pairs: list[tuple[int, int, int]],
          faint: bool) -> dict[str, Any]:
    tensors = {t for _, _, t in pairs}
    size = int(sum(max(int(graph.tensor_bytes[t]), 0) for t in tensors))
    return {"data": {"id": f"{source}-{target}", "source": source, "target": target, "bytes": size,
                     "pairs": [[p, c] for p, c, _ in pairs[:_PAIRS]]}, "classes": "faint" if faint else ""}
