"""Where ops belong: blocks inside blocks, from names, from the weights they read, or by structure.

Exporters leave traces of a model's modules: op names with slashes or dots, or at least the names of
weights ("model.layers.3.mlp.down_proj.weight"). An op without a trace belongs where the ops before and
after it both belong. A model without any traces is cut into runs of its order of execution.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from editor.graph.graph import Graph, TensorKind

Path = tuple[str, ...]

_TRACED_SHARE = 0.05
_SHORTEST, _LONGEST = 8, 1024
"""Ops of a repeated block."""
_WIDEST, _SMALLEST_RUN = 96, 16
"""Members of a block that are shown side by side; more are bundled in runs of at least so many."""
_DEEPEST = 24
"""Levels of a path; hostile names may have thousands."""
_RUN = 48
"""Ops of a block in a model without traces."""


_NUMBERED = re.compile(r"(val|t|tensor|onnx::\w+?|strip)?[_.]?[a-z]?[._]?\d+([./]|$)")
"""Names that exporters make up; they say nothing about modules."""


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
        return re.sub(r"\d+", "#", "/".join(self.path))

    @property
    def label(self) -> str:
        """The last part of the path; numbers bring their parent along."""
        if not self.path:
            return "model"
        return ".".join(self.path[-2:]) if self.path[-1].isdigit() and len(self.path) > 1 else self.path[-1]


@dataclass(frozen=True, eq=False)
class Scopes:
    """All blocks of a model; number 0 is the model itself."""

    scopes: tuple[Scope, ...]
    of_op: dict[int, int]
    """Innermost block of each op that has a place."""
    types: tuple[str, ...]

    def ancestors(self, number: int) -> list[int]:
        """The block and those around it, innermost first, without the model itself."""
        found = []
        while number > 0:
            found.append(number)
            number = self.scopes[number].parent
        return found

    def in_every_twin(self, op: int) -> list[int]:
        """The same op in every repetition of its block; of nested repetitions the largest."""
        best: list[int] = [op]
        for number in self.ancestors(self.of_op[op]):
            scope = self.scopes[number]
            if len(scope.twins) > 1:
                place = scope.ops.index(op)
                best = [self.scopes[twin].ops[place] for twin in scope.twins]
        return best if len(best) > 1 else self._at_like_places(op)

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
    paths = _paths(graph, placed)
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


def _paths(graph: Graph, placed: list[int]) -> dict[int, Path]:
    traces = {op: _trace(graph, op) for op in placed}
    if sum(1 for path in traces.values() if path) < _TRACED_SHARE * len(placed):
        return _structural(graph, placed)
    before: Path = ()
    ahead: dict[int, Path] = {}
    later: Path = ()
    for op in reversed(placed):
        later = traces[op] or later
        ahead[op] = later
    found = {}
    for op in placed:
        before = traces[op] or before
        found[op] = traces[op] or _common(before, ahead[op])
    return found


def _structural(graph: Graph, placed: list[int]) -> dict[int, Path]:
    """Repeated runs of op types are layers; what lies between is cut into runs of one length."""
    start, period, count = _repetition([graph.op_types[op] for op in placed])
    found: dict[int, Path] = {}
    for i, op in enumerate(placed):
        if start <= i < start + period * count:
            found[op] = ("layers", str((i - start) // period))
        elif len(placed) > 2 * _RUN:
            begin = i // _RUN * _RUN
            found[op] = (f"ops {begin} to {min(begin + _RUN, len(placed)) - 1}",)
        else:
            found[op] = ()
    return found


def _repetition(kinds: list[str]) -> tuple[int, int, int]:
    """(start, period, count) of the repetition that covers most of a sequence; count 0 where there is none."""
    codes = np.unique(kinds, return_inverse=True)[1] if kinds else np.zeros(0, np.int64)
    best = (0, 1, 0)
    for period in range(_SHORTEST, min(len(codes) // 2, _LONGEST) + 1):
        same = np.flatnonzero(codes[period:] != codes[:-period])
        edges = np.concatenate([[-1], same, [len(codes) - period]])
        at = int(np.diff(edges).argmax())
        run, start = int(edges[at + 1] - edges[at] - 1), int(edges[at] + 1)
        count = run // period + 1
        if run >= period and count * period > best[1] * best[2] + period // 2:
            best = (start, period, count)
    return best if best[1] * best[2] >= 0.3 * len(codes) else (0, 1, 0)


def _trace(graph: Graph, op: int) -> Path:
    name = graph.op_names[op].strip("/")
    if "/" in name:
        return tuple(part for part in name.split("/")[:-1] if part)
    if name.count(".") > 1:
        return tuple(name.split(".")[:-1])
    weights = [graph.tensor_names[t] for t in _weights(graph, op)]
    named = (w for w in weights if re.search(r"[A-Za-z_]\w*[./]\w*[A-Za-z]\w*$", w) and not _NUMBERED.match(w))
    best = max(named, key=len, default="")
    return tuple(part for part in re.split(r"[./]", best.strip("/"))[:-1] if part)


def _weights(graph: Graph, op: int, depth: int = 3) -> list[int]:
    """Constants that an op reads, and those that they are made of (a weight that is transposed first)."""
    found = []
    for tensor in graph.reads[op].tolist():
        producer = int(graph.tensor_producer[tensor])
        if graph.tensor_kind[tensor] == TensorKind.INITIALIZER:
            found.append(tensor)
        elif producer >= 0 and depth and graph.op_is_constant[producer]:
            found += [tensor, *_weights(graph, producer, depth - 1)]
    return found


def _common(a: Path, b: Path) -> Path:
    shared = 0
    while shared < min(len(a), len(b)) and a[shared] == b[shared]:
        shared += 1
    return a[:shared]


def _find_twins(graph: Graph, scopes: list[Scope]) -> None:
    alike: dict[tuple[object, ...], list[int]] = {}
    for scope in scopes[1:]:
        alike.setdefault((scope.pattern, tuple(graph.op_types[op] for op in scope.ops)), []).append(scope.number)
    for numbers in alike.values():
        for number in numbers:
            scopes[number].twins = tuple(numbers)
