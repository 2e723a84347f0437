"""Runs of plans whose tensors keep their buffers: right at the first run, at later ones, and where shapes depend on data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import save_net
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.execution.compiled_plan import CompiledPlan
from editor.execution.executor import compile_placement, compile_whole
from editor.graph.graph import Graph

TWINS = [
    {"name": name, "backendName": "onnxruntime", "provider": "CPUExecutionProvider"}
    for name in "AB"
]


def branching_net(path: Path, seed: int, found_late: bool = False, side: int = 40) -> Graph:
    """Fire modules, residual sums, attention and long ways around, at random; tensors of 40 * 40 are worth a place."""
    rng = np.random.default_rng(seed)
    nodes, weights = [], []

    def op(kind: str, *inputs: str, **attributes: object) -> str:
        nodes.append(
            helper.make_node(kind, list(inputs), [f"t{len(nodes)}"], f"t{len(nodes)}", **attributes)
        )
        return str(nodes[-1].output[0])

    def conv(x: str, into: int, out: int, side: int) -> str:
        kernel = rng.standard_normal((out, into, side, side)).astype(np.float32) / (
            side * into**0.5
        )
        weights.append(numpy_helper.from_array(kernel, f"w{len(weights)}"))
        return op("Conv", x, weights[-1].name, pads=[side // 2] * 4)

    def shape(*dims: int) -> str:
        weights.append(numpy_helper.from_array(np.array(dims, np.int64), f"s{len(weights)}"))
        return str(weights[-1].name)

    def floats(*values: float) -> str:
        weights.append(numpy_helper.from_array(np.array(values, np.float32), f"f{len(weights)}"))
        return str(weights[-1].name)

    x = op("Relu", conv("x", 3, 16, 3))
    seen = [x]
    for _ in range(6):
        kind = rng.integers(0, 10)
        if kind == 0:
            squeezed = op("Relu", conv(x, 16, 16, 1))
            x = op(
                "Concat",
                op("Relu", conv(squeezed, 16, 8, 1)),
                op("Relu", conv(squeezed, 16, 8, 3)),
                axis=1,
            )
        elif kind == 1:
            x = op("Relu", op("Add", conv(op("Relu", conv(x, 16, 16, 3)), 16, 16, 1), x))
        elif kind == 2:
            x = op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
        elif kind == 3:
            x = op("Sub", op("Sigmoid", x), seen[int(rng.integers(0, len(seen)))])
        elif kind == 4:
            rows = op("Reshape", x, shape(1, 16, side * side))
            scores = op("Softmax", op("MatMul", rows, op("Transpose", rows, perm=[0, 2, 1])))
            x = op("Reshape", op("Add", op("MatMul", scores, rows), rows), shape(1, 16, side, side))
        elif kind == 5:
            x = op(
                "Squeeze",
                op("Unsqueeze", op("Neg", op("Exp", op("Neg", op("Abs", x)))), shape(0)),
                shape(0),
            )
        elif kind == 6:
            turned = op(
                "LayerNormalization", op("Transpose", x, perm=[0, 1, 3, 2]), floats(*[1] * side)
            )
            x = op("Transpose", turned, perm=[0, 1, 3, 2])
        elif kind == 7:
            x = op(
                "Sqrt",
                op(
                    "Add",
                    op(
                        "Erf",
                        op(
                            "Slice",
                            op("Pad", x, shape(0, 0, 1, 1, 0, 0, 1, 1)),
                            shape(1, 1),
                            shape(side + 1, side + 1),
                            shape(2, 3),
                        ),
                    ),
                    floats(2),
                ),
            )
        elif (
            kind == 8
        ):  # written over, while a view of it is still needed; and a kernel of which nothing is known
            rows = op("Reshape", x, shape(1, 16, side * side))
            y = op("Relu", op("Add", x, op("Reshape", op("Sin", rows), shape(1, 16, side, side))))
            x = op(
                "Reshape",
                op("Sub", op("Reshape", y, shape(1, 16, side * side)), rows),
                shape(1, 16, side, side),
            )
        else:
            x = op("Mul", x, op("Tanh", op("Add", x, seen[int(rng.integers(0, len(seen)))])))
        seen.append(x)
    y = op("ReduceMean", x, axes=[2, 3], keepdims=0)
    if found_late:
        y = op(
            "ReduceSum",
            op("Cast", op("NonZero", op("Relu", seen[0])), to=TensorProto.FLOAT),
            keepdims=0,
        )
    info = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, side, side]),
        *(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (x, y)),
    ]
    return editor.load_model(save_net(path, nodes, info[:1], info[1:], weights, name="branching"))


def _cut_at_random(graph: Graph, seed: int) -> CompiledPlan:
    rng = np.random.default_rng(seed)
    home = np.cumsum(rng.random(len(graph)) < (0.1, 0.3, 0.6)[seed % 3]) % 2
    pins = {graph.op_keys[op]: "AB"[home[i]] for i, op in enumerate(graph.order.tolist())}
    return compile_placement(editor.partition(graph, TWINS, pins=pins).placement, 1)


def _is_right(graph: Graph, compiled: CompiledPlan) -> None:
    whole = compile_whole(graph, editor.load_devices(TWINS)[0], 1)
    rng = np.random.default_rng(1)
    for _ in range(3):  # the first run, and those that find everything in its place
        inputs = {"x": rng.standard_normal(graph.tensor_shapes[graph.inputs[0]]).astype(np.float32)}
        wanted, found = whole.run(inputs), compiled.run(inputs)
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("side", [40, 12])
@pytest.mark.parametrize("seed", range(20))
def test_results_are_right_in_every_run_of_a_plan_and_of_its_clones(
    seed: int, side: int, tmp_path: Path
) -> None:
    graph = branching_net(tmp_path / "branching.onnx", seed, side=side)
    for cut in range(4):
        compiled = _cut_at_random(graph, 4 * seed + cut)
        _is_right(graph, compiled)
        for _ in range(2):
            _is_right(graph, compiled.clone())


@pytest.mark.parametrize("seed", range(4))
def test_results_are_right_where_shapes_depend_on_data(seed: int, tmp_path: Path) -> None:
    graph = branching_net(tmp_path / "branching.onnx", seed, found_late=True)
    pins = {key: "AB"[i % 2] for i, key in enumerate(graph.op_keys)}
    _is_right(graph, compile_placement(editor.partition(graph, TWINS, pins=pins).placement, 1))


def residual_net(path: Path, blocks: int, late: bool) -> Graph:
    """Blocks relu(conv(relu(conv(x))) + x); ``late``: the last op reads the first block's input once more."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []

    def conv(x: str, into: int = 16) -> str:
        kernel = rng.standard_normal((16, into, 3, 3)).astype(np.float32) / 12
        weights.append(numpy_helper.from_array(kernel, f"w{len(weights)}"))
        nodes.append(
            helper.make_node(
                "Conv", [x, weights[-1].name], [f"c{len(nodes)}"], f"c{len(nodes)}", pads=[1] * 4
            )
        )
        return nodes[-1].output[0]

    def op(kind: str, *inputs: str) -> str:
        nodes.append(helper.make_node(kind, list(inputs), [f"t{len(nodes)}"], f"t{len(nodes)}"))
        return nodes[-1].output[0]

    x = first = op("Relu", conv("x", 3))
    for _ in range(blocks):
        x = op("Relu", op("Add", conv(op("Relu", conv(x))), x))
    x = conv(op("Add", x, first) if late else x)
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 32]),
        helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, 16, 32, 32]),
    ]
    return editor.load_model(save_net(path, nodes, ends[:1], ends[1:], weights, name="residual"))


@pytest.mark.parametrize("late", [False, True])
def test_sums_across_cuts_are_correct_in_repeated_runs(tmp_path: Path, late: bool) -> None:
    graph = residual_net(tmp_path / "residual.onnx", 4, late)
    whole = compile_whole(graph, editor.load_devices(TWINS)[0], 1)
    rng = np.random.default_rng(1)
    for seed in range(25):
        cuts = np.random.default_rng(seed).random(len(graph)) < (0.2, 0.5, 0.9)[seed % 3]
        home = np.cumsum(cuts) % 2
        pins = {graph.op_keys[op]: "AB"[home[i]] for i, op in enumerate(graph.order.tolist())}
        compiled = compile_placement(editor.partition(graph, TWINS, pins=pins).placement, 1)
        for _ in range(3):  # the first run finds the places, the others use them
            inputs = {"x": rng.standard_normal((1, 3, 32, 32)).astype(np.float32)}
            (got,), (wanted,) = compiled.run(inputs).values(), whole.run(inputs).values()
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
