"""Where ops belong: blocks inside blocks, from names, from the weights they read, or by structure.

Exporters leave traces of a model's modules: op names with slashes or dots, or at least the names of
weights ("model.layers.3.mlp.down_proj.weight"). An op without a trace belongs where the ops before and
after it both belong, see ``paths``. A model without any traces is cut into runs of its order of execution.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property, lru_cache

import numpy as np

from editor.graph.graph import Graph
from editor.graph.scopes.bundles import bundled, repeated_blocks
from editor.graph.scopes.paths import Path, is_numbered, paths_of, pattern_of

_WIDEST, _SMALLEST_RUN = 96, 16
"""Members of a block that are shown side by side; more are bundled in runs of at least so many."""
_RUN_OF_BLOCKS = "blocks "
_DEEPEST = 24
"""Levels of a path; hostile names may have thousands."""
_ALIKE, _LONGEST_ALIGNED = 0.6, 2000
"""Share of the ops that blocks of one list have in common, and up to how many ops they are compared."""


@dataclass(eq=False)
class Scope:
    """One block."""

    number: int
    path: Path
    parent: int
    """Number of the block around it, -1 for the whole model."""
    ops: list[int] = field(default_factory=list)
    """Every op in it, deeper ones included, in an order of execution."""
    children: list[int] = field(default_factory=list)
    twins: tuple[int, ...] = ()
    """Blocks with the same ops in the same order whose paths differ in numbers only, itself included."""

    @property
    def pattern(self) -> str:
        """The path without its numbers."""
        return pattern_of(self.path)

    @property
    def label(self) -> str:
        """The block's own name after that of the nearest numbered one around it: "layers.3", "layers.3 / attention"."""
        if not self.path:
            return "model"
        own, rest = _named(self.path)
        depth = next((i for i in range(len(rest), 0, -1) if is_numbered(rest[i - 1])), 0)
        return f"{_named(rest[:depth])[0]} / {own}" if depth else own


def _named(path: Path) -> tuple[str, Path]:
    """What a block is called, and the path around it; a mere number brings the name of its list along."""
    own, rest = path[-1], path[:-1]
    while own.isdigit() and rest and rest[-1].startswith(_RUN_OF_BLOCKS):  # a run of a long list
        rest = rest[:-1]
    return (f"{rest[-1]}.{own}", rest[:-1]) if own.isdigit() and rest else (own, rest)


@dataclass(frozen=True, eq=False)
class Scopes:
    """All blocks of a model; number 0 is the model itself."""

    scopes: tuple[Scope, ...]
    of_op: dict[int, int]
    """Innermost block of each op that has a place."""
    types: tuple[str, ...]
    _aligned: dict[tuple[int, ...], dict[int, int]] = field(default_factory=dict)
    _families: dict[int, dict[int, dict[int, int]]] = field(default_factory=dict)

    @cached_property
    def like(self) -> dict[str, list[int]]:
        """Blocks by the pattern of their path."""
        found: dict[str, list[int]] = {}
        for scope in self.scopes[1:]:
            found.setdefault(scope.pattern, []).append(scope.number)
        return found

    @cached_property
    def repeated(self) -> frozenset[int]:
        """The outermost blocks that repeat: the layers."""
        numbers = {scope.path: scope.number for scope in self.scopes[1:]}
        found = repeated_blocks({scope.path: len(scope.ops) for scope in self.scopes[1:]}, len(self.of_op))
        return frozenset(numbers[path] for path in found)

    def layers_in(self, number: int) -> int:
        """How many of the model's layers lie directly in a block, where they are most of it; else 0."""
        block = self.scopes[number]
        kinds: dict[str, list[int]] = {}
        for child in block.children:
            if is_numbered(self.scopes[child].path[-1]):
                kinds.setdefault(self.scopes[child].pattern, []).append(child)
        most = max(kinds.values(), key=len, default=[])
        held = sum(len(self.scopes[child].ops) for child in most)
        layers = len(most) > 2 and not self.repeated.isdisjoint(most)
        return len(most) if layers and held >= _ALIKE * len(block.ops) else 0

    def ancestors(self, number: int) -> list[int]:
        """The block and those around it, innermost first, without the model itself."""
        found = []
        while number > 0:
            found.append(number)
            number = self.scopes[number].parent
        return found

    def corresponding_ops(self, op: int) -> list[int]:
        """The same op in every repetition of its block: in every layer, else of nested repetitions in the largest.

        An op that belongs to no block (a constant, even where it is pinned) corresponds to none but itself.
        """
        if op not in self.of_op:
            return [op]
        best: list[int] = [op]
        for number in self.ancestors(self.of_op[op]):
            family = self._family(number)
            if len(family) > 1:
                place = self.scopes[number].ops.index(op)
                found = [self.scopes[twin].ops[at] for twin, places in family.items() if (at := places.get(place)) is not None]
                best = found if len(found) > 1 else best
                if number in self.repeated and len(found) > 1:
                    break
        return best if len(best) > 1 else self._at_like_places(op)

    def _family(self, number: int) -> dict[int, dict[int, int]]:
        """Blocks that repeat a block, each with the places there of this one's ops; the first and last may differ a little."""
        if number in self._families:
            return self._families[number]
        scope = self.scopes[number]
        rivals = [] if scope.path[-1].startswith(_RUN_OF_BLOCKS) else list(scope.twins)
        if rivals and any(map(is_numbered, scope.path)):
            rivals = sorted({*rivals, *self.like.get(scope.pattern, ())})
        family = {twin: self._alignment(number, twin) for twin in rivals}
        self._families[number] = {twin: places for twin, places in family.items()
                                  if len(places) >= _ALIKE * max(len(scope.ops), len(self.scopes[twin].ops))}
        return self._families[number]

    def _alignment(self, one: int, other: int) -> dict[int, int]:
        """Places of one block's ops in another: by type and order."""
        key = tuple(self.scopes[n].twins[0] if self.scopes[n].twins else n for n in (one, other))
        if key not in self._aligned:
            a, b = ([self.types[op] for op in self.scopes[n].ops] for n in key)
            if a == b:
                self._aligned[key] = {i: i for i in range(len(a))}
            elif max(len(a), len(b)) > _LONGEST_ALIGNED:
                self._aligned[key] = {}
            else:
                blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
                self._aligned[key] = {m.a + i: m.b + i for m in blocks for i in range(m.size)}
        return self._aligned[key]

    def _at_like_places(self, op: int) -> list[int]:
        """First and last layers often differ a little: then the op of the same type and number in blocks alike by name."""
        home = self.scopes[self.of_op[op]]
        own = self._own_of_type(home, self.types[op])
        place = own.index(op)
        found = []
        for scope in self.scopes[1:]:
            if scope.pattern == home.pattern:
                rivals = self._own_of_type(scope, self.types[op])
                found += rivals[place:place + 1] if len(rivals) == len(own) else []
        return found or [op]

    def _own_of_type(self, scope: Scope, kind: str) -> list[int]:
        return [op for op in scope.ops if self.types[op] == kind and self.of_op[op] == scope.number]


