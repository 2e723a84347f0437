"""Types and shapes of values: as ONNX infers them, with what ops compute; where it knows too little, ONNX Runtime is asked.

ONNX knows neither the ops that ONNX Runtime adds (``com.microsoft``, those of its optimiser, some of the default domain) nor
the results of a Loop. ONNX Runtime is asked about one op at a time, without weights, so that a model of any size needs little;
equal ops are asked about once. Bodies are followed. Ops that only read sizes which the inputs fix are constants.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import deepcopy
from itertools import count
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from editor import custom_ops
from editor.errors import ModelError
from editor.graph.attributes import bodies_of, captured_names, op_reads, put, rename_values
from editor.graph.graph import (
    Graph,
    Ints,
    Shape,
    element_name,
    make_value_info,
    shape_of,
    type_name,
    type_proto,
)
from editor.graph.static_values import EXACT_TYPES, ROOTS, StaticValues, fold_shapes, is_static
from editor.sandbox.watch import is_killable

Value = tuple[str, Shape | None]
"""Element type, "" where unknown, and shape."""
_UNKNOWN: Value = ("", None)
_ROUNDS = 6
"""Of asking and inferring: each lets shapes that ops compute depend on what was asked before."""
_SMALL_BYTES = 8192
_SILENT = 4
_LONGEST_LIST = 1 << 20
_LARGEST_RANK = 1 << 10
_LENGTH_IS_RANK = {"Reshape": 1, "Expand": 1, "Unsqueeze": 1, "ConstantOfShape": 0}
"""Ops whose result has as many dimensions as this operand has numbers."""
_FAILED = "shape inference failed"


class NeedsSandboxError(Exception):
    """The model is to be loaded in a process that may be killed."""


def infer_types(model: ModelProto, asker: Asker | None = None) -> tuple[dict[str, Value], str]:
    """Type and shape of every value of the main graph, and a note on faults; see ``_infer_shapes``.

    Args:
        model: nodes in topological order; data of large initializers may be missing.
        asker: what has been asked about this model before.

    Raises:
        NeedsSandboxError: ONNX Runtime is to be asked, and this process must outlive that.
    """
    values, note = _infer_shapes(model)
    if not any(_is_open(node, values) for node in model.graph.node):
        return values, note
    if not is_killable():
        raise NeedsSandboxError
    asker = asker or Asker(model)
    known: dict[str, Value] = {}
    for _ in range(_ROUNDS):
        found = _Answers(model, values, asker).found()
        if not found:
            break
        known |= found
        values, note = _infer_shapes(model, known)
    return values, note


def _infer_shapes(
    model: ModelProto, known: Mapping[str, Value] | None = None
) -> tuple[dict[str, Value], str]:
    """Type and shape of every value of the main graph, and a note that describes faults ("" when none).

    Declared shapes of internal tensors are used where inference from the inputs gives no result; where the two
    contradict each other, inference is right. Both give way to what is ``known`` of inner values.

    Raises:
        ModelError: an op would have a result of more dimensions than any tensor.
    """
    _check_ranks(model)
    known = known or {}
    declared = [v for v in model.graph.value_info if v.name not in known]
    model.graph.ClearField("value_info")
    model.graph.value_info.extend(make_value_info(name, *value) for name, value in known.items())
    values, note = _infer(model, known)
    if declared:
        wrong = {
            v.name
            for v in declared
            if _contradict(values.get(v.name), (type_name(v.type), shape_of(v.type)))
        }
        model.graph.value_info.extend(v for v in declared if v.name not in wrong)
        values, note = _infer(model, known)
        if wrong:
            note = (
                note
                or f"the file declares wrong shapes for {len(wrong)} tensors ({', '.join(sorted(wrong)[:3])}); ignored"
            )
    return (values, note) if note.startswith(_FAILED) else (fold_shapes(model, values), note)


def _infer(model: ModelProto, known: Mapping[str, Value]) -> tuple[dict[str, Value], str]:
    note = ""
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
        if not _has_long_lists(inferred):
            inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:  # noqa: BLE001  # the C++ library raises several unrelated types
        inferred, note = model, f"{_FAILED}: {str(error).strip().splitlines()[0][:200]}"
    values: dict[str, Value] = {}
    for value in (*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output):
        have = values.get(value.name)
        if have is None or have[1] is None or "?" in have[1]:
            values[value.name] = (type_name(value.type), shape_of(value.type))
    for name, right in known.items():
        have = values.get(name)
        if have is None or not have[0] or have[1] is None or _contradict(have, right):
            values[name] = right
    return values, note


def _check_ranks(model: ModelProto) -> None:
    """Refuses shapes of very many dimensions before ONNX makes each of them."""
    lengths = {
        v.name: v.type.tensor_type.shape.dim[0].dim_value
        for v in (*model.graph.input, *model.graph.value_info)
        if len(v.type.tensor_type.shape.dim) == 1
    }
    lengths |= {t.name: t.dims[0] for t in model.graph.initializer if len(t.dims) == 1}
    for node in model.graph.node:
        operand = _list_of_sizes(node)
        if lengths.get(operand, 0) > _LARGEST_RANK:
            name = node.name or ", ".join(node.output)
            raise ModelError(
                f"op {name!r} ({node.op_type}) takes a shape from {operand!r}, which is "
                f"{lengths[operand]} numbers long: no tensor has so many dimensions"
            )


def _list_of_sizes(node: NodeProto) -> str:
    """The operand of a node that has as many numbers as the result has dimensions, or ""."""
    place = _LENGTH_IS_RANK.get(node.op_type)
    return node.input[place] if place is not None and place < len(node.input) else ""


def _has_long_lists(model: ModelProto) -> bool:
    """Whether a tensor of one dimension is longer than any shape: ONNX would make a symbol for each of its elements."""
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    return any(
        len(dims := v.type.tensor_type.shape.dim) == 1 and dims[0].dim_value > _LONGEST_LIST
        for v in values
    )


def _contradict(inferred: Value | None, declared: Value) -> bool:
    if inferred is None or not inferred[0] or inferred[1] is None or declared[1] is None:
        return False
    if inferred[0] != declared[0] or len(inferred[1]) != len(declared[1]):
        return True
    return any(
        isinstance(a, int) and isinstance(b, int) and a != b
        for a, b in zip(inferred[1], declared[1], strict=True)
    )


def _is_open(node: NodeProto, values: Mapping[str, Value]) -> bool:
    """Whether ONNX does not know the op, or a type or a rank of its results."""
    return not onnx.defs.has(node.op_type, _domain(node)) or not all(
        _has_rank(values.get(name, _UNKNOWN)) for name in node.output if name
    )


def _domain(node: NodeProto) -> str:
    return "" if node.domain == "ai.onnx" else node.domain


def _has_rank(value: Value) -> bool:
    kind, shape = value
    return bool(kind) and (shape is not None or "(" in kind)


def _better(old: Value, new: Value) -> Value:
    """What is known of a value after ``new`` was found out, which wins where they contradict each other."""
    if not new[0] or (new[0] == old[0] and new[1] is None):
        return old
    if new[0] != old[0] or new[1] is None or old[1] is None or len(new[1]) != len(old[1]):
        return new
    pairs = zip(old[1], new[1], strict=True)
    return new[0], tuple(b if isinstance(b, int) or a == "?" else a for a, b in pairs)


def _joined(one: Value, other: Value) -> Value:
    """What holds of a value that is either."""
    if one[0] != other[0]:
        return _UNKNOWN
    if one[1] is None or other[1] is None or len(one[1]) != len(other[1]):
        return one[0], None
    return one[0], tuple(a if a == b else "?" for a, b in zip(one[1], other[1], strict=True))


class Asker:
    """Asks ONNX Runtime about ops of one model, about each kind once."""

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self._opsets = list(model.opset_import) or [helper.make_opsetid("", 1)]
        self._answers: dict[bytes, list[Value] | None] = {}

    def results(
        self, node: NodeProto, operands: Mapping[str, Value], constants: Mapping[str, TensorProto]
    ) -> list[Value] | None:
        """Types of the outputs that a node has; None where ONNX Runtime does not know the op, or refuses it."""
        graph, asked = GraphProto(name="types"), deepcopy(node)
        asked.name = asked.doc_string = ""
        asked.ClearField("metadata_props")
        captured = {name: name for name in captured_names(node)}
        own = {name: f"operand {i}" for i, name in enumerate(dict.fromkeys(node.input)) if name}
        for name, called in [*own.items(), *captured.items()]:
            if name in constants:
                graph.initializer.append(constants[name])
                graph.initializer[-1].name = called
            else:
                graph.input.append(make_value_info(called, *operands[name]))
        asked.input[:] = [own.get(name, "") for name in node.input]
        asked.output[:] = [f"result {i}" if name else "" for i, name in enumerate(node.output)]
        numbers = count()
        for body in bodies_of(asked):
            _lift_weights(body, graph, numbers)
        graph.node.append(asked)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in asked.output if name)
        model = ModelProto(ir_version=max(self.model.ir_version, 8), graph=graph)
        model.opset_import.extend(self._opsets)
        model.functions.extend(self.model.functions)
        key = model.SerializeToString(deterministic=True)
        if key not in self._answers:
            self._answers[key] = _asked(model)
        return self._answers[key]


def _lift_weights(body: GraphProto, outer: GraphProto, numbers: count[int]) -> None:
    """Makes weights of a body whose data is not here inputs around it; ONNX Runtime would read them."""
    renamed: dict[str, str] = {}
    kept = []
    for tensor in body.initializer:
        if tensor.data_location != TensorProto.EXTERNAL and tensor.ByteSize() > _least(tensor):
            kept.append(tensor)
            continue
        renamed[tensor.name] = f"weight {next(numbers)}"
        outer.input.append(
            make_value_info(
                renamed[tensor.name], element_name(tensor.data_type), tuple(tensor.dims)
            )
        )
    put(body.initializer, kept)
    rename_values(body, renamed)
    for node in body.node:
        for inner in bodies_of(node):
            _lift_weights(inner, outer, numbers)


def _least(tensor: TensorProto) -> int:
    """Bytes that a tensor takes without its data."""
    bare = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    bare.doc_string = tensor.doc_string
    return bare.ByteSize() if all(tensor.dims) else -1


def is_accepted(model: ModelProto) -> bool:
    """Whether ONNX Runtime makes a session of a model whose weights may be missing.

    Raises:
        NeedsSandboxError: as ``infer_types``.
    """
    if not is_killable():
        raise NeedsSandboxError
    asked = deepcopy(model)
    del asked.graph.initializer[:]
    for tensor in model.graph.initializer:
        if tensor.data_location != TensorProto.EXTERNAL and tensor.ByteSize() > _least(tensor):
            asked.graph.initializer.add().CopyFrom(tensor)
        elif all(value.name != tensor.name for value in asked.graph.input):
            kind = element_name(tensor.data_type)
            asked.graph.input.append(make_value_info(tensor.name, kind, tuple(tensor.dims)))
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SILENT
    try:
        onnxruntime.InferenceSession(
            asked.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception:  # noqa: BLE001  # ONNX Runtime's errors have no base class of their own
        return False
    return True


def _asked(model: ModelProto) -> list[Value] | None:
    try:
        answers = _types(model)
    except Exception:  # noqa: BLE001  # ONNX Runtime's errors have no base class of their own
        return None
    scalars = [name for name, (kind, shape) in answers.items() if "(" not in kind and shape == ()]
    if scalars:  # or of unknown rank: both are written as []
        ranks = [f"rank of {name}" for name in scalars]
        shaped = deepcopy(model)
        shaped.graph.node.extend(
            helper.make_node("Shape", [name], [rank])
            for name, rank in zip(scalars, ranks, strict=True)
        )
        shaped.graph.output.extend(onnx.ValueInfoProto(name=rank) for rank in ranks)
        if not any(o.domain in ("", "ai.onnx") for o in shaped.opset_import):
            shaped.opset_import.append(helper.make_opsetid("", 21))
        try:
            lengths = _types(shaped)
        except Exception:  # noqa: BLE001  # as above
            lengths = {}
        for name, rank in zip(scalars, ranks, strict=True):
            if lengths.get(rank, _UNKNOWN)[1] != (0,):
                answers[name] = (answers[name][0], None)
    return [answers[name] for name in model.graph.node[0].output if name]


def _types(model: ModelProto) -> dict[str, Value]:
    """Output -> its type as ONNX Runtime reads the model; it looks up no kernels, so ops of all providers have types."""
    import onnxruntime  # most models need no answer
    from onnxruntime.capi import _pybind_state

    onnxruntime.set_default_logger_severity(_SILENT)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SILENT
    custom_ops.register(options, model.opset_import)
    session: Any = _pybind_state.InferenceSession(options, model.SerializeToString(), False, True)
    return {
        output.name: _value(output.name, output.type, output.shape)
        for output in session.outputs_meta
    }


def _value(name: str, text: str, dims: list[int | str | None]) -> Value:
    kind = type_name(type_proto(text))
    if "(" in kind:
        return kind, None
    return kind, shape_of(
        make_value_info(name, kind, tuple("?" if d is None else d for d in dims)).type
    )


class _Answers:
    """One walk over the nodes of a model."""

    def __init__(self, model: ModelProto, values: Mapping[str, Value], asker: Asker) -> None:
        self.model, self.asker = model, asker
        self.now = dict(values)
        replaceable = {value.name for value in model.graph.input}
        self.constants: dict[str, TensorProto] = {}
        for tensor in model.graph.initializer:
            self.now[tensor.name] = (element_name(tensor.data_type), tuple(tensor.dims))
            if tensor.name not in replaceable:
                self._add_constant(tensor.name, tensor)
        for sparse in model.graph.sparse_initializer:
            kind = element_name(sparse.values.data_type)
            self.now.setdefault(sparse.values.name, (kind, tuple(sparse.dims)))
        for node in model.graph.node:
            if node.op_type == "Constant" and node.output:
                for attribute in node.attribute:
                    if attribute.name == "value":
                        self._add_constant(node.output[0], attribute.t)

    def _add_constant(self, name: str, tensor: TensorProto) -> None:
        is_here = tensor.data_location != TensorProto.EXTERNAL
        if is_here and _least(tensor) < tensor.ByteSize() <= _SMALL_BYTES:
            self.constants[name] = tensor

    def found(self) -> dict[str, Value]:
        """What is better known now."""
        found: dict[str, Value] = {}
        needed = self._needed()
        static = StaticValues(self.model, self.now, dict(self.constants), EXACT_TYPES)
        for node in self.model.graph.node:
            improves = not found.keys().isdisjoint(node.input) and not all(
                is_static(self.now.get(name)) for name in node.output if name
            )
            if improves or _is_open(node, self.now):
                for name, value in self._answers(node).items():
                    self.now[name] = found[name] = value
            if not needed.isdisjoint(node.output) and (array := static.compute(node)) is not None:
                self.constants[node.output[0]] = numpy_helper.from_array(array, node.output[0])
        return found

    def _answers(self, node: NodeProto) -> dict[str, Value]:
        """What is better known of the results of a node."""
        names = [name for name in node.output if name]
        found = {}
        for name, new in zip(names, self._results(node) or (), strict=False):
            old = self.now.get(name, _UNKNOWN)
            if (better := _better(old, new)) != old:
                found[name] = better
        return found

    def _needed(self) -> set[str]:
        """Tensors whose values may decide what the ops that ONNX does not know return."""
        needed: set[str] = set()
        for node in reversed(self.model.graph.node):
            if _is_open(node, self.now) or not needed.isdisjoint(node.output):
                needed.update(node.input)
        return needed

    def _results(self, node: NodeProto) -> list[Value] | None:
        if not all(self.now.get(name, _UNKNOWN)[0] for name in op_reads(node)):
            return None
        if not _domain(node) and node.op_type == "If":
            return self._results_of_if(node)
        if not _domain(node) and node.op_type == "Loop":
            return self._results_of_loop(node)
        length = (self.now.get(_list_of_sizes(node), _UNKNOWN)[1] or (0,))[0]
        if isinstance(length, int) and length > _LARGEST_RANK:
            return None  # ONNX Runtime would make each of the dimensions
        return self.asker.results(node, self.now, self.constants)

    def _results_of_if(self, node: NodeProto) -> list[Value] | None:
        found = [self._results_of_body(body, []) for body in bodies_of(node)]
        if (
            len(found) != 2
            or found[0] is None
            or found[1] is None
            or len(found[0]) != len(found[1])
        ):
            return None  # loading says what is wrong with it
        return [_joined(a, b) for a, b in zip(found[0], found[1], strict=True)]

    def _results_of_loop(self, node: NodeProto) -> list[Value] | None:
        """Shapes of what a Loop carries: those that its body turns into themselves."""
        bodies = list(bodies_of(node))
        carried = [self.now.get(name, _UNKNOWN) for name in node.input[2:]]
        if len(bodies) != 1 or not all(kind for kind, _ in carried):
            return None
        body = bodies[0]
        if len(body.input) != 2 + len(carried) or len(body.output) < 1 + len(carried):
            return None
        scanned: list[Value] = []
        for _ in range(2 + sum(len(shape or ()) + 1 for _, shape in carried)):
            results = self._results_of_body(body, [("int64", ()), ("bool", ()), *carried])
            if results is None:
                return None
            results = results[1:]
            scanned = results[len(carried) :]
            after = [_joined(a, b) for a, b in zip(carried, results, strict=False)]
            if after == carried:
                break
            carried = after
            if not all(kind for kind, _ in carried):
                return None  # it carries values of several types
        stacked = [
            (kind, None if shape is None or not kind else ("?", *shape)) for kind, shape in scanned
        ]
        results = [*carried, *stacked]
        return [value for name, value in zip(node.output, results, strict=False) if name]

    def _results_of_body(self, body: GraphProto, inputs: list[Value]) -> list[Value] | None:
        """Types of the outputs of a body; None where it has other inputs, or reads a value of no known type."""
        if len(body.input) != len(inputs):
            return None
        graph = GraphProto(name=body.name or "body")
        graph.node.extend(body.node)
        graph.initializer.extend(body.initializer)
        graph.sparse_initializer.extend(body.sparse_initializer)
        graph.input.extend(
            make_value_info(value.name, *known)
            for value, known in zip(body.input, inputs, strict=True)
        )
        for name in captured_names(helper.make_node("If", [], [], body=body)):
            if name in self.constants:
                graph.initializer.append(self.constants[name])
                graph.initializer[-1].name = name
            elif (known := self.now.get(name, _UNKNOWN))[0]:
                graph.input.append(make_value_info(name, *known))
            else:
                return None
        graph.output.extend(onnx.ValueInfoProto(name=value.name) for value in body.output)
        model = ModelProto(ir_version=max(self.model.ir_version, 8), graph=graph)
        model.opset_import.extend(self.model.opset_import)
        model.functions.extend(self.model.functions)
        values, _ = infer_types(model, self.asker)
        values |= {t.name: (element_name(t.data_type), tuple(t.dims)) for t in graph.initializer}
        return [values.get(value.name, _UNKNOWN) for value in body.output]


def fixed_sizes(model: ModelProto, replaceable: Collection[str]) -> set[str]:
    """Outputs of ops that read only sizes, where these follow from the sizes of the model's inputs: they are constants.

    Exporters compute the targets of a Reshape from ``Shape`` ops. Once the sizes of the inputs are fixed, these ops read
    nothing, and what is computed from their results is constant: ONNX Runtime and OpenVINO evaluate it when they load the
    model. Placed as work, such a chain of small integers makes a transfer of the whole tensor, and falls off every accelerator.

    Args:
        model: nodes in topological order; what it declares of other tensors than inputs is not relied on, it may be wrong.
        replaceable: initializers that a run may replace.
    """
    readers = [
        node
        for node in model.graph.node
        if _reads_a_size(node) and node.input[0] not in replaceable
    ]
    if not readers:
        return set()
    undeclared = ModelProto()
    undeclared.CopyFrom(model)
    undeclared.graph.ClearField("value_info")
    for output in undeclared.graph.output:
        output.ClearField("type")
    inferred, _ = infer_types(undeclared)
    sizes = {t.name for t in model.graph.initializer}
    return {
        node.output[0]
        for node in readers
        if node.input[0] in sizes or is_static(inferred.get(node.input[0]))
    }


def _reads_a_size(node: NodeProto) -> bool:
    return (
        node.op_type in ROOTS
        and node.domain in ("", "ai.onnx")
        and len(node.input) == 1
        and len(node.output) == 1
        and bool(node.input[0] and node.output[0])
    )


def size_of(graph: Graph, source: ModelProto, op: int) -> Ints:
    """The result of an op that reads a fixed size (``Graph.op_is_size``)."""
    node = source.graph.node[op]
    sizes = np.array(graph.tensor_shapes[int(graph.op_inputs[op][0])], np.int64)
    if node.op_type == "Size":
        return np.array(prod(sizes.tolist()), np.int64)
    ends = {a.name: a.i for a in node.attribute}
    return sizes[ends.get("start", 0) : ends.get("end", len(sizes))]


def node_of(graph: Graph, source: ModelProto, op: int) -> NodeProto:
    """The node of an op in the model file, or a Constant in place of one that reads a fixed size."""
    node: NodeProto = source.graph.node[op]
    if graph.op_is_size[op]:
        value = numpy_helper.from_array(size_of(graph, source, op))
        node = helper.make_node("Constant", [], [node.output[0]], node.name, value=value)
    return node
