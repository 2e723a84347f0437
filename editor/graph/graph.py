"""The model as the rest of the program sees it: frozen arrays, no protobuf.

Ops and tensors are numbered; adjacency is in CSR form (``ptr[i]:ptr[i + 1]`` are the entries of row
``i``). An op is identified by its **key**, the name of its first non-empty output, which is unique
in any valid graph; an op without outputs has the key ``#<index>``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from editor.graph.types import UNKNOWN_BYTES, Shape

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Attributes = tuple[tuple[str, str], ...]


class TensorKind(IntEnum):
    """Where a tensor comes from."""

    INPUT = 0
    INITIALIZER = 1
    OP_OUTPUT = 2


@dataclass(frozen=True, eq=False)
class Rows:
    """A ragged array of integers in CSR form."""

    ptr: Ints
    values: Ints

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Rows:
        """Packs a list of lists."""
        ptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(r) for r in rows], out=ptr[1:])
        return cls(ptr, np.fromiter((v for r in rows for v in r), np.int64, int(ptr[-1])))

    def __getitem__(self, row: int) -> Ints:
        return self.values[self.ptr[row]:self.ptr[row + 1]]

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @cached_property
    def row_of_value(self) -> Ints:
        """The row number of every entry of ``values``."""
        return np.repeat(np.arange(len(self)), np.diff(self.ptr))

    def transposed(self, columns: int) -> Rows:
        """Rows by value: which rows hold each of ``columns`` values, in row order."""
        order = np.argsort(self.values, kind="stable")
        ptr = np.zeros(columns + 1, np.int64)
        np.cumsum(np.bincount(self.values, minlength=columns), out=ptr[1:])
        return Rows(ptr, self.row_of_value[order])


@dataclass(frozen=True, eq=False)
class Graph:
    """One ONNX main graph.

    ``reads[op]`` are the tensors an op needs: its inputs without the omitted ones, then what its
    bodies (If, Loop, Scan) capture from outside, each once. ``arguments[op]`` and ``results[op]``
    keep the positions of the node, with -1 for an omitted operand.
    """

    name: str
    path: Path
    folder: Path
    """External data of the model is relative to this folder."""
    sha256: str
    define: Mapping[str, int]
    unbound: tuple[str, ...]
    opsets: Mapping[str, int]
    notes: tuple[str, ...]

    op_keys: tuple[str, ...]
    op_names: tuple[str, ...]
    op_types: tuple[str, ...]
    op_domains: tuple[str, ...]
    op_attributes: tuple[Attributes, ...]
    op_is_atomic: Bools
    """The op has bodies (If, Loop, Scan): it is never cut."""
    op_is_constant: Bools
    """The op is fed by constants only and cheap to repeat: it follows its consumers."""
    reads: Rows
    arguments: Rows
    results: Rows
    order: Ints
    """A topological order of the ops (the file's own where that is one)."""

    tensor_names: tuple[str, ...]
    tensor_types: tuple[str, ...]
    tensor_shapes: tuple[Shape | None, ...]
    tensor_bytes: Ints
    tensor_kind: npt.NDArray[np.int8]
    tensor_producer: Ints
    """The op that makes a tensor, -1 for inputs and initializers."""
    tensor_overridable: Bools
    """An initializer that is also a graph input: a default that the caller may replace."""
    inputs: Ints
    outputs: Ints

    key_index: Mapping[str, int] = field(repr=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self.op_keys)

    def __repr__(self) -> str:
        return f"<Graph {self.name!r}: {len(self)} ops, {len(self.tensor_names)} tensors>"

    @cached_property
    def tensor_index(self) -> Mapping[str, int]:
        """Tensor number by name."""
        return {name: i for i, name in enumerate(self.tensor_names)}

    @cached_property
    def readers(self) -> Rows:
        """Which ops read each tensor."""
        return self.reads.transposed(len(self.tensor_names))

    @cached_property
    def tensor_is_constant(self) -> Bools:
        """Known before the first run: initializers and what constant ops make."""
        made = self.tensor_producer >= 0
        constant: Bools = self.tensor_kind == TensorKind.INITIALIZER
        constant[made] |= self.op_is_constant[self.tensor_producer[made]]
        return constant

    @cached_property
    def rank(self) -> Ints:
        """[op] position in the topological order."""
        rank = np.empty(len(self), np.int64)
        rank[self.order] = np.arange(len(self))
        return rank

    @cached_property
    def edges(self) -> tuple[Ints, Ints, Ints]:
        """(producer op, consumer op, tensor) for every read of another op's output."""
        consumer, tensor = self.reads.row_of_value, self.reads.values
        producer = self.tensor_producer[tensor]
        real = producer >= 0
        return producer[real], consumer[real], tensor[real]

    @cached_property
    def predecessors(self) -> Rows:
        """Ops that each op depends on, each once."""
        producer, consumer, _ = self.edges
        return _unique_rows(consumer, producer, len(self))

    @cached_property
    def successors(self) -> Rows:
        """Ops that depend on each op, each once."""
        producer, consumer, _ = self.edges
        return _unique_rows(producer, consumer, len(self))

    def type_label(self, op: int) -> str:
        """Op type with its domain where that is not ONNX's own."""
        domain = self.op_domains[op]
        return self.op_types[op] if domain in ("", "ai.onnx") else f"{domain}::{self.op_types[op]}"

    def display_name(self, op: int) -> str:
        """What to call an op in front of people: its name, else its key."""
        return self.op_names[op] or self.op_keys[op]

    def shape_label(self, tensor: int) -> str:
        """"1x3x224x224", "scalar", "?" when the rank is unknown."""
        shape = self.tensor_shapes[tensor]
        if shape is None:
            return "?"
        return "x".join(map(str, shape)) if shape else "scalar"

    @property
    def unknown_bytes(self) -> Bools:
        """Tensors whose size is not known before a run."""
        unknown: Bools = self.tensor_bytes == UNKNOWN_BYTES
        return unknown


def distinct(values: Ints) -> Ints:
    """Sorted distinct numbers. ``np.unique`` imports masked arrays at its first call: a twentieth of a second."""
    if len(values) < 2:
        return values
    ordered: Ints = np.sort(values)
    found: Ints = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return found


def _unique_rows(rows: Ints, values: Ints, count: int) -> Rows:
    pairs = distinct(rows * count + values)
    ptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(pairs // max(count, 1), minlength=count), out=ptr[1:])
    return Rows(ptr, pairs % max(count, 1))
