"""Evaluating constant ops once, before the cut.

Every subgraph then gets the same values, whatever runtime it runs on. Left to themselves runtimes
differ: OpenVINO's 32-bit ``Mod`` is off by 1e-4, and a weight made by it makes the whole model differ.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, numpy_helper

from editor.graph.bodies import op_reads
from editor.graph.graph import Graph
from editor.runtimes.onnxruntime.evaluate import evaluate
from editor.runtimes.probe import MAX_IR_VERSION

MAX_FOLDED_BYTES = 1 << 30
"""Above this, constants stay ops and are evaluated by each runtime."""


def fold_constants(graph: Graph, source: ModelProto,
                   overridden: Iterable[str] = ()) -> tuple[frozenset[int], dict[str, TensorProto]]:
    """Constant ops that need not run, and the values of the tensors that they make for other ops.

    Returns nothing when they are too large, of unknown size, or ONNX Runtime cannot evaluate them;
    then they stay ops of every subgraph that reads them.

    Args:
        graph: the model.
        source: the same as a file.
        overridden: initializers whose value comes with each run; what depends on them stays an op as well.
    """
    ops = _ops(graph, overridden)
    wanted = _wanted(graph, ops)
    sizes = graph.tensor_bytes[[t for op in ops for t in graph.results[op].tolist() if t >= 0]]
    if not wanted or (sizes < 0).any() or int(sizes.sum()) > MAX_FOLDED_BYTES:
        return frozenset(), {}
    model = _model_of(graph, source, ops, wanted)
    try:
        values = evaluate(model, wanted, graph.folder)
    except Exception:  # noqa: BLE001  # whatever the cause, the runtimes evaluate the ops themselves and report it if it matters
        return frozenset(), {}
    return frozenset(ops), {name: numpy_helper.from_array(value, name) for name, value in zip(wanted, values, strict=True)}


def _ops(graph: Graph, overridden: Iterable[str]) -> list[int]:
    """Constant ops in an order of execution, without those that depend on what is overridden."""
    changing = {graph.tensor_index[name] for name in overridden}
    ops = []
    for op in graph.order[graph.op_is_constant[graph.order]].tolist():
        if changing.isdisjoint(graph.reads[op].tolist()):
            ops.append(op)
        else:
            changing.update(graph.results[op].tolist())
    return ops


def _wanted(graph: Graph, ops: list[int]) -> list[str]:
    """Outputs of these ops that other ops read."""
    mine, wanted = set(ops), []
    for op in ops:
        for tensor in graph.results[op].tolist():
            if tensor >= 0 and not mine.issuperset(graph.readers[tensor].tolist()):
                wanted.append(graph.tensor_names[tensor])
    return wanted


def _model_of(graph: Graph, source: ModelProto, ops: list[int], outputs: list[str]) -> ModelProto:
    part = GraphProto(name="constants")
    needed: set[str] = set()
    for op in ops:
        node = part.node.add()
        node.CopyFrom(source.graph.node[op])
        node.name = f"op{op}"
        needed.update(op_reads(node))
    part.initializer.extend(t for t in source.graph.initializer if t.name in needed)
    part.sparse_initializer.extend(t for t in source.graph.sparse_initializer if t.values.name in needed)
    part.output.extend(ValueInfoProto(name=name) for name in outputs)
    model = ModelProto(ir_version=min(max(source.ir_version, 8), MAX_IR_VERSION), graph=part)
    model.opset_import.extend(source.opset_import)
    return model
