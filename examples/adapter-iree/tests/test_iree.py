"""The adapter in the editor: `pip install . pytest`, then `pytest tests`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import editor

pytest.importorskip("iree.compiler", reason="iree-base-compiler is not installed")
pytest.importorskip("iree.runtime", reason="iree-base-runtime is not installed")


def write(path: Path, kinds: list[str]) -> Path:
    nodes = [helper.make_node(kind, [f"t{i}"], [f"t{i + 1}"]) for i, kind in enumerate(kinds)]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [info("t0", TensorProto.FLOAT, [2, 4])],
        [info(f"t{len(kinds)}", TensorProto.FLOAT, [2, 4])],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path


def test_a_split_with_iree_computes_the_same(tmp_path: Path) -> None:
    graph = editor.load_model(write(tmp_path / "net.onnx", ["Relu", "Exp", "Neg", "Sigmoid"]))
    x = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    plan = editor.partition(graph, "HETERO:IREE,CPU", pins={"t2": "CPU"})
    assert plan.affinity == {"t1": "IREE", "t2": "CPU", "t3": "IREE", "t4": "IREE"}
    expected = editor.partition(graph, "HETERO:CPU").run({"t0": x})["t4"]
    assert np.allclose(plan.run({"t0": x})["t4"], expected, atol=1e-5)


def test_an_op_without_a_lowering_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = write(tmp_path / "net.onnx", ["Relu", "Neg"])
    model = onnx.load(path)
    model.graph.node[0].op_type, model.graph.node[0].domain = "NoSuchOp", "com.example"
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    model.graph.value_info.append(helper.make_tensor_value_info("t1", TensorProto.FLOAT, [2, 4]))
    onnx.save(model, path)
    plan = editor.partition(editor.load_model(path), "HETERO:IREE,NPU")
    assert plan.affinity == {"t1": "NPU", "t2": "IREE"}
    assert "IREE: no lowering of NoSuchOp" in str(plan.why("t1"))


def test_the_adapter_passes_the_conformance_kit() -> None:
    command = [sys.executable, "-m", "editor", "adapter-test", "iree", "--cases", "40"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
