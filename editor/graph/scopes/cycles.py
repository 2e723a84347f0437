"""Splits blocks that would draw a cycle: a model runs in one direction, and so does its picture of blocks.

A block may gather ops by name that run before and after another block: eleven Adds called ``interpolation``, one in front of
each layer. Drawn as one node it would feed the layers and be fed by them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from editor.graph.graph import Graph
from editor.graph.scopes.paths import Path
from editor.groups import grouped

Unit = Path | int
"""A block inside another one, or an op by itself."""
Edges = list[tuple[int, int]]
_MOST_SPLITS = 256


def without_cycles(
    graph: Graph, placed: Sequence[int], paths: Mapping[int, Path], made_up: Iterable[str]
) -> dict[int, Path]:
    """Op -> path, such that the blocks inside each block are acyclic.

    Args:
        graph: the model.
        placed: its ops without constants, in topological order.
        paths: op -> path.
        made_up: names of blocks that no module stands for; these are split first.
    """
    result = dict(paths)
    producers, consumers, _ = graph.edges
    known = set(placed)
    edges = sorted(
        (
            (p, c)
            for p, c in zip(producers.tolist(), consumers.tolist(), strict=True)
            if p in known and c in known
        ),
        key=lambda edge: graph.rank[edge[1]],
    )
    waiting: list[tuple[Path, list[int], Edges]] = [((), list(placed), edges)]
    while waiting:
        block, ops, inner = waiting.pop()
        _split_cycles(block, ops, inner, result, frozenset(made_up))
        members = grouped(
            (result[op][: len(block) + 1], op) for op in ops if len(result[op]) > len(block)
        )
        within: dict[Path, Edges] = {path: [] for path in members}
        for p, c in inner:
            path = result[p][: len(block) + 1]
            if len(path) > len(block) and path == result[c][: len(block) + 1]:
                within[path].append((p, c))
        waiting += [(path, found, within[path]) for path, found in members.items()]
    return result


def _split_cycles(
    block: Path, ops: Sequence[int], edges: Edges, paths: dict[int, Path], made_up: frozenset[str]
) -> None:
    """Splits the blocks directly inside a block until none of them are in a cycle, in place."""
    for _ in range(_MOST_SPLITS):
        units = {op: _unit(paths[op], block, op) for op in ops}
        left = set(_in_cycles(units, edges))
        cyclic = [u for u in left if not isinstance(u, int)]
        if not cyclic:
            return
        sizes = Counter(units.values())
        free = {u for u in left if isinstance(u, int) or u[-1].partition(" (")[0] in made_up}
        if _taken_in(free, [u for u in cyclic if u not in free], ops, edges, units, paths):
            continue
        cyclic.sort(key=lambda u: (u not in free, sizes[u], u))
        for unit in cyclic:
            if _split(unit, block, ops, edges, units, cyclic, paths):
                break
        else:  # the others bridge it: its ops stand by themselves
            paths.update({op: block for op in ops if units[op] == cyclic[0]})


def _taken_in(
    free: set[Unit],
    blocks: Sequence[Path],
    ops: Sequence[int],
    edges: Edges,
    units: Mapping[int, Unit],
    paths: dict[int, Path],
) -> bool:
    """Puts ops that no module claims into the block that runs before and after them; False where there are none."""
    for unit in blocks:
        after, before = {op for op in ops if units[op] == unit}, set()
        before |= after
        for p, c in edges:  # in topological order of the consumers
            if p in after:
                after.add(c)
        for p, c in reversed(edges):
            if c in before:
                before.add(p)
        between = [op for op in after & before if units[op] in free]
        if between:
            paths.update({op: (*unit, *paths[op][len(unit) - 1 :]) for op in between})
            return True
    return False


def _unit(path: Path, block: Path, op: int) -> Unit:
    return path[: len(block) + 1] if len(path) > len(block) else op


def _in_cycles(units: Mapping[int, Unit], edges: Edges) -> list[Unit]:
    """Units that lie in cycles or between them: what is left without those that nothing comes before, or nothing after."""
    pairs = {(units[p], units[c]) for p, c in edges if units[p] != units[c]}
    left = {unit for pair in pairs for unit in pair}
    for one, other in ((0, 1), (1, 0)):
        after: dict[Unit, list[Unit]] = {}
        count: Counter[Unit] = Counter()
        for pair in pairs:
            if pair[0] in left and pair[1] in left:
                after.setdefault(pair[one], []).append(pair[other])
                count[pair[other]] += 1
        free = [unit for unit in left if not count[unit]]
        while free:
            unit = free.pop()
            left.discard(unit)
            for follower in after.get(unit, ()):
                count[follower] -= 1
                if not count[follower]:
                    free.append(follower)
    return list(left)


def _split(
    unit: Path,
    block: Path,
    ops: Sequence[int],
    edges: Edges,
    units: Mapping[int, Unit],
    cyclic: Sequence[Path],
    paths: dict[int, Path],
) -> bool:
    """Divides a block by how often the run comes into it from the others; False where that is as often for all of its ops."""
    before = grouped((c, p) for p, c in edges)
    turns: dict[int, int] = {}
    for op in ops:
        own = units[op] == unit
        known = [turns[p] + (own and units[p] != unit) for p in before.get(op, ()) if p in turns]
        if known or own or units[op] in cyclic:
            turns[op] = max(known, default=0)
    pieces = grouped((turns[op], op) for op in ops if units[op] == unit)
    if len(pieces) < 2:
        return False
    taken, name, number = set(units.values()), unit[-1], 1
    for _, members in sorted(pieces.items()):
        while number > 1 and (*block, name) in taken:
            name, number = f"{unit[-1]} ({number})", number + 1
        taken.add((*block, name))
        number = max(number, 2)
        for op in members:
            rest = paths[op][len(unit) :]
            paths[op] = (*block, name, *rest) if len(members) > 1 else block
    return True
