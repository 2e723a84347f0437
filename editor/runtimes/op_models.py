"""Makes small models of single ops."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import onnx
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    ValueInfoProto,
    helper,
)

from editor.errors import ModelError
from editor.graph.attributes import bodies_of, captured_names, put
from editor.graph.external_data import is_external, load_tensor
from editor.graph.graph import (
    Bools,
    Graph,
    byte_size,
    element_name,
    element_type,
    make_value_info,
    mask_of,
)
from editor.graph.kept_values import fitting_constants, keeps_values
from editor.graph.model_file import KEPT_TENSOR_BYTES, drop_weights, read_again

MAX_IR_VERSION = 13
"""The newest that ONNX Runtime 1.31 and OpenVINO 2026.4 accept."""
_MAX_FILL_BYTES = 64 << 20
_FILLABLE = {"float32", "float16", "float64", "int8", "uint8", "bool"}

T = TypeVar("T")
Signature = tuple[object, ...]
Check = Callable[[ModelProto], str]
"""Returns "" when the runtime runs every node of a model, else the reason."""


@dataclass(frozen=True, eq=False)
class Group:
    """Ops that look the same to a runtime."""

    ops: list[int]
    example: int


def part_of(source: ModelProto, graph: GraphProto, oldest: int = 8) -> ModelProto:
    """A model of a part of another one, with the versions of that; its IR version is ``oldest`` at least."""
    version = min(max(source.ir_version, oldest), MAX_IR_VERSION)
    model = ModelProto(ir_version=version, graph=graph)
    model.opset_import.extend(source.opset_import)
    return model


def small_model(
    nodes: Sequence[NodeProto],
    shape: Sequence[int],
    ends: tuple[str, str] = ("x", "y"),
    opsets: Sequence[OperatorSetIdProto] = (),
) -> ModelProto:
    """A model with one input and one output, ``ends``, of float32 and one shape; ``opsets`` beside ONNX's own."""
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ends]
    graph = helper.make_graph(nodes, "small", info[:1], info[1:])
    versions = [helper.make_opsetid("", 17), *opsets]
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


def ask(graph: Graph, check: Check) -> tuple[str, ...]:
    """Per op of the graph: "" when the runtime can run it, else why not."""
    probe = ProbeModels.of(graph)
    reasons, groups = probe.sound_groups()
    failed = failures(
        groups, lambda subset: check(probe.model([group.example for group in subset]))
    )
    for group, reason in failed:
        for op in group.ops:
            reasons[op] = reason
    return tuple(reasons)


def _wrong_operands(node: NodeProto, opset: int) -> str:
    """Returns the fault in the number of operands of an op of ONNX: OpenVINO crashes when there are too few."""
    try:
        schema = (
            onnx.defs.get_schema(node.op_type, opset, "")
            if node.domain in ("", "ai.onnx")
            else None
        )
    except onnx.defs.SchemaError:
        schema = None
    if schema is None or (
        schema.min_input <= len(node.input) <= schema.max_input
        and schema.min_output <= len(node.output) <= schema.max_output
        and all(
            name or parameter.option != onnx.defs.OpSchema.FormalParameterOption.Single
            for name, parameter in zip(node.input, schema.inputs, strict=False)
        )
    ):
        return ""
    return f"{node.op_type} has the wrong number of inputs or outputs ({len(node.input)} and {len(node.output)})"


