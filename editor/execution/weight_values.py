"""Reads the values of a model's constants, one at a time: their digests, and how far those of two models are apart.

Models are matched here as far as that needs weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, numpy_helper

from editor.errors import EditorError
from editor.execution.cut import Cutter
from editor.graph.constants import values_of
from editor.graph.external_data import is_external, load_tensor
from editor.graph.graph import Graph
from editor.graph.model_diff import Matching, match_ops
from editor.sandbox.watch import READING
from editor.sandbox.worker import run

Numbers = npt.NDArray[Any]
_CONVERTING = frozenset({"Cast", "Convert"})
"""Types of constant ops whose values are those that they read, where nothing evaluates them."""
_CHUNK = 1 << 20
_MOST_SORTED = 1 << 26
"""Elements of weights that are compared in any order, too."""
_APART = 0.1
"""Relative difference from which two weights may be the same ones in another order."""


@dataclass(frozen=True)
class Scaled:
    """A constant, and those that turn its whole numbers into the floats that they stand for."""

    tensor: int
    scale: int = -1
    zero_point: int = -1
    axis: int = 0


@dataclass(frozen=True)
class Gap:
    """How far two constants are apart."""

    relative: float | None
    """Root mean square of the difference, relative to that of the first; None where they cannot be compared."""
    largest: float | None
    """Largest difference."""
    same_in_another_order: bool = False


def digests(graph: Graph) -> dict[int, bytes]:
    """Constant tensor -> a digest of its type, shape and values, for those that ops which are not constant read.

    Raises:
        EditorError: the model file is gone or has changed, or its weights are not there.
    """
    return run(_digests, graph, what=READING, path=graph.path)


@dataclass(frozen=True)
class MatchedModels:
    """Two models whose ops are matched."""

    matching: Matching
    digests: tuple[Mapping[int, bytes], Mapping[int, bytes]]
    """Of the constants of each."""
    values: tuple[Mapping[int, str], Mapping[int, str]]
    """Texts of the small constants of each."""
    problems: tuple[str, ...]
    """Why weights had no part in it."""


def match_models(one: Graph, other: Graph) -> MatchedModels:
    """Matches the ops of two models, by their weights, too, where these are there.

    Raises:
        EditorError: a model file is gone or has changed.
    """
    contents: list[Mapping[int, bytes]] = []
    problems = []
    for graph in (one, other):
        try:
            contents.append(digests(graph))
        except EditorError as error:
            contents.append({})
            problems.append(f"weights are not compared: {error}")
    values = [values_of(g, np.flatnonzero(g.tensor_is_constant).tolist()) for g in (one, other)]
    known, texts = (contents[0], contents[1]), (values[0], values[1])
    return MatchedModels(match_ops(one, other, known, texts), known, texts, tuple(problems))


def gaps(one: Graph, other: Graph, pairs: Sequence[tuple[Scaled, Scaled]]) -> list[Gap]:
    """How far constants of a model are from those of another one.

    Raises:
        EditorError: as ``digests``.
    """
    return run(_gaps, one, other, pairs, what=READING, path=one.path) if pairs else []


def arrays(graph: Graph, tensors: Sequence[int]) -> dict[int, Numbers]:
    """Constant tensor -> its values, for those that are known: of small constants, such as scales.

    Raises:
        EditorError: as ``digests``.
    """
    return run(_arrays, graph, tensors, what=READING, path=graph.path) if tensors else {}


def _arrays(graph: Graph, tensors: Sequence[int]) -> dict[int, Numbers]:
    values = _Values(graph)
    return {t: array for t in tensors if (array := values.array(t)) is not None}


def _digests(graph: Graph) -> dict[int, bytes]:
    values = _Values(graph)
    read = np.zeros(len(graph.tensor_names), bool)
    for op in np.flatnonzero(~graph.op_is_constant).tolist():
        read[graph.op_reads[op]] = True
    return {
        tensor: digest
        for tensor in np.flatnonzero(read & graph.tensor_is_constant).tolist()
        if (digest := values.digest(tensor)) is not None
    }


class _Values:
    """The values of the constants of one model."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.cutter = graph, Cutter.open(graph)
        self._digests: dict[int, bytes | None] = {}

    def array(self, tensor: int) -> Numbers | None:
        """The values; None where they are not known."""
        name = self.graph.tensor_names[tensor]
        proto = self.cutter.folded.get(name) or self.cutter.initializers.get(name)
        if isinstance(proto, TensorProto):
            if is_external(proto):
                proto = deepcopy(proto)
                load_tensor(proto, self.graph.folder)
            try:
                return np.asarray(numpy_helper.to_array(proto))
            except (ValueError, TypeError):
                return None
        op = int(self.graph.tensor_producer[tensor])
        reads = self.graph.op_inputs[op].tolist() if op >= 0 else []
        if len(reads) == 1 and self.graph.type_label(op) in _CONVERTING:
            return self.array(reads[0])
        return None

    def digest(self, tensor: int) -> bytes | None:
        """A digest of the values; of a constant op that nothing evaluates, of what it is and reads."""
        if tensor not in self._digests:
            self._digests[tensor] = None
            self._digests[tensor] = self._digest(tensor)
        return self._digests[tensor]

    def _digest(self, tensor: int) -> bytes | None:
        hasher = hashlib.blake2b(digest_size=12)
        value = self.array(tensor)
        if value is not None:
            hasher.update(f"{value.dtype}{value.shape}".encode())
            hasher.update(
                repr(value.tolist()).encode("utf-8", "surrogatepass")
                if value.dtype.kind == "O"
                else np.ascontiguousarray(value).view(np.uint8).data
                if value.size and value.ndim
                else value.tobytes()
            )
            return hasher.digest()
        op = int(self.graph.tensor_producer[tensor])
        if op < 0:
            return None
        place = self.graph.op_outputs[op].tolist().index(tensor)
        hasher.update(
            repr((self.graph.op_types[op], self.graph.op_attributes[op], place)).encode(
                "utf-8", "surrogatepass"
            )
        )
        for each in self.graph.op_inputs[op].tolist():
            digest = self.digest(each) if each >= 0 else b""
            if digest is None:
                return None
            hasher.update(digest)
        return hasher.digest()

    def floats(self, scaled: Scaled) -> Numbers | None:
        """The values, turned into the floats that they stand for; None where they are not known or no numbers."""
        value = self.array(scaled.tensor)
        if value is None or value.dtype.kind in "OSUb":
            return None
        if scaled.scale < 0:
            return value
        scale = self.array(scaled.scale)
        zero = None if scaled.zero_point < 0 else self.array(scaled.zero_point)
        if scale is None:
            return None
        along = [1] * value.ndim
        if scale.size > 1:
            along[scaled.axis] = -1
            if scale.size != value.shape[scaled.axis]:
                return None
        else:
            scale, zero = scale.reshape(-1)[:1], None if zero is None else zero.reshape(-1)[:1]
            along = [1] * max(value.ndim, 1)
        shift = 0.0 if zero is None else zero.astype(np.float32).reshape(along)
        result: Numbers = (value.astype(np.float32) - shift) * scale.astype(np.float32).reshape(
            along
        )
        return result


