"""Finds the ops of a model behind the names that tools give to layers.

A tool joins, shortens and decorates names: ``conv1/WithoutBiases``, ``fused conv1``, ``conv1_nchwc``, ``a + b + c``,
``PWN(a, b)``, ``{ForeignNode[a...b]}``, ``Reformatting CopyNode for Input Tensor 0 to a + b``. A name that leads to no op,
or to several, has no match; nothing is guessed from similar names.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import takewhile
from types import MappingProxyType

from editor.graph.graph import Graph
from editor.imports.layer_times import CUT

_JOINTS = re.compile(r" \+ | \|\| |, ")
_WRAPPED = re.compile(r"(?:PWN|fusion|2-layer MLP|Concat by copies|squeeze|reshape|copy)\(", re.IGNORECASE)
_RANGE_BEGIN, _RANGE_END = "{ForeignNode[", "]}"
_COPY = re.compile(r"Reformatting CopyNode for (?:Input|Output) Tensor \d{1,9} to ")
_ENDINGS = re.compile(r"(?:_nchwc|_token_\d{1,9}|_quant|_bn|/WithoutBiases|\.OUTPUT_0|:0)$")
_STARTS = ("fused ", "ONNXTRT_")
_LEVELS = 2
"""Parts after a slash that a runtime may have put behind the name of an op."""
_MAX_WRAPPED = 8
"""Names of fusions around each other."""
_MAX_RANGES = 256
"""Layers of a file that are ranges of ops: each needs a search in the graph."""


class OpNames:
    """The names by which files may call the ops of a model."""

    def __init__(self, graph: Graph, by_key: bool, aliases: Mapping[str, str] = MappingProxyType({})) -> None:
        """Indexes the names.

        Args:
            graph: the model.
            by_key: whether keys count before names of nodes, where one text is both.
            aliases: further name -> key.
        """
        self.graph = graph
        names: dict[str, list[int]] = {}
        for op, name in enumerate(graph.op_names):
            if name:
                names.setdefault(name, []).append(op)
        made = {name: int(op) for name, op in zip(graph.tensor_names, graph.tensor_producer.tolist(), strict=True) if op >= 0}
        unique = {name: ops[0] for name, ops in names.items() if len(ops) == 1}
        self._doubled = {name: len(ops) for name, ops in names.items() if len(ops) > 1}
        self._op = {**made, **unique, **graph.key_index} if by_key else {**made, **graph.key_index, **unique}
        self._op |= {name: graph.key_index[key] for name, key in aliases.items() if key in graph.key_index}
        self._sorted = sorted({*unique, *graph.key_index})
        self._ranges = 0

    def exact(self, name: str) -> int | None:
        """The op of exactly this name; None without one, or with several."""
        return self._op.get(name)

    def count(self, name: str) -> int:
        """How many nodes have this name, where it is more than one."""
        return self._doubled.get(name, 0)

    def beginning(self, start: str) -> list[int]:
        """Ops one of whose names begins so, in an order of execution."""
        begin = bisect_left(self._sorted, start)
        found = {self._op[name] for name in takewhile(lambda name: name.startswith(start), self._sorted[begin:])}
        return sorted(found, key=lambda op: int(self.graph.rank[op]))

    def of_layer(self, name: str) -> list[int]:
        """Ops that the name of a layer states, without repetition; empty where it states none."""
        whole = self._one(name)
        if whole is not None:
            return [whole]
        copied = _COPY.sub("", name, count=1)
        if copied != name:
            return self.of_layer(copied)
        if name.startswith(_RANGE_BEGIN) and name.endswith(_RANGE_END):
            first, _, last = name[len(_RANGE_BEGIN):-len(_RANGE_END)].rpartition("...")
            return self._between(first, last)
        if _JOINTS.search(name) is None and _WRAPPED.match(name) is None:
            return []
        found = (self._one(part) for part in _parts(name))
        return list(dict.fromkeys(op for op in found if op is not None))

    def _one(self, name: str) -> int | None:
        """The op of a name, as it is or without what a runtime put around it."""
        for start in _STARTS:
            name = name.removeprefix(start) if name not in self._op else name
        for _ in range(_LEVELS + 1):
            op = self._op.get(name)
            if op is not None:
                return op
            shorter = _ENDINGS.sub("", name)
            if shorter == name:
                shorter = name.rpartition("/")[0]
            if not shorter:
                return None
            name = shorter
        return None

    def _between(self, first: str, last: str) -> list[int]:
        """Ops on paths from one op to another, with both; the names may be of weights, which are no ops."""
        a, b = self._end(first, starts=True), self._end(last, starts=False)
        self._ranges += 1
        if not a or not b or self._ranges > _MAX_RANGES:
            return []
        graph, rank = self.graph, self.graph.rank
        low, high = min(int(rank[op]) for op in a), max(int(rank[op]) for op in b)
        after = _reached(graph, a, forward=True, low=low, high=high)
        before = _reached(graph, b, forward=False, low=low, high=high)
        return sorted({*(after & before), *a, *b}, key=lambda op: int(rank[op]))

    def _end(self, name: str, starts: bool) -> list[int]:
        op = self._one(name)
        if op is not None:
            return [op]
        tensor = self.graph.tensor_index.get(name)  # a weight: what reads it
        readers: list[int] = self.graph.readers[tensor].tolist() if starts and tensor is not None else []
        return readers[:1]


def cut_name(name: str) -> str:
    """What is left of a name that a tool has cut for its table; "" where it is whole."""
    return name.removesuffix(CUT) if name.endswith(CUT) else ""


def _parts(name: str) -> Iterable[str]:
    """Names in a joined name: ``a + PWN(b, c)`` has a, b and c."""
    for part in _JOINTS.split(name):
        text = part.strip()
        for _ in range(_MAX_WRAPPED):
            match = _WRAPPED.match(text)
            text = text[match.end():] if match is not None else text
        yield text
        yield text.rstrip(")")


def _reached(graph: Graph, begin: list[int], forward: bool, low: int, high: int) -> set[int]:
    """Ops that depend on some ops, or that these depend on, within a stretch of the order."""
    rank, found, stack = graph.rank, set(begin), list(begin)
    rows = graph.successors if forward else graph.predecessors
    while stack:
        for op in rows[stack.pop()].tolist():
            if op not in found and low <= int(rank[op]) <= high:
                found.add(op)
                stack.append(op)
    return found
