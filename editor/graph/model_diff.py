"""Matches the ops of two models: by name, by the content of weights, and by what is around them.

Constants have no place of their own: they count with the ops that read them. Ops that only pass values on (of quantisation,
of another layout) are matched as others are, and looked through where it is asked what is beside an op. All is near-linear.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import onnx.defs

from editor.graph.attributes import attribute_names, attribute_value, definition_of
from editor.graph.graph import Bools, Graph, Ints
from editor.groups import grouped

Hashes = npt.NDArray[np.uint64]
Digests = Mapping[int, bytes]
"""Constant tensor -> a digest of its values; a tensor that is not in it has values that are not known."""


class How(IntEnum):
    """By what an op was matched."""

    NOT = 0
    NAME = 1
    WEIGHTS = 2
    STRUCTURE = 3


@dataclass(frozen=True, eq=False)
class Matching:
    """The ops of one model and those of another that are the same."""

    partner: Ints
    """[op of the first] op of the second; -1 without one, and for constants"""
    how: npt.NDArray[np.int8]
    """[op of the first] ``How``"""

    def pairs(self, order: Ints) -> list[tuple[int, int]]:
        """(op, partner) of all that have one, in the order of the first model."""
        return [(op, int(self.partner[op])) for op in order.tolist() if self.partner[op] >= 0]


_PASS_ON = frozenset(
    {"QuantizeLinear", "DequantizeLinear", "Identity", "Cast", "ReorderInput", "ReorderOutput"}
)
"""Types of ops that are looked through."""
_UNORDERED = frozenset({"Add", "Mul", "Sum", "Max", "Min", "Mean", "And", "Or", "Xor", "Equal"})
"""Types whose inputs may be swapped."""
_AS = {
    "DynamicQuantizeLinear": "DynamicQuantizeLinear",
    "QGemm": "Gemm",
    "MatMulNBits": "MatMul",
    "MatMulIntegerToFloat": "MatMul",
} | {f"{kind}Gelu": "Gelu" for kind in ("Fast", "Bias", "Quick")}
_PREFIXES, _SUFFIXES = ("QLinear", "Fused", "DynamicQuantize"), ("Integer",)
_QUANTIZED_SLOTS = {
    "QLinearConv": {0: 0, 3: 1, 8: 2},
    "QGemm": {0: 0, 3: 1, 6: 2},
    "ConvInteger": {0: 0, 1: 1},
    "MatMulInteger": {0: 0, 1: 1},
}
_OTHER_QUANTIZED = {0: 0, 3: 1}
_ENDING = re.compile(r"(?:_nchwc|_quant|_quantized)+$")
_MOST_FUSED = 3
"""Ops that follow one that they are fused with."""
_ROUNDS = 6
"""How far around an op it is looked."""
_MOST_PASSES = 8


@lru_cache(maxsize=4096)
def base_type(op_type: str) -> str:
    """The type of the float op that a fused or quantised op stands for: "Conv" of ``QLinearConv`` and ``FusedConv``."""
    if op_type in _AS:
        return _AS[op_type]
    shorter = (
        *(op_type.removeprefix(prefix) for prefix in _PREFIXES),
        *(op_type.removesuffix(suffix) for suffix in _SUFFIXES),
    )
    return next((each for each in shorter if each not in ("", op_type)), op_type)


def slot_of(op_type: str, position: int) -> int:
    """The input of the float op that an input of a quantised op stands for; -1 for scales and zero points."""
    if op_type.startswith("QLinear") or op_type in _QUANTIZED_SLOTS:
        return _QUANTIZED_SLOTS.get(op_type, _OTHER_QUANTIZED).get(position, -1)
    return position


@lru_cache(maxsize=4096)
def input_name(op_type: str, domain: str, version: int, position: int) -> str:
    """What ONNX calls an input of an op; "" where it does not say."""
    try:
        schema = onnx.defs.get_schema(
            op_type, max(version, 1), "" if domain == "ai.onnx" else domain
        )
    except onnx.defs.SchemaError:
        return ""
    return schema.inputs[position].name if position < len(schema.inputs) else ""


def _version(graph: Graph, op: int) -> int:
    return graph.opsets.get(graph.op_domains[op] or "ai.onnx", graph.opsets.get("", 1))


def settings_of(
    graph: Graph, op: int, values: Mapping[int, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Attributes, and small constant inputs that are attributes in other versions of the type; and defaults of its version.

    Args:
        graph: the model.
        op: an op of it.
        values: text of the values of small constant tensors.
    """
    kind, domain, version = graph.op_types[op], graph.op_domains[op], _version(graph, op)
    definition = definition_of(kind, domain, version) if graph.is_onnx else None
    defaults = definition.defaults if definition is not None else ()
    found = dict(graph.op_attributes[op])
    for position, name in settings_inputs(graph, op):
        tensor = int(graph.op_inputs[op][position])
        if tensor in values:
            found[name] = values[tensor]
    return (
        {name: _one_form(text) for name, text in found.items()},
        {name: _one_form(text) for name, text in defaults},
    )


