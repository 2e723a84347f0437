"""CUDA in a process of its own, which an error of ONNX Runtime in a thread of the driver would end."""

from __future__ import annotations

import subprocess
import sys

import onnxruntime as ort
import pytest
from conftest import ROOT

DROPS_SESSIONS = """
import sys
from pathlib import Path
if "torch" in sys.argv: import torch  # has CUDA's libraries where they are not installed
import numpy as np, onnx
from onnx import TensorProto as T, helper, numpy_helper
from editor.devices.table import load_devices
from editor.runtimes.base import (CompileOptions, SubModel)
from editor.runtimes.onnxruntime.session import compile_session

# Concat of many tensors tells the GPU where they are through host memory, which a callback of the stream gives back.
node, info = helper.make_node, helper.make_tensor_value_info
weight = numpy_helper.from_array(np.ones((1024, 1024), np.float32) / 1024, "w")
nodes = [node("MatMul", ["x" if i == 0 else f"m{i - 1}", "w"], [f"m{i}"]) for i in range(100)]
nodes += [node("ReduceMean", [f"m{i}"], [f"r{i}"], axes=[1]) for i in range(60, 100)]
nodes.append(node("Concat", [f"r{i}" for i in range(60, 100)], ["y"], axis=1))
graph = helper.make_graph(nodes, "net", [info("x", T.FLOAT, [1024, 1024])], [info("y", T.FLOAT, [1024, 40])], [weight])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
device = load_devices([{"name": "GPU", "backendName": "onnxruntime", "provider": "CUDAExecutionProvider"}])[0]
x = np.ones((1024, 1024), np.float32)
for i in range(20):
    submodel = SubModel(model, ("x",), ("y",), Path("."), "net")
    session = compile_session(submodel, device, CompileOptions(open_sizes=i % 2 > 0))
    for _ in range(4):
        session.run([x])
    del session
print("all gone")
"""


def test_a_session_may_go_while_its_run_is_still_queued() -> None:
    """Before, ONNX Runtime's callback freed the session's host memory where CUDA allows no calls: the process ended."""
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        pytest.skip("needs a GPU and onnxruntime-gpu")
    done = subprocess.run(
        [sys.executable, "-c", DROPS_SESSIONS],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
    )
    assert "all gone" in done.stdout, done.stderr[-2000:]
