"""What the documents of a device say that it takes: ops with conditions, element types, static sizes.

A device table states it, often through a preset. Every op that it leaves out gets a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from editor.devices.expressions import Expression
from editor.devices.op_fields import OpFields
from editor.devices.vocabulary import OpName, op_name
from editor.graph.graph import Graph, Ints
from editor.graph.types import bits_of

ASSUMABLE = ("int8", "uint8", "int16", "uint16", "float16", "bfloat16")
"""Types to plan a float model in; the first of those that a device takes is proposed."""
FLOATS = ("float32", "float64", "float16", "bfloat16")
_KEEP_TYPE = frozenset({"Relu", "Clip"})
"""Ops between a quantised op and its QuantizeLinear, which compilers fuse."""


@dataclass(frozen=True)
class Supported:
    """One entry of ``supported``: an op name, perhaps under a condition."""

    name: str
    where: Expression | None = None
    reason: str = ""
    """Why ops outside the condition are refused; the condition itself by default."""

    @property
    def meaning(self) -> OpName:
        """The op types that the name stands for."""
        domain, separator, op_type = self.name.partition("::")
        found = None if separator else op_name(self.name)
        return found or OpName(frozenset({op_type or domain}))

    def names(self, graph: Graph, op: int) -> bool:
        """Whether an op has this name, in the domain that it states."""
        domain = self.name.partition("::")[0] if "::" in self.name else ""
        return graph.op_domains[op] in (domain, domain or "ai.onnx") and self.meaning.matches(graph, op)

    def need(self, fields: OpFields) -> str:
        """What an op lacks; "" when the condition holds."""
        missing = self.where.failing(fields) if self.where is not None else ""
        return missing and (self.reason or missing)


@dataclass(frozen=True)
class Published:
    """The published limits of a device."""

    supported: tuple[Supported, ...] = ()
    """Empty: no list is published."""
    dtypes: tuple[str, ...] = ()
    static: bool = False
    assumes: str = ""
    """Element type that float tensors are planned with, as if the model had been converted to it."""
    source: str = ""
    published: str = ""
    preset: str = ""

    @property
    def restricts(self) -> bool:
        """Whether any op may be refused."""
        return bool(self.supported or self.dtypes or self.static)

    @property
    def note(self) -> str:
        """For people: preset and assumption."""
        parts = [f"preset {self.preset}" if self.preset else "", f"as if {self.assumes}" if self.assumes else ""]
        return ", ".join(part for part in parts if part)

    def refusals(self, graph: Graph) -> tuple[str, ...]:
        """[op] why the device does not take it; "" where it does. Constants are folded and never refused."""
        if not self.restricts:
            return ("",) * len(graph)
        types = effective_types(graph, self.assumes)
        return tuple("" if graph.op_is_constant[op] else self._refusal(graph, op, types) for op in range(len(graph)))

    def _refusal(self, graph: Graph, op: int, types: Sequence[str]) -> str:
        named = [entry for entry in self.supported if entry.names(graph, op)]
        if self.supported and not named:
            return f"{graph.type_label(op)} is not in the published list{self._link}"
        fields = OpFields(graph, op, types)
        dtype = _dtype(graph, op, types)
        if self.dtypes and dtype and dtype not in self.dtypes:
            return f"{dtype}; this device takes {_or(self.dtypes)}{self._way_out(dtype)}"
        if self.static and (tensor := _open_tensor(graph, op)) >= 0:
            return f"the size of {graph.tensor_names[tensor]!r} ({graph.shape_label(tensor)}) is not fixed before a run; " \
                   f"this device takes static sizes"
        needs = [entry.need(fields) for entry in named]
        if named and all(needs):
            needed = " or ".join(dict.fromkeys(needs))
            said = any(entry.reason == need for entry, need in zip(named, needs, strict=True))
            return f"{graph.type_label(op)}: {needed}{'' if said else ' is needed here'}{self._link}"
        return ""

    def _way_out(self, dtype: str) -> str:
        possible = [] if self.assumes or dtype not in FLOATS else [t for t in self.dtypes if t in ASSUMABLE]
        return f"; “assumes: {possible[0]}” plans the model as if it were converted" if possible else ""

    @property
    def _link(self) -> str:
        return f" ({self.source})" if self.source else ""


def _or(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " or " + names[-1] if len(names) > 1 else names[0]


def _dtype(graph: Graph, op: int, types: Sequence[str]) -> str:
    """Element type of the first input, or of the output of an op without inputs."""
    tensors = [t for t in (*graph.op_inputs[op].tolist(), *graph.op_outputs[op].tolist()) if t >= 0]
    return types[tensors[0]] if tensors else ""


def _open_tensor(graph: Graph, op: int) -> int:
    """A tensor of the op whose size is not known; -1 when there is none."""
    for tensor in (*graph.op_reads[op].tolist(), *graph.op_outputs[op].tolist()):
        shape = graph.tensor_shapes[tensor] if tensor >= 0 else ()
        if shape is None or any(not isinstance(d, int) for d in shape):
            return int(tensor)
    return -1


def effective_types(graph: Graph, assumes: str = "") -> list[str]:
    """[tensor] element type that a compiler sees.

    A float tensor that comes from DequantizeLinear, or goes into QuantizeLinear only, stands for quantised values (the QDQ
    form of a quantised model). ``assumes`` replaces the other float types.
    """
    types = list(graph.tensor_types)
    for op in graph.order.tolist():
        if graph.op_types[op] == "DequantizeLinear":
            types[graph.op_outputs[op][0]] = types[graph.op_inputs[op][0]]
    for op in graph.order.tolist()[::-1]:
        for tensor in graph.op_inputs[op].tolist()[:1]:
            readers = graph.readers[tensor].tolist() if tensor >= 0 else []
            ends = {_read_as(graph, reader, types) for reader in readers}
            if len(ends) == 1 and "" not in ends and types[tensor] in FLOATS:
                types[tensor] = ends.pop()
    return [assumes if assumes and t in FLOATS else t for t in types]


def _read_as(graph: Graph, op: int, types: Sequence[str]) -> str:
    """The quantised type that an op gives to what it reads; "" when it does not."""
    result = [int(t) for t in graph.op_outputs[op].tolist()[:1]]
    if not result:
        return ""
    fused = graph.op_types[op] in _KEEP_TYPE and types[result[0]] not in FLOATS
    return types[result[0]] if fused or graph.op_types[op] == "QuantizeLinear" else ""


_sizes: WeakKeyDictionary[Graph, dict[str, Ints]] = WeakKeyDictionary()


def assumed_bytes(graph: Graph, assumes: str) -> Ints:
    """[tensor] bytes on a device that plans float tensors as ``assumes``; negative where unknown. Cached per graph."""
    if not assumes:
        return graph.tensor_bytes
    cache = _sizes.setdefault(graph, {})
    if assumes not in cache:
        sizes = graph.tensor_bytes.copy()
        for tensor in np.flatnonzero(sizes > 0).tolist():
            if graph.tensor_types[tensor] in FLOATS:
                bits = bits_of(graph.tensor_types[tensor])
                sizes[tensor] = sizes[tensor] * bits_of(assumes) // bits
        cache[assumes] = sizes
    return cache[assumes]
