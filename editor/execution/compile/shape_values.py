"""Values that static shapes determine, as constants of the sub-models that read them.

When a chain of shape ops crosses subgraphs, the consumer reads its value as a constant: OpenVINO refuses a Reshape
whose target shape is unknown before a run. Only integers and booleans are computed: their results are exact on every
runtime.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import ModelProto, SparseTensorProto, TensorProto, numpy_helper

from editor.graph.graph import Graph
from editor.graph.static_values import EXACT_TYPES, StaticValues


def shape_values(graph: Graph, source: ModelProto,
                 constants: Mapping[str, TensorProto | SparseTensorProto]) -> dict[str, TensorProto]:
    """Results of the ops that depend only on static shapes and constants, by tensor name.

    Args:
        graph: the model; its symbols are bound.
        source: the parsed model file.
        constants: initializers and values of constant ops that no run replaces.
    """
    types = dict(zip(graph.tensor_names, zip(graph.tensor_types, graph.tensor_shapes, strict=True), strict=True))
    dense = {name: tensor for name, tensor in constants.items() if isinstance(tensor, TensorProto)}
    values = StaticValues(source, types, dense, EXACT_TYPES)
    result: dict[str, TensorProto] = {}
    for op in graph.order.tolist():
        value = values.compute(source.graph.node[op])
        if value is not None:
            name = source.graph.node[op].output[0]
            result[name] = numpy_helper.from_array(value, name)
    return result
