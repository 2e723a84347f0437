"""Divides the times of layers over the ops of a model.

The time of a layer goes to the ops that its name states. A runtime that fuses names the layer after one of the ops only:
ops without a layer of their own join the layer beside them where their type is one that runtimes fuse. Ops of one layer
share its time in proportion to their estimated work, so that the sum stays. What no op can be found for is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from editor.graph.flops import work_shares
from editor.graph.fusible import FUSIBLE_TYPES
from editor.graph.graph import Graph
from editor.imports.layer_names import OpNames, cut_name
from editor.imports.layer_times import Layer, LayerTimes

_NO_SUCH_OP = "no op has this name"
_DOUBTFUL = 0.05
"""Share of the time in layers of unknown type without a match, above which no op joins a layer: it may be in those."""
_TYPES_OF_LAYER = {
    "convolution": ("Conv",), "groupconvolution": ("Conv",), "conv": ("Conv",), "fusedconv": ("Conv",),
    "gemm": ("MatMul", "Gemm"), "fusedgemm": ("MatMul", "Gemm"), "fusedmatmul": ("MatMul", "Gemm"),
    "fullyconnected": ("MatMul", "Gemm"), "matmul": ("MatMul", "Gemm"),
    "pooling": ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"), "softmax": ("Softmax",),
    "mvn": ("LayerNormalization", "InstanceNormalization"), "reduce": ("ReduceMean", "ReduceSum", "ReduceMax"),
    "deconvolution": ("ConvTranspose",), "interpolate": ("Resize", "Upsample"), "gather": ("Gather",), "concat": ("Concat",),
}
"""Types of layers of OpenVINO and ONNX Runtime, in lower case, and the ops that they compute."""
_ATTENTION = frozenset({"subgraph", "mha", "multiheadattention", "scaleddotproductattention", "sdpa"})
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


def times_of_ops(graph: Graph, times: LayerTimes, ran_elsewhere: Callable[[Layer], str] = lambda _layer: "") -> OpTimes:
    """Matches the layers of a file with ops.

    Args:
        graph: the model.
        times: the layers.
        ran_elsewhere: why the time of a layer is not of the device; "" where it is.
    """
    work = _Matching(graph, OpNames(graph, times.by_key, times.measured.aliases if times.measured else {}))
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
    for number in [n for n, ops in work.ops_of.items() if all(graph.op_is_constant[op] for op in ops)]:
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


def _match_cut_names(work: _Matching, layers: Sequence[Layer], cut: Iterable[int], ordered: bool) -> None:
    """Layers whose names the tool cut: where as many ops begin so, in the order of execution."""
    taken = {op for ops in work.ops_of.values() for op in ops}
    groups: dict[tuple[str, str], list[int]] = {}
    for number in cut:
        groups.setdefault((cut_name(layers[number].name), layers[number].type.lower().rstrip(".")), []).append(number)
    for group, ((start, kind), numbers) in enumerate(groups.items()):
        if not start or group >= _MAX_CUT:
            work.unmatched.update(dict.fromkeys(numbers, "the tool cut this name"))
            continue
        ops = [op for op in work.names.beginning(start) if op not in taken and not work.graph.op_is_constant[op]]
        types = _TYPES_OF_LAYER.get(kind, ())
        fitting = [op for op in ops if work.graph.op_types[op] in types or work.graph.op_types[op].lower() == kind]
        if not fitting and not types:  # a type of the tool's making, such as Subgraph: the name alone tells
            fitting = ops
        fits = len(fitting) == len(numbers) and (ordered or len(fitting) == 1)
        chosen = fitting if fits else ops if len(ops) == len(numbers) == 1 else []
        for number, op in zip(numbers, chosen, strict=False):
            work.ops_of[number] = [op]
            taken.add(op)
        if not chosen:
            count = len(fitting or ops)
            reason = f"the tool cut this name; {count} ops begin so" if count else "the tool cut this name; no op begins so"
            work.unmatched.update(dict.fromkeys(numbers, reason))


def _match_by_order(work: _Matching, layers: Sequence[Layer], ordered: bool) -> frozenset[int]:
    """Layers with names of the tool's making: where there are as many of a type as ops without a layer, in their order."""
    taken = {op for ops in work.ops_of.values() for op in ops}
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, reason in work.unmatched.items():
        types = _TYPES_OF_LAYER.get(layers[number].type.lower())
        if types and reason == _NO_SUCH_OP:
            groups.setdefault(types, []).append(number)
    found: set[int] = set()
    for types, numbers in groups.items():
        ops = [op for op in work.graph.order.tolist() if work.graph.op_types[op] in types and op not in taken
               and not work.graph.op_is_constant[op]]
        if len(ops) == len(numbers) and (ordered or len(ops) == 1):
            for number, op in zip(sorted(numbers), ops, strict=True):
                work.ops_of[number] = [op]
                del work.unmatched[number]
            found.update(ops)
    return frozenset(found)


