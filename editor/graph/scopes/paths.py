"""Finds the scopes of ops: the modules of the network that their names tell of, and what repeats."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

import numpy as np
from onnx import NodeProto

from editor.graph.graph import Graph, TensorKind, numbers_at
from editor.groups import common_length

_SCOPES, _NAMESPACE = "pkg.torch.onnx.name_scopes", "namespace"
_OF_OPENVINO = "__module."
"""How OpenVINO calls the layers of a PyTorch model: ``__module.model.layers.0.mlp/aten::linear/MatMul``"""
_PART = "/WithoutBiases"
"""How OpenVINO calls the convolution or product that it divides from the addition of its operand, which keeps the name."""
_JOINED = ";"
"""Between the names of ops that TensorFlow Lite fused."""
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_LONGEST = 1 << 14
"""Characters; real modules are not nested so deep, and a hostile file may claim it on every op."""


def module_of(node: NodeProto) -> str:
    """Path of the innermost module, with dots; "" where it is unknown or the whole model."""
    if node.name.startswith(_OF_OPENVINO):
        return node.name.removeprefix(_OF_OPENVINO).partition("/")[0][:_LONGEST]
    recorded = {
        entry.key: entry.value
        for entry in node.metadata_props
        if entry.key in (_SCOPES, _NAMESPACE)
    }
    if any(len(value) > _LONGEST for value in recorded.values()):
        return ""
    names = [a or b for a, b in _QUOTED.findall(recorded.get(_SCOPES, ""))]
    if not names and " " in recorded.get(_NAMESPACE, ""):
        names = [part.partition(":")[0] for part in recorded[_NAMESPACE].split("/")]
    module = names[-2] if len(names) > 1 else ""
    return "" if module.startswith("_empty_nn_module_stack") else module


_SHORTEST, _LONGEST_PERIOD = 8, 1024
"""Least and most ops of a repeated block."""
_COVERED = 0.3
_HEAD = 4
"""Number of op types that identify the beginning of a layer."""
_MAX_PHASES = 8
"""Most phases to compare in full."""
_SLACK = 0.3
"""Share by which the first layer may be longer or shorter."""


def cut_costs(graph: Graph, placed: Sequence[int]) -> list[int]:
    """[i] number of tensors that cross a cut before ``placed[i]``; ``placed`` is in topological order."""
    position = numbers_at(
        len(graph) + 1, list(placed), np.arange(len(placed))
    )  # the last entry is for "no producer"
    first = position[graph.tensor_producer]
    last = np.full(len(graph.tensor_names), -1, np.int64)
    np.maximum.at(last, graph.op_reads.values, position[graph.op_reads.row_of_value])
    crossing = (first >= 0) & (last > first)
    size = len(placed) + 2
    change = np.bincount(first[crossing] + 1, minlength=size) - np.bincount(
        last[crossing] + 1, minlength=size
    )
    costs: list[int] = np.cumsum(change)[: len(placed) + 1].tolist()
    return costs


def repeated_runs(kinds: Sequence[str], costs: Sequence[int]) -> list[tuple[int, int]]:
    """(begin, end) of each layer; empty where nothing repeats.

    A repetition can start at any phase. The best phase is where the fewest tensors cross; a residual network has several
    such phases per layer, of which the one with the most complete layers is chosen.
    """
    start, period, length = _longest(kinds)
    if not length:
        return []
    phases = range(start, start + period)
    crossing = [
        sum(costs[phase : start + length + 1 : period])
        / len(costs[phase : start + length + 1 : period])
        for phase in phases
    ]
    least = min(crossing)
    candidates = [
        _layers(kinds, costs, phase, period, start + length)
        for phase, cost in zip(phases, crossing, strict=True)
        if cost <= least + 0.01
    ]
    candidates = sorted(filter(None, candidates), key=len)[-_MAX_PHASES:]
    return max(candidates, default=[], key=lambda layers: (len(layers), _similarity(kinds, layers)))


def _similarity(kinds: Sequence[str], layers: list[tuple[int, int]]) -> int:
    """Number of ops that the first and the last layer have in common."""
    (a, b), (c, d) = layers[0], layers[-1]
    return sum(
        m.size
        for m in SequenceMatcher(None, kinds[a:b], kinds[c:d], autojunk=False).get_matching_blocks()
    )


def _layers(
    kinds: Sequence[str], costs: Sequence[int], phase: int, period: int, end: int
) -> list[tuple[int, int]]:
    """Complete periods from a phase on, preceded by the first layer where it differs only a little."""
    whole = [(begin, begin + period) for begin in range(phase, end - period + 1, period)]
    head = kinds[phase : phase + _HEAD]
    low, high = phase - int(period * (1 + _SLACK)), phase - int(period * (1 - _SLACK))
    candidates = [i for i in range(max(low, 0), max(high + 1, 0)) if kinds[i : i + _HEAD] == head]
    if candidates and whole:
        first = min(candidates, key=lambda i: (costs[i], abs(phase - i - period)))
        return [(first, phase), *whole]
    return whole


def _longest(kinds: Sequence[str]) -> tuple[int, int, int]:
    """(start, period, length) of the repetition that covers most of a sequence; length 0 where there is none."""
    codes = np.unique(kinds, return_inverse=True)[1] if len(kinds) else np.zeros(0, np.int64)
    best, covered = (0, 1, 0), 0
    for period in range(_SHORTEST, min(len(codes) // 2, _LONGEST_PERIOD) + 1):
        differ = np.flatnonzero(codes[period:] != codes[:-period])
        edges = np.concatenate([[-1], differ, [len(codes) - period]])
        at = int(np.diff(edges).argmax())
        run, start = int(edges[at + 1] - edges[at] - 1), int(edges[at] + 1)
        count = run // period + 1
        if run >= period and count * period > covered + best[1] // 2:
            best, covered = (start, period, run + period), count * period
    return best if covered >= _COVERED * len(codes) else (0, 1, 0)


Path = tuple[str, ...]

_TRACED_SHARE = 0.05
_NUMBERED_SHARE = 0.3
"""Least share of the topological order that a numbered repetition must span for a few traces to count."""
_MIN_MEMBERS = 3
_RUN = 48
"""Ops per block in a model without traces."""

_GENERATED = re.compile(
    r"(val|t|tensor|view|reshape|transpose|permute|expand|slice|cat|onnx::\w+?|strip)?[_.]?[a-z]?[._]?\d+([./]|$)"
)
"""Names that exporters generate; they contain no module name."""
_MODULE = re.compile(r"[A-Za-z_]\w*[./]\w*[A-Za-z]\w*$")
_DEPTH = 4
"""Constants of constants that are looked at."""
_NUMBER = re.compile(r"(|.*[._])(\d+)")


def paths_of(graph: Graph, placed: Sequence[int]) -> dict[int, Path]:
    """Op -> path; ops are given in topological order."""
    traces = [_trace(graph, op) for op in placed]
    paths = (
        _completed(graph, placed, traces) if _are_sufficient(traces) else _structural(graph, placed)
    )
    return dict(zip(placed, paths, strict=True))


def is_numbered(part: str) -> bool:
    """Whether a path component numbers a member of a list: ``3``, ``layer.3``, ``layer_3``."""
    return _NUMBER.fullmatch(part) is not None


def pattern_of(path: Path) -> str:
    """The path without its numbers."""
    return re.sub(r"\d+", "#", "/".join(path))


def _are_sufficient(traces: list[Path]) -> bool:
    """Whether the traces suffice: there are many, or a few that number a repetition."""
    where = [i for i, path in enumerate(traces) if path]
    if len(where) >= _TRACED_SHARE * len(traces):
        return bool(where)
    lists: dict[Path, dict[int, list[int]]] = {}
    for i in where:
        for depth, part in enumerate(traces[i]):
            if number := _NUMBER.fullmatch(part):
                members = lists.setdefault((*traces[i][:depth], number[1]), {})
                members.setdefault(int(number[2]), []).append(i)
    return any(
        len(members) >= _MIN_MEMBERS
        and list(members) == sorted(members)
        and max(map(max, members.values())) - min(map(min, members.values()))
        >= _NUMBERED_SHARE * len(traces)
        for members in lists.values()
    )


def _trace(graph: Graph, op: int) -> Path:
    if graph.op_modules[op]:
        return tuple(part for part in graph.op_modules[op].split(".") if part)
    name = graph.op_names[op].partition(_JOINED)[0].removesuffix(_PART).strip("/")
    if "/" in name:
        return tuple(part for part in name.split("/")[:-1] if part)
    if name.count(".") > 1:
        return tuple(name.split(".")[:-1])
    for weights in _weights(graph, op):
        first = (w.partition(_JOINED)[0] for w in weights)
        named = (w for w in first if _MODULE.search(w) and not _GENERATED.match(w))
        if best := max(named, key=len, default=""):
            return tuple(part for part in re.split(r"[./]", best.strip("/"))[:-1] if part)
    return ()


def _weights(graph: Graph, op: int) -> Iterator[list[str]]:
    """Names of the constants that an op reads, then of those from which they are computed (a transposed weight), and so on."""
    ops = [op]
    for depth in range(_DEPTH):
        names, makers = [], dict[int, None]()
        for tensor in (tensor for each in ops for tensor in graph.op_reads[each].tolist()):
            producer = int(graph.tensor_producer[tensor])
            is_made = producer >= 0 and bool(graph.op_is_constant[producer])
            if graph.tensor_kind[tensor] == TensorKind.INITIALIZER or (
                is_made and depth < _DEPTH - 1
            ):
                names.append(graph.tensor_names[tensor])
            if is_made:
                makers[producer] = None
        yield names
        ops = list(makers)


def _completed(graph: Graph, placed: Sequence[int], traces: list[Path]) -> list[Path]:
    """[op] path, also for the ops between traced ones (a gap).

    An op in a gap belongs to the common block of both neighbours. Between two members of a list (layer 3 and layer 4),
    the boundary is where the fewest tensors cross. At the ends of the list, as many ops belong to the first or last
    member as match the op types of the other members.
    """
    gaps = _Gaps([graph.op_types[op] for op in placed], traces, cut_costs(graph, placed))
    paths = list(traces)
    for begin, end, before, after in gaps.between:
        head, tail = gaps.shares(begin, end, before, after)
        shared = before[: common_length(before, after)]
        for i in range(begin, end):
            paths[i] = (
                gaps.list_member(before)
                if i < begin + head
                else gaps.list_member(after)
                if i >= end - tail
                else shared
            )
    return paths


class _Gaps:
    """Runs of ops without traces, and their division among the neighbours."""

    def __init__(self, kinds: list[str], traces: list[Path], costs: Sequence[int]) -> None:
        self.kinds, self.costs = kinds, costs
        self.members = {
            path[: depth + 1]
            for path in set(traces)
            for depth in range(len(path) - 1)
            if is_numbered(path[depth])
        }
        """Numbered modules that contain modules."""
        self.between: list[tuple[int, int, Path, Path]] = []
        """(begin, end, path before, path after), empty paths at the ends of the model."""
        start, last = 0, Path()
        for i, path in enumerate([*traces, Path()]):
            if path or i == len(traces):
                if i > start:
                    self.between.append((start, i, last, path))
                start, last = i + 1, path
        self.heads: dict[str, list[str]] = {}
        """Pattern of the last trace of a list -> op types after it."""
        self.tails: dict[str, list[str]] = {}
        """Pattern of the first trace of a list -> op types before it."""
        for begin, end, before, after in self.between:
            if not self._siblings(before, after):
                self.heads.setdefault(pattern_of(before), kinds[begin:end])
                self.tails.setdefault(pattern_of(after), kinds[begin:end])
        self.known_heads: dict[str, set[tuple[str, ...]]] = {}
        self.known_tails: dict[str, set[tuple[str, ...]]] = {}
        self.cuts: dict[int, int] = {}
        for begin, end, before, after in self.between:
            if self._siblings(before, after):
                cut = self.cuts[begin] = self._cut(begin, end, before, after)
                self.known_heads.setdefault(pattern_of(before), set()).add(tuple(kinds[begin:cut]))
                self.known_tails.setdefault(pattern_of(after), set()).add(tuple(kinds[cut:end]))

    def list_member(self, path: Path) -> Path:
        """The innermost member of a list around a path."""
        return next(
            (path[:depth] for depth in range(len(path), 0, -1) if path[:depth] in self.members), ()
        )

    def shares(self, begin: int, end: int, before: Path, after: Path) -> tuple[int, int]:
        """Number of ops of a gap that belong to the member before it, and to the member after it."""
        if begin in self.cuts:
            return self.cuts[begin] - begin, end - self.cuts[begin]
        shared, kinds = common_length(before, after), self.kinds[begin:end]
        head = tail = 0
        if len(self.list_member(before)) > shared:
            head = max(
                (
                    common_length(kinds, known)
                    for known in self.known_heads.get(pattern_of(before), ())
                ),
                default=0,
            )
        if len(self.list_member(after)) > shared:
            tail = max(
                (
                    common_length(kinds[::-1], known[::-1])
                    for known in self.known_tails.get(pattern_of(after), ())
                ),
                default=0,
            )
        return head, min(tail, end - begin - head)

    def _siblings(self, before: Path, after: Path) -> bool:
        depth = common_length(before, after)
        if before[: depth + 1] not in self.members or after[: depth + 1] not in self.members:
            return False
        return pattern_of(before[: depth + 1]) == pattern_of(after[: depth + 1])

    def _cut(self, begin: int, end: int, before: Path, after: Path) -> int:
        """Index where the second member begins; ties go to the index that matches the ends of the list, then the last."""
        least = min(self.costs[begin : end + 1])
        candidates = [i for i in range(begin, end + 1) if self.costs[i] == least]
        if len(candidates) == 1:
            return candidates[0]
        head, tail = self.heads.get(pattern_of(before), []), self.tails.get(pattern_of(after), [])
        return max(
            candidates,
            key=lambda i: (
                common_length(head, self.kinds[begin:i])
                + common_length(tail[::-1], self.kinds[i:end][::-1]),
                i,
            ),
        )


def _structural(graph: Graph, placed: Sequence[int]) -> list[Path]:
    """Paths without traces: repeated runs of op types are layers, and the rest is cut into runs of equal length."""
    runs = repeated_runs([graph.op_types[op] for op in placed], cut_costs(graph, placed))
    layer = {i: number for number, (begin, end) in enumerate(runs) for i in range(begin, end)}
    paths: list[Path] = []
    for i in range(len(placed)):
        if i in layer:
            paths.append(("layers", str(layer[i])))
        elif len(placed) > 2 * _RUN:
            begin = i // _RUN * _RUN
            paths.append((f"ops {begin} to {min(begin + _RUN, len(placed)) - 1}",))
        else:
            paths.append(())
    return paths
