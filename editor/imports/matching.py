"""Matches layers of other tools with the ops of a model, by their names."""

from __future__ import annotations

import hashlib
import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any

from editor import limits
from editor.devices.device import Device
from editor.errors import PinError, PlanError
from editor.graph.flops import FUSIBLE_TYPES, work_shares
from editor.graph.graph import Graph
from editor.groups import grouped
from editor.placement.rules import label_mask
from editor.runtimes.profiling import QUIET_SHARE
from editor.text import shortened

_ROUNDS = 4


@dataclass(frozen=True)
class Matched:
    """The pins that follow from a file, and the entries without a match."""

    pins: Mapping[str, str]
    """op key -> label"""
    how: Mapping[str, int]
    """``key``, ``name`` and ``structure`` -> number of entries matched that way"""
    problems: tuple[str, ...]
    """Unknown or ambiguous entries, one message each."""


def match(
    graph: Graph,
    devices: Sequence[Device],
    affinities: Mapping[str, str],
    source: Graph | None = None,
    ignore: frozenset[str] = frozenset(),
) -> Matched:
    """Matches entries with ops and devices.

    Args:
        graph: the model of the plan.
        devices: its device table; entries may use names or labels of a level, case-insensitively.
        affinities: op -> device, with the names of the file.
        source: the model of the entries, for matching by structure.
        ignore: names that need no match.
    """
    names = grouped((name, op) for op, name in enumerate(graph.op_names))
    by_structure = _by_structure(source, graph) if source is not None else {}
    labels: dict[str, str | None] = {}
    pins: dict[str, str] = {}
    how = {"key": 0, "name": 0, "structure": 0}
    problems = []
    for name, device in affinities.items():
        entry = (
            name if name in graph.key_index or name in names else name.strip()
        )  # tables have blanks around cells
        if device not in labels:
            labels[device] = label_of(device, devices)
        label = labels[device]
        if entry in graph.key_index:
            op, kind = graph.key_index[entry], "key"
        elif len(names.get(entry, ())) == 1 and entry:
            op, kind = names[entry][0], "name"
        elif entry in by_structure:
            op, kind = by_structure[entry], "structure"
        else:
            if entry not in ignore:
                count = len(names.get(entry, ()))
                problems.append(
                    f"{entry!r}: {f'{count} ops have this name' if count > 1 else 'no such op'}"
                )
            continue
        if label is None:
            problems.append(
                f"{entry!r}: unknown device {device!r} (choose one of: {', '.join(d.name for d in devices)})"
            )
            continue
        if not graph.op_is_constant[op]:
            pins[graph.op_keys[op]] = label
        how[kind] += 1
    return Matched(pins, how, tuple(problems))


def label_of(name: str, devices: Sequence[Device]) -> str | None:
    """The device, or the label of several, that a file means: by its name, a label, its provider or its backend."""
    for device in devices:
        if device.name.lower() == name.lower():
            return device.name
    for candidate in (name, name.upper(), name.lower()):
        try:
            label_mask(candidate, devices)
        except PinError:
            continue
        return candidate
    short = name.lower().removesuffix(_PROVIDER)
    for own in (
        [d.name for d in devices if d.provider.lower() in (name.lower(), short + _PROVIDER)],
        [d.name for d in devices if d.backend.lower() == short],
    ):
        if own:
            return own[0] if len(own) == 1 else None
    return None


def _by_structure(source: Graph, target: Graph) -> dict[str, int]:
    """Key in the source -> op of the target with the same neighbourhood.

    Ops with equal neighbourhoods are paired in topological order when both models have the same number of them.
    """
    mine, theirs = (
        grouped(zip(_neighbourhood_hashes(graph), graph.order.tolist(), strict=True))
        for graph in (source, target)
    )
    return {
        source.op_keys[a]: b
        for key, ops in mine.items()
        if len(others := theirs.get(key, [])) == len(ops)
        for a, b in zip(ops, others, strict=True)
    }


