"""What outputs are compared, and what they are held to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import editor
from editor.execution.measure.mismatch import compare, drawn_outputs
from editor.graph.graph import Graph

node = helper.make_node


def graph_of(
    path: Path,
    nodes: Sequence[NodeProto],
    outputs: Mapping[str, int],
    weights: Sequence[TensorProto] = (),
) -> Graph:
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info(name, kind, [4]) for name, kind in outputs.items()],
        weights,
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return editor.load_model(path)


def branches(made: NodeProto) -> dict[str, Any]:
    result = helper.make_tensor_value_info(made.output[0], TensorProto.FLOAT, [4])
    other = helper.make_tensor_value_info("other", TensorProto.FLOAT, [4])
    return {
        "then_branch": helper.make_graph([made], "then", [], [result]),
        "else_branch": helper.make_graph([node("Neg", ["x"], ["other"])], "else", [], [other]),
    }


def truth(value: bool) -> TensorProto:
    return numpy_helper.from_array(np.array(value), "training")


DRAWING = {
    "an op": ([node("RandomNormalLike", ["x"], ["r"], "noise")], []),
    "a body": (
        [
            node("ReduceSum", ["x"], ["s"], keepdims=0),
            node("Cast", ["s"], ["c"], to=TensorProto.BOOL),
            node("If", ["c"], ["r"], "noise", **branches(node("RandomUniformLike", ["x"], ["b"]))),
        ],
        [],
    ),
    "training": ([node("Dropout", ["x", "", "training"], ["r"], "noise")], [truth(True)]),
}


@pytest.mark.parametrize("case", DRAWING)
def test_outputs_that_depend_on_random_numbers_are_not_compared(tmp_path: Path, case: str) -> None:
    nodes, weights = DRAWING[case]
    outputs = {"y": TensorProto.FLOAT, "z": TensorProto.FLOAT}
    ends = [node("Abs", ["r"], ["y"]), node("Neg", ["x"], ["z"])]
    plan = editor.partition(
        graph_of(tmp_path / "m.onnx", [*nodes, *ends], outputs, weights), "HETERO:CPU"
    )
    result = plan.benchmark(seconds=0.05)
    assert result.difference is not None and [o.name for o in result.difference.outputs] == ["z"]
    assert result.difference.within_tolerance
    assert "'noise'" in result.difference_problem
    assert "draws random numbers, so 'y' differs in every run" in result.text()
    alone = editor.partition(
        graph_of(tmp_path / "a.onnx", [*nodes, ends[0]], {"y": TensorProto.FLOAT}, weights),
        "HETERO:CPU",
    ).benchmark(seconds=0.05)
    assert alone.difference is None and "OUTSIDE" not in alone.text()
    assert "Not compared with the unsplit model: 'noise'" in alone.text()


@pytest.mark.parametrize(
    "made",
    [node("Dropout", ["x"], ["r"]), node("Dropout", ["x", "", "training"], ["r"])],
)
def test_a_dropout_outside_training_is_compared(tmp_path: Path, made: NodeProto) -> None:
    weights = [truth(False)] if "training" in made.input else []
    nodes = [made, node("Abs", ["r"], ["y"])]
    assert not drawn_outputs(
        graph_of(tmp_path / "m.onnx", nodes, {"y": TensorProto.FLOAT}, weights)
    )


def within(graph: Graph, kind: Any, value: float, gap: float) -> bool:
    expected: dict[str, Any] = {"y": np.full(4, value, kind)}
    return compare("r", expected, {"y": expected["y"] + kind(gap)}, graph=graph).within_tolerance


def test_a_value_is_held_to_the_narrowest_float_type_on_its_way(tmp_path: Path) -> None:
    as_double = node("Cast", ["a"], ["y"], to=TensorProto.DOUBLE)
    late = graph_of(
        tmp_path / "late.onnx", [node("Abs", ["x"], ["a"]), as_double], {"y": TensorProto.DOUBLE}
    )
    assert within(late, np.float64, 1, 1e-5) and not within(late, np.float64, 1, 1e-2)
    early = graph_of(
        tmp_path / "early.onnx",
        [node("Cast", ["x"], ["a"], to=TensorProto.DOUBLE), node("Abs", ["a"], ["y"])],
        {"y": TensorProto.DOUBLE},
    )
    assert not within(early, np.float64, 1, 1e-5)
    half = graph_of(
        tmp_path / "half.onnx",
        [
            node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
            node("Abs", ["h"], ["a"]),
            node("Cast", ["a"], ["y"], to=TensorProto.FLOAT),
        ],
        {"y": TensorProto.FLOAT},
    )
    assert within(half, np.float32, 1, 5e-3) and not within(half, np.float32, 1, 5e-2)


def test_shares_are_compared_with_one_and_not_with_the_largest_of_them(tmp_path: Path) -> None:
    share = [node("Sigmoid", ["x"], ["s"]), node("Reshape", ["s", "size"], ["y"])]
    size = [numpy_helper.from_array(np.array([4], np.int64), "size")]
    shares = graph_of(tmp_path / "s.onnx", share, {"y": TensorProto.FLOAT}, size)
    assert within(shares, np.float32, 2.9e-8, 1.7e-8) and not within(shares, np.float32, 0.5, 0.1)
    plain = graph_of(tmp_path / "p.onnx", [node("Neg", ["x"], ["y"])], {"y": TensorProto.FLOAT})
    assert not within(plain, np.float32, 2.9e-8, 1.7e-8)
