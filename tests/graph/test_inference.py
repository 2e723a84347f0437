"""Types that ONNX does not know: ONNX Runtime is asked for them, and they are those of its results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

import editor

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
MS = "com.microsoft"


def open_value(name: str) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=name)


def saved(
    path: Path,
    nodes: Sequence[NodeProto],
    outputs: Sequence[onnx.ValueInfoProto],
    functions: Sequence[onnx.FunctionProto] = (),
) -> Path:
    values = {
        "b": np.ones(8, np.float32),
        "w": np.ones((8, 8), np.float32),
        "trips": np.array(3),
        "yes": np.array(True),
    }
    read = {name for node in nodes for name in node.input} | {"w"}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [2, 8])],
        outputs,
        [numpy_helper.from_array(v, n) for n, v in values.items() if n in read],
    )
    domains = {("", 18), (MS, 1), ("ai.onnx.ml", 3), ("strange", 1), ("local", 1)}
    opsets = [helper.make_opsetid(*domain) for domain in sorted(domains)]
    onnx.save(
        helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=list(functions)),
        path,
    )
    return path


def body(
    nodes: Sequence[NodeProto], inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[str]
) -> GraphProto:
    return helper.make_graph(nodes, "body", inputs, [open_value(name) for name in outputs])


node = helper.make_node
ITERATION = [
    helper.make_tensor_value_info("i", INT64, []),
    helper.make_tensor_value_info("c", BOOL, []),
    helper.make_tensor_value_info("s", FLOAT, None),
]
CASES: dict[str, list[NodeProto]] = {
    "contrib": [
        node("BiasGelu", ["x", "b"], ["g"], domain=MS),
        node("Shape", ["g"], ["s"]),
        node("Reshape", ["g", "s"], ["r"]),
        node("FusedMatMul", ["r", "w"], ["y"], domain=MS, transB=1),
    ],
    "default-domain": [
        node("SimplifiedLayerNormalization", ["x", "b"], ["n"], axis=-1),
        node("Relu", ["n"], ["y"]),
    ],
    "ml": [
        node("Binarizer", ["x"], ["n"], domain="ai.onnx.ml", threshold=0.5),
        node("Concat", ["n", "x"], ["y"], axis=0),
    ],
    "loop": [
        node(
            "Loop",
            ["trips", "", "x"],
            ["l"],
            body=body(
                [
                    node("BiasGelu", ["s", "k"], ["t"], domain=MS),
                    node("Identity", ["c"], ["co"]),
                    node("Constant", [], ["k"], value=numpy_helper.from_array(np.ones(8, np.float32))),
                ][::-1],
                ITERATION,
                ["co", "t"],
            ),
        ),
        node("Relu", ["l"], ["y"]),
    ],
    "branches": [
        node(
            "If",
            ["yes"],
            ["h"],
            then_branch=body([node("QuickGelu", ["x"], ["t"], domain=MS)], [], ["t"]),
            else_branch=body([node("Neg", ["x"], ["e"])], [], ["e"]),
        ),
        node("Relu", ["h"], ["y"]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
def test_types_are_those_of_the_results_of_onnx_runtime(tmp_path: Path, kind: str) -> None:
    path = saved(tmp_path / "m.onnx", CASES[kind], [open_value("y")])
    model, graph = onnx.load(path), editor.load_model(path)
    names = [name for n in model.graph.node for name in n.output if name in graph.tensor_index]
    names = [n for n in names if not graph.tensor_is_constant[graph.tensor_index[n]]]
    del model.graph.output[:]
    model.graph.output.extend(map(open_value, names))
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    results = session.run(names, {"x": np.ones((2, 8), np.float32)})
    for name, result in zip(names, results, strict=True):
        tensor = graph.tensor_index[name]
        known = graph.tensor_types[tensor], graph.tensor_shapes[tensor]
        assert known == (str(result.dtype), result.shape), name


def test_a_value_that_grows_in_a_loop_keeps_what_stays_the_same(tmp_path: Path) -> None:
    grow = body(
        [node("Concat", ["s", "s"], ["t"], axis=0), node("Identity", ["c"], ["co"])],
        ITERATION,
        ["co", "t"],
    )
    path = saved(
        tmp_path / "m.onnx", [node("Loop", ["trips", "", "x"], ["y"], body=grow)], [open_value("y")]
    )
    graph = editor.load_model(path)
    assert graph.tensor_shapes[graph.tensor_index["y"]] == ("?", 8)


AROUND_A_STRANGER = [
    node("Relu", ["x"], ["a"]),
    node("Strange", ["a"], ["z"], domain="strange"),
    node("Neg", ["z"], ["y"]),
]


def test_an_op_with_unknown_operands_is_not_asked_about(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", AROUND_A_STRANGER, [open_value("y")])
    plan = editor.partition(path, "HETERO:CPU,OpenVINO.CPU,NPU")
    said = {v.device: v.reason for v in plan.why("y").verdicts}
    assert said["CPU"] == said["OpenVINO.CPU"] == "not asked: the type of 'z' is not known"


def test_weights_outside_are_not_read(tmp_path: Path) -> None:
    """The file of weights is not even there."""
    path = saved(tmp_path / "m.onnx", CASES["contrib"], [open_value("y")])
    model = onnx.load(path)
    weight = next(t for t in model.graph.initializer if t.name == "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="gone.bin")
    onnx.save(model, path)
    graph = editor.load_model(path)
    assert graph.tensor_shapes[graph.tensor_index["y"]] == (2, 8)


def test_no_bound_is_proved_over_unknown_sizes(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", AROUND_A_STRANGER, [open_value("y")])
    assert editor.partition(path, "HETERO:GPU,NPU", "optimal").placement.assignment.bound is None
    known = saved(tmp_path / "k.onnx", CASES["contrib"], [open_value("y")])
    assert (
        editor.partition(known, "HETERO:GPU,NPU", "optimal").placement.assignment.bound is not None
    )


@pytest.mark.parametrize("fault", ["bodies", "inputs", "outputs", "carried", "types", "captured"])
@pytest.mark.parametrize("op", ["If", "Loop"])
def test_bodies_that_do_not_fit_their_op_are_refused_or_unknown(
    tmp_path: Path, op: str, fault: str
) -> None:
    """One branch of an If ended the load with an internal error."""
    value, flag = helper.make_tensor_value_info, TensorProto.BOOL
    inputs = [value("i", TensorProto.INT64, []), value("c", flag, []), value("v", 1, [2])]
    made = "missing" if fault == "captured" else "given"
    nodes = [
        helper.make_node("Identity", ["go"], ["c_out"]),
        helper.make_node("FusedGelu", [made], ["v_out"], domain="com.unknown"),
        helper.make_node("Cast", ["given"], ["typed"], to=TensorProto.INT32),
    ]
    results = {"If": ["v_out"], "Loop": ["c_out", "typed" if fault == "types" else "v_out"]}[op]
    bodies = [
        helper.make_graph(
            nodes,
            f"body{number}",
            [] if op == "If" else inputs[: 2 if fault == "inputs" else 3],
            [open_value(name) for name in results][: 0 if fault == "outputs" and number else None],
        )
        for number in range({"If": 2, "Loop": 1}[op])
    ]
    names = {"If": ["then_branch", "else_branch"], "Loop": ["body"]}[op]
    if fault == "bodies":
        names.pop()
    reads = ["go"] if op == "If" else ["", "go", *["given"] * (2 if fault == "carried" else 1)]
    node = helper.make_node(op, reads, ["y"], **dict(zip(names, bodies, strict=False)))
    graph = helper.make_graph(
        [node, helper.make_node("Neg", ["y"], ["z"])],
        "odd",
        [value("go", flag, []), value("given", 1, [2])],
        [open_value("z")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.unknown", 1)]
    path = tmp_path / "m.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    )
    try:
        assert editor.load_model(path).op_keys == ("y", "z")
    except editor.EditorError as error:
        assert "m.onnx" in str(error)