def failures(items: Sequence[T], check: Callable[[Sequence[T]], str]) -> list[tuple[T, str]]:
    """What fails a check, with the reason: items are checked together, and halved until the culprits are alone."""
    found: list[tuple[T, str]] = []
    stack = [items] if items else []
    while stack:
        subset = stack.pop()
        reason = check(subset)
        if reason and len(subset) == 1:
            found.append((subset[0], reason))
        elif reason:
            stack += [subset[len(subset) // 2 :], subset[: len(subset) // 2]]
    return found


class ProbeModels:
    """Models of single ops of a graph."""

    @classmethod
    def of(cls, graph: Graph) -> ProbeModels:
        """Reads the model file, without its weights."""
        source = read_again(graph)
        kept = keeps_values(graph, fitting_constants(source))
        _fill_bodies(source, graph)
        drop_weights(source, bodies=False)
        return cls(graph, source, kept)

    def __init__(self, graph: Graph, source: ModelProto, kept: Bools) -> None:
        self.graph, self.source, self.kept = graph, source, kept
        self.is_output = mask_of(len(graph.tensor_names), graph.outputs)
        self.values: dict[str, TensorProto] = {t.name: t for t in source.graph.initializer}
        for node in source.graph.node:
            if node.op_type == "Constant" and node.output:
                for attribute in node.attribute:
                    if attribute.name == "value":
                        self.values[node.output[0]] = attribute.t

    def sound_groups(self, any_rank: bool = True) -> tuple[list[str], list[Group]]:
        """[op] what is wrong with its operands, or ""; and the groups of the others.

        Args:
            any_rank: whether to ask about ops that read a tensor of an unknown number of dimensions.
        """
        reasons, groups = self._unknown_operands(any_rank), []
        for group in self.groups():
            if reasons[group.example]:  # the ops of a group have operands of equal types and shapes
                continue
            fault = _wrong_operands(
                self.source.graph.node[group.example], self.graph.opsets.get("ai.onnx", 0)
            )
            if not fault:
                groups.append(group)
                continue
            for op in group.ops:
                reasons[op] = fault
        return reasons, groups

    def _unknown_operands(self, any_rank: bool) -> list[str]:
        """[op] which operand is not known well enough to ask about the op; ""."""
        graph = self.graph
        unknown = [
            "the type of {!r} is not known"
            if not kind
            else "the number of dimensions of {!r} is not known"
            if shape is None and "(" not in kind and not any_rank
            else ""
            for kind, shape in zip(graph.tensor_types, graph.tensor_shapes, strict=True)
        ]
        reasons = []
        for op in range(len(graph)):
            first = next((t for t in graph.op_reads[op].tolist() if unknown[t]), -1)
            text = unknown[first].format(graph.tensor_names[first]) if first >= 0 else ""
            reasons.append(text and f"not asked: {text}")
        return reasons

    def key(self, op: int) -> str:
        """A hash that equal ops of other models have as well."""
        data = self.model([op], "").SerializeToString(deterministic=True)
        return hashlib.sha256(data + bytes([int(self.kept[op])])).hexdigest()[:32]

    def groups(self) -> list[Group]:
        """Ops by signature; ops with an operand of unknown type cannot be probed and are omitted."""
        groups: dict[Signature, Group] = {}
        operands = [self._operand(t) for t in range(len(self.graph.tensor_names))]
        known = [bool(kind) for kind in self.graph.tensor_types]
        for op in range(len(self.graph)):
            if not all(known[t] for t in self.graph.op_reads[op].tolist()):
                continue
            node = self.source.graph.node[op]
            attributes = tuple([a.SerializeToString(deterministic=True) for a in node.attribute])
            arguments = tuple(
                [operands[t] if t >= 0 else None for t in self.graph.op_inputs[op].tolist()]
            )
            results = tuple(
                [(r >= 0, self._is_read(r)) for r in self.graph.op_outputs[op].tolist()]
            )
            signature = (
                *(node.op_type, node.domain, node.overload),
                *(attributes, arguments, results, bool(self.kept[op])),
            )
            groups.setdefault(signature, Group([], op)).ops.append(op)
        return list(groups.values())

    def _is_read(self, tensor: int) -> bool:
        return tensor >= 0 and bool(self.is_output[tensor] or len(self.graph.readers[tensor]))

    def _operand(self, tensor: int) -> tuple[object, ...]:
        """What a runtime sees of a tensor that an op reads."""
        value = self._small_value(tensor)
        return (
            self.graph.tensor_types[tensor],
            self.graph.tensor_shapes[tensor],
            None if value is None else data_of(value),
            bool(self.graph.tensor_is_constant[tensor]),
        )

    def _small_value(self, tensor: int) -> TensorProto | None:
        value = self.values.get(self.graph.tensor_names[tensor])
        return value if value is not None and _has_data(value) else None

    def model(self, ops: list[int], tag: str | None = None) -> ModelProto:
        """A model with one free-standing node for each op; the nodes are named by op number, or by a tag instead."""
        source, graph = self.source, GraphProto(name="probe")
        declared: set[str] = set()
        for op in ops:
            self._add_node(graph, op, declared, str(op) if tag is None else tag)
        model = part_of(source, graph)
        if not any(o.domain in ("", "ai.onnx") for o in model.opset_import):
            model.opset_import.append(helper.make_opsetid("", 21))
        model.functions.extend(source.functions)
        return model

    def _add_node(self, graph: GraphProto, op: int, declared: set[str], tag: str) -> None:
        original = self.source.graph.node[op]
        node = deepcopy(original)
        node.ClearField("input")
        node.ClearField("output")
        node.name = f"op{tag}"
        named: dict[int, str] = {}
        # A runtime would evaluate an op of constants during the query: OpenVINO takes 20 s for a bicubic Resize.
        as_inputs = bool(self.graph.tensor_is_constant[self.graph.op_reads[op]].all())
        for position, tensor in enumerate(self.graph.op_inputs[op].tolist()):
            if tensor >= 0 and tensor not in named:
                named[tensor] = f"p{tag}_{position}"
                self._declare(graph, tensor, named[tensor], as_inputs)
            node.input.append(named[tensor] if tensor >= 0 else "")
        for name in captured_names(original):
            if name not in declared:
                declared.add(name)
                self._declare(graph, self.graph.tensor_index[name], name, as_inputs)
        results = self.graph.op_outputs[op].tolist()
        # A cut asks for what is read; OpenVINO computes a BatchNormalization in training by which outputs that are.
        read = [t for t in results if self._is_read(t)] or results
        for position, tensor in enumerate(results):
            name = f"p{tag}_out{position}" if tensor >= 0 else ""
            node.output.append(name)
            if name and tensor in read:
                kind = self.graph.tensor_types[tensor]
                graph.output.append(
                    self._value_info(tensor, name) if kind else ValueInfoProto(name=name)
                )
        graph.node.append(node)

    def _declare(self, graph: GraphProto, tensor: int, name: str, as_input: bool) -> None:
        """Makes an operand available: its small value, a filled constant like the real one, or a graph input."""
        value = self._small_value(tensor)
        shape, kind = self.graph.tensor_shapes[tensor], self.graph.tensor_types[tensor]
        if value is not None:
            copy = graph.initializer.add()
            copy.CopyFrom(value)
            copy.name = name
        elif (
            not as_input
            and self.graph.tensor_is_constant[tensor]
            and shape is not None
            and all(isinstance(d, int) for d in shape)
            and kind in _FILLABLE
            and 0 <= self.graph.tensor_bytes[tensor] <= _MAX_FILL_BYTES
            and self.graph.opsets.get("ai.onnx", 0) >= 9
        ):
            dims, ones = _ones(name, element_type(kind), [d for d in shape if isinstance(d, int)])
            graph.initializer.append(dims)
            graph.node.append(ones)
        else:
            graph.input.append(self._value_info(tensor, name))

    def _value_info(self, tensor: int, name: str) -> ValueInfoProto:
        kind, shape = self.graph.tensor_types[tensor], self.graph.tensor_shapes[tensor]
        return make_value_info(name, kind, shape)


def _ones(name: str, kind: int, shape: Sequence[int]) -> tuple[TensorProto, NodeProto]:
    """The size of a tensor of ones, and the node that computes it."""
    dims = helper.make_tensor(f"{name}_dims", TensorProto.INT64, [len(shape)], shape)
    fill = helper.make_tensor("value", kind, [1], [1])
    return dims, helper.make_node("ConstantOfShape", [dims.name], [name], value=fill)


def _fill_bodies(model: ModelProto, graph: Graph) -> None:
    """Replaces large weights in bodies and functions by ones, in place; a model of one op has no file beside it.

    Weights that cannot be replaced so are read into the model.
    """
    fills = graph.opsets.get("ai.onnx", 0) >= 9

    def is_large(tensor: TensorProto) -> bool:
        return is_external(tensor) or tensor.ByteSize() > KEPT_TENSOR_BYTES

    def nodes_for(name: str, tensor: TensorProto) -> list[NodeProto]:
        kind = element_name(tensor.data_type)
        if fills and kind in _FILLABLE and byte_size(kind, tuple(tensor.dims)) <= _MAX_FILL_BYTES:
            dims, ones = _ones(name, tensor.data_type, tensor.dims)
            return [helper.make_node("Constant", [], [dims.name], value=dims), ones]
        if is_external(tensor):
            with suppress(ModelError):  # a model may be planned without its weights
                load_tensor(tensor, graph.folder)
        return []

    def fill(owner: GraphProto | FunctionProto) -> None:
        nodes: list[NodeProto] = []
        if isinstance(owner, GraphProto):
            kept = []
            for tensor in owner.initializer:
                made = nodes_for(tensor.name, tensor) if is_large(tensor) else []
                nodes += made
                kept += [] if made else [tensor]
            put(owner.initializer, kept)
        for node in owner.node:
            value = next(
                (a.t for a in node.attribute if a.name == "value" and a.HasField("t")), None
            )
            made = []
            if node.op_type == "Constant" and node.output and value is not None and is_large(value):
                made = nodes_for(node.output[0], value)
            nodes += made or [node]
            for body in bodies_of(node):
                fill(body)
        put(owner.node, nodes)

    for node in model.graph.node:
        for body in bodies_of(node):
            fill(body)
    for function in model.functions:
        fill(function)


def _has_data(tensor: TensorProto) -> bool:
    if tensor.data_location == TensorProto.EXTERNAL:
        return False
    return bool(data_of(tensor)) or 0 in tensor.dims


def data_of(tensor: TensorProto) -> bytes:
    """The values that a tensor holds itself, as bytes."""
    if tensor.HasField("raw_data"):
        return tensor.raw_data
    for field in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
        values = getattr(tensor, field)
        if len(values):
            return np.asarray(values).tobytes()
    return b"\0".join(tensor.string_data)
