"""What OpenVINO narrows is refused, unless the graph shows that nothing is lost; what it makes of NaN is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import save_net
from one_op_cases import Case, answer, cases, computed, expected, is_wrong, nan_cases
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.devices.table import load_devices

pytest.importorskip("openvino")


@pytest.mark.parametrize("kind", ["int32", "int64", "uint32", "uint64", "float64"])
def test_what_is_allowed_is_right(kind: str, tmp_path: Path) -> None:
    device = load_devices("HETERO:OpenVINO.CPU")[0]
    wrong = []
    for case in cases():
        if case.label.split()[1] != kind or (reference := expected(case)) is None:
            continue
        if is_wrong(reference, computed(case, device)) and not answer(case, device, tmp_path)[0]:
            wrong.append(case.label)
    assert not wrong


def _answer(label: str, folder: Path) -> tuple[str, tuple[str, ...]]:
    found: list[Case] = [c for c in (*cases(), *nan_cases()) if c.label == label]
    return answer(found[0], load_devices("HETERO:OpenVINO.CPU")[0], folder)


def test_the_reason_says_how_far_a_device_is_right(tmp_path: Path) -> None:
    assert "below 2^31" in _answer("Add int64", tmp_path)[0]
    assert "up to 2^24" in _answer("Div int32", tmp_path)[0]
    assert "7 digits" in _answer("Mul float64", tmp_path)[0]
    assert _answer("Add int32", tmp_path)[0] == _answer("Add float32", tmp_path)[0] == ""


def test_nan_is_a_remark_and_no_refusal(tmp_path: Path) -> None:
    for op in ("Relu", "Max", "Min"):
        reason, said = _answer(f"{op} of NaN", tmp_path)
        assert not reason
        assert f"drops NaN in {op}" in said[0]


def test_indices_and_masks_stay_and_hashes_do_not(tmp_path: Path) -> None:
    info, node = helper.make_tensor_value_info, helper.make_node
    nodes = [
        node("Add", ["ids", "one"], ["shifted"]),
        node("Gather", ["table", "shifted"], ["rows"], axis=0),
        node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        node("Mul", ["rows", "mask"], ["y"]),
        node("Add", ["stamp", "one"], ["later"]),
    ]
    ints = [info(n, TensorProto.INT64, [4]) for n in ("ids", "stamp")]
    path = tmp_path / "ids.onnx"
    save_net(
        path,
        nodes,
        [*ints, info("attention_mask", TensorProto.INT64, [4, 1])],
        [info("y", TensorProto.FLOAT, [4, 2]), info("later", TensorProto.INT64, [4])],
        [
            numpy_helper.from_array(np.int64(1), "one"),
            numpy_helper.from_array(np.ones((9, 2), np.float32), "table"),
        ],
        name="ids",
    )
    plan = editor.partition(editor.load_model(path), "HETERO:OpenVINO,CPU")
    assert {key for key, name in plan.affinity.items() if name == "CPU"} == {"later"}
    assert "below 2^31" in str(plan.why("later"))


NORMALISATIONS = {
    "LayerNormalization": ("", 17, "xgb"),
    "SimplifiedLayerNormalization": ("", 17, "xg"),
    "SkipLayerNormalization": ("com.microsoft", 17, "xsgb"),
    "SkipSimplifiedLayerNormalization": ("com.microsoft", 17, "xsg"),
    "RMSNormalization": ("", 23, "xg"),
    "InstanceNormalization": ("", 17, "xgb"),
    "GroupNormalization": ("", 21, "xgb"),
}


@pytest.mark.parametrize("epsilon", [None, 1e-12, 1e-5, 1e-3])
@pytest.mark.parametrize("kind", NORMALISATIONS)
def test_a_normalisation_is_allowed_where_it_is_right_on_small_values(
    kind: str, epsilon: float | None, tmp_path: Path
) -> None:
    """Values about 1 hide ``epsilon``: OpenVINO's default of ``SimplifiedLayerNormalization`` is another one."""
    domain, opset, operands = NORMALISATIONS[kind]
    shape, random = [2, 8, 8], np.random.default_rng(0)
    attributes: dict[str, Any] = {} if epsilon is None else {"epsilon": epsilon}
    if kind == "GroupNormalization":
        attributes["num_groups"] = 2
    info = helper.make_tensor_value_info
    weights = [
        numpy_helper.from_array(random.standard_normal(8).astype("f"), n)
        for n in operands
        if n in "gb"
    ]
    inputs = [info(n, TensorProto.FLOAT, shape) for n in operands if n in "xs"]
    node = helper.make_node(kind, list(operands), ["y"], domain=domain, **attributes)
    graph = helper.make_graph([node], "g", inputs, [info("y", TensorProto.FLOAT, shape)], weights)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    feeds = {v.name: (random.standard_normal(shape) * 1e-3).astype("f") for v in inputs}
    case = Case(kind, model, feeds)
    device = load_devices("HETERO:OpenVINO.CPU")[0]
    reference, found = expected(case), computed(case, device)
    is_right = np.allclose(found, reference, atol=0.01 * np.abs(reference).max())
    reason, _ = answer(case, device, tmp_path)
    assert bool(reason) != is_right
    if kind == "SimplifiedLayerNormalization" and epsilon is None:
        assert f"computes {kind} wrongly: off by up to" in reason
    else:
        assert is_right
