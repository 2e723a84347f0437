"""Dimensions that no tensor can have are refused in words, by whatever first makes a value of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import REAL, save_net
from onnx import TensorProto, helper

import editor
from editor.execution.invented_inputs import random_inputs

HUGE = [
    [1 << 40],
    [1 << 62, 4],
    [1 << 32, 1 << 32],
    [(1 << 63) - 1],
    [0, 1 << 62],
    [1 << 33, 0, 1 << 33],
    [1 << 16] * 5,
]
NEGATIVE = [[-5], [-(1 << 63)], [0, -5], [-1, -1]]
KINDS = [
    TensorProto.FLOAT,
    TensorProto.INT64,
    TensorProto.BOOL,
    TensorProto.STRING,
    TensorProto.FLOAT16,
    TensorProto.COMPLEX64,
]


def write_model(
    path: Path, dims: Sequence[int], kind: int, op: str = "Identity", initializer: bool = False
) -> Path:
    """An op that reads a tensor of these dims, and a Relu after it."""
    value = helper.make_tensor_value_info
    sized = TensorProto(name="w", data_type=kind, dims=dims)
    reads = {
        "Identity": ["w"],
        "Expand": ["x", "w"],
        "Add": ["w", "w"],
        "Reshape": ["x", "w"],
        "Concat": ["x", "w"],
    }[op]
    graph = helper.make_graph(
        [helper.make_node(op, reads, ["y"], **({"axis": 0} if op == "Concat" else {}))],
        "sizes",
        [value("x", TensorProto.FLOAT, [1])] + ([] if initializer else [value("w", kind, dims)]),
        [value("y", kind, None)],
        [sized] if initializer else [],
    )
    path.write_bytes(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        ).SerializeToString()
    )
    return path


@pytest.mark.parametrize("dims", [*HUGE, *NEGATIVE], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_an_input_that_cannot_be_made_is_named_with_its_size(
    tmp_path: Path, dims: list[int], kind: int
) -> None:
    graph = editor.load_model(write_model(tmp_path / "m.onnx", dims, kind))
    with pytest.raises(
        editor.EditorError, match=r"input 'w'.*(" + re.escape("x".join(map(str, dims))) + r"|\?)"
    ):
        editor.partition(graph, REAL)
        random_inputs(graph)


@pytest.mark.parametrize(
    ("dims", "op"),
    [
        *(
            (dims, op)
            for dims in [*HUGE, *NEGATIVE]
            for op in ("Identity", "Add", "Reshape", "Expand")
        ),
        *((dims, "Concat") for dims in NEGATIVE),
    ],
    ids=str,
)  # of others ONNX itself computes the values, until a limit ends it
def test_initializers_of_such_sizes_are_planned_for_or_refused(
    tmp_path: Path, dims: list[int], op: str
) -> None:
    kind = TensorProto.INT64 if op in ("Reshape", "Expand") else TensorProto.FLOAT
    for initializer in (True, False):
        path = write_model(tmp_path / f"{initializer}.onnx", dims, kind, op, initializer)
        try:
            editor.partition(path, REAL)
            editor.partition(
                path, [*REAL[1:], {"name": "NPU", "backendName": "NPU"}], policy="optimal"
            )
        except editor.EditorError:
            pass


def test_a_shape_of_very_many_dimensions_is_refused_or_unknown(tmp_path: Path) -> None:
    """ONNX would make each of the dimensions: of a declared operand, and of one whose length shape inference finds."""
    value = helper.make_tensor_value_info
    save_net(
        tmp_path / "m.onnx",
        [
            helper.make_node("Cast", ["w"], ["cast"], to=TensorProto.INT64),
            helper.make_node("Squeeze", ["cast"], ["list"]),
            helper.make_node("Reshape", ["x", "list"], ["y"]),
        ],
        [value("w", TensorProto.FLOAT, [1, 1 << 40]), value("x", TensorProto.FLOAT, [1])],
        [value("y", TensorProto.FLOAT, None)],
        name="rank",
    )
    assert len(editor.load_model(tmp_path / "m.onnx")) == 3
    declared = write_model(tmp_path / "d.onnx", [1 << 40], TensorProto.INT64, "Reshape")
    with pytest.raises(editor.ModelError, match="'y'.*'w'.*1099511627776.*dimensions"):
        editor.load_model(declared)


def test_a_result_that_numpy_cannot_hold_is_refused(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    shape = helper.make_tensor("s", TensorProto.INT64, [2], [0, 1 << 62])
    save_net(
        tmp_path / "m.onnx",
        [helper.make_node("Expand", ["x", "s"], ["y"])],
        [value("x", TensorProto.FLOAT, [1, 1])],
        [value("y", TensorProto.FLOAT, None)],
        [shape],
        name="expand",
    )
    plan = editor.partition(tmp_path / "m.onnx", "HETERO:CPU")
    with pytest.raises(editor.EditorError, match="cannot be read"):
        plan.run(random_inputs(plan.graph))
