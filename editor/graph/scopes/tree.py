"""Arranges ops in a tree of blocks: scopes, repeated blocks and bundles.

Blocks that would draw a cycle are split: a model runs in one direction, and so does its picture of blocks. A block may gather
ops by name that run before and after another block: eleven Adds called ``interpolation``, one in front of each layer. Drawn as
one node it would feed the layers and be fed by them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property

import numpy as np

from editor.graph.graph import Graph, cached_per_graph
from editor.graph.scopes.paths import Path, is_numbered, paths_of, pattern_of
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


_MIN_MEMBERS, _MIN_MEMBER_OPS = 3, 4
_MAX_SIZE_RATIO = 2.0
"""Largest ratio of the sizes of repeated blocks: stages of different depth are not a repetition, but their blocks are."""
_LEAST_SHARE = 0.3
"""Least share of the model's ops in repeated blocks."""
_MAX_LOOSE_OPS = 12
"""Most ops outside the repeated blocks that are not grouped."""
_SHARED, _FIRST, _LAST = "shared ops", "first ops", "last ops"


def repeated_blocks(sizes: Mapping[Path, int], total: int) -> set[Path]:
    """The outermost repeated blocks (the layers), given the number of ops of every block."""
    lists = grouped((pattern_of(path), path) for path in sizes if path and is_numbered(path[-1]))
    inner = Counter(
        path[:depth] for paths in lists.values() for path in paths for depth in range(1, len(path))
    )
    repeated: set[Path] = set()
    for members in sorted(lists.values(), key=lambda paths: len(paths[0])):
        counts = [sizes[path] for path in members]
        if (
            len(members) >= _MIN_MEMBERS
            and not _are_stages([inner[path] for path in members])
            and min(counts) >= _MIN_MEMBER_OPS
            and max(counts) <= _MAX_SIZE_RATIO * min(counts)
            and not any(path[:depth] in repeated for path in members for depth in range(len(path)))
        ):
            repeated.update(members)
    return repeated if sum(sizes[path] for path in repeated) >= _LEAST_SHARE * total else set()


def _are_stages(lengths: Sequence[int]) -> bool:
    """Whether blocks of a list are lists themselves, of different lengths: 3, 4, 6 and 3 blocks in the stages of a ResNet."""
    return min(lengths) > 1 and len(set(lengths)) > 1


def bundled(graph: Graph, placed: Sequence[int], paths: Mapping[int, Path]) -> dict[int, Path]:
    """Op -> path, with new blocks for the ops outside the repeated blocks where these are many.

    Ops that feed several blocks form one new block; the others form one before and one after the repeated blocks.
    """
    sizes = Counter(path[:depth] for path in paths.values() for depth in range(1, len(path) + 1))
    members = repeated_blocks(sizes, len(placed))
    around = {path[:depth] for path in members for depth in range(len(path))}
    loose = [op for op in placed if paths[op] in around]
    if len(loose) <= _MAX_LOOSE_OPS:
        return dict(paths)
    shared = _feeding_several(graph, loose, paths, around)
    rest = [op for op in loose if op not in shared]
    inside = [
        i
        for i, op in enumerate(placed)
        if any(paths[op][:depth] in members for depth in range(len(paths[op]) + 1))
    ]
    position = {op: i for i, op in enumerate(placed)}
    result = dict(paths)
    _bundle(result, [op for op in loose if op in shared], _SHARED)
    if len(rest) > _MAX_LOOSE_OPS:
        _bundle(result, [op for op in rest if position[op] < inside[0]], _FIRST)
        _bundle(result, [op for op in rest if position[op] > inside[-1]], _LAST)
    return result


def _feeding_several(
    graph: Graph, loose: Sequence[int], paths: Mapping[int, Path], around: set[Path]
) -> set[int]:
    """Loose ops whose results reach more than one block through loose ops; reading only a shape does not count."""
    reached: dict[int, frozenset[Path]] = {op: frozenset() for op in loose}
    for op in reversed(loose):
        readers = [r for r in graph.successors[op].tolist() if r in paths]
        readers = [r for r in readers if graph.op_types[r] not in ("Shape", "Size")] or readers
        blocks: frozenset[Path] = frozenset()
        for reader in readers:
            blocks |= reached[reader] if reader in reached else {_block(paths[reader], around)}
            if len(blocks) > 2:
                break
        reached[op] = blocks
    return {op for op, blocks in reached.items() if len(blocks) > 1}


