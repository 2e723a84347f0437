"""Layers of exported models: where they begin and end, what they are called, what is shown first."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import ROOT
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.graph.graph import Graph
from editor.graph.scopes import Scope, scopes_of

PACK = Path(os.environ.get("MODEL_PACK", ROOT.parent / "shared" / "data" / "models")) / "real"

NORM = ["Pow", "ReduceMean", "Add", "Sqrt", "Reciprocal", "Mul"]
FILLER = ["Neg", "Abs", "Tanh", "Sigmoid", "Cos", "Sin"]


def decoder(path: Path, layers: int, filler: int, named: bool = True, extra: int = 3) -> Graph:
    """Layers as the new PyTorch exporter leaves them: only the weights of norms keep their names.

    A layer is norm, attention, residual Add, norm, a small MLP, residual Add; the first one has ``extra`` ops more.
    A chain before the layers makes a tensor that all of them read, as a rotary table.
    """
    nodes: list[onnx.NodeProto] = []
    weights = [numpy_helper.from_array(np.float32(2), "val_2")]

    def op(kind: str, *reads: str) -> str:
        nodes.append(helper.make_node(kind, [*reads], [f"v{len(nodes)}"], f"node_{kind}_{len(nodes)}"))
        return nodes[-1].output[0]

    def norm(x: str, name: str) -> str:
        y = op("Sqrt", op("Abs", op("ReduceMax", op("Pow", x, "val_2"))))
        weight = name if named else f"val_{len(nodes)}"
        weights.append(numpy_helper.from_array(np.ones(4, np.float32), weight))
        return op("Mul", op("Mul", x, y), weight)

    table = op("Cos", op("Neg", "x"))
    x = op("Exp", "x")
    for layer in range(layers):
        y = norm(x, f"model.layers.{layer}.input_layernorm.weight")
        for i in range(filler + extra * (layer == 0)):
            y = op(FILLER[i % len(FILLER)], y)
        x = op("Add", x, op("Mul", y, table))
        y = norm(x, f"model.layers.{layer}.post_norm.weight")
        x = op("Add", x, op("Mul", op("Sigmoid", y), op("Relu", y)))
    op("Tanh", norm(x, "model.norm.weight"))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "decoder", [value("x", TensorProto.FLOAT, [4])],
                              [value(nodes[-1].output[0], TensorProto.FLOAT, None)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return editor.load_model(path)


def layers_of(graph: Graph) -> list[Scope]:
    found = [s for s in scopes_of(graph).scopes if len(s.path) > 1 and s.path[-2] == "layers" and s.path[-1].isdigit()]
    return sorted(found, key=lambda s: int(s.path[-1]))


def ends(graph: Graph, scope: Scope) -> tuple[str, str]:
    return graph.op_types[scope.ops[0]], graph.op_types[scope.ops[-1]]


@pytest.mark.parametrize(("filler", "named"), [(12, True), (120, True), (12, False)],
                         ids=["many traces", "few traces", "no traces"])
def test_layers_are_whole_from_their_norm_to_their_last_addition(tmp_path: Path, filler: int, named: bool) -> None:
    graph = decoder(tmp_path / "m.onnx", 6, filler, named)
    layers = layers_of(graph)
    assert [int(s.path[-1]) for s in layers] == list(range(6))
    assert {ends(graph, s) for s in layers} == {("Pow", "Add")}
    assert len({len(s.ops) for s in layers[1:]}) == 1 and len(layers[0].ops) == len(layers[1].ops) + 3
    assert layers[0].ops[0] == 3, "the table, which all layers read, is in none of them"


@pytest.mark.parametrize("named", [True, False])
def test_the_same_op_in_every_layer_includes_a_first_layer_that_differs(tmp_path: Path, named: bool) -> None:
    graph = decoder(tmp_path / "m.onnx", 6, 12, named)
    scopes, layers = scopes_of(graph), layers_of(graph)
    for op in (layers[3].ops[0], layers[3].ops[-1], layers[0].ops[0], layers[5].ops[-4]):
        found = scopes.in_every_twin(op)
        assert len(found) == 6 and all(any(f in s.ops for f in found) for s in layers)
        assert {graph.op_types[f] for f in found} == {graph.op_types[op]}


def test_an_exported_llama_opens_with_its_32_layers() -> None:
    if not (PACK / "llama-32l-dynamo.onnx").exists():
        pytest.skip("the pack of models is not here")
    graph = editor.load_model(PACK / "llama-32l-dynamo.onnx")
    layers = layers_of(graph)
    assert len(layers) == 32 and {ends(graph, s) for s in layers} == {("Pow", "Add")}
    assert {len(s.ops) for s in layers[1:]} == {71}
    scopes = scopes_of(graph)
    assert all(len(scopes.in_every_twin(op)) == 32 for op in layers[7].ops)
