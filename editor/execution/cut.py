"""Cuts a model into sub-models: one self-contained ONNX model per subgraph, with constants evaluated before.

Tensor names identify values. Nodes are renamed to be unique, because ONNX Runtime refuses duplicate
names that the ONNX checker accepts.

Sizes may stay open, so that one compiled plan runs a prompt and then token after token. The plan is of one set of sizes, and
its ops on sizes are constants. With open sizes they are nodes as in the file: a subgraph that needs one reads the tensor whose
size it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from editor.errors import ExecutionError, ModelError
from editor.graph.attributes import op_reads
from editor.graph.dimensions import bind_sizes
from editor.graph.external_data import weights_problem
from editor.graph.graph import Bools, Graph, Ints, TensorKind, make_value_info, type_proto
from editor.graph.inference import node_of, size_of
from editor.graph.loading import load_model
from editor.graph.model_file import read_again
from editor.graph.openvino_ir import declared_values, is_kept_alive
from editor.graph.static_values import EXACT_TYPES, StaticValues, read_by
from editor.placement.placement import Placement
from editor.placement.subgraphs.division import Subgraph
from editor.runtimes.base import SubModel
from editor.runtimes.onnxruntime.options import evaluate, output_types, reason_of
from editor.runtimes.op_models import part_of

MAX_FOLDED_BYTES = 1 << 30
"""Larger constants stay ops, which each runtime evaluates."""


def fold_constants(
    graph: Graph, source: ModelProto, overridden: Iterable[str] = ()
) -> tuple[frozenset[int], dict[str, TensorProto]]:
    """Constant ops that need not run, and the values of their outputs that other ops read.

    Both are empty when the values are too large or of unknown size, or ONNX Runtime cannot evaluate them;
    then the ops stay in every subgraph that reads them.

    Args:
        graph: the model.
        source: the parsed model file.
        overridden: initializers that each run may replace; ops that depend on them are not folded.
    """
    if not graph.is_onnx:
        return _fold_sizes(graph, source)
    ops = _ops(graph, overridden)
    outputs = _outputs_of(graph, ops)
    sizes = graph.tensor_bytes[[t for op in ops for t in graph.op_outputs[op].tolist() if t >= 0]]
    if not outputs or (sizes < 0).any() or int(sizes.sum()) > MAX_FOLDED_BYTES:
        return frozenset(), {}
    known = {
        graph.tensor_names[int(graph.op_outputs[op][0])]: size_of(graph, source, op)
        for op in ops
        if graph.op_is_size[op]
    }
    computed = [name for name in outputs if name not in known]
    model = _model_of(
        graph, source, [op for op in ops if not graph.op_is_size[op]], computed, known
    )
    try:
        values = evaluate(model, computed, graph.folder, known) if computed else []
    except Exception:  # noqa: BLE001  # the runtimes then evaluate the ops, and report a real fault
        return frozenset(), {}
    results = {**known, **dict(zip(computed, values, strict=True))}
    return frozenset(ops), {name: numpy_helper.from_array(results[name], name) for name in outputs}


def _fold_sizes(graph: Graph, source: ModelProto) -> tuple[frozenset[int], dict[str, TensorProto]]:
    """As ``fold_constants`` for OpenVINO's layers: what follows from fixed sizes; weights stay as they are stored."""
    from editor.runtimes.openvino.request import evaluate as evaluate_layers

    ops = [op for op in _ops(graph, ()) if _depends_on_sizes(graph)[op]]
    outputs = _outputs_of(graph, ops)
    values = {
        graph.tensor_names[int(graph.op_outputs[op][0])]: _typed_size(graph, source, op)
        for op in ops
        if graph.op_is_size[op]
    }
    computed = [name for name in outputs if name not in values]
    if computed:
        nodes = [
            op
            for op in graph.order[graph.op_is_constant[graph.order]].tolist()
            if not graph.op_is_size[op]
        ]
        model = _model_of(graph, source, _needed(graph, nodes, computed), computed, {})
        model.graph.initializer.extend(
            numpy_helper.from_array(value, name) for name, value in values.items()
        )
        try:
            results = evaluate_layers(model, graph.folder)
        except (
            Exception
        ) as error:  # OpenVINO raises RuntimeError and others for one and the same cause
            raise ExecutionError(
                f"the sizes of {graph.name} cannot be computed: {error}"
            ) from error
        values |= dict(zip(computed, results, strict=True))
    return frozenset(ops), {name: numpy_helper.from_array(values[name], name) for name in outputs}


