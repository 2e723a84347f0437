"""Models of next to no work, whose times tell what a launch and a transfer cost."""

from __future__ import annotations

from onnx import ModelProto, NodeProto, TensorProto, helper

SMALL, LARGE = 64, 1 << 20
"""Numbers in a value."""
MANY = 8
"""Values of 64 numbers."""
_BYTES = 4


def link_models() -> dict[str, tuple[ModelProto, int, int]]:
    """Name -> (model, values that are transferred, bytes of them).

    ``in_*`` read values and return a small part; ``out_*`` return values that they make of a small one.
    """
    models = {}
    for size, count in (("small", SMALL), ("large", LARGE)):
        models[f"in_{size}"] = (_model([_node("Slice", ["x", "zero", "few"], ["y"])], {"x": count}, {"y": SMALL // 2}), 1,
                                count * _BYTES)
        models[f"out_{size}"] = (_model([_node("Expand", ["x", "size"], ["y"])], {"x": 1}, {"y": count}, count), 1,
                                 count * _BYTES)
    names = [f"v{i}" for i in range(MANY)]
    models["in_many"] = (_model([_node("Sum", names, ["y"])], dict.fromkeys(names, SMALL), {"y": SMALL}), MANY,
                         MANY * SMALL * _BYTES)
    models["out_many"] = (_model([_node("Split", ["x"], names)], {"x": MANY * SMALL}, dict.fromkeys(names, SMALL)), MANY,
                          MANY * SMALL * _BYTES)
    return models


def _node(kind: str, inputs: list[str], outputs: list[str]) -> NodeProto:
    return helper.make_node(kind, inputs, outputs, "op0")


def _model(nodes: list[NodeProto], inputs: dict[str, int], outputs: dict[str, int], size: int = 1) -> ModelProto:
    constants = {"zero": 0, "few": SMALL // 2, "size": size}
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes, "link", [helper.make_tensor_value_info(n, TensorProto.FLOAT, [c]) for n, c in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [c]) for n, c in outputs.items()],
        [helper.make_tensor(n, TensorProto.INT64, [1], [v]) for n, v in constants.items() if n in used])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