def _block(path: Path, around: set[Path]) -> Path:
    """The outermost block of an op that is not loose."""
    return next(path[:depth] for depth in range(len(path) + 1) if path[:depth] not in around)


def _bundle(paths: dict[int, Path], ops: Sequence[int], name: str) -> None:
    if len(ops) < 2:
        return
    shared = paths[ops[0]]
    for op in ops:
        while paths[op][: len(shared)] != shared:
            shared = shared[:-1]
    for op in ops:
        paths[op] = (*shared, name)


_MAX_CHILDREN, _MIN_RUN = 96, 16
"""Most children of a block; more are grouped in runs of at least ``_MIN_RUN``."""
_RUN_OF_OPS, _RUN_OF_BLOCKS = "ops ", "blocks "
_MAX_DEPTH = 24
"""Most levels of a path; hostile names may have thousands."""
_MIN_COMMON_SHARE, _MAX_ALIGNED_OPS = 0.6, 2000
"""Least share of common ops in corresponding blocks, and most ops of a block to compare."""


@dataclass(eq=False)
class Scope:
    """A block: a set of ops, usually one module of the model."""

    number: int
    path: Path
    parent: int
    """Number of the enclosing block; -1 for the whole model."""
    ops: list[int] = field(default_factory=list)
    """Its ops in topological order, those of inner blocks included."""
    children: list[int] = field(default_factory=list)
    identical: tuple[int, ...] = ()
    """Blocks of the same op types in the same order whose paths differ only in numbers, itself included."""
    inside: str = ""
    """What tells it from blocks of the same name elsewhere: "encoder" where the decoder has layers too."""

    @property
    def is_run(self) -> bool:
        """Neither a module nor a repeated layer, but a number of ops behind each other."""
        return bool(self.path) and self.path[-1].startswith(_RUN_OF_OPS)

    @property
    def pattern(self) -> str:
        """The path without its numbers."""
        return pattern_of(self.path)

    @property
    def label(self) -> str:
        """The block's name after that of the nearest enclosing numbered block: "layers.3", "layers.3 / attention"."""
        name = _short_name(self.path)[0]
        return f"{self.inside}.{name}" if self.inside else name


def _short_name(path: Path) -> tuple[str, Path]:
    """(label without what tells it from others, the path before what the label contains)."""
    if not path:
        return "model", ()
    own, rest = _named(path)
    depth = next((i for i in range(len(rest), 0, -1) if is_numbered(rest[i - 1])), 0)
    if not depth:
        return own, rest
    above, before = _named(rest[:depth])
    return f"{above} / {own}", before


def _named(path: Path) -> tuple[str, Path]:
    """(name, enclosing path) of a block; the name of a number includes that of its list."""
    own, rest = path[-1], path[:-1]
    while own.isdigit() and rest and rest[-1].startswith(_RUN_OF_BLOCKS):  # a run of a long list
        rest = rest[:-1]
    return (f"{rest[-1]}.{own}", rest[:-1]) if own.isdigit() and rest else (own, rest)