def _typed_size(graph: Graph, source: ModelProto, op: int) -> Ints:
    """As ``size_of``, in the type that the layer gives its result."""
    kind = graph.tensor_types[int(graph.op_outputs[op][0])]
    typed: Ints = size_of(graph, source, op).astype(kind)
    return typed


def _needed(graph: Graph, ops: Sequence[int], outputs: Iterable[str]) -> list[int]:
    """Those of the ops, which are in topological order, that the outputs depend on."""
    wanted = {graph.tensor_index[name] for name in outputs}
    needed = []
    for op in reversed(ops):
        if not wanted.isdisjoint(graph.op_outputs[op].tolist()):
            needed.append(op)
            wanted.update(graph.op_reads[op].tolist())
    return needed[::-1]


def _depends_on_sizes(graph: Graph) -> Bools:
    """[op] whether it is constant because a size is fixed."""
    depends = graph.op_is_size.copy()
    for op in graph.order[graph.op_is_constant[graph.order]].tolist():
        depends[op] |= depends[graph.predecessors[op]].any()
    return depends


def _ops(graph: Graph, overridden: Iterable[str]) -> list[int]:
    """Constant ops in topological order, without those that depend on overridden initializers."""
    changing = {graph.tensor_index[name] for name in overridden}
    ops = []
    for op in graph.order[graph.op_is_constant[graph.order]].tolist():
        if changing.isdisjoint(graph.op_reads[op].tolist()):
            ops.append(op)
        else:
            changing.update(graph.op_outputs[op].tolist())
    return ops


def _outputs_of(graph: Graph, ops: list[int]) -> list[str]:
    """Outputs of these ops that other ops read."""
    own = set(ops)
    return [
        graph.tensor_names[tensor]
        for op in ops
        for tensor in graph.op_outputs[op].tolist()
        if tensor >= 0 and not own.issuperset(graph.readers[tensor].tolist())
    ]


def _model_of(
    graph: Graph, source: ModelProto, ops: list[int], outputs: list[str], sizes: Mapping[str, Ints]
) -> ModelProto:
    """The constant ops; sizes are inputs, as in the model itself, because runtimes are stricter about constants."""
    folded = GraphProto(name="constants")
    folded.input.extend(
        make_value_info(name, "int64", value.shape) for name, value in sizes.items()
    )
    needed: set[str] = set()
    for op in ops:
        node = folded.node.add()
        node.CopyFrom(source.graph.node[op])
        node.name = f"op{op}"
        needed.update(op_reads(node))
    folded.initializer.extend(t for t in source.graph.initializer if t.name in needed)
    folded.sparse_initializer.extend(
        t for t in source.graph.sparse_initializer if t.values.name in needed
    )
    folded.output.extend(ValueInfoProto(name=name) for name in outputs)
    return part_of(source, folded)


def shape_values(
    graph: Graph, source: ModelProto, constants: Mapping[str, TensorProto | SparseTensorProto]
) -> dict[str, TensorProto]:
    """Results of the ops that depend only on static shapes and constants, by tensor name.

    Args:
        graph: the model; its symbols are bound.
        source: the parsed model file.
        constants: initializers and values of constant ops that no run replaces.
    """
    types = dict(
        zip(
            graph.tensor_names,
            zip(graph.tensor_types, graph.tensor_shapes, strict=True),
            strict=True,
        )
    )
    dense = {name: tensor for name, tensor in constants.items() if isinstance(tensor, TensorProto)}
    values = StaticValues(source, types, dense, EXACT_TYPES)
    nodes = (source.graph.node[op] for op in graph.order.tolist())
    return {
        node.output[0]: numpy_helper.from_array(value, node.output[0])
        for node in nodes
        if (value := values.compute(node)) is not None
    }


_OLDEST_IR_VERSION = 4
"""Older versions required every initializer to be a graph input."""