def _one_form(text: str) -> str:
    """An attribute of one number and a list of one are written alike, as versions of a type differ in that."""
    value = attribute_value(text)
    return repr((value,)) if isinstance(value, int | float) else repr(value)


def settings_inputs(graph: Graph, op: int) -> Iterator[tuple[int, str]]:
    """Inputs of an op that are constant and that another version of its type has as an attribute: (position, name)."""
    kind, domain = graph.op_types[op], graph.op_domains[op]
    names = attribute_names(kind, domain) if graph.is_onnx else frozenset()
    for position, tensor in enumerate(graph.op_inputs[op].tolist() if names else ()):
        if tensor >= 0 and graph.tensor_is_constant[tensor]:
            name = input_name(kind, domain, _version(graph, op), position)
            if name in names:
                yield position, name


def weights_of_op(graph: Graph, op: int) -> list[tuple[int, int]]:
    """Constant inputs of an op other than settings: (place, tensor), with the place in the float op."""
    settings = {position for position, _ in settings_inputs(graph, op)}
    kind = graph.op_types[op]
    found: list[tuple[int, int]] = []
    for position, tensor in enumerate(graph.op_inputs[op].tolist()):
        place = slot_of(kind, position)
        constant = tensor >= 0 and graph.tensor_is_constant[tensor] and position not in settings
        if constant and place >= 0:
            found.append((len(found) if base_type(kind) in _UNORDERED else place, tensor))
    return found


@dataclass(frozen=True, eq=False)
class _Side:
    """One model: its ops, then its inputs, then its outputs are nodes."""

    graph: Graph
    compared: Bools
    """[op] whether it is computed in a run"""
    source: Ints
    target: Ints
    slot: Ints
    """[edge] which of the target's inputs it is"""
    before: Sequence[Sequence[tuple[int, int]]]
    """[node] (slot, node) that it reads, looked through what only passes values on"""
    after: Sequence[Sequence[tuple[int, int]]]
    """[node] (slot of the reader, node) that reads it"""
    kinds: Sequence[str]
    """[op] base type"""
    content: Sequence[bytes]
    """[op] digests of its weights, b"" without any that are known"""

    @classmethod
    def of(cls, graph: Graph, digests: Digests) -> _Side:
        compared = ~graph.op_is_constant
        kinds = [base_type(kind) for kind in graph.op_types]
        passes = [kind in _PASS_ON for kind in graph.op_types]
        ops, inputs = len(graph), graph.inputs.tolist()
        made_by = graph.tensor_producer.tolist()
        node_of_input = {tensor: ops + i for i, tensor in enumerate(inputs)}

        def origin(tensor: int) -> int:
            seen = 0
            while (op := made_by[tensor]) >= 0 and passes[op] and seen <= ops:
                first = graph.op_inputs[op].tolist()[:1]
                if not first or first[0] < 0:
                    break
                tensor, seen = first[0], seen + 1
            op = made_by[tensor]
            return node_of_input.get(tensor, -1) if op < 0 else op if compared[op] else -1

        edges: list[tuple[int, int, int]] = []
        for op in np.flatnonzero(compared).tolist():
            row = graph.op_inputs[op].tolist()
            rest = [t for t in graph.op_reads[op].tolist() if t not in row]
            unordered = kinds[op] in _UNORDERED
            for position, tensor in enumerate((*row, *rest)):
                if tensor >= 0 and (node := origin(tensor)) >= 0:
                    place = 0 if unordered else slot_of(graph.op_types[op], position)
                    edges.append((node, op, max(place, 0)))
        first_output = ops + len(inputs)
        made = [
            (origin(tensor), i) for i, tensor in enumerate(graph.outputs.tolist(), first_output)
        ]
        edges += [(node, output, 0) for node, output in made if node >= 0]
        nodes = first_output + len(graph.outputs)
        before: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
        after: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
        for source, target, slot in edges:
            before[target].append((slot, source))
            after[source].append((slot, target))
        columns = np.array(edges, np.int64).reshape(-1, 3)
        content = [
            b"".join(
                digests.get(tensor, b"")
                for _, tensor in sorted(weights_of_op(graph, op), key=lambda one: one[0])
            )
            if compared[op]
            else b""
            for op in range(ops)
        ]
        return cls(
            graph,
            compared,
            columns[:, 0],
            columns[:, 1],
            columns[:, 2],
            before,
            after,
            kinds,
            content,
        )


