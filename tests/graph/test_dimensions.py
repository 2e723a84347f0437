"""Sizes of dimensions that follow from each other, and those that contradict each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import save_net
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.__main__ import main
from editor.graph.dimension_meanings import (
    sizes_apart,
    sizes_in_words,
    with_names,
    words_of_dimension,
)
from editor.graph.dimensions import Dimensions, Expression


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a + b", 7),
        ("2*a + 3 * b - 1", 18),
        ("a*b", 10),
        ("a - b", -3),
        ("3", 3),
        ("a + c", None),
        ("b-1", None),
    ],
)
def test_sums_and_products_have_values(text: str, value: int | None) -> None:
    expression = Expression.parse(text)
    assert (expression and expression.value({"a": 2, "b": 5})) == value


@pytest.mark.parametrize("text", ["a", "a-b", "", "floor(h/2 - 1/2)", "a +", "*", "a b"])
def test_what_is_no_sum_is_a_name(text: str) -> None:
    assert Expression.parse(text) is None


DIMS = {"ids": ("batch", "new"), "mask": ("batch", "past + new"), "key": ("batch", 4, "past", "?")}


@pytest.mark.parametrize(
    ("define", "sizes"),
    [
        ({"past": 3, "new": 2}, {"past": 3, "new": 2}),
        ({"past + new": 5, "new": 2}, {"past": 3, "new": 2}),
        ({"mask[1]": 5, "key[2]": 3}, {"past": 3, "new": 2}),
        ({"past + new": 5}, {"past + new": 5}),
        ({"ids[0]": 2, "mask[0]": 2, "key[1]": 4}, {"batch": 2}),
    ],
)
def test_sizes_follow_from_each_other(define: dict[str, int], sizes: dict[str, int]) -> None:
    assert Dimensions(DIMS).sizes(define) == sizes


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (
            {"past": 16, "new": 64, "past + new": 7},
            r"--define past \+ new=7 cannot be with past=16 and new=64: past \+ new = 80",
        ),
        ({"past": 16, "past + new": 7}, r"with past=16: past \+ new = 7 has no solution"),
        (
            {"ids[0]": 2, "key[0]": 3},
            r"--define key\[0\]=3 contradicts --define ids\[0\]=2: .*'batch'",
        ),
        ({"key[1]": 8}, r"--define key\[1\]=8: the model fixes this size, it is 4"),
    ],
)
def test_contradictions_are_refused_with_the_equation(define: dict[str, int], message: str) -> None:
    with pytest.raises(editor.ModelError, match=message):
        Dimensions(DIMS).sizes(define)


def net(path: Path, dims: list[int | str | None], nodes: list[onnx.NodeProto]) -> Path:
    weights = {
        "w": np.ones((3, 3, 1, 1), np.float32),
        "s": np.array([1, 48]),
        "five": np.ones((5,), np.float32),
        "z": np.array([1, 1, 2, 2], np.float32),
    }
    used = {name for node in nodes for name in node.input}
    return save_net(
        path,
        nodes,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, n) for n, w in weights.items() if n in used],
        opset=18,
        ir_version=9,
    )


def test_axes_of_one_name_that_is_no_name_have_sizes_of_their_own(tmp_path: Path) -> None:
    path = net(tmp_path / "m.onnx", ["?", 3, "?", "?"], [helper.make_node("Relu", ["x"], ["y"])])
    graph = editor.load_model(path)
    assert graph.unbound == ("x[0]", "x[2]", "x[3]")
    graph = editor.load_model(path, {"x[2]": 48, "?": 5})
    assert graph.tensor_shapes[graph.inputs[0]] == graph.tensor_shapes[graph.outputs[0]]
    assert graph.tensor_shapes[graph.outputs[0]] == (5, 3, 48, 5)


def test_an_axis_that_has_a_name_can_be_called_by_its_place(tmp_path: Path) -> None:
    path = net(tmp_path / "m.onnx", ["N", 3, "h", "h"], [helper.make_node("Relu", ["x"], ["y"])])
    graph = editor.load_model(path, {"x[0]": 2, "x[3]": 7})
    assert graph.define == {"N": 2, "h": 7} and graph.unbound == ()


@pytest.mark.parametrize(
    ("nodes", "dims", "possible", "impossible", "message"),
    [
        (
            [
                helper.make_node("Conv", ["x", "w"], ["c"]),
                helper.make_node("Reshape", ["c", "s"], ["y"], "r"),
            ],
            ["N", 3, 4, 4],
            1,
            2,
            "Reshape r cannot read 2x3x4x4: the model makes 1x48 of it, whatever it is given",
        ),
        (
            [helper.make_node("Add", ["x", "five"], ["y"])],
            [2, "N"],
            1,
            4,
            "Add y cannot read 2x4 and 5: 4 and 5 must be equal",
        ),
        (
            [
                helper.make_node("AveragePool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
                helper.make_node("Resize", ["p", "", "z"], ["u"]),
                helper.make_node("Concat", ["u", "x"], ["y"], "c", axis=1),
            ],
            [1, 3, "N", 8],
            8,
            7,
            "Concat c cannot read 1x3x6x8 and 1x3x7x8: 6 and 7 must be equal",
        ),
        (
            [helper.make_node("MatMul", ["x", "x"], ["y"])],
            ["N", 3],
            3,
            4,
            "MatMul y cannot read 4x3 and 4x3: 3 and 4 must be equal",
        ),
    ],
    ids=["Reshape", "Add", "Concat", "MatMul"],
)
def test_sizes_that_a_model_cannot_have_are_noted_and_compared_as_impossible(
    tmp_path: Path,
    nodes: list[onnx.NodeProto],
    dims: list[int | str | None],
    possible: int,
    impossible: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = net(tmp_path / "m.onnx", dims, nodes)
    good = editor.load_model(path, {"N": possible})
    assert (good.impossible, good.notes) == ("", ())
    assert editor.load_model(path, {"N": impossible}).notes == (message,)
    plan = editor.partition(good, "HETERO:CPU")
    rows = plan.at_sizes({"N": [possible, impossible]})
    assert [(row.possible, row.problem) for row in rows] == [(True, ""), (False, message)]
    assert not rows[1].figures
    plan.save(tmp_path / "plan.json")
    assert main(["sizes", str(tmp_path / "plan.json"), f"N={possible},{impossible}"]) == 1
    assert f"impossible: {message}\n" in capsys.readouterr().out


def test_axes_and_sums_can_be_chosen_where_sizes_are_compared(tmp_path: Path) -> None:
    inputs = {"a": ["past"], "b": ["new"], "c": ["past + new"]}
    graph = helper.make_graph(
        [helper.make_node("Neg", [name], [f"{name}_out"]) for name in inputs],
        "net",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in inputs.items()],
        [helper.make_tensor_value_info(f"{n}_out", TensorProto.FLOAT, None) for n in inputs],
    )
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    plan = editor.partition(
        editor.load_model(tmp_path / "m.onnx", {"past": 4, "new": 1}), "HETERO:CPU"
    )
    rows = plan.at_sizes([{"a[0]": 8}, {"past + new": 12}, {"past": 1, "new": 2, "c[0]": 9}])
    assert [row.figures.get("memory", {}).get("CPU") for row in rows][:2] == [144, 4 * 4 * 12]
    assert "past + new = 3" in rows[2].problem and not rows[2].possible


def test_an_input_of_another_size_says_how_to_plan_for_it(tmp_path: Path) -> None:
    path = net(tmp_path / "m.onnx", ["N", 3, "?"], [helper.make_node("Relu", ["x"], ["y"])])
    plan = editor.partition(editor.load_model(path, {"N": 1, "x[2]": 4}), "HETERO:CPU")
    with pytest.raises(editor.ExecutionError, match=r"not 3x3x4; .* --define 'x\[0\]=3'$"):
        plan.run({"x": np.ones((3, 3, 4), np.float32)})
    with pytest.raises(editor.ExecutionError, match="not 3x4x4$"):
        plan.run({"x": np.ones((3, 4, 4), np.float32)})


def test_usual_names_of_dimensions_have_plain_words() -> None:
    assert words_of_dimension("past_sequence_length") == "past tokens"
    assert words_of_dimension("batch") == words_of_dimension("Batch_Size") == "batch"
    assert words_of_dimension("kv_cache_dim") == words_of_dimension("x[1]") == ""
    sizes = {"batch": 2, "past_sequence_length + 1": 1024, "kv_cache_dim": 64}
    assert sizes_in_words(sizes) == "batch 2, total tokens 1,024, kv_cache_dim 64"
    # two of one name would not tell which is which
    assert sizes_in_words({"batch": 1, "batch_size": 2}) == "batch 1, batch_size 2"
    step = {"batch_size": 1, "seq_len": 1, "total_seq_len": 128, "past_seq_len": 127}
    assert sizes_in_words(step) == "batch 1, 1 token after 127"
    assert sizes_in_words({**step, "total_seq_len": 4096}) == (
        "batch 1, 1 token after 127, total tokens 4,096"
    )
    prompt = {"seq_len": 64, "past_seq_len": 0}
    assert sizes_in_words(prompt) == "64 tokens at once"


def test_a_step_is_told_from_others_by_all_its_words() -> None:
    """A list had "past tokens 2,048, total tokens 2,049"."""
    step, other = (
        {"batch": 1, "seq_len": 1, "total_seq_len": past + 1, "past_seq_len": past}
        for past in (2048, 127)
    )
    assert sizes_apart(step, [step, other]) == "1 token after 2,048"
    assert sizes_apart(step, [step, step]) == sizes_apart(step, []) == ""


def test_sizes_may_be_typed_by_the_words_for_a_dimension() -> None:
    names = ("batch_size", "past_len", "kv_dim")
    typed = "Batch=1,2 past tokens = 7; past_len=8 kv_dim=4"
    assert with_names(typed, names) == "batch_size=1,2 past_len=7; past_len=8 kv_dim=4"
    assert with_names("batch=1 batch_size=2", ("batch", "batch_size")) == "batch=1 batch_size=2"
