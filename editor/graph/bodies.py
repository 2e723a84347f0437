"""Bodies of If, Loop and Scan, and the outer values that they capture (ONNX IR spec: name scoping)."""

from __future__ import annotations

from onnx import AttributeProto, GraphProto, NodeProto


def bodies_of(node: NodeProto) -> list[GraphProto]:
    """The graphs in a node's attributes."""
    bodies: list[GraphProto] = []
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            bodies.append(attribute.g)
        elif attribute.type == AttributeProto.GRAPHS:
            bodies.extend(attribute.graphs)
    return bodies


def captured_names(node: NodeProto) -> list[str]:
    """Names of outer values that the bodies of a node read, in order of first use."""
    captured: dict[str, None] = {}
    for body in bodies_of(node):
        captured.update(dict.fromkeys(_free_names(body)))
    return list(captured)


def op_reads(node: NodeProto) -> list[str]:
    """Names of all tensors that a node needs: its inputs without the omitted ones, and the captures of its bodies."""
    return [*(name for name in node.input if name), *captured_names(node)]


def _free_names(graph: GraphProto) -> list[str]:
    known = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    known |= {t.values.name for t in graph.sparse_initializer}
    known |= {name for node in graph.node for name in node.output}
    free: dict[str, None] = {}
    for node in graph.node:
        for name in (*node.input, *captured_names(node)):
            if name and name not in known:
                free[name] = None
    for value in graph.output:  # a body may return an outer value directly
        if value.name not in known:
            free[value.name] = None
    return list(free)
