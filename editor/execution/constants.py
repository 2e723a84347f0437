"""Evaluating constant ops once, before the cut.

Every subgraph then gets the same values, whatever runtime it runs on. Left to themselves runtimes
differ: OpenVINO's 32-bit ``Mod`` is off by 1e-4, and a weight made by it makes the whole model differ.
"""

from __future__ import annotations

import onnxruntime as ort
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, numpy_helper

from editor.graph.bodies import captured_names
from editor.graph.graph import Graph
from editor.runtimes.probe import MAX_IR_VERSION

MAX_FOLDED_BYTES = 1 << 30
"""Above this, constants stay ops and are evaluated by each runtime."""


def fold_constants(graph: Graph, source: ModelProto) -> dict[str, TensorProto]:
    """Values of the tensors that constant ops make for other ops.

    Returns nothing when they are too large, of unknown size, or ONNX Runtime cannot evaluate them;
    then they stay ops of every subgraph that reads them.
    """
    ops = [op for op in graph.order.tolist() if graph.op_is_constant[op]]
    wanted = _wanted(graph, ops)
    sizes = graph.tensor_bytes[[t for op in ops for t in graph.results[op].tolist() if t >= 0]]
    if not wanted or (sizes < 0).any() or int(sizes.sum()) > MAX_FOLDED_BYTES:
        return {}
    model = _model_of(graph, source, ops, wanted)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.model_external_initializers_file_folder_path",
                                     str(graph.path.resolve().parent))
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        values = session.run(wanted, {})
    except Exception:  # whatever the cause, the runtimes evaluate the ops themselves and report it if it matters
        return {}
    return {name: numpy_helper.from_array(value, name) for name, value in zip(wanted, values, strict=True)}


def _wanted(graph: Graph, ops: list[int]) -> list[str]:
    """Outputs of constant ops that other ops read."""
    wanted = []
    for op in ops:
        for tensor in graph.results[op].tolist():
            if tensor >= 0 and not graph.op_is_constant[graph.readers[tensor]].all():
                wanted.append(graph.tensor_names[tensor])
    return wanted


def _model_of(graph: Graph, source: ModelProto, ops: list[int], outputs: list[str]) -> ModelProto:
    part = GraphProto(name="constants")
    needed: set[str] = set()
    for op in ops:
        node = part.node.add()
        node.CopyFrom(source.graph.node[op])
        node.name = f"op{op}"
        needed.update(node.input, captured_names(node))
    part.initializer.extend(t for t in source.graph.initializer if t.name in needed)
    part.sparse_initializer.extend(t for t in source.graph.sparse_initializer if t.values.name in needed)
    part.output.extend(ValueInfoProto(name=name) for name in outputs)
    model = ModelProto(ir_version=min(max(source.ir_version, 8), MAX_IR_VERSION), graph=part)
    model.opset_import.extend(source.opset_import)
    return model