def _neighbourhood_hashes(graph: Graph) -> list[str]:
    """A hash per op, in topological order, of the types and edges around it (Weisfeiler and Leman, 1968)."""
    hashes = [
        f"{domain}::{kind}" for domain, kind in zip(graph.op_domains, graph.op_types, strict=True)
    ]
    for _ in range(_ROUNDS):
        joined = [
            repr(
                (
                    hashes[op],
                    [hashes[p] for p in graph.predecessors[op].tolist()],
                    sorted(hashes[s] for s in graph.successors[op].tolist()),
                )
            )
            for op in range(len(graph))
        ]
        hashes = [hashlib.blake2b(text.encode(), digest_size=8).hexdigest() for text in joined]
    return [hashes[op] for op in graph.order.tolist()]


_PROVIDER = "executionprovider"
_JOINTS = re.compile(r" \+ | \|\| |, ")
_WRAPPED = re.compile(
    r"(?:PWN|fusion|2-layer MLP|Concat by copies|squeeze|reshape|copy)\(", re.IGNORECASE
)
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

    def __init__(
        self, graph: Graph, by_key: bool, aliases: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Indexes the names.

        Args:
            graph: the model.
            by_key: whether keys count before names of nodes, where one text is both.
            aliases: further name -> key.
        """
        self.graph = graph
        names = grouped((name, op) for op, name in enumerate(graph.op_names) if name)
        made = {
            name: int(op)
            for name, op in zip(graph.tensor_names, graph.tensor_producer.tolist(), strict=True)
            if op >= 0
        }
        unique = {name: ops[0] for name, ops in names.items() if len(ops) == 1}
        self._doubled = {name: len(ops) for name, ops in names.items() if len(ops) > 1}
        self._op = (
            {**made, **unique, **graph.key_index}
            if by_key
            else {**made, **graph.key_index, **unique}
        )
        self._op |= {
            name: graph.key_index[key] for name, key in aliases.items() if key in graph.key_index
        }
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
        found = {
            self._op[name]
            for name in takewhile(lambda name: name.startswith(start), self._sorted[begin:])
        }
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
            first, _, last = name[len(_RANGE_BEGIN) : -len(_RANGE_END)].rpartition("...")
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
        """Ops on paths from one op to another, with both; the names may be those of weights."""
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
        readers: list[int] = (
            self.graph.readers[tensor].tolist() if starts and tensor is not None else []
        )
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
            text = text[match.end() :] if match is not None else text
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


_NO_SUCH_OP = "no op has this name"
_DOUBTFUL = 0.05
"""Share of the time in layers of unknown type without a match, above which no op joins a layer: it may be in those."""
_TYPES_OF_LAYER = {
    "convolution": ("Conv",),
    "groupconvolution": ("Conv",),
    "conv": ("Conv",),
    "fusedconv": ("Conv",),
    "gemm": ("MatMul", "Gemm"),
    "fusedgemm": ("MatMul", "Gemm"),
    "fusedmatmul": ("MatMul", "Gemm"),
    "fullyconnected": ("MatMul", "Gemm"),
    "matmul": ("MatMul", "Gemm"),
    "pooling": ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"),
    "softmax": ("Softmax",),
    "mvn": ("LayerNormalization", "InstanceNormalization"),
    "reduce": ("ReduceMean", "ReduceSum", "ReduceMax"),
    "deconvolution": ("ConvTranspose",),
    "interpolate": ("Resize", "Upsample"),
    "gather": ("Gather",),
    "concat": ("Concat",),
}
"""Types of layers of OpenVINO and ONNX Runtime, in lower case, and the ops that they compute."""
_ATTENTION = frozenset(
    {"subgraph", "mha", "multiheadattention", "scaleddotproductattention", "sdpa"}
)
"""Types of layers of OpenVINO that may compute an attention, in lower case."""
_LONGEST = 8
"""Ops between the one that a layer is named after and the one that it is of the type of."""
_MAX_CUT = 1000
"""Different names that a tool cut: each is looked up in the names of all ops."""


@dataclass(frozen=True)
class Unmatched:
    """A layer whose time no op has."""

    name: str
    seconds: float
    reason: str


@dataclass(frozen=True)
class OpTimes:
    """Times of ops, as far as a file has them."""

    seconds: Mapping[int, float]
    """op -> seconds"""
    kernel: Mapping[int, int]
    """op -> index of its layer, of ``kernels``"""
    kernels: tuple[str, ...]
    """[layer] its type, or its name where the tool states no type"""
    joined: frozenset[int]
    """Ops that no layer names, and that joined the layer beside them."""
    unmatched: tuple[Unmatched, ...]
    total: float
    """seconds of all layers of the device, those without a match included"""
    constants: float
    """seconds of layers that compute constants; not in ``total``"""
    by_order: frozenset[int]
    """Ops whose layer has a name of the tool's making, matched by type and order."""


@dataclass
class _Matching:
    """What is known while layers are matched."""

    graph: Graph
    names: OpNames
    ops_of: dict[int, list[int]] = field(default_factory=dict)
    """layer -> ops"""
    unmatched: dict[int, str] = field(default_factory=dict)
    """layer -> reason"""


def times_of_ops(
    graph: Graph, times: LayerTimes, ran_elsewhere: Callable[[Layer], str] = lambda _layer: ""
) -> OpTimes:
    """Matches the layers of a file with ops.

    Args:
        graph: the model.
        times: the layers.
        ran_elsewhere: why the time of a layer is not of the device; "" where it is.
    """
    work = _Matching(
        graph, OpNames(graph, times.by_key, times.measured.aliases if times.measured else {})
    )
    cut: list[int] = []
    away: set[int] = set()
    constants = 0.0
    for number, layer in enumerate(times.layers):
        reason = ran_elsewhere(layer)
        if reason:
            work.unmatched[number] = reason
            away.add(number)
            continue
        ops = _named(work, layer)
        if ops:
            work.ops_of[number] = ops
        elif cut_name(layer.name):
            cut.append(number)
        else:
            count = work.names.count(layer.name)
            work.unmatched[number] = f"{count} ops have this name" if count else _NO_SUCH_OP
    _match_cut_names(work, times.layers, cut, times.ordered)
    by_order = _match_by_order(work, times.layers, times.ordered)
    named = {op for ops in work.ops_of.values() for op in ops}
    for number in [
        n for n, ops in work.ops_of.items() if all(graph.op_is_constant[op] for op in ops)
    ]:
        constants += times.layers[number].seconds
        away.add(number)
        del work.ops_of[number]
    if times.fuses and not _is_doubtful(work, times.layers):
        _join(work, times.layers, named)
    return _divided(work, times.layers, named, away, constants, by_order)


def _named(work: _Matching, layer: Layer) -> list[int]:
    """Ops that a layer names."""
    listed = [op for name in layer.ops if (op := work.names.exact(name)) is not None]
    if listed:
        return list(dict.fromkeys(listed))
    if 0 <= layer.index < len(work.graph) and not work.graph.op_names[layer.index]:
        return [layer.index] if work.graph.op_types[layer.index] == layer.type else []
    return work.names.of_layer(layer.name)


def _match_cut_names(
    work: _Matching, layers: Sequence[Layer], cut: Iterable[int], ordered: bool
) -> None:
    """Layers whose names the tool cut: where as many ops begin so, in the order of execution."""
    taken = {op for ops in work.ops_of.values() for op in ops}
    groups = grouped(
        ((cut_name(layers[number].name), layers[number].type.lower().rstrip(".")), number)
        for number in cut
    )
    for group, ((start, kind), numbers) in enumerate(groups.items()):
        if not start or group >= _MAX_CUT:
            work.unmatched.update(dict.fromkeys(numbers, "the tool cut this name"))
            continue
        ops = [
            op
            for op in work.names.beginning(start)
            if op not in taken and not work.graph.op_is_constant[op]
        ]
        types = _TYPES_OF_LAYER.get(kind, ())
        fitting = [
            op
            for op in ops
            if work.graph.op_types[op] in types or work.graph.op_types[op].lower() == kind
        ]
        if (
            not fitting and not types
        ):  # a type of the tool's making, such as Subgraph: the name alone tells
            fitting = ops
        fits = len(fitting) == len(numbers) and (ordered or len(fitting) == 1)
        chosen = fitting if fits else ops if len(ops) == len(numbers) == 1 else []
        for number, op in zip(numbers, chosen, strict=False):
            work.ops_of[number] = [op]
            taken.add(op)
        if not chosen:
            count = len(fitting or ops)
            reason = (
                f"the tool cut this name; {count} ops begin so"
                if count
                else "the tool cut this name; no op begins so"
            )
            work.unmatched.update(dict.fromkeys(numbers, reason))


def _match_by_order(work: _Matching, layers: Sequence[Layer], ordered: bool) -> frozenset[int]:
    """Layers with names of the tool's making: where there are as many of a type as ops without a layer, in their order."""
    taken = {op for ops in work.ops_of.values() for op in ops}
    groups = grouped(
        (_TYPES_OF_LAYER.get(layers[number].type.lower(), ()), number)
        for number, reason in work.unmatched.items()
        if reason == _NO_SUCH_OP
    )
    found: set[int] = set()
    for types, numbers in groups.items():
        ops = [
            op
            for op in work.graph.order.tolist()
            if work.graph.op_types[op] in types
            and op not in taken
            and not work.graph.op_is_constant[op]
        ]
        if len(ops) == len(numbers) and (ordered or len(ops) == 1):
            for number, op in zip(sorted(numbers), ops, strict=True):
                work.ops_of[number] = [op]
                del work.unmatched[number]
            found.update(ops)
    return frozenset(found)


def _is_doubtful(work: _Matching, layers: Sequence[Layer]) -> bool:
    """Whether so much time without a match has no type either that it may be of ops beside a layer."""
    total = sum(layer.seconds for layer in layers)
    untyped = sum(
        layers[n].seconds for n in work.unmatched if not layers[n].type and not layers[n].provider
    )
    return untyped > _DOUBTFUL * total


def _join(work: _Matching, layers: Sequence[Layer], named: set[int]) -> None:
    """Ops without a layer join the one before them, else the one behind them."""
    graph = work.graph
    refused = {layers[n].type.lower() for n in work.unmatched}
    taken = set(named)

    def may_join(op: int) -> bool:
        return (
            op not in taken
            and not graph.op_is_constant[op]
            and graph.op_types[op] in FUSIBLE_TYPES
            and graph.op_types[op].lower() not in refused
        )

    first = sorted(work.ops_of, key=lambda n: min(int(graph.rank[op]) for op in work.ops_of[n]))
    for number in first:
        kind, ops = layers[number].type, work.ops_of[number]
        begun = _begin_of_attention(graph, kind, ops, taken) or _begin_of_layer(
            graph, kind, ops, may_join, taken
        )
        taken.update(begun)
        work.ops_of[number] += begun
    for number in first:
        for last in list(work.ops_of[number]):
            op = last
            while len(readers := graph.successors[op].tolist()) == 1 and may_join(readers[0]):
                op = readers[0]
                taken.add(op)
                work.ops_of[number].append(op)
    for number in first:
        stack = list(work.ops_of[number])
        while stack:
            for op in graph.predecessors[stack.pop()].tolist():
                if may_join(op):
                    taken.add(op)
                    work.ops_of[number].append(op)
                    stack.append(op)


def _begin_of_layer(
    graph: Graph, kind: str, ops: Sequence[int], may_join: Callable[[int], bool], taken: set[int]
) -> list[int]:
    """The op of a layer's type, and what lies between, where the layer is named after the last op that it computes."""
    if not kind or any(_fits(kind, graph.op_types[op]) for op in ops):
        return []
    found: list[int] = []
    op = min(ops, key=lambda one: int(graph.rank[one]))
    while True:
        before = [
            p
            for p in graph.predecessors[op].tolist()
            if p not in taken and not graph.op_is_constant[p] and len(graph.successors[p]) == 1
        ]
        begin = next((p for p in before if _fits(kind, graph.op_types[p])), None)
        if begin is not None:
            return [*found, begin]
        op = next((p for p in before if may_join(p)), -1)
        if op < 0 or len(found) >= _LONGEST:
            return []
        found.append(op)


def _begin_of_attention(graph: Graph, kind: str, ops: Sequence[int], taken: set[int]) -> list[int]:
    """What an attention computes before its last product, which it is named after: a Softmax, and the first product.

    Only where all of it has no layer of its own: then it ran in this one.
    """
    last = next((op for op in ops if graph.op_types[op] == "MatMul"), None)
    if kind.lower() not in _ATTENTION or last is None:
        return []
    found: list[int] = []
    op = last
    for _ in range(_LONGEST):
        before = [
            p
            for p in graph.predecessors[op].tolist()
            if p not in taken
            and len(graph.successors[p]) == 1
            and graph.op_types[p] in {"Softmax", "MatMul", *FUSIBLE_TYPES}
        ]
        op = next(
            (p for p in before if graph.op_types[p] in ("Softmax", "MatMul")),
            before[0] if len(before) == 1 else -1,
        )
        if op < 0:
            return []
        found.append(op)
        if graph.op_types[op] == "MatMul":
            return found if any(graph.op_types[p] == "Softmax" for p in found) else []
    return []


def _fits(kind: str, op_type: str) -> bool:
    """Whether a layer of a type may compute an op of a type: ``FusedConv`` and ``Convolution`` a Conv."""
    return op_type.lower() in kind.lower() or op_type in _TYPES_OF_LAYER.get(kind.lower(), ())


def _divided(
    work: _Matching,
    layers: Sequence[Layer],
    named: set[int],
    away: set[int],
    constants: float,
    by_order: frozenset[int],
) -> OpTimes:
    seconds: dict[int, float] = {}
    kernel: dict[int, int] = {}
    kernels: list[str] = []
    for number, listed in work.ops_of.items():
        ops = [op for op in listed if not work.graph.op_is_constant[op]]
        for op, share in zip(ops, work_shares(work.graph, ops), strict=True):
            seconds[op] = seconds.get(op, 0.0) + layers[number].seconds * share
            kernel.setdefault(op, len(kernels))
        kernels.append(layers[number].type or layers[number].name[:80])
    lost = sorted(
        (
            Unmatched(layers[n].name, layers[n].seconds, reason)
            for n, reason in work.unmatched.items()
        ),
        key=lambda one: -one.seconds,
    )
    return OpTimes(
        seconds,
        kernel,
        tuple(kernels),
        frozenset(set(seconds) - named),
        tuple(lost),
        sum(layer.seconds for n, layer in enumerate(layers) if n not in away),
        constants,
        by_order,
    )


CUT = "..."
"""Ends a name that a tool has cut for its table."""
_MAX_NAME = 65_536
"""Characters of a layer's name; TensorRT joins the names of all ops that it fuses."""
_MAX_SECONDS = 1e6
_LEAST_QUIET = 3


@dataclass(frozen=True)
class Layer:
    """One layer of a run, as a tool timed it."""

    name: str
    """The tool's name: of an op, of several, or of its own making."""
    seconds: float
    """of one run"""
    type: str = ""
    """The tool's name of its kind."""
    provider: str = ""
    """The execution provider that ran it, where the tool has several."""
    ops: tuple[str, ...] = ()
    """Names of the ops in it, where the file lists them."""
    index: int = -1
    """Number of the op in the model, where the file has it and the layer has no name."""


@dataclass(frozen=True)
class LayerTimes:
    """What a file says of a run."""

    tool: str
    layers: tuple[Layer, ...]
    runs: int
    """Runs that the times are of; 0 where the file does not say."""
    by_key: bool = False
    """Whether names are keys of ops first, and names of nodes second; other tools know names of nodes first."""
    overhead: float | None = None
    """seconds of a run outside all layers, where the file has it"""
    notes: tuple[str, ...] = ()
    """What a reader of the figures must know."""
    disturbances: tuple[str, ...] = ()
    """What says that the machine was busy."""
    ordered: bool = True
    """Whether the layers stand in the order of execution."""
    fuses: bool = True
    """Whether a layer may have computed ops that it does not name; a table that a person wrote means what it says."""
    measured: Measured | None = None
    """What the kit measured besides; None for other tools."""


@dataclass(frozen=True)
class Measured:
    """What a kit says besides the times of layers."""

    device: str
    machine: str
    day: date | None
    model_sha256: str
    define: Mapping[str, int]
    cut: float | None
    """seconds that one more subgraph costs by the pieces of a whole; None where it was not measured"""
    links: tuple[float, float, float, float] | None
    """seconds per value and per byte to the device, and from it; None where they were not measured"""
    aliases: Mapping[str, str]
    """Name of a node in the kit -> key of the op"""
    covered: frozenset[str]
    """Keys of ops that ran within the layers: one without a layer of its own took no time of its own."""
    groups: tuple[Layer, ...]
    """The same ops measured in small groups, for where the layers cannot be matched; scaled to the run of the whole."""
    properties: Mapping[str, str] | None = None
    """Of the device, as they were set; None where the kit does not say."""
    target: str = ""
    """Execution provider or device of the runtime that was measured."""


def layer_name(value: Any, where: str) -> str:
    """A name of a stranger's file; ``where`` is the file with the line or entry.

    Raises:
        PlanError: it is not a text, empty or too long.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > _MAX_NAME:
        raise PlanError(f"{where}: a layer needs a name, not {shortened(repr(value), 60)}")
    return value.strip()


def seconds_of(value: Any, unit: float, where: str) -> float:
    """A time of a stranger's file in seconds; ``unit`` is that of the file.

    Raises:
        PlanError: it is not a number of 0 or more.
    """
    try:
        value = with_point(value) if isinstance(value, str) else value
        number = float(value) * unit if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number <= _MAX_SECONDS:
        raise PlanError(f"{where}: {shortened(repr(value), 60)} is not a time of 0 or more")
    return number


def check_layers(path: Path, count: int) -> None:
    """Raises an error when a file has no layer, or more than a model may have ops."""
    if not count:
        raise PlanError(f"{path}: no layer with a time in this file")
    limits.check_count(str(path), "ops", count, "layers")


def with_point(cell: str) -> str:
    """A number with a decimal point; ``12,5`` is how spreadsheets of many languages write it."""
    return cell.replace(",", ".") if re.fullmatch(r"\d+,\d+", cell) else cell


def quiet_runs(layers: Sequence[Sequence[Layer]], totals: Sequence[float]) -> list[int]:
    """The quickest runs, which were disturbed least: their numbers."""
    order = sorted(range(len(layers)), key=lambda i: totals[i])
    return order[: max(min(_LEAST_QUIET, len(order)), int(len(order) * QUIET_SHARE))]


def mean_layers(runs: Sequence[Sequence[Layer]]) -> tuple[Layer, ...]:
    """The layers of runs, each with its mean time over them, so that the sum over layers is the mean of the runs.

    Layers are told apart by everything but their time; one that stands several times in a run counts with its sum. Names that
    the tool has cut may be of several layers: the first of such a name in each run is one of them, the second another.
    """
    times: dict[tuple[Layer, int], float] = {}
    for layers in runs:
        seen: Counter[Layer] = Counter()
        for layer in layers:
            key = replace(layer, seconds=0.0)
            place = seen[key] if layer.name.endswith(CUT) else 0
            seen[key] += 1
            times[key, place] = times.get((key, place), 0.0) + layer.seconds
    return tuple(replace(key, seconds=seconds / len(runs)) for (key, _), seconds in times.items())
