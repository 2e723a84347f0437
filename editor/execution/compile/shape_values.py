"""Values that follow from static shapes: known before the first run, though ops compute them.

Exporters write shapes as chains of small integer ops (Shape, Gather, Concat, ...). When such a chain crosses
subgraphs, the reader gets the value as a constant: OpenVINO refuses a Reshape whose target, and with it the
rank of what follows, is only known in a run. Only integers and booleans are computed ahead: they are exact, so
it cannot matter who computes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, SparseTensorProto, TensorProto, ValueInfoProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from editor.graph.graph import Graph
from editor.runtimes.probe import make_value_info

MAX_BYTES = 8 << 10
"""Of one value; larger ones are data rather than shapes."""
_ROOTS = frozenset({"Shape", "Size"})
_FOLLOW = frozenset({
    "Abs", "Add", "Cast", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Gather", "Greater", "Identity", "Less",
    "Max", "Min", "Mul", "Neg", "Not", "Range", "ReduceProd", "Reshape", "Slice", "Squeeze", "Sub", "Unsqueeze", "Where",
})
_EXACT = frozenset({"int32", "int64", "bool"})


def shape_values(graph: Graph, source: ModelProto,
                 constants: Mapping[str, TensorProto | SparseTensorProto]) -> dict[str, TensorProto]:
    """What ops compute from nothing but static shapes and constants, by tensor name.

    Args:
        graph: the model; its symbols are bound.
        source: the same as a file.
        constants: initializers and values of constant ops that no run replaces.
    """
    known: set[int] = set()
    roots: set[int] = set()
    ops = []
    for op in graph.order.tolist():
        if graph.op_domains[op] not in ("", "ai.onnx") or graph.op_is_constant[op]:
            continue
        results = [t for t in graph.results[op].tolist() if t >= 0]
        if not results or not all(_is_small(graph, t) for t in results):
            continue
        reads = graph.reads[op].tolist()
        if graph.op_types[op] in _ROOTS and _is_static(graph, reads[0]):
            roots.add(reads[0])
        elif graph.op_types[op] not in _FOLLOW or not all(t in known or _is_given(graph, t, constants) for t in reads):
            continue
        known.update(results)
        ops.append(op)
    return _evaluate(graph, source, ops, roots - known, sorted(known), constants) if ops else {}


def _is_small(graph: Graph, tensor: int) -> bool:
    return graph.tensor_types[tensor] in _EXACT and 0 <= graph.tensor_bytes[tensor] <= MAX_BYTES


def _is_static(graph: Graph, tensor: int) -> bool:
    shape = graph.tensor_shapes[tensor]
    return shape is not None and "(" not in graph.tensor_types[tensor] and all(isinstance(d, int) for d in shape)


def _is_given(graph: Graph, tensor: int, constants: Mapping[str, TensorProto | SparseTensorProto]) -> bool:
    proto = constants.get(graph.tensor_names[tensor])
    return (isinstance(proto, TensorProto) and proto.data_location != TensorProto.EXTERNAL
            and _is_small(graph, tensor))


def _evaluate(graph: Graph, source: ModelProto, ops: list[int], roots: set[int], wanted: list[int],
              constants: Mapping[str, TensorProto | SparseTensorProto]) -> dict[str, TensorProto]:
    chain = GraphProto(name="shapes")
    chain.node.extend(source.graph.node[op] for op in ops)
    made = {graph.tensor_names[t] for t in wanted}
    needed = {name for node in chain.node for name in node.input if name} - made
    # Shape and Size look at no element, so an array without memory of its own will do.
    feeds: dict[str, Any] = {}
    for tensor in roots:
        name, shape = graph.tensor_names[tensor], graph.tensor_shapes[tensor] or ()
        chain.input.append(make_value_info(name, "float32", shape))
        feeds[name] = (np.float32(0), shape)
    chain.initializer.extend(t for name in sorted(needed - feeds.keys()) if isinstance(t := constants.get(name), TensorProto))
    names = [graph.tensor_names[t] for t in wanted]
    chain.output.extend(ValueInfoProto(name=name) for name in names)
    model = ModelProto(ir_version=8, graph=chain)
    model.opset_import.extend(source.opset_import)
    try:
        arrays = {name: np.broadcast_to(zero, shape) for name, (zero, shape) in feeds.items()}
        with np.errstate(all="ignore"):
            values = [np.asarray(value) for value in ReferenceEvaluator(model).run(names, arrays)]
    except Exception:  # whatever is odd about this model, its ops compute the values in each run, as before
        return {}
    return {name: numpy_helper.from_array(value, name) for tensor, name, value in zip(wanted, names, values, strict=True)
            if value.shape == graph.tensor_shapes[tensor] and value.dtype.name == graph.tensor_types[tensor]}