def _is_doubtful(work: _Matching, layers: Sequence[Layer]) -> bool:
    """Whether so much time without a match has no type either that it may be of ops beside a layer."""
    total = sum(layer.seconds for layer in layers)
    untyped = sum(layers[n].seconds for n in work.unmatched if not layers[n].type and not layers[n].provider)
    return untyped > _DOUBTFUL * total


def _join(work: _Matching, layers: Sequence[Layer], named: set[int]) -> None:
    """Ops without a layer join the one before them, else the one behind them."""
    graph = work.graph
    refused = {layers[n].type.lower() for n in work.unmatched}
    taken = set(named)

    def may_join(op: int) -> bool:
        return (op not in taken and not graph.op_is_constant[op] and graph.op_types[op] in FUSIBLE_TYPES
                and graph.op_types[op].lower() not in refused)

    first = sorted(work.ops_of, key=lambda n: min(int(graph.rank[op]) for op in work.ops_of[n]))
    for number in first:
        kind, ops = layers[number].type, work.ops_of[number]
        begun = _begin_of_attention(graph, kind, ops, taken) or _begin_of_layer(graph, kind, ops, may_join, taken)
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


def _begin_of_layer(graph: Graph, kind: str, ops: Sequence[int], may_join: Callable[[int], bool], taken: set[int]) -> list[int]:
    """The op of a layer's type, and what lies between, where the layer is named after the last op that it computes."""
    if not kind or any(_fits(kind, graph.op_types[op]) for op in ops):
        return []
    found: list[int] = []
    op = min(ops, key=lambda one: int(graph.rank[one]))
    while True:
        before = [p for p in graph.predecessors[op].tolist() if p not in taken and not graph.op_is_constant[p]
                  and len(graph.successors[p]) == 1]
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
        before = [p for p in graph.predecessors[op].tolist() if p not in taken and len(graph.successors[p]) == 1
                  and graph.op_types[p] in {"Softmax", "MatMul", *FUSIBLE_TYPES}]
        op = next((p for p in before if graph.op_types[p] in ("Softmax", "MatMul")), before[0] if len(before) == 1 else -1)
        if op < 0:
            return []
        found.append(op)
        if graph.op_types[op] == "MatMul":
            return found if any(graph.op_types[p] == "Softmax" for p in found) else []
    return []


def _fits(kind: str, op_type: str) -> bool:
    """Whether a layer of a type may compute an op of a type: ``FusedConv`` and ``Convolution`` a Conv."""
    return op_type.lower() in kind.lower() or op_type in _TYPES_OF_LAYER.get(kind.lower(), ())


def _divided(work: _Matching, layers: Sequence[Layer], named: set[int], away: set[int],
             constants: float, by_order: frozenset[int]) -> OpTimes:
    seconds: dict[int, float] = {}
    kernel: dict[int, int] = {}
    kernels: list[str] = []
    for number, listed in work.ops_of.items():
        ops = [op for op in listed if not work.graph.op_is_constant[op]]
        for op, share in zip(ops, work_shares(work.graph, ops), strict=True):
            seconds[op] = seconds.get(op, 0.0) + layers[number].seconds * share
            kernel.setdefault(op, len(kernels))
        kernels.append(layers[number].type or layers[number].name[:80])
    lost = sorted((Unmatched(layers[n].name, layers[n].seconds, reason) for n, reason in work.unmatched.items()),
                  key=lambda one: -one.seconds)
    return OpTimes(seconds, kernel, tuple(kernels), frozenset(set(seconds) - named), tuple(lost),
                   sum(layer.seconds for n, layer in enumerate(layers) if n not in away), constants, by_order)
