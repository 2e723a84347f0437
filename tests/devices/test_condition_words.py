"""What an op lacks of a condition of a device table, in words."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import onnx
import pytest
from conftest import EXAMPLES
from onnx import TensorProto, helper

import editor
from editor.devices.condition_words import lack_of
from editor.devices.expressions import Expression, holds
from editor.devices.published import (
    OpFields,
    effective_types,
    need_of,
    preset_names,
    reason_of_all,
)
from editor.graph.graph import Graph
from editor.text import joined

MODELS = sorted(path.name for path in (EXAMPLES / "models").glob("*.onnx"))


@pytest.fixture(scope="module")
def conv(tmp_path_factory: pytest.TempPathFactory) -> OpFields:
    """A Conv of four groups, strides of 4, constant weights and a batch that is not fixed."""
    path: Path = tmp_path_factory.mktemp("conv") / "m.onnx"
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=4, strides=[4, 4], pads=[1, 1, 1, 1])
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, 8, 8])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 1, 3, 3], [1.0] * 36)
    model = helper.make_model(
        helper.make_graph([node], "g", inputs, outputs, [weights]),
        ir_version=10,
        opset_imports=[helper.make_opsetid("", 17)],
    )
    onnx.save(model, path)
    return OpFields(editor.load_model(path), 0)


@pytest.mark.parametrize(
    ("condition", "need", "has"),
    [
        ("strides[0] <= 3 and strides[1] <= 3", "strides of at most 3", "strides 4"),
        ("strides[0] <= 3", "strides[0] of at most 3", "strides[0] 4"),
        ("rank == 4 and group == 1", "group 1", "group 4"),
        (
            "group == 1 and (strides == (1, 1) or (dilations == (1, 1) and pads == (0, 0, 0, 0)))",
            "group 1, and either strides 1, or pads 0",
            "group 4, strides 4 and pads 1",
        ),
        ("dtype in (int8, uint8)", "element type int8 or uint8", "element type float32"),
        ("dtype != float*", "element type other than float*", "element type float32"),
        ("rank in (2, 3)", "rank 2 or 3", "rank 4"),
        ("3 < rank < 4", "rank below 4", "rank 4"),
        ("32 <= kernel_shape[0]", "kernel_shape[0] of at least 32", "kernel_shape[0] 3"),
        ("kernel_shape[0] * 2 < 6", "kernel_shape[0] × 2 below 6", "kernel_shape[0] × 2 6"),
        ("auto_pad in (VALID, SAME_UPPER)", "auto_pad VALID or SAME_UPPER", "auto_pad NOTSET"),
        ("0 not in computed", "a constant first input", "a computed first input"),
        ("shape[0] == 1", "first dimension 1", "shape n×4×8×8"),
        ("shape[-1] > 8", "last dimension above 8", "last dimension 8"),
        ("dtype_b == int8", "second input's element type int8", None),
        ("group == shape[3]", "group equal to fourth dimension (8)", "group 4"),
        ("group in (1, shape[0])", "group 1 or first dimension (unknown)", "group 4"),
        ("pads == (1, 1)", "pads (1, 1)", "pads (1, 1, 1, 1)"),
        ("not (group == 4 and rank == 4)", "either group other than 4, or rank other than 4", None),
        ("not not rank < 4", "rank below 4", "rank 4"),
        ("axis == 1", "axis 1", "no axis"),
        ("false", "false", ""),
        ("1 in computed", "1 in computed", ""),
        ("rank == 4 and 1 == 2", "1 == 2", ""),
    ],
)
def test_what_is_needed_and_what_the_op_has(
    conv: OpFields, condition: str, need: str, has: str | None
) -> None:
    lack = lack_of(Expression(condition, "condition"), conv)
    assert lack.need == need
    assert has is None or joined(list(lack.has)) == has


def test_a_condition_that_is_nested_deeply_has_a_reason(conv: OpFields) -> None:
    for part in ("group == 1", "1 == 2"):
        deep = part
        while len(deep) < 1900:
            deep = f"({deep} and {part}) or {part}" if len(deep) % 2 else f"({deep}) and {part}"
        condition = Expression(deep, "condition")
        assert not condition.holds(conv) and lack_of(condition, conv).need


@pytest.mark.parametrize("name", MODELS)
def test_no_part_that_holds_is_said_to_be_lacking(name: str) -> None:
    """Every condition of every preset, for every op of an example model: also ops of types that it is not meant for."""
    graph: Graph = editor.load_model(EXAMPLES / "models" / name)
    conditions: dict[str, set[Expression]] = {}
    for preset in preset_names():
        table = editor.load_devices(f"HETERO:N({preset})")[0].published
        found = conditions.setdefault(table.assumes, set())
        found |= {entry.where for entry in table.supported if entry.where}
    lacks = 0
    for assumes, several in conditions.items():
        types = effective_types(graph, assumes)
        rows = [OpFields(graph, op, types) for op in range(len(graph))]
        for condition, row in itertools.product(several, rows):
            if condition.holds(row):
                continue
            lack, unmet = lack_of(condition, row), condition.unmet(row)
            assert lack.need
            lacks += bool(lack.has)
            for part in ast.walk(unmet):
                if isinstance(part, ast.Compare):
                    assert not holds(part, row, "part"), (condition.text, ast.unparse(part))
    assert lacks > 1000


def test_ops_that_lack_the_same_have_one_reason() -> None:
    reasons = [f"MatMul: needs rank 2 (https://a.b); this op has rank {rank}" for rank in (3, 4, 3)]
    assert len(set(map(need_of, reasons))) == 1
    both = "MatMul: needs rank 2 (https://a.b); these ops have rank 3, or rank 4"
    assert reason_of_all(reasons) == both
    assert reason_of_all(reasons[:1]) == reasons[0]
    assert reason_of_all(["not in the list"] * 2) == "not in the list"
