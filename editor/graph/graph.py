"""The in-memory graph of a model: frozen arrays without protobuf, the types of its tensors, and bodies of ops as graphs.

Ops and tensors are numbered; adjacency is in CSR form (``ptr[i]:ptr[i + 1]`` are the entries of row
``i``). An op is identified by its **key**, the name of its first non-empty output, which is unique
in any valid graph; an op without outputs has the key ``#<index>``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, lru_cache, wraps
from itertools import groupby
from math import prod
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, TypeProto, ValueInfoProto, helper

from editor.arguments import KEEP_FUNCTIONS
from editor.graph.external_data import missing_of, not_here

# Bits per element as stored: 4-bit and 2-bit types are packed. 0 = no fixed size (strings).
_BITS = {
    "float32": 32,
    "uint8": 8,
    "int8": 8,
    "uint16": 16,
    "int16": 16,
    "int32": 32,
    "int64": 64,
    "string": 0,
    "bool": 8,
    "float16": 16,
    "float64": 64,
    "uint32": 32,
    "uint64": 64,
    "complex64": 64,
    "complex128": 128,
    "bfloat16": 16,
    "float8e4m3fn": 8,
    "float8e4m3fnuz": 8,
    "float8e5m2": 8,
    "float8e5m2fnuz": 8,
    "uint4": 4,
    "int4": 4,
    "float4e2m1": 4,
    "float8e8m0": 8,
    "uint2": 2,
    "int2": 2,
}
_RENAMED = {"float": "float32", "double": "float64"}

UNKNOWN_BYTES = -1

Shape = tuple[int | str, ...]
"""A dimension is an int, the name of a symbol, or "?" when unknown."""


def bits_of(name: str) -> int:
    """Bits of one element as stored; 0 for types without a fixed size and for unknown names."""
    return _BITS.get(name, 0)


def element_name(elem_type: int) -> str:
    """Short name of a ``TensorProto.DataType``, "" when undefined or unknown."""
    if elem_type == TensorProto.UNDEFINED:
        return ""
    try:
        name: str = TensorProto.DataType.Name(elem_type).lower()
    except ValueError:
        return ""
    return _RENAMED.get(name, name)


@lru_cache(maxsize=64)
def element_type(name: str) -> int:
    """The ``TensorProto.DataType`` of a short name; 0 (undefined) when it is not a tensor type."""
    for original, renamed in _RENAMED.items():
        if renamed == name:
            name = original
    return int(dict(TensorProto.DataType.items()).get(name.upper(), TensorProto.UNDEFINED))


def type_name(proto: TypeProto) -> str:
    """ "float32", "sequence(float32)", "optional(...)", "map(...)"; "" when not stated."""
    kind = proto.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        name = element_name(getattr(proto, kind).elem_type)
        return f"sparse({name})" if kind == "sparse_tensor_type" else name
    if kind in ("sequence_type", "optional_type"):
        return f"{kind.removesuffix('_type')}({type_name(getattr(proto, kind).elem_type)})"
    if kind == "map_type":
        return (
            f"map({element_name(proto.map_type.key_type)},{type_name(proto.map_type.value_type)})"
        )
    return ""


def shape_of(proto: TypeProto) -> Shape | None:
    """The shape of a tensor type; None when the rank is unknown or the type is not a tensor."""
    kind = proto.WhichOneof("value")
    if kind not in ("tensor_type", "sparse_tensor_type") or not getattr(proto, kind).HasField(
        "shape"
    ):
        return None
    dims: list[int | str] = [
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or "?"
        for dim in getattr(proto, kind).shape.dim
    ]
    return tuple(dims)


def make_value_info(name: str, kind: str, shape: Shape | None) -> ValueInfoProto:
    """Declares a value of any type; "?" dimensions stay open."""
    dims = None if shape is None else [None if d == "?" else d for d in shape]
    if "(" not in kind:
        return helper.make_tensor_value_info(name, element_type(kind), dims)
    return helper.make_value_info(name, _type_proto(kind))


def _type_proto(kind: str) -> TypeProto:
    outer, _, rest = kind.partition("(")
    inner = rest.removesuffix(")")
    if outer == "sequence":
        return helper.make_sequence_type_proto(_type_proto(inner))
    if outer == "optional":
        return helper.make_optional_type_proto(_type_proto(inner))
    if outer == "map":
        key, _, value = inner.partition(",")
        return helper.make_map_type_proto(element_type(key), _type_proto(value))
    if outer == "sparse":
        return helper.make_sparse_tensor_type_proto(element_type(inner), None)
    return helper.make_tensor_type_proto(element_type(kind), None)


def type_proto(ort_type: str) -> TypeProto:
    """A type as ONNX Runtime writes it: ``tensor(float)``, ``seq(tensor(int64))``, ``map(int64,tensor(float))``."""
    plain = re.sub(
        r"tensor\((\w+)\)",
        lambda m: {"float": "float32", "double": "float64"}.get(m[1], m[1]),
        ort_type,
    )
    return _type_proto(plain.replace("seq(", "sequence("))


def byte_size(dtype: str, shape: Shape | None) -> int:
    """Bytes that a dense tensor takes; ``UNKNOWN_BYTES`` when its type or shape is unknown."""
    bits = bits_of(dtype)
    if bits == 0 or shape is None or any(not isinstance(d, int) for d in shape):
        return UNKNOWN_BYTES
    size = (prod(d for d in shape if isinstance(d, int)) * bits + 7) // 8
    return (
        size if 0 <= size < 1 << 62 else UNKNOWN_BYTES
    )  # hostile dims must not overflow int64 sums


Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Attributes = tuple[tuple[str, str], ...]
P = ParamSpec("P")
R = TypeVar("R")


class TensorKind(IntEnum):
    """Origin of a tensor."""

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
        """Builds the array from a list of lists."""
        ptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(r) for r in rows], out=ptr[1:])
        return cls(ptr, np.fromiter((v for r in rows for v in r), np.int64, int(ptr[-1])))

    def __getitem__(self, row: int) -> Ints:
        return self.values[self.ptr[row] : self.ptr[row + 1]]

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @cached_property
    def row_of_value(self) -> Ints:
        """The row number of every entry of ``values``."""
        return np.repeat(np.arange(len(self)), np.diff(self.ptr))

    def transposed(self, columns: int) -> Rows:
        """[value] the rows that contain it, for values below ``columns``."""
        order = np.argsort(self.values, kind="stable")
        ptr = np.zeros(columns + 1, np.int64)
        np.cumsum(np.bincount(self.values, minlength=columns), out=ptr[1:])
        return Rows(ptr, self.row_of_value[order])


@dataclass(frozen=True)
class InnerOp:
    """An op in a body of an If, Loop or Scan: it is placed with the op that has the body."""

    owner: int
    """The op of the main graph"""
    body: str
    """``then_branch``, ``body``; with slashes where bodies are inside each other"""
    key: str
    name: str
    op_type: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]

    def place(self, graph: Graph) -> str:
        """ "in the then_branch of encoder (If), which is placed as one op"."""
        owner = f"{graph.display_name(self.owner)} ({graph.type_label(self.owner)})"
        return f"in the {self.body} of {owner}, which is placed as one op"


@dataclass(frozen=True)
class FileFacts:
    """What a model file says of itself."""

    ir_version: int
    producer: str
    """Name and version of the tool that wrote it"""
    doc: str
    metadata: tuple[tuple[str, str], ...]
    nodes: int
    """Nodes of the main graph in the file, before functions and Ifs were opened"""
    functions: int
    initializers: int


@dataclass(frozen=True, eq=False)
class Graph:
    """One ONNX main graph.

    ``op_reads[op]`` are the tensors that an op reads, without duplicates: its inputs without the omitted
    ones, then the captures of its bodies (If, Loop, Scan); a Shape of a fixed size reads nothing.
    ``op_inputs[op]`` and ``op_outputs[op]`` are the inputs and outputs of the node by position, with -1
    for an omitted one.
    """

    name: str
    path: Path
    folder: Path
    """External data of the model is relative to this folder."""
    sha256: str
    define: Mapping[str, int]
    chosen: Mapping[str, int]
    """The part of ``define`` beside sizes: values of inputs, which are constants here, and ``keep_functions``"""
    branches: tuple[tuple[str, bool], ...]
    """Key of each If that was replaced by a branch, and its condition, in the order of the replacements"""
    unbound: tuple[str, ...]
    input_dims: Mapping[str, tuple[int | str, ...]]
    """Input -> its shape as the file declares it; see ``dimensions``"""
    impossible: str
    """Says which op cannot read what it is given at these sizes; "" where none is found."""
    opsets: Mapping[str, int]
    file: FileFacts
    own_notes: tuple[str, ...]
    """What is odd about the model itself"""
    incomplete: Mapping[str, int]
    """File of weights that was missing or cut short when the model was read -> bytes that it needs to have"""

    op_keys: tuple[str, ...]
    op_names: tuple[str, ...]
    op_modules: tuple[str, ...]
    """[op] path of the module that it comes from, with dots, or nothing where no exporter recorded it"""
    op_types: tuple[str, ...]
    op_domains: tuple[str, ...]
    op_attributes: tuple[Attributes, ...]
    op_is_atomic: Bools
    """[op] whether it has bodies (If, Loop, Scan), which are never cut"""
    op_is_constant: Bools
    """[op] whether it reads only constants and is cheap to repeat: it follows its consumers"""
    op_is_size: Bools
    """[op] whether it reads only a size that is fixed (see ``fixed_sizes``); such an op is constant"""
    op_reads: Rows
    op_inputs: Rows
    op_outputs: Rows
    order: Ints
    """A topological order of the ops; the order of the file where that is one."""

    tensor_names: tuple[str, ...]
    tensor_types: tuple[str, ...]
    tensor_shapes: tuple[Shape | None, ...]
    tensor_bytes: Ints
    tensor_kind: npt.NDArray[np.int8]
    tensor_producer: Ints
    """[tensor] op that produces it; -1 for inputs and initializers"""
    tensor_overridable: Bools
    """[tensor] whether it is an initializer that is also a graph input: a default that the caller may replace"""
    inputs: Ints
    outputs: Ints

    inner_ops: tuple[InnerOp, ...]

    key_index: Mapping[str, int] = field(repr=False, default_factory=dict)
    format: str = "onnx"
    """``openvino``: the model is made of OpenVINO's layers"""
    source: str = "onnx"
    """The format of the file: ``onnx``, ``openvino``, ``tflite``, ``tensorflow``, ``paddle`` or ``pytorch``"""
    op_layers: tuple[str, ...] = ()
    """[op] its type in the file, where that is not ONNX's name of it, which is in ``op_types``"""

    def __len__(self) -> int:
        return len(self.op_keys)

    @property
    def missing(self) -> dict[str, str]:
        """Files of weights that are missing or cut short now -> how a message names them; they may have come since."""
        return missing_of(self.folder, self.incomplete)

    @property
    def weights_problem(self) -> str:
        """Says which weights are missing now; "" where none are."""
        return not_here(list(self.missing.values()))

    @property
    def missing_note(self) -> str:
        """What missing weights mean for the plan; "" where none are."""
        problem = self.weights_problem
        return (
            problem
            and f"{problem}: the plan can be made, but nothing runs or is exported with its weights"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of the model where it is opened."""
        missing = self.missing_note
        way = f"{missing}; put the file beside the model, or upload both together"
        return (*self.own_notes, way) if missing else self.own_notes

    @property
    def is_onnx(self) -> bool:
        """Whether the ops are ONNX's, so that runtimes other than OpenVINO can be asked about them."""
        return self.format == "onnx"

    def __repr__(self) -> str:
        return f"<Graph {self.name!r}: {len(self)} ops, {len(self.tensor_names)} tensors>"

    @property
    def define_opened(self) -> dict[str, int]:
        """What is to be defined where the opened model is read: its chosen inputs are constants."""
        kept = {KEEP_FUNCTIONS: 1} if self.chosen.get(KEEP_FUNCTIONS) else {}
        return self.sizes | kept

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of dimensions: ``define`` without what was chosen."""
        return {name: size for name, size in self.define.items() if name not in self.chosen}

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """Names of the model's inputs."""
        return tuple(self.tensor_names[t] for t in self.inputs.tolist())

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """Names of the model's outputs."""
        return tuple(self.tensor_names[t] for t in self.outputs.tolist())

    @cached_property
    def tensor_index(self) -> Mapping[str, int]:
        """Tensor name -> index."""
        return {name: i for i, name in enumerate(self.tensor_names)}

    def inner_op(self, name: str) -> InnerOp | None:
        """The op in a body whose key or name this is."""
        return next((op for op in self.inner_ops if name and name in (op.key, op.name)), None)

    @cached_property
    def readers(self) -> Rows:
        """[tensor] ops that read it."""
        return self.op_reads.transposed(len(self.tensor_names))

    @cached_property
    def tensor_is_constant(self) -> Bools:
        """[tensor] whether it is an initializer or the output of a constant op."""
        has_producer = self.tensor_producer >= 0
        constant: Bools = self.tensor_kind == TensorKind.INITIALIZER
        constant[has_producer] |= self.op_is_constant[self.tensor_producer[has_producer]]
        return constant

    @cached_property
    def state_pairs(self) -> tuple[tuple[int, int], ...]:
        """Ops that read and that set the same state (OpenVINO's ReadValue and Assign): both are on one device."""
        found: dict[str, dict[str, int]] = {}
        for op, layer in enumerate(self.op_layers):
            if layer in ("ReadValue", "Assign"):
                name = dict(self.op_attributes[op]).get("variable_id", "")
                found.setdefault(name, {})[layer] = op
        pairs = (ops for ops in found.values() if len(ops) == 2)
        return tuple((ops["ReadValue"], ops["Assign"]) for ops in pairs)

    @cached_property
    def rank(self) -> Ints:
        """[op] position in the topological order."""
        rank = np.empty(len(self), np.int64)
        rank[self.order] = np.arange(len(self))
        return rank

    @cached_property
    def edges(self) -> tuple[Ints, Ints, Ints]:
        """(producer op, consumer op, tensor) for every read of another op's output."""
        consumer, tensor = self.op_reads.row_of_value, self.op_reads.values
        producer = self.tensor_producer[tensor]
        has_producer = producer >= 0
        return producer[has_producer], consumer[has_producer], tensor[has_producer]

    @cached_property
    def predecessors(self) -> Rows:
        """[op] ops that produce its inputs, without duplicates."""
        producer, consumer, _ = self.edges
        return _unique_rows(consumer, producer, len(self))

    @cached_property
    def successors(self) -> Rows:
        """[op] ops that read its outputs, without duplicates."""
        producer, consumer, _ = self.edges
        return _unique_rows(producer, consumer, len(self))

    def type_label(self, op: int) -> str:
        """Op type as the file has it, with the domain unless it is the default one."""
        if self.op_layers:
            return self.op_layers[op]
        domain = self.op_domains[op]
        return self.op_types[op] if domain in ("", "ai.onnx") else f"{domain}::{self.op_types[op]}"

    def display_name(self, op: int) -> str:
        """Name to display for an op: its name, else its key."""
        return self.op_names[op] or self.op_keys[op]

    def shape_label(self, tensor: int) -> str:
        """ "1x3x224x224", "scalar", "?" when the rank is unknown."""
        shape = self.tensor_shapes[tensor]
        if shape is None:
            return "?"
        return "x".join(map(str, shape)) if shape else "scalar"


def mask_of(count: int, where: Any) -> Bools:
    """[count] whether a place is one of some."""
    mask = np.zeros(count, bool)
    mask[where] = True
    return mask


def numbers_at(count: int, where: Any, numbers: Any) -> Ints:
    """[count] numbers at some places, and -1 at the others."""
    found = np.full(count, -1, np.int64)
    found[where] = numbers
    return found


def distinct(values: Ints) -> Ints:
    """Sorted distinct numbers. The first call of ``np.unique`` would import masked arrays, which takes 0.05 s."""
    if len(values) < 2:
        return values
    ordered: Ints = np.sort(values)
    result: Ints = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return result


def _unique_rows(rows: Ints, values: Ints, count: int) -> Rows:
    pairs = distinct(rows * count + values)
    ptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(pairs // max(count, 1), minlength=count), out=ptr[1:])
    return Rows(ptr, pairs % max(count, 1))


def cached_per_graph(
    function: Callable[Concatenate[Graph, P], R],
) -> Callable[Concatenate[Graph, P], R]:
    """Remembers what a function returns for a graph as long as the graph is in use; the result must not refer to the graph."""
    known: WeakKeyDictionary[Graph, dict[object, R]] = WeakKeyDictionary()

    @wraps(function)
    def cached(graph: Graph, /, *args: P.args, **kwargs: P.kwargs) -> R:
        results, key = known.setdefault(graph, {}), (args, tuple(kwargs.items()))
        if key not in results:
            results[key] = function(graph, *args, **kwargs)
        return results[key]

    return cached


@dataclass(frozen=True, eq=False)
class Body:
    """The ops of one body; those of bodies inside it are left out."""

    owner: int
    """The op of the main graph that it belongs to"""
    name: str
    """``body``, ``then_branch``"""
    around: int
    """Number of the body that it is in; -1 for one of an op of the main graph"""
    holder: int
    """Position in ``around`` of the op that has it; -1 for one of an op of the main graph"""
    ops: tuple[InnerOp, ...]
    source: Ints
    """[edge] position of the op that makes a tensor"""
    target: Ints
    """[edge] position of the op that reads it"""


@cached_per_graph
def bodies_of(graph: Graph) -> tuple[Body, ...]:
    """The bodies of a model, each before those inside it; a body is called by its number here."""
    found: list[Body] = []
    for owner, ops in groupby(graph.inner_ops, lambda op: op.owner):
        _add(found, owner, list(ops), 0, -1, -1)
    return tuple(found)


def bodies_in(graph: Graph, around: int, holder: int) -> list[int]:
    """Numbers of the bodies of an op: ``holder`` is its position in the body ``around``, or an op of the main graph for -1."""
    return [
        number
        for number, body in enumerate(bodies_of(graph))
        if body.around == around and (body.owner if around < 0 else body.holder) == holder
    ]


def _add(
    found: list[Body], owner: int, ops: Sequence[InnerOp], depth: int, around: int, holder: int
) -> None:
    """Adds the bodies that some ops, those in bodies inside them included, are in."""
    for name, group in groupby(ops, lambda op: op.body.split("/")[depth]):
        members = list(group)
        own = [i for i, op in enumerate(members) if op.body.count("/") == depth]
        mine = [members[i] for i in own]
        number = len(found)
        found.append(Body(owner, name, around, holder, tuple(mine), *_edges(mine)))
        ends = [*own[1:], len(members)]  # what is in the bodies of an op follows it
        for position, (begin, end) in enumerate(zip(own, ends, strict=True)):
            inside = members[begin + 1 : end]
            if inside:
                _add(found, owner, inside, depth + 1, number, position)


def _edges(ops: Sequence[InnerOp]) -> tuple[Ints, Ints]:
    made = {name: i for i, op in enumerate(ops) for name in op.writes}
    pairs: Iterator[tuple[int, int]] = (
        (made[name], i) for i, op in enumerate(ops) for name in op.reads if name in made
    )
    distinct = [pair for pair in dict.fromkeys(pairs) if pair[0] < pair[1]]
    return (
        np.array([a for a, _ in distinct], np.int64),
        np.array([b for _, b in distinct], np.int64),
    )
