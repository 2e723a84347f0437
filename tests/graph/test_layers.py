"""Layers of exported models: where they begin and end, what they are called, what is shown first."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import onnx
import pytest
from conftest import EXAMPLES, LAYERS, ROOT, save_net, write_dag, write_layers
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.graph.graph import Graph
from editor.graph.scopes.tree import Scope, repeated_blocks, scopes_of
from editor.web.drawing.collapsed import expand_level, first_detail, owners, shown_elements
from editor.workspace.document import Document

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
        nodes.append(
            helper.make_node(kind, [*reads], [f"v{len(nodes)}"], f"node_{kind}_{len(nodes)}")
        )
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
    return editor.load_model(
        save_net(
            path,
            nodes,
            [value("x", TensorProto.FLOAT, [4])],
            [value(nodes[-1].output[0], TensorProto.FLOAT, None)],
            weights,
            name="decoder",
        )
    )


def layers_of(graph: Graph) -> list[Scope]:
    found = [
        s
        for s in scopes_of(graph).scopes
        if len(s.path) > 1 and s.path[-2] == "layers" and s.path[-1].isdigit()
    ]
    return sorted(found, key=lambda s: int(s.path[-1]))


def ends(graph: Graph, scope: Scope) -> tuple[str, str]:
    return graph.op_types[scope.ops[0]], graph.op_types[scope.ops[-1]]


@pytest.mark.parametrize(
    ("filler", "named"),
    [(12, True), (120, True), (12, False)],
    ids=["many traces", "few traces", "no traces"],
)
def test_layers_extend_from_their_norm_to_their_last_addition(
    tmp_path: Path, filler: int, named: bool
) -> None:
    graph = decoder(tmp_path / "m.onnx", 6, filler, named)
    layers = layers_of(graph)
    assert [int(s.path[-1]) for s in layers] == list(range(6))
    assert {ends(graph, s) for s in layers} == {("Pow", "Add")}
    assert (
        len({len(s.ops) for s in layers[1:]}) == 1 and len(layers[0].ops) == len(layers[1].ops) + 3
    )
    assert layers[0].ops[0] == 3, "the table, which all layers read, is in none of them"


@pytest.mark.parametrize("named", [True, False])
def test_the_same_op_in_every_layer_includes_a_first_layer_that_differs(
    tmp_path: Path, named: bool
) -> None:
    graph = decoder(tmp_path / "m.onnx", 6, 12, named)
    scopes, layers = scopes_of(graph), layers_of(graph)
    for op in (layers[3].ops[0], layers[3].ops[-1], layers[0].ops[0], layers[5].ops[-4]):
        found = scopes.corresponding_ops(op)
        assert len(found) == 6 and all(any(f in s.ops for f in found) for s in layers)
        assert {graph.op_types[f] for f in found} == {graph.op_types[op]}


def test_a_long_list_grouped_in_runs_is_still_one_list(tmp_path: Path) -> None:
    graph = decoder(tmp_path / "m.onnx", 120, 12)
    scopes, layers = scopes_of(graph), layers_of_long_list(graph)
    assert sorted(scopes.repeated) == sorted(s.number for s in layers) and len(layers) == 120
    assert {s.label for s in layers} == {f"layers.{i}" for i in range(120)}
    assert len(scopes.corresponding_ops(layers[60].ops[3])) == 120


def layers_of_long_list(graph: Graph) -> list[Scope]:
    return [s for s in scopes_of(graph).scopes if s.path and s.path[-1].isdigit()]


def test_an_exported_llama_opens_with_its_32_layers() -> None:
    if not (PACK / "llama-32l-dynamo.onnx").exists():
        pytest.skip("the pack of models is not here")
    graph = editor.load_model(PACK / "llama-32l-dynamo.onnx")
    layers = layers_of(graph)
    assert len(layers) == 32 and {ends(graph, s) for s in layers} == {("Pow", "Add")}
    assert {len(s.ops) for s in layers[1:]} == {71}
    scopes = scopes_of(graph)
    assert all(len(scopes.corresponding_ops(op)) == 32 for op in layers[7].ops)


def exported_by_name(path: Path, layers: int, glue: int) -> Graph:
    """As the old PyTorch exporter names ops; a chain of ops without a module makes a mask that every layer reads."""
    nodes: list[onnx.NodeProto] = []

    def op(kind: str, module: str, *reads: str) -> str:
        nodes.append(
            helper.make_node(kind, [*reads], [f"v{len(nodes)}"], f"{module}/{kind}_{len(nodes)}")
        )
        return nodes[-1].output[0]

    mask = "x"
    for _ in range(glue):
        mask = op("Abs", "/bert", mask)
    x = op("Exp", "/bert/embeddings/word", op("Sin", "/bert/embeddings", "x"))
    for layer in range(layers):
        home = f"/bert/encoder/layer.{layer}"
        y = x
        for i in range(20):
            y = op(FILLER[i % len(FILLER)], f"{home}/attention", y)
        x = op("Sum", f"{home}/attention", x, y, mask, *(["x"] if layer == 0 else []))
        for module in ("intermediate", "output"):
            y = op("Tanh", f"{home}/{module}", op("Relu", f"{home}/{module}", x))
        x = op("Add", f"{home}/output", x, y)
    op("Tanh", "/bert/pooler", op("Neg", "/bert/pooler", x))
    value = helper.make_tensor_value_info
    return editor.load_model(
        save_net(
            path,
            nodes,
            [value("x", TensorProto.FLOAT, [4])],
            [value(nodes[-1].output[0], TensorProto.FLOAT, None)],
            name="bert",
        )
    )


def shown_first(graph: Graph) -> dict[int, int]:
    return Counter(owners(graph, first_detail(graph)["open"]))


@pytest.mark.parametrize("glue", [12, 13, 40])
def test_a_model_opens_at_its_layers_with_loose_ops_grouped(tmp_path: Path, glue: int) -> None:
    graph = exported_by_name(tmp_path / "m.onnx", 12, glue)
    scopes, shown = scopes_of(graph).scopes, shown_first(graph)
    labels = [scopes[unit].label for unit in shown if unit >= 0]
    assert [label for label in labels if label.startswith("layer.")] == [
        f"layer.{i}" for i in range(12)
    ]
    assert {"embeddings", "pooler"} <= set(labels)
    loose = sum(unit < 0 for unit in shown)
    assert (loose, "shared ops" in labels) == ((glue, False) if glue <= 12 else (0, True))
    if "shared ops" in labels:
        assert shown[next(s.number for s in scopes if s.label == "shared ops")] == glue


def test_labels_of_blocks_inside_layers_contain_the_layer(tmp_path: Path) -> None:
    graph = exported_by_name(tmp_path / "m.onnx", 12, 1)
    scopes = scopes_of(graph)
    labels = {s.label for s in scopes.scopes}
    assert {
        "layer.3 / attention",
        "layer.11 / intermediate",
        "layer.0",
    } <= labels and "attention" not in labels
    document = cast(Document, SimpleNamespace(graph=graph))
    wider = expand_level(graph, first_detail(graph)["open"])
    names = [
        e["data"]["label"]
        for e in shown_elements(document, {"mode": "blocks", "open": wider})
        if "unit" in e["data"]
    ]
    assert "3 / attention" in names and "11 / intermediate" in names and max(map(len, names)) <= 17


def test_labels_tell_the_layers_of_two_lists_apart(tmp_path: Path) -> None:
    scopes = scopes_of(
        editor.load_model(write_layers(tmp_path / "m.onnx", ["model/encoder", "model/decoder"]))
    )
    labels = {s.label for s in scopes.scopes}
    assert {"encoder.layers.0", "decoder.layers.39", "decoder.layers.3 / left"} <= labels
    assert not {"layers.0", "layers.3 / left"} & labels


def test_stages_of_different_depth_are_not_a_repetition_but_their_blocks_are() -> None:
    sizes = {("layers", str(s)): 10 * d for s, d in enumerate((2, 2, 6, 2))}
    blocks = {
        ("layers", str(s), "blocks", str(b)): 10
        for s, d in enumerate((2, 2, 6, 2))
        for b in range(d)
    }
    assert repeated_blocks(sizes | blocks, 120) == set(blocks)
    assert (
        repeated_blocks(
            {("layers", str(i), "norms", str(j)): 4 for i in range(9) for j in range(2)}, 1000
        )
        == set()
    )
    stages = {("stages", str(s)): 10 * d for s, d in enumerate((3, 4, 6, 3))}
    blocks = {
        ("stages", str(s), "layers", str(b)): 10
        for s, d in enumerate((3, 4, 6, 3))
        for b in range(d)
    }
    assert repeated_blocks(stages | blocks, 160) == set(blocks), (
        "not even where none is twice as long as another"
    )
    experts = {("layers", str(i), "experts", str(e)): 4 for i in range(4) for e in range(8)}
    layers = {("layers", str(i)): 40 for i in range(4)}
    assert repeated_blocks(layers | experts, 160) == set(layers)
    assert Scope(1, ("layers", "2", "blocks", "0"), 0).label == "layers.2 / blocks.0"
    assert Scope(1, ("h", "blocks 0 to 15", "7"), 0).label == "h.7"


def test_corresponding_ops_are_in_the_blocks_of_all_stages(tmp_path: Path) -> None:
    dag: list[list[int]] = [[]]
    names = ["/embed/Neg"]
    for stage, depth in enumerate((2, 2, 6, 2)):
        for block in range(depth):
            for _ in range(9):
                dag.append([len(dag) - 1])
                names.append(f"/layers.{stage}/blocks.{block}/Neg_{len(dag)}")
    model = onnx.load(write_dag(tmp_path / "m.onnx", dag))
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    onnx.save(model, tmp_path / "m.onnx")
    scopes = scopes_of(editor.load_model(tmp_path / "m.onnx"))
    assert {scopes.scopes[n].label for n in scopes.repeated} >= {
        "layers.0 / blocks.0",
        "layers.2 / blocks.5",
    }
    assert {
        len(scopes.corresponding_ops(op)) for n in scopes.repeated for op in scopes.scopes[n].ops
    } == {12}


@pytest.mark.parametrize(
    ("name", "layer", "count", "others"),
    [
        ("bert-base-legacy", "layer", 12, 4),
        ("whisper-tiny-decoder-dynamo", "layers", 4, 6),
        ("llama-32l-dynamo", "layers", 32, 8),
    ],
)
def test_exported_models_open_at_their_layers(
    name: str, layer: str, count: int, others: int
) -> None:
    if not (PACK / f"{name}.onnx").exists():
        pytest.skip("the pack of models is not here")
    graph = editor.load_model(PACK / f"{name}.onnx")
    scopes = scopes_of(graph)
    shown = list(shown_first(graph))
    assert [scopes.scopes[u].label for u in shown if u in scopes.repeated] == [
        f"{layer}.{i}" for i in range(count)
    ]
    assert len(shown) - count <= others


def test_a_collapsed_list_of_layers_shows_its_length(tmp_path: Path) -> None:
    graph = editor.load_model(write_layers(tmp_path / "towers.onnx", ("encoder", "decoder")))
    scopes = scopes_of(graph)
    assert {
        scope.label: scopes.layers_in(scope.number)
        for scope in scopes.scopes
        if scopes.layers_in(scope.number)
    } == {"encoder": LAYERS, "decoder": LAYERS}


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("mobilenetv2", "ops"),
        ("resnet50", "blocks"),
        ("whisper-tiny-decoder", "blocks"),
        ("fcn-resnet101", "blocks"),
    ],
)
def test_models_of_which_not_every_name_can_be_read_at_once_open_in_blocks(
    name: str, mode: str
) -> None:
    path = EXAMPLES / "models" / f"{name}.onnx"
    detail = first_detail(
        editor.load_model(path, dict.fromkeys(editor.load_model(path).unbound, 1))
    )
    assert detail["mode"] == mode


def test_a_model_without_blocks_opens_with_every_op(tmp_path: Path) -> None:
    kinds = ("Tanh", "Abs", "Neg", "Exp", "Relu", "Sin", "Cos")
    rng = np.random.default_rng(3)
    nodes = [
        helper.make_node(kinds[rng.integers(len(kinds))], [f"t{i}"], [f"t{i + 1}"])
        for i in range(300)
    ]
    value = helper.make_tensor_value_info
    save_net(
        tmp_path / "chain.onnx",
        nodes,
        [value("t0", TensorProto.FLOAT, [4])],
        [value("t300", TensorProto.FLOAT, [4])],
    )
    assert first_detail(editor.load_model(tmp_path / "chain.onnx"))["mode"] == "ops"