@dataclass(frozen=True, eq=False)
class Scopes:
    """All blocks of a model; number 0 is the model itself."""

    scopes: tuple[Scope, ...]
    of_op: dict[int, int]
    """Op -> innermost block; without constants."""
    types: tuple[str, ...]
    _aligned: dict[tuple[int, ...], dict[int, int]] = field(default_factory=dict)
    _families: dict[int, dict[int, dict[int, int]]] = field(default_factory=dict)

    @cached_property
    def by_pattern(self) -> dict[str, list[int]]:
        """Pattern of a path -> numbers of the blocks with such a path."""
        return grouped((scope.pattern, scope.number) for scope in self.scopes[1:])

    @cached_property
    def repeated(self) -> frozenset[int]:
        """The outermost repeated blocks: the layers."""
        numbers = {scope.path: scope.number for scope in self.scopes[1:]}
        paths = repeated_blocks(
            {scope.path: len(scope.ops) for scope in self.scopes[1:]}, len(self.of_op)
        )
        return frozenset(numbers[path] for path in paths)

    @cached_property
    def layer_of_op(self) -> dict[int, int]:
        """Op -> number of its layer, by the last number in the layer's path; ops outside all layers are missing."""
        result = {}
        for number in sorted(self.repeated):
            digits = [
                re.findall(r"\d+", part)[-1]
                for part in self.scopes[number].path
                if is_numbered(part)
            ]
            if digits:
                result.update(dict.fromkeys(self.scopes[number].ops, int(digits[-1])))
        return result

    def path_of(self, op: int) -> str:
        """The path of an op's innermost block, with slashes; "" outside all blocks."""
        return "/".join(self.scopes[self.of_op[op]].path) if op in self.of_op else ""

    def layers_in(self, number: int) -> int:
        """Number of layers among the children of a block where they are most of its ops; else 0."""
        block = self.scopes[number]
        kinds = grouped(
            (self.scopes[child].pattern, child)
            for child in block.children
            if is_numbered(self.scopes[child].path[-1])
        )
        most = max(kinds.values(), key=len, default=[])
        held = sum(len(self.scopes[child].ops) for child in most)
        layers = len(most) > 2 and not self.repeated.isdisjoint(most)
        return len(most) if layers and held >= _MIN_COMMON_SHARE * len(block.ops) else 0

    def ancestors(self, number: int) -> list[int]:
        """The block and its enclosing blocks, innermost first, without the model itself."""
        result = []
        while number > 0:
            result.append(number)
            number = self.scopes[number].parent
        return result

    def corresponding_ops(self, op: int) -> list[int]:
        """The corresponding ops in all repetitions of the op's block: in all layers, or else in the largest repetition.

        An op outside all blocks (a constant, even a pinned one) corresponds only to itself.
        """
        if op not in self.of_op:
            return [op]
        best: list[int] = [op]
        for number in self.ancestors(self.of_op[op]):
            family = self._family(number)
            if len(family) > 1:
                position = self.scopes[number].ops.index(op)
                ops = [
                    self.scopes[other].ops[at]
                    for other, positions in family.items()
                    if (at := positions.get(position)) is not None
                ]
                best = ops if len(ops) > 1 else best
                if number in self.repeated and len(ops) > 1:
                    break
        return best if len(best) > 1 else self._same_position_by_type(op)

    def _family(self, number: int) -> dict[int, dict[int, int]]:
        """Corresponding block -> (position of an op here -> there); the first and last block may differ a little."""
        if number in self._families:
            return self._families[number]
        scope = self.scopes[number]
        others = [] if scope.path[-1].startswith(_RUN_OF_BLOCKS) else list(scope.identical)
        if others and any(map(is_numbered, scope.path)):
            others = sorted({*others, *self.by_pattern.get(scope.pattern, ())})
        family = {other: self._alignment(number, other) for other in others}
        self._families[number] = {
            other: positions
            for other, positions in family.items()
            if len(positions)
            >= _MIN_COMMON_SHARE * max(len(scope.ops), len(self.scopes[other].ops))
        }
        return self._families[number]

    def _alignment(self, one: int, other: int) -> dict[int, int]:
        """Position in one block -> position in the other, aligned by op type and order."""
        key = tuple(
            self.scopes[n].identical[0] if self.scopes[n].identical else n for n in (one, other)
        )
        if key not in self._aligned:
            a, b = ([self.types[op] for op in self.scopes[n].ops] for n in key)
            if a == b:
                self._aligned[key] = {i: i for i in range(len(a))}
            elif max(len(a), len(b)) > _MAX_ALIGNED_OPS:
                self._aligned[key] = {}
            else:
                blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
                self._aligned[key] = {m.a + i: m.b + i for m in blocks for i in range(m.size)}
        return self._aligned[key]

    def _same_position_by_type(self, op: int) -> list[int]:
        """The ops of the same type and rank in all blocks of one pattern; first and last layers may differ a little."""
        block = self.scopes[self.of_op[op]]
        own = self._own_of_type(block, self.types[op])
        rank = own.index(op)
        result = []
        for scope in self.scopes[1:]:
            if scope.pattern == block.pattern:
                others = self._own_of_type(scope, self.types[op])
                result += others[rank : rank + 1] if len(others) == len(own) else []
        return result or [op]

    def _own_of_type(self, scope: Scope, kind: str) -> list[int]:
        return [op for op in scope.ops if self.types[op] == kind and self.of_op[op] == scope.number]


