"""Evaluates constants of a model before it is cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx import (
    GraphProto,
    ModelProto,
    SparseTensorProto,
    TensorProto,
    ValueInfoProto,
    numpy_helper,
)

from editor.graph.bodies import op_reads
from editor.graph.fixed_sizes import size_of
from editor.graph.graph import Graph, Ints
from editor.graph.static_values import EXACT_TYPES, StaticValues
from editor.runtimes.onnxruntime.evaluate import evaluate
from editor.runtimes.op_models import MAX_IR_VERSION, make_value_info

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
    own, outputs = set(ops), []
    for op in ops:
        for tensor in graph.op_outputs[op].tolist():
            if tensor >= 0 and not own.issuperset(graph.readers[tensor].tolist()):
                outputs.append(graph.tensor_names[tensor])
    return outputs


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
    model = ModelProto(ir_version=min(max(source.ir_version, 8), MAX_IR_VERSION), graph=folded)
    model.opset_import.extend(source.opset_import)
    return model


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
    result: dict[str, TensorProto] = {}
    for op in graph.order.tolist():
        value = values.compute(source.graph.node[op])
        if value is not None:
            name = source.graph.node[op].output[0]
            result[name] = numpy_helper.from_array(value, name)
    return result
