"""Ops that read only a fixed size are constants: they take no place, move nothing, and are computed exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import REAL
from onnx import NodeProto, TensorProto, helper, numpy_helper

import editor
from editor.execution.executor import compile_whole
from editor.execution.invented_inputs import random_inputs
from editor.graph.graph import Graph

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name: str, shape: list[int | str], kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def load(
    path: Path,
    nodes: list[NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    declared: list[onnx.ValueInfoProto] | None = None,
    initializers: list[TensorProto] | None = None,
) -> Graph:
    graph = helper.make_graph(
        nodes, "m", inputs, outputs, initializers or [], value_info=declared or []
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return editor.load_model(path)


def flattening(kind: str = "Shape", source: str = "y") -> list[NodeProto]:
    """y = -x; z = y reshaped to [first size of y, the others]; its target is computed, as exporters do."""
    return [
        helper.make_node("Neg", ["x"], ["y"], "neg"),
        helper.make_node(
            kind, [source], ["size"], "size", **({"start": -2, "end": 9} if kind == "Shape" else {})
        ),
        helper.make_node("Cast", ["size"], ["float"], "cast", to=FLOAT),
        helper.make_node("ReduceProd", ["float"], ["product"], "product", keepdims=0),
        helper.make_node("Cast", ["product"], ["whole"], "back", to=INT64),
        helper.make_node("Unsqueeze", ["whole", "zero"], ["last"], "unsqueeze"),
        helper.make_node("Concat", ["minus", "last"], ["target"], "concat", axis=0),
        helper.make_node("Reshape", ["y", "target"], ["z"], "reshape"),
        helper.make_node("Abs", ["z"], ["out"], "abs"),
    ]


NUMBERS = [
    numpy_helper.from_array(np.array([0], np.int64), "zero"),
    numpy_helper.from_array(np.array([-1], np.int64), "minus"),
]


def same(graph: Graph, pins: dict[str, str] | None = None) -> editor.Plan:
    inputs = random_inputs(graph, 0)
    plan = editor.partition(graph, REAL, pins=pins or {})
    whole = compile_whole(graph, editor.load_devices("HETERO:CPU")[0]).run(inputs)
    split = plan.run(inputs)
    assert whole.keys() == split.keys()
    for name in whole:
        np.testing.assert_array_equal(whole[name], split[name])
    return plan


@pytest.mark.parametrize("kind", ["Shape", "Size"])
def test_a_chain_that_reads_a_fixed_size_moves_nothing_and_computes_the_same(
    tmp_path: Path, kind: str
) -> None:
    graph = load(
        tmp_path / "m.onnx",
        flattening(kind),
        [value("x", [2, 3, 4])],
        [value("out", ["a", "b"])],
        initializers=NUMBERS,
    )
    assert {graph.op_names[op] for op in np.flatnonzero(~graph.op_is_constant)} == {
        "neg",
        "reshape",
        "abs",
    }
    plan = same(graph, {"z": "ov", "out": "ref", "y": "ort"})
    assert [(b.tensor, b.bytes) for b in plan.placement.boundaries] == [("y", 96), ("z", 96)]
    assert plan.run({"x": np.ones((2, 3, 4), np.float32)})["out"].shape == (
        (2, 12) if kind == "Shape" else (1, 24)
    )


def test_a_pinned_one_runs_where_it_was_pinned_and_reads_nothing(tmp_path: Path) -> None:
    graph = load(
        tmp_path / "m.onnx",
        flattening(),
        [value("x", [2, 3, 4])],
        [value("out", ["a", "b"])],
        initializers=NUMBERS,
    )
    plan = same(graph, {"size": "ref", "target": "ov", "y": "ort", "z": "ort"})
    device_of = {key: s.device for s in plan.subgraphs for key in s.ops}
    assert device_of["size"] == "ref" and device_of["target"] == "ov"
    assert next(s.inputs for s in plan.subgraphs if "size" in s.ops) == ()


def test_where_the_size_is_open_nothing_changes(tmp_path: Path) -> None:
    graph = load(
        tmp_path / "m.onnx",
        flattening(),
        [value("x", [2, "n", 4])],
        [value("out", ["a", "b"])],
        initializers=NUMBERS,
    )
    assert not graph.op_is_size.any() and not graph.op_is_constant.any()
    fixed = editor.load_model(tmp_path / "m.onnx", {"n": 5})
    assert fixed.op_is_size.sum() == 1 and fixed.op_is_constant.sum() == 6


def test_a_size_that_only_the_file_declares_is_not_relied_on(tmp_path: Path) -> None:
    """NonZero finds as many as there are, whatever the file says of it, as an inner tensor or as an output."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["found"], "found"),
        helper.make_node("Shape", ["found"], ["count"], "count"),
        helper.make_node("Add", ["count", "minus"], ["out"], "add"),
    ]
    lie, out = value("found", [1, 7], INT64), value("out", [2], INT64)
    for declared, outputs in (([lie], [out]), ([], [out, lie])):
        graph = load(tmp_path / "m.onnx", nodes, [value("x", [9])], outputs, declared, NUMBERS)
        assert not graph.op_is_size.any()


