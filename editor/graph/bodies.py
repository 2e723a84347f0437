"""The bodies of If, Loop and Scan as graphs of their own, which are looked into one inside the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from editor.graph.graph import Graph, InnerOp, Ints, cached_per_graph


@dataclass(frozen=True, eq=False)
class Body:
    """The ops of one body; those of bodies inside it are left out."""

    owner: int
    """The op of the main graph that it belongs to"""
    name: str
    """``body``, ``then_branch``"""
    around: int
    """Number of the body that it is in; -1 for one of an op of the main graph"""
    holder: int
    """Position in ``around`` of the op that has it; -1 for one of an op of the main graph"""
    ops: tuple[InnerOp, ...]
    source: Ints
    """[edge] position of the op that makes a tensor"""
    target: Ints
    """[edge] position of the op that reads it"""


@cached_per_graph
def bodies_of(graph: Graph) -> tuple[Body, ...]:
    """The bodies of a model, each before those inside it; a body is called by its number here."""
    found: list[Body] = []
    for owner, ops in groupby(graph.inner_ops, lambda op: op.owner):
        _add(found, owner, list(ops), 0, -1, -1)
    return tuple(found)


def bodies_in(graph: Graph, around: int, holder: int) -> list[int]:
    """Numbers of the bodies of an op: ``holder`` is its position in the body ``around``, or an op of the main graph for -1."""
    return [
        number
        for number, body in enumerate(bodies_of(graph))
        if body.around == around and (body.owner if around < 0 else body.holder) == holder
    ]


def _add(
    found: list[Body], owner: int, ops: Sequence[InnerOp], depth: int, around: int, holder: int
) -> None:
    """Adds the bodies that some ops, those in bodies inside them included, are in."""
    for name, group in groupby(ops, lambda op: op.body.split("/")[depth]):
        members = list(group)
        own = [i for i, op in enumerate(members) if op.body.count("/") == depth]
        mine = [members[i] for i in own]
        number = len(found)
        found.append(Body(owner, name, around, holder, tuple(mine), *_edges(mine)))
        ends = [*own[1:], len(members)]  # what is in the bodies of an op follows it
        for position, (begin, end) in enumerate(zip(own, ends, strict=True)):
            inside = members[begin + 1 : end]
            if inside:
                _add(found, owner, inside, depth + 1, number, position)


def _edges(ops: Sequence[InnerOp]) -> tuple[Ints, Ints]:
    made = {name: i for i, op in enumerate(ops) for name in op.writes}
    pairs: Iterator[tuple[int, int]] = (
        (made[name], i) for i, op in enumerate(ops) for name in op.reads if name in made
    )
    distinct = [pair for pair in dict.fromkeys(pairs) if pair[0] < pair[1]]
    return (
        np.array([a for a, _ in distinct], np.int64),
        np.array([b for _, b in distinct], np.int64),
    )