@cached_per_graph
def scopes_of(graph: Graph) -> Scopes:
    """The blocks of a model."""
    placed = [op for op in graph.order.tolist() if not graph.op_is_constant[op]]
    paths = bundled(graph, placed, paths_of(graph, placed))
    paths = without_cycles(graph, placed, paths, (_SHARED, _FIRST, _LAST))
    tree = _Tree()
    tree.add((), -1, [(op, paths[op][:_MAX_DEPTH]) for op in placed])
    _set_identical(graph, tree.scopes)
    _tell_apart(tree.scopes)
    return Scopes(tuple(tree.scopes), tree.of_op, graph.op_types)


class _Tree:
    """Builds the blocks, parents before children."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.of_op: dict[int, int] = {}

    def add(self, path: Path, parent: int, items: list[tuple[int, Path]]) -> None:
        """Adds a block; items are ops with the rest of their path."""
        scope = Scope(len(self.scopes), path, parent, [op for op, _ in items])
        self.scopes.append(scope)
        if parent >= 0:
            self.scopes[parent].children.append(scope.number)
        own = [(op, rest) for op, rest in items if not rest]
        inner = grouped((rest[0], (op, rest[1:])) for op, rest in items if rest)
        if len(own) > _MAX_CHILDREN:
            self._add_runs(scope, _RUN_OF_OPS, [[item] for item in own])
        else:
            self.of_op.update(dict.fromkeys((op for op, _ in own), scope.number))
        if len(inner) > _MAX_CHILDREN:
            self._add_runs(
                scope,
                _RUN_OF_BLOCKS,
                [[(op, (name, *rest)) for op, rest in items] for name, items in inner.items()],
            )
        else:
            for name, members in inner.items():
                self.add((*path, name), scope.number, members)

    def _add_runs(self, scope: Scope, what: str, members: list[list[tuple[int, Path]]]) -> None:
        """Groups too many members in runs, which become blocks."""
        size = max(-(-len(members) // _MAX_CHILDREN), _MIN_RUN)
        for begin in range(0, len(members), size):
            run = members[begin : begin + size]
            name = f"{what}{begin} to {begin + len(run) - 1}"
            self.add((*scope.path, name), scope.number, [item for member in run for item in member])


def _set_identical(graph: Graph, scopes: list[Scope]) -> None:
    kinds = {kind: number for number, kind in enumerate(dict.fromkeys(graph.op_types))}
    kind = np.array([kinds[name] for name in graph.op_types], np.int32)
    groups = grouped(((s.pattern, kind[s.ops].tobytes()), s.number) for s in scopes[1:])
    for numbers in groups.values():
        for number in numbers:
            scopes[number].identical = tuple(numbers)


def _tell_apart(scopes: list[Scope]) -> None:
    """Blocks of lists that are called the same are labelled with what contains the list: "encoder.layers.0"."""
    listed = [scope for scope in scopes[1:] if any(map(is_numbered, scope.path))]
    short = [_short_name(scope.path) for scope in listed]
    named = grouped(
        (name, (scope, before)) for scope, (name, before) in zip(listed, short, strict=True)
    )
    for group in named.values():
        if len({before for _, before in group}) > 1:
            for scope, before in group:
                scope.inside = ".".join(before[-1:])