def _gaps(one: Graph, other: Graph, pairs: Sequence[tuple[Scaled, Scaled]]) -> list[Gap]:
    ours, theirs = _Values(one), _Values(other)
    found = []
    for mine, its in pairs:
        try:
            found.append(_gap(ours.floats(mine), theirs.floats(its)))
        except EditorError:  # a file of weights is not there: the rest is compared
            found.append(Gap(None, None))
    return found


def _gap(one: Numbers | None, other: Numbers | None) -> Gap:
    if one is None or other is None or one.size != other.size or not one.size:
        return Gap(None, None)
    if (one.dtype.kind in "iu") != (other.dtype.kind in "iu"):
        return Gap(None, None)  # whole numbers without the scale that makes floats of them
    gap = _difference(one, other) if one.shape == other.shape else Gap(None, None)
    far = gap.relative is None or gap.relative > _APART
    if (
        far
        and one.size <= _MOST_SORTED
        and one.dtype == other.dtype
        and (np.sort(one, axis=None) == np.sort(other, axis=None)).all()
    ):
        return Gap(gap.relative, gap.largest, same_in_another_order=True)
    return gap


def _difference(one: Numbers, other: Numbers) -> Gap:
    a, b = one.reshape(-1), other.reshape(-1)
    squares = own = largest = 0.0
    for start in range(0, a.size, _CHUNK):
        x = a[start : start + _CHUNK].astype(np.float64)
        y = b[start : start + _CHUNK].astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(y - x))
            squares += float(np.square(apart).sum())
            own += float(np.square(x).sum())
            largest = max(largest, float(apart.max(initial=0.0)))
    relative = float(np.sqrt(squares / own)) if own else (0.0 if not squares else float("inf"))
    return Gap(relative, largest)