@lru_cache(maxsize=8)
def scopes_of(graph: Graph) -> Scopes:
    """The blocks of a model."""
    placed = [op for op in graph.order.tolist() if not graph.op_is_constant[op]]
    paths = bundled(graph, placed, paths_of(graph, placed))
    tree = _Tree()
    tree.add((), -1, [(op, paths[op][:_DEEPEST]) for op in placed])
    _find_twins(graph, tree.scopes)
    return Scopes(tuple(tree.scopes), tree.of_op, graph.op_types)


class _Tree:
    """Blocks under construction, parents before children."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.of_op: dict[int, int] = {}

    def add(self, path: Path, parent: int, items: list[tuple[int, Path]]) -> None:
        """A block of ops, each with the rest of its path."""
        scope = Scope(len(self.scopes), path, parent, [op for op, _ in items])
        self.scopes.append(scope)
        if parent >= 0:
            self.scopes[parent].children.append(scope.number)
        own = [(op, rest) for op, rest in items if not rest]
        inner: dict[str, list[tuple[int, Path]]] = {}
        for op, rest in items:
            if rest:
                inner.setdefault(rest[0], []).append((op, rest[1:]))
        if len(own) > _WIDEST:
            self._add_runs(scope, "ops", [[item] for item in own])
        else:
            self.of_op.update(dict.fromkeys((op for op, _ in own), scope.number))
        if len(inner) > _WIDEST:
            self._add_runs(scope, "blocks", [[(op, (name, *rest)) for op, rest in found] for name, found in inner.items()])
        else:
            for name, found in inner.items():
                self.add((*path, name), scope.number, found)

    def _add_runs(self, scope: Scope, what: str, members: list[list[tuple[int, Path]]]) -> None:
        """Too many members to look at: runs of them become blocks of their own."""
        size = max(-(-len(members) // _WIDEST), _SMALLEST_RUN)
        for begin in range(0, len(members), size):
            run = members[begin:begin + size]
            name = f"{what} {begin} to {begin + len(run) - 1}"
            self.add((*scope.path, name), scope.number, [item for found in run for item in found])


def _find_twins(graph: Graph, scopes: list[Scope]) -> None:
    alike: dict[tuple[str, bytes], list[int]] = {}
    kinds = {kind: number for number, kind in enumerate(dict.fromkeys(graph.op_types))}
    kind = np.array([kinds[name] for name in graph.op_types], np.int32)
    for scope in scopes[1:]:
        alike.setdefault((scope.pattern, kind[scope.ops].tobytes()), []).append(scope.number)
    for numbers in alike.values():
        twins = tuple(numbers)
        for number in numbers:
            scopes[number].twins = twins
