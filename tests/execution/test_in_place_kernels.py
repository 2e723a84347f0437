"""Residual sums are made in place across cuts, and only where nobody needs the operand any more."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.execution.executor import compile_placement, compile_whole
from editor.graph.graph import Graph

TWINS = [{"name": name, "backendName": "onnxruntime", "provider": "CPUExecutionProvider"} for name in "AB"]
BLOCKED = platform.machine() in ("x86_64", "AMD64")
"""ONNX Runtime has blocked convolutions, which are what sums are fused with, for these processors only."""


def residual_net(path: Path, blocks: int, late: bool) -> Graph:
    """Blocks relu(conv(relu(conv(x))) + x); ``late``: the last op reads the first block's input once more."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []

    def conv(x: str, into: int = 16) -> str:
        kernel = rng.standard_normal((16, into, 3, 3)).astype(np.float32) / 12
        weights.append(numpy_helper.from_array(kernel, f"w{len(weights)}"))
        nodes.append(helper.make_node("Conv", [x, weights[-1].name], [f"c{len(nodes)}"], f"c{len(nodes)}", pads=[1] * 4))
        return nodes[-1].output[0]

    def op(kind: str, *inputs: str) -> str:
        nodes.append(helper.make_node(kind, list(inputs), [f"t{len(nodes)}"], f"t{len(nodes)}"))
        return nodes[-1].output[0]

    x = first = op("Relu", conv("x", 3))
    for _ in range(blocks):
        x = op("Relu", op("Add", conv(op("Relu", conv(x))), x))
    x = conv(op("Add", x, first) if late else x)
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 32]),
            helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, 16, 32, 32])]
    graph = helper.make_graph(nodes, "residual", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return editor.load_model(path)


@pytest.mark.parametrize("late", [False, True])
def test_sums_across_cuts_are_correct_in_repeated_runs(tmp_path: Path, late: bool) -> None:
    graph = residual_net(tmp_path / "residual.onnx", 4, late)
    whole = compile_whole(graph, editor.load_devices(TWINS)[0], 1)
    rng = np.random.default_rng(1)
    shared = set()
    for seed in range(25):
        cuts = np.random.default_rng(seed).random(len(graph)) < (0.2, 0.5, 0.9)[seed % 3]
        home = np.cumsum(cuts) % 2
        pins = {graph.op_keys[op]: "AB"[home[i]] for i, op in enumerate(graph.order.tolist())}
        compiled = compile_placement(editor.partition(graph, TWINS, pins=pins).placement, 1)
        shared |= {pair for step in compiled.steps for pair in step.submodel.in_place}
        for _ in range(3):  # the first run finds the places, the others use them
            inputs = {"x": rng.standard_normal((1, 3, 32, 32)).astype(np.float32)}
            (got,), (wanted,) = compiled.run(inputs).values(), whole.run(inputs).values()
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    if BLOCKED:
        # With `late`, the first block's input is read again at the end, by another addition: that may be made in place, over
        # the last block's result, but the first block's sum may not be written over its input.
        assert len(shared) == 4, "sums next to a cut share their operand's memory"
        operands, results = {operand for operand, _ in shared}, {result for _, result in shared}
        assert len(operands - results) == 1 and len(results - operands) == 1, "they form a chain"
