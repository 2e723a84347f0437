"""Local functions and Ifs whose condition is known are opened: what is planned and run is what the file computes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import ROOT
from onnx import TensorProto, helper

import editor
from editor.graph.scopes.tree import scopes_of
from editor.placement.search import search

TWINS = [
    {"name": n, "backendName": "onnxruntime", "provider": "CPUExecutionProvider"} for n in "AB"
]

FUNCTIONS = """
<ir_version: 10, opset_import: ["": 21, "net": 1]>
main (float[2,4] x, float[4,4] w) => (float[2,4] y) {
  [layers_0] a = net.block <slope = 0.5> (x, w)
  [layers_1] b = net.block (a, w)
  y = net.last (b)
}
<domain: "net", opset_import: ["": 21, "net": 1]>
block <slope: float = 0.25> (x, w, bias) => (y) {
  [mul] t = MatMul (x, w)
  u = LeakyRelu <alpha: float = @slope> (t)
  zero = Constant <value_float = 0.0> ()
  s = ReduceSum <keepdims = 0> (u)
  c = Greater (s, zero)
  i = If (c) <
    then_branch = then_of () => (float[2,4] o1) { o1 = Add (u, u) },
    else_branch = else_of () => (float[2,4] o2) { n = net.last (u) o2 = Neg (n) }
  >
  k = Clip (i, bias)
  y = Add (k, x)
}
<domain: "net", opset_import: ["": 21]>
last (x) => (x2) { t = Sigmoid (x) x2 = Mul (t, x) }
"""


def _file(folder: Path, text: str) -> Path:
    path = folder / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def _run(path: Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def _floats(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def test_ops_of_functions_are_placed_one_by_one_and_compute_what_the_file_does(
    tmp_path: Path,
) -> None:
    path = _file(tmp_path, FUNCTIONS)
    graph = editor.load_model(path)
    assert not set(graph.op_types) & {"block", "last"}
    assert graph.op_types.count("MatMul") == graph.op_types.count("LeakyRelu") == 2
    slopes = [dict(a).get("alpha") for a in graph.op_attributes]
    slopes = [slope for slope in slopes if slope]
    assert slopes == ["0.5", "0.25"]
    inputs = _floats(x=(2, 4), w=(4, 4))
    expected = _run(path, inputs)[0]
    placed = [k for k, fixed in zip(graph.op_keys, graph.op_is_constant, strict=True) if not fixed]
    for pins in ({}, dict.fromkeys(placed[::2], "B"), dict.fromkeys(placed[1::3], "B")):
        found = editor.partition(graph, TWINS, pins=pins).run(inputs)["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_calls_and_functions_are_blocks(tmp_path: Path) -> None:
    graph = editor.load_model(_file(tmp_path, FUNCTIONS))
    paths = {scope.path for scope in scopes_of(graph).scopes}
    assert {("layers_0", "block"), ("layers_1", "block"), ("last",)} <= paths
    assert {n for n in graph.op_names if n.startswith("layers_1/")} >= {"layers_1/block/mul"}


def test_functions_can_stay_closed(tmp_path: Path) -> None:
    path = _file(tmp_path, FUNCTIONS)
    for graph in (
        editor.load_model(path, keep_functions=True),
        editor.load_model(path, {"keep_functions": 1}),
    ):
        assert graph.op_types == ("block", "block", "last")
    inputs = _floats(x=(2, 4), w=(4, 4))
    plan = editor.partition(graph, TWINS, pins={"b": "B"})
    np.testing.assert_allclose(plan.run(inputs)["y"], _run(path, inputs)[0], rtol=1e-6)
    saved = editor.load_plan(plan.save(tmp_path / "plan.json"))
    assert saved.graph.op_types == graph.op_types
    arguments = [
        "partition",
        path,
        "--keep-functions",
        "--devices",
        "HETERO:CPU",
        "--out",
        tmp_path,
    ]
    command = [sys.executable, "-m", "editor", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "CPU: 3 ops" in done.stdout


def test_functions_of_other_versions_or_that_call_themselves_stay_closed(tmp_path: Path) -> None:
    text = FUNCTIONS.replace('<domain: "net", opset_import: ["": 21]>', '<domain: "net", opset_import: ["": 18]>')  # fmt: skip
    graph = editor.load_model(_file(tmp_path, text))
    assert "last" in graph.op_types and "block" not in graph.op_types
    model = onnx.parser.parse_model(FUNCTIONS)
    model.functions[1].node[0].op_type = "last"
    model.functions[1].node[0].domain = "net"
    onnx.save(model, tmp_path / "loop.onnx")
    assert "last" in editor.load_model(tmp_path / "loop.onnx").op_types


def test_what_a_function_returns_unchanged_or_twice_keeps_its_names(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        """<ir_version: 10, opset_import: ["": 21, "f": 1]>
        main (float[2] x) => (float[2] a, float[2] b, float[2] c) { a, b, c = f.same (x) }
        <domain: "f", opset_import: ["": 21]>
        same (x) => (x, t, t) { t = Neg (x) }""",
    )
    x = np.array([1, -2], np.float32)
    found = editor.partition(path, TWINS).run({"x": x})
    for name, expected in (("a", x), ("b", -x), ("c", -x)):
        np.testing.assert_array_equal(found[name], expected)


def _merged(folder: Path, condition: str = "use_cache_branch") -> Path:
    """A decoder with two branches, each with weights, and with names that occur outside."""

    def branch(name: str, op: str, seed: int) -> onnx.GraphProto:
        weight = np.random.default_rng(seed).standard_normal((4, 4)).astype(np.float32)
        return helper.make_graph(
            [
                helper.make_node("MatMul", ["h", "weight"], ["t"], "dense"),
                helper.make_node(op, ["t"], [f"{name}_out"], "last"),
                helper.make_node("Identity", ["h"], [f"{name}_h"]),
            ],
            name,
            [],
            [
                helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None),
                helper.make_tensor_value_info(f"{name}_h", TensorProto.FLOAT, None),
            ],
            [onnx.numpy_helper.from_array(weight, "weight")],
        )

    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("Exp", ["h"], ["weight_of_all"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])]
    if condition == "use_cache_branch":
        inputs.append(helper.make_tensor_value_info(condition, TensorProto.BOOL, [1]))
    else:
        nodes += [
            helper.make_node("Shape", ["x"], ["shape"], start=0, end=1),
            helper.make_node("Greater", ["shape", "two"], [condition]),
        ]
    nodes += [
        helper.make_node(
            "If",
            [condition],
            ["y", "z"],
            "decoder",
            then_branch=branch("then", "Sin", 1),
            else_branch=branch("else", "Cos", 2),
        ),
        helper.make_node("Add", ["y", "weight_of_all"], ["t"]),
    ]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 4]) for n in ("t", "z")]
    graph = helper.make_graph(nodes, "merged", inputs, outputs)
    graph.initializer.append(onnx.numpy_helper.from_array(np.array([2], np.int64), "two"))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = folder / "merged.onnx"
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("value", [0, 1])
def test_a_chosen_input_puts_its_branch_in_the_place_of_an_if(tmp_path: Path, value: int) -> None:
    path = _merged(tmp_path)
    graph = editor.load_model(path, {"n": 3, "use_cache_branch": value})
    assert "If" not in graph.op_types
    assert ("Sin" in graph.op_types, "Cos" in graph.op_types) == (value == 1, value == 0)
    inputs = _floats(x=(3, 4))
    expected = _run(path, {**inputs, "use_cache_branch": np.array([bool(value)])})
    plan = editor.partition(graph, TWINS, pins={"y": "B"})
    assert len(plan.subgraphs) > 1
    again = editor.load_plan(plan.save(tmp_path / "plan.json"))
    for each in (plan, again):
        found = each.run(inputs)
        np.testing.assert_allclose(found["t"], expected[0], rtol=1e-6)
        np.testing.assert_allclose(found["z"], expected[1], rtol=1e-6)


@pytest.mark.parametrize("size", [2, 3])
def test_a_size_that_decides_a_condition_opens_the_branch_that_it_chooses(
    tmp_path: Path, size: int
) -> None:
    path = _merged(tmp_path, "is_long")
    assert "If" in editor.load_model(path).op_types, "nothing is known without the size"
    graph = editor.load_model(path, {"n": size})
    assert ("Sin" in graph.op_types, "Cos" in graph.op_types) == (size > 2, size <= 2)
    inputs = _floats(x=(size, 4))
    found = editor.partition(graph, TWINS, pins={"y": "B"}).run(inputs)
    for name, expected in zip("tz", _run(path, inputs), strict=True):
        np.testing.assert_allclose(found[name], expected, rtol=1e-6)


def test_values_that_an_input_cannot_have_are_refused(tmp_path: Path) -> None:
    path = _merged(tmp_path)
    for define in ({"use_cache_branch": 2}, {"keep_functions": 2}):
        with pytest.raises(editor.ModelError, match=next(iter(define))):
            editor.load_model(path, define)


def test_ops_in_bodies_are_found_and_explained(tmp_path: Path) -> None:
    path = _merged(tmp_path)
    plan = editor.partition(editor.load_model(path, {"n": 3}), TWINS)
    assert {(op.key, op.body) for op in plan.graph.inner_ops} == {
        (key, f"{name}_branch")
        for name in ("then", "else")
        for key in ("t", f"{name}_out", f"{name}_h")
    }
    why = str(plan.why("then_out"))
    assert "then_out is in the then_branch of decoder (If), which is placed as one op" in why
    with pytest.raises(editor.PinError, match="then_branch of decoder .* pin 'y'"):
        editor.partition(plan.graph, TWINS, pins={"then_out": "B"})
    results = search(plan.placement, "sin")
    assert [found.title for found in results.found] == ["last"]
    assert "in the then_branch of decoder" in results.found[0].detail
    assert results.ops == (plan.graph.key_index["y"],)