class _Matcher:
    """The work of matching two models."""

    def __init__(
        self,
        sides: tuple[_Side, _Side],
        settings: tuple[Sequence[str], Sequence[str]],
    ) -> None:
        self.a, self.b = sides
        self.settings = settings
        self.to_b = np.full(len(self.a.before), -1, np.int64)
        self.to_a = np.full(len(self.b.before), -1, np.int64)
        self.how = np.zeros(len(self.a.graph), np.int8)
        self._pair_ends()

    def _pair_ends(self) -> None:
        """Pairs inputs and outputs of the models, by name or in their order where the numbers are equal."""
        one, other = self.a.graph, self.b.graph
        first_a, first_b = len(one), len(other)
        for ends_a, ends_b in ((one.inputs, other.inputs), (one.outputs, other.outputs)):
            names_a = [one.tensor_names[t] for t in ends_a.tolist()]
            names_b = [other.tensor_names[t] for t in ends_b.tolist()]
            places = {name: i for i, name in enumerate(names_b)}
            found = [(i, places[name]) for i, name in enumerate(names_a) if name in places]
            rest = [i for i, name in enumerate(names_a) if name not in places]
            others = sorted(set(range(len(names_b))) - {j for _, j in found})
            if len(rest) == len(others):
                found += zip(rest, others, strict=True)
            for i, j in found:
                self.to_b[first_a + i], self.to_a[first_b + j] = first_b + j, first_a + i
            first_a, first_b = first_a + len(names_a), first_b + len(names_b)

    def match(self, one: int, other: int, how: How) -> bool:
        """Pairs two ops, unless one of them has a partner."""
        if self.to_b[one] >= 0 or self.to_a[other] >= 0:
            return False
        self.to_b[one], self.to_a[other], self.how[one] = other, one, how
        return True

    def undo(self, one: int) -> None:
        self.to_a[self.to_b[one]] = self.to_b[one] = -1
        self.how[one] = How.NOT

    def support(self, one: int, other: int) -> int:
        """How many neighbours of two ops are partners; -1 where all on one side have partners, and none is here."""
        total = 0
        for near, far in (
            (self.a.before[one], self.b.before[other]),
            (self.a.after[one], self.b.after[other]),
        ):
            if not near or not far:
                continue
            theirs = {node for _, node in far}
            partners = [int(self.to_b[node]) for _, node in near]
            agreeing = sum(partner in theirs for partner in partners)
            settled = min(partners) >= 0 and all(self.to_a[node] >= 0 for node in theirs)
            if settled and not agreeing:
                return -1
            total += agreeing
        return total

    def by_name(self) -> None:
        """Pairs ops of one base type by key or name, then takes back what is elsewhere by its weights or by all around it."""
        elsewhere = dict(self._by_content())
        for one, other in self._names():
            if self.a.kinds[one] == self.b.kinds[other] and elsewhere.get(one, other) == other:
                self.match(one, other, How.NAME)
        wrong = [
            one
            for one in np.flatnonzero(self.to_b[: len(self.how)] >= 0).tolist()
            if self.support(one, int(self.to_b[one])) < 0
        ]
        for one in wrong:
            self.undo(one)

    def _names(self) -> Iterator[tuple[int, int]]:
        for keys in (True, False):
            ours, theirs = _unique(self.a, keys=keys), _unique(self.b, keys=keys)
            yield from ((one, theirs[name]) for name, one in ours.items() if name in theirs)

    def by_results(self) -> None:
        """Pairs an op with the fused one that makes the result of what follows it: Conv, of Conv and Relu, with FusedConv."""
        for side, other, to, back in (
            (self.a, self.b, self.to_b, self.to_a),
            (self.b, self.a, self.to_a, self.to_b),
        ):
            made = _unique(side, keys=True)
            names = [*_unique(other, keys=True).items(), *_unique(other, keys=False).items()]
            for name, fused in names:
                last = made.get(name, -1)
                if back[fused] < 0 <= last and to[last] < 0:
                    first = _inside(side, last, other.kinds[fused], to)
                    pair = (first, fused) if side is self.a else (fused, first)
                    if first >= 0 and self.support(*pair) >= 0:
                        self.match(*pair, How.NAME)

    def _by_content(self) -> Iterator[tuple[int, int]]:
        """Ops of one base type whose weights only they have."""
        ours, theirs = (
            grouped(
                ((side.kinds[op], content), op)
                for op, content in enumerate(side.content)
                if len(content) and side.graph.op_types[op] not in _PASS_ON
            )
            for side in (self.a, self.b)
        )
        for content, ops in ours.items():
            if len(ops) == len(theirs.get(content, ())) == 1:
                yield ops[0], theirs[content][0]

    def by_content(self) -> None:
        for one, other in [*self._by_content()]:
            if self.support(one, other) >= 0:
                self.match(one, other, How.WEIGHTS)

    def by_structure(self) -> None:
        """Pairs ops with equal surroundings, from the strictest notion of equal to the loosest."""
        for level in range(3):
            labels = [self._labels(i, level) for i in range(2)]
            for _ in range(_MOST_PASSES):
                if not self._open():
                    return
                if not self._equal_surroundings(labels) + self._spread():
                    break

    def _open(self) -> bool:
        ops = len(self.how)
        return bool(
            (self.a.compared & (self.to_b[:ops] < 0)).any()
            and (self.b.compared & (self.to_a[: len(self.b.graph)] < 0)).any()
        )

    def _labels(self, which: int, level: int) -> Hashes:
        side, settings = (self.a, self.b)[which], self.settings[which]
        texts: list[bytes] = []
        for op, kind in enumerate(side.kinds):
            text = kind.encode("utf-8", "surrogatepass")
            if level < 2:
                text += b"\0" + settings[op].encode("utf-8", "surrogatepass")
            texts.append(text + b"\0" + side.content[op] if level < 1 else text)
        ends = len(side.before) - len(texts)
        return np.array([*map(_hash, texts), *([0] * ends)], np.uint64)

    def _equal_surroundings(self, labels: Sequence[Hashes]) -> int:
        rounds = []
        for side, own, partner in (
            (self.a, labels[0], np.arange(len(self.to_b))),
            (self.b, labels[1], self.to_a),
        ):
            to = self.to_b if side is self.a else self.to_a
            settled = to >= 0
            start = own.copy()
            start[settled] = _mix(partner[settled].astype(np.uint64) + np.uint64(1 << 40))
            rounds.append(_surroundings(side, start, settled))
        found = 0
        for deep in range(_ROUNDS, 0, -1):
            found += self._pair_equal(rounds[0][deep], rounds[1][deep], several=deep == _ROUNDS)
        return found

    def _pair_equal(self, ours: Hashes, theirs: Hashes, several: bool) -> int:
        mine, its = (
            grouped(
                (int(labels[op]), op)
                for op in side.graph.order.tolist()
                if side.compared[op] and to[op] < 0
            )
            for side, labels, to in ((self.a, ours, self.to_b), (self.b, theirs, self.to_a))
        )
        found = 0
        for label, ops in mine.items():
            others = its.get(label, [])
            if len(ops) == len(others) and (several or len(ops) == 1):
                for one, other in zip(ops, others, strict=True):
                    if self.support(one, other) >= 0:
                        found += self.match(one, other, How.STRUCTURE)
        return found

    def _spread(self) -> int:
        """Pairs ops beside those that have partners, where only one of a type is in question."""
        found, waiting = 0, np.flatnonzero(self.to_b >= 0).tolist()
        while waiting:
            one = waiting.pop()
            other = int(self.to_b[one])
            for near, far in (
                (self.a.before[one], self.b.before[other]),
                (self.a.after[one], self.b.after[other]),
            ):
                ours, theirs = (
                    self._free(self.a, near, self.to_b),
                    self._free(self.b, far, self.to_a),
                )
                for key in ours.keys() & theirs.keys():
                    if len(ours[key]) == len(theirs[key]) == 1:
                        (mine,), (its,) = ours[key], theirs[key]
                        if self.support(mine, its) > 0 and self.match(mine, its, How.STRUCTURE):
                            found += 1
                            waiting.append(mine)
        return found

    @staticmethod
    def _free(
        side: _Side, nodes: Sequence[tuple[int, int]], to: Ints
    ) -> dict[tuple[int, str], list[int]]:
        free = (
            ((slot, side.kinds[node]), node)
            for slot, node in nodes
            if node < len(side.kinds) and to[node] < 0
        )
        return grouped(dict.fromkeys(free))

    def leftovers(self) -> None:
        """Pairs what is left by name, though its type or surroundings changed, and what took the exact place of another."""
        for one, other in self._names():
            kinds = {self.a.kinds[one], self.b.kinds[other]}
            if len(kinds) == 1 or (not kinds & _PASS_ON and self.support(one, other) > 0):
                self.match(one, other, How.NAME)
        for one in self.a.graph.order.tolist():
            if not self.a.compared[one] or self.to_b[one] >= 0:
                continue
            ours = [
                sorted({int(self.to_b[node]) for _, node in side[one]})
                for side in (self.a.before, self.a.after)
            ]
            if not ours[0] or not ours[1] or any(node < 0 for each in ours for node in each):
                continue
            for _, other in self.b.after[ours[0][0]]:
                if other < len(self.b.graph) and self.to_a[other] < 0:
                    theirs = [
                        sorted({node for _, node in side[other]})
                        for side in (self.b.before, self.b.after)
                    ]
                    if ours == theirs:
                        self.match(one, other, How.STRUCTURE)
                        break