@dataclass(frozen=True, eq=False)
class Cutter:
    """The parsed model, from which sub-models are cut."""

    graph: Graph
    source: ModelProto
    initializers: dict[str, TensorProto | SparseTensorProto]
    """Initializers by name, without the overridden ones."""
    overridden: tuple[str, ...]
    """Initializers that each run may replace: they are inputs of the sub-models that read them."""
    folded_ops: frozenset[int]
    """Constant ops that were evaluated before the cut; no sub-model contains them."""
    folded: dict[str, TensorProto]
    """Values of their outputs, by tensor name."""
    inferred_types: dict[str, TypeProto]
    """Types that ONNX shape inference does not know, inferred by ONNX Runtime."""

    @classmethod
    def open(cls, graph: Graph, overridden: Iterable[str] = ()) -> Cutter:
        """Reads the model file, this time with the weights inside it.

        Args:
            graph: the model.
            overridden: initializers that each run may replace.

        Raises:
            ExecutionError: the file is gone, or changed since it was loaded.
        """
        try:
            source = read_again(graph)
        except ModelError as error:
            raise ExecutionError(str(error)) from error
        bind_sizes(source, graph.sizes)
        tensors: dict[str, TensorProto | SparseTensorProto] = {
            t.name: t for t in source.graph.initializer
        }
        tensors |= {t.values.name: t for t in source.graph.sparse_initializer}
        given = tuple(sorted(overridden))
        for name in given:
            del tensors[name]
        return cls(graph, source, tensors, given, *fold_constants(graph, source, given), {})

    @cached_property
    def known(self) -> dict[str, TensorProto]:
        """Values that static shapes determine, by tensor name."""
        if not self.graph.is_onnx:
            return {}
        return shape_values(self.graph, self.source, {**self.initializers, **self.folded})

    @cached_property
    def _ops_of_sizes(self) -> frozenset[int]:
        """Constant ops that depend on fixed sizes, and those that they read; the unsplit model has them as the file does."""
        graph, depends = self.graph, _depends_on_sizes(self.graph)
        needed = read_by(
            depends, graph.op_is_constant, graph.op_reads, graph.order, graph.tensor_producer
        )
        return frozenset(np.flatnonzero((depends | needed) & graph.op_is_constant).tolist())

    def whole(self, extra_outputs: Sequence[str] = ()) -> SubModel:
        """The unsplit model, prepared like a sub-model; ``extra_outputs`` are further tensors to return."""
        graph = self.graph
        inputs = [graph.tensor_names[t] for t in graph.inputs]
        outputs = [
            graph.tensor_names[t]
            for t in dict.fromkeys(graph.outputs.tolist())
            if graph.tensor_kind[t] == TensorKind.OP_OUTPUT
        ]
        outputs = list(dict.fromkeys((*outputs, *extra_outputs)))
        ops = [
            op
            for op in graph.order.tolist()
            if op not in self.folded_ops or op in self._ops_of_sizes
        ]
        return self._model(ops, inputs, outputs, "the unsplit model", as_in_file=True)

    def submodel(
        self, placement: Placement, subgraph: Subgraph, fold_shapes: bool = False
    ) -> SubModel:
        """The sub-model of one subgraph.

        Args:
            placement: the placement that contains the subgraph.
            subgraph: the subgraph to cut out.
            fold_shapes: values that static shapes determine become constants instead of inputs; see ``known``.
        """
        subgraph_of_op = placement.division.subgraph_of_op
        ops = [
            op
            for op in map(self.graph.key_index.__getitem__, subgraph.ops)
            if subgraph_of_op[op] >= 0 or not self._has_values(op)
        ]
        inputs = [name for name in subgraph.inputs if not (fold_shapes and self._is_known(name))]
        return self._model(ops, inputs, subgraph.outputs, f"subgraph {subgraph.id}")

    def _has_values(self, op: int) -> bool:
        """Whether all results of a constant op are folded: those that only other constants read are not, and one of these may
        be pinned, so that it runs."""
        outputs = self.graph.op_outputs[op]
        return op in self.folded_ops and all(
            self.graph.tensor_names[t] in self.folded for t in outputs[outputs >= 0].tolist()
        )

    def _is_known(self, name: str) -> bool:
        return (
            self.graph.tensor_kind[self.graph.tensor_index[name]] == TensorKind.OP_OUTPUT
            and name in self.known
        )

    def _model(
        self,
        ops: Sequence[int],
        inputs: Sequence[str],
        outputs: Sequence[str],
        label: str,
        as_in_file: bool = False,
    ) -> SubModel:
        """``as_in_file``: ops that read a fixed size read it from their tensor, which must be among the others'."""
        nodes = {
            op: self.source.graph.node[op] if as_in_file else node_of(self.graph, self.source, op)
            for op in ops
        }
        live = _live(nodes, outputs)
        graph = GraphProto(name=self.source.graph.name or self.graph.name)
        needed: dict[str, None] = {}
        for op in live:
            if nodes[op].op_type == "Constant" and not self.graph.is_onnx:  # a pinned size
                name = nodes[op].output[0]
                size = _typed_size(self.graph, self.source, op)
                graph.initializer.append(numpy_helper.from_array(size, name))
                continue
            node = graph.node.add()
            node.CopyFrom(nodes[op])
            node.name = f"op{op}"
            needed.update(dict.fromkeys(op_reads(node)))
        used = [name for name in (*inputs, *self.overridden) if name in needed]
        graph.input.extend(self._value_info(name) for name in used)
        graph.output.extend(self._value_info(name) for name in outputs)
        computed = {name for node in graph.node for name in node.output}
        computed |= {tensor.name for tensor in graph.initializer}
        for name in needed:
            if name in computed or name in used:
                continue
            tensor = self.initializers.get(name) or self.folded.get(name) or self.known.get(name)
            if tensor is None:
                continue
            if isinstance(tensor, SparseTensorProto):
                graph.sparse_initializer.append(tensor)
            else:
                graph.initializer.append(tensor)
        model = part_of(self.source, graph, _OLDEST_IR_VERSION)
        if not model.opset_import:
            model.opset_import.append(helper.make_opsetid("", 1))
        model.functions.extend(self.source.functions)
        if model.functions:
            model.ir_version = max(model.ir_version, 8)
        return SubModel(model, tuple(used), tuple(outputs), self.graph.folder, label)

    def _value_info(self, name: str) -> ValueInfoProto:
        tensor = self.graph.tensor_index[name]
        kind, shape = self.graph.tensor_types[tensor], self.graph.tensor_shapes[tensor]
        if shape is not None and not self.graph.is_onnx:
            # OpenVINO 2026.4 divides by a size of 0 while it compiles: of a state that begins empty, for example.
            shape = tuple(dim or "?" for dim in shape)
        if kind:
            return make_value_info(name, kind, shape)
        return ValueInfoProto(name=name, type=self.inferred_types.get(name))

    def infer_types(self, names: Sequence[str]) -> None:
        """Infers types of these tensors with ONNX Runtime, which ONNX shape inference does not know.

        Raises:
            ExecutionError: ONNX Runtime does not know them either.
        """
        if not names:
            return
        model = self._model(
            self.graph.order.tolist(),
            [self.graph.tensor_names[t] for t in self.graph.inputs],
            names,
            "types",
            as_in_file=True,
        ).model
        try:
            types = output_types(model, self.graph.folder)
        except Exception as error:  # ONNX Runtime's errors have no base class of their own
            raise ExecutionError(
                f"the type of boundary tensor {names[0]!r} is unknown, so the model cannot be cut "
                f"there; assign the ops that produce and read it to one device "
                f"({reason_of(error)})"
            ) from error
        self.inferred_types.update((name, type_proto(text)) for name, text, _ in types)