def test_the_size_of_a_default_that_a_run_may_replace_is_read_in_each_run(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["w"], ["size"], "size"),
        helper.make_node("Add", ["size", "minus"], ["sum"], "sum"),
        helper.make_node("Cast", ["sum"], ["float"], "cast", to=FLOAT),
        helper.make_node("Mul", ["x", "float"], ["out"], "mul"),
    ]
    weight = numpy_helper.from_array(np.ones(4, np.float32), "w")
    graph = load(
        tmp_path / "m.onnx",
        nodes,
        [value("x", [1]), value("w", [4])],
        [value("out", [1])],
        initializers=[weight, *NUMBERS],
    )
    assert not graph.op_is_size.any()
    graph = load(
        tmp_path / "m.onnx",
        nodes,
        [value("x", [1])],
        [value("out", [1])],
        initializers=[weight, *NUMBERS],
    )
    assert graph.op_is_size.sum() == 1
    assert same(graph).run({"x": np.full(1, 2, np.float32)})["out"].tolist() == [6]


def test_a_size_that_is_an_output_of_the_model_is_an_op(tmp_path: Path) -> None:
    graph = load(
        tmp_path / "m.onnx",
        flattening(),
        [value("x", [2, 3, 4])],
        [value("out", ["a", "b"]), value("size", [2], INT64)],
        initializers=NUMBERS,
    )
    assert "size" in {graph.op_names[op] for op in np.flatnonzero(~graph.op_is_constant)}
    same(graph, {"y": "ov", "size": "ort", "z": "ref"})


def test_a_size_that_a_body_needs_stays_an_op(tmp_path: Path) -> None:
    """A runtime puts the branch of a constant condition in the place of an If, and may refuse what it finds in it."""

    def body(name: str, kind: str) -> onnx.GraphProto:
        return helper.make_graph(
            [helper.make_node(kind, ["x", "scale"], [name])], name, [], [value(name, [2, 3])]
        )

    nodes = [
        helper.make_node("Shape", ["x"], ["size"], "size"),
        helper.make_node("Cast", ["size"], ["sizes"], "cast", to=FLOAT),
        helper.make_node("ReduceMax", ["sizes"], ["scale"], "scale", keepdims=0),
        helper.make_node(
            "If", ["c"], ["z"], "if", then_branch=body("t", "Mul"), else_branch=body("e", "Add")
        ),
        helper.make_node("Neg", ["z"], ["out"], "neg"),
    ]
    graph = load(
        tmp_path / "m.onnx",
        nodes,
        [value("x", [2, 3]), value("c", [], TensorProto.BOOL)],
        [value("out", [2, 3])],
    )
    assert not graph.op_is_size.any()
    same(graph, {"z": "ort", "out": "ov"})


def test_a_device_without_integers_loses_no_subgraph_to_a_chain_of_sizes(tmp_path: Path) -> None:
    graph = load(
        tmp_path / "m.onnx",
        flattening(),
        [value("x", [2, 3, 4])],
        [value("out", ["a", "b"])],
        initializers=NUMBERS,
    )
    npu = {"name": "npu", "backendName": "NPU", "supportedNodes": ["Neg", "Reshape", "Abs"]}
    plan = editor.partition(graph, [npu, {"name": "cpu", "backendName": "CPU"}])
    assert [s.device for s in plan.subgraphs] == ["npu"]