def _unique(side: _Side, keys: bool) -> dict[str, int]:
    """Name -> op, for the names that only one op has."""
    graph = side.graph
    texts = graph.op_keys if keys else graph.op_names
    found: dict[str, int] = {}
    doubled: set[str] = set()
    for op, text in enumerate(texts):
        if side.compared[op] and text and not (keys and text.startswith("#")):
            name = plain_name(text)
            if name in found:
                doubled.add(name)
            found[name] = op
    return {text: op for text, op in found.items() if text not in doubled}


def _inside(side: _Side, last: int, kind: str, to: Ints) -> int:
    """The op of a type from which the result of another one follows in a few steps, all of them without partners; or -1."""
    layer = {last}
    for step in range(_MOST_FUSED + 1):
        if step:
            layer = {
                node
                for op in layer
                for _, node in side.before[op]
                if node < len(side.kinds) and to[node] < 0
            }
        if found := [op for op in layer if side.kinds[op] == kind]:
            return max(found, key=lambda op: int(side.graph.rank[op]))
    return -1


def plain_name(name: str) -> str:
    """The name of a tensor or node before an optimiser or quantiser put an ending behind it."""
    return _ENDING.sub("", name)


def _hash(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _mix(values: Hashes) -> Hashes:
    """A hash of each number (splitmix64)."""
    with np.errstate(over="ignore"):
        values = values + np.uint64(0x9E3779B97F4A7C15)
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: Hashes = values ^ (values >> np.uint64(31))
        return mixed


def _surroundings(side: _Side, labels: Hashes, settled: Bools) -> list[Hashes]:
    """[how far] a hash per node of the nodes around it (Weisfeiler and Leman, 1968)."""
    rounds, slot = [labels], side.slot.astype(np.uint64)
    for _ in range(_ROUNDS):
        last, sums = rounds[-1], []
        for near, far, odd in ((side.source, side.target, 1), (side.target, side.source, 2)):
            total = np.zeros(len(last), np.uint64)
            np.add.at(total, far, _mix(last[near] + (slot * np.uint64(4) + np.uint64(odd))))
            sums.append(_mix(total + np.uint64(odd)))
        with np.errstate(over="ignore"):
            new = _mix(last + sums[0] * np.uint64(3) + sums[1] * np.uint64(5))
        new[settled] = labels[settled]
        rounds.append(new)
    return rounds


def _settings_text(given: Mapping[str, str], defaults: Mapping[str, str]) -> str:
    return repr(sorted({**defaults, **given}.items()))


def match_ops(
    one: Graph,
    other: Graph,
    digests: tuple[Digests, Digests],
    values: tuple[Mapping[int, str], Mapping[int, str]],
) -> Matching:
    """Matches the ops of two models.

    Args:
        one: a model.
        other: another one.
        digests: of the constants of each.
        values: texts of the small constants of each.
    """
    sides = (_Side.of(one, digests[0]), _Side.of(other, digests[1]))

    def settings(side: _Side, own: Mapping[int, str]) -> list[str]:
        return [
            _settings_text(*settings_of(side.graph, op, own)) if side.compared[op] else ""
            for op in range(len(side.graph))
        ]

    matcher = _Matcher(sides, (settings(sides[0], values[0]), settings(sides[1], values[1])))
    matcher.by_name()
    matcher.by_content()
    matcher.by_results()
    matcher.by_structure()
    matcher.leftovers()
    matcher.by_structure()
    return Matching(matcher.to_b[: len(one)].copy(), matcher.how)