def _live(nodes: Mapping[int, NodeProto], outputs: Iterable[str]) -> list[int]:
    """Ops that the outputs depend on, given in topological order; runtimes refuse models without outputs."""
    wanted = set(outputs)
    live = []
    for op, node in reversed(list(nodes.items())):
        if is_kept_alive(node) or any(name in wanted for name in node.output):
            live.append(op)
            wanted.update(op_reads(node))
    return live[::-1]


def cut(placement: Placement, cutter: Cutter, fold_shapes: bool = False) -> list[SubModel | None]:
    """One sub-model per subgraph (see ``Cutter.submodel``); None for a subgraph without outputs.

    Raises:
        ExecutionError: the type of a tensor that subgraphs pass on is not known.
    """
    cutter.infer_types(missing_types(placement))
    return [
        cutter.submodel(placement, s, fold_shapes) if s.outputs else None
        for s in placement.subgraphs
    ]


def missing_types(placement: Placement) -> list[str]:
    """Tensors that subgraphs pass on whose type ONNX shape inference does not know; see ``Cutter.infer_types``."""
    graph = placement.graph
    passed = dict.fromkeys(
        (
            *(b.tensor for b in placement.boundaries),
            *(name for s in placement.subgraphs for name in s.outputs),
        )
    )
    return [name for name in passed if not graph.tensor_types[graph.tensor_index[name]]]


def open_submodels(
    graph: Graph, members: Sequence[Sequence[int]], keep_states: bool = False
) -> list[SubModel]:
    """One sub-model per list of ops, which can run in this order, with the dimensions of the file.

    States that OpenVINO's layers keep become inputs and outputs; with ``keep_states`` they stay inside the only part, where
    there is one. (OpenVINO 2026.4 fails where of a key and its value one is inside and the other is not.)

    Raises:
        ExecutionError: the file changed, or two parts need sizes of each other.
    """
    try:
        source, types = read_again(graph), load_model(graph.path, graph.chosen)
    except ModelError as error:
        raise ExecutionError(str(error)) from error
    if problem := weights_problem(source, graph.path):
        raise ExecutionError(f"{graph.path} cannot run: {problem}")
    return _OpenCut(graph, types, source, keep_states).submodels(members)


class _OpenCut:
    def __init__(self, graph: Graph, types: Graph, source: ModelProto, keep_states: bool) -> None:
        self.graph, self.types, self.source, self.keep_states = graph, types, source, keep_states
        self.declared = {} if graph.is_onnx else declared_values(source)
        self.initializers = {t.name: t for t in source.graph.initializer}
        self.sparse = {t.values.name: t for t in source.graph.sparse_initializer}

    def submodels(self, members: Sequence[Sequence[int]]) -> list[SubModel]:
        """The parts of these ops; without those that make no result."""
        graph, node = self.graph, self.source.graph.node
        opened = [] if len(members) == 1 and self.keep_states else graph.state_pairs
        gone = {op for pair in opened for op in pair}
        parts = [self._ordered([op for op in ops if op not in gone]) for ops in members]
        made = [{name for op in part for name in node[op].output} for part in parts]
        weights = self.initializers.keys() | self.sparse.keys()
        reads = [
            dict.fromkeys(
                name
                for op in part
                for name in op_reads(node[op])
                if name not in made[i] and name not in weights
            )
            for i, part in enumerate(parts)
        ]
        wanted = {*graph.output_names, *(node[kept].input[0] for _, kept in opened)}
        known = {*graph.input_names, *(node[read].output[0] for read, _ in opened)}
        result = []
        for i, part in enumerate(parts):
            if missing := [name for name in reads[i] if name not in known]:
                raise ExecutionError(
                    f"subgraph {i} needs the size of {missing[0]!r}, which a later one computes: it cannot run with open "
                    "sizes; assign the ops that produce and read it to one device"
                )
            needed = wanted.union(*(names for j, names in enumerate(reads) if j != i))
            outputs = dict.fromkeys(
                name for op in part for name in node[op].output if name in needed - known
            )
            known |= made[i]
            if outputs:
                result.append(self._submodel(i, part, list(reads[i]), list(outputs)))
        return result

    def _ordered(self, ops: Sequence[int]) -> list[int]:
        """In topological order, with the constants that they are computed from."""
        graph, needed, waiting = self.graph, set(ops), list(ops)
        while waiting:
            op = waiting.pop()
            for tensor in {*graph.op_reads[op].tolist(), *graph.op_inputs[op].tolist()} - {-1}:
                producer = int(graph.tensor_producer[tensor])
                if producer >= 0 and graph.op_is_constant[producer] and producer not in needed:
                    needed.add(producer)
                    waiting.append(producer)
        return sorted(needed, key=lambda op: int(graph.rank[op]))

    def _submodel(
        self, number: int, ops: Sequence[int], inputs: Sequence[str], outputs: Sequence[str]
    ) -> SubModel:
        part = GraphProto(name=self.source.graph.name or self.graph.name)
        needed: dict[str, None] = {}
        for op in ops:
            part.node.add().CopyFrom(self.source.graph.node[op])
            part.node[-1].name = f"op{op}"
            needed.update(dict.fromkeys(op_reads(part.node[-1])))
        part.input.extend(self._value(name) for name in inputs)
        part.output.extend(self._value(name) for name in outputs)
        part.initializer.extend(self.initializers[n] for n in needed if n in self.initializers)
        part.sparse_initializer.extend(self.sparse[n] for n in needed if n in self.sparse)
        model = part_of(self.source, part)
        model.functions.extend(self.source.functions)
        return SubModel(
            model, tuple(inputs), tuple(outputs), self.graph.folder, f"subgraph {number}"
        )

    def _value(self, name: str) -> ValueInfoProto:
        tensor, shape = self.graph.tensor_index[name], None
        if name in self.declared:
            shape = self.declared[name][1]
        elif (closed := self.graph.tensor_shapes[tensor]) is not None:
            shape = self.types.tensor_shapes[self.types.tensor_index[name]]
            shape = ("?",) * len(closed) if shape is None else shape
        return make_value_info(name, self.graph.tensor_types[tensor], shape)
