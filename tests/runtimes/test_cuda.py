"""CUDA in a process of its own, which an error of ONNX Runtime in a thread of the driver would end."""

from __future__ import annotations

import onnxruntime as ort
import pytest
from conftest import ROOT, python

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


GROWS = """
import sys, tempfile
sys.path.insert(0, "examples/language-model")
from pathlib import Path
if "torch" in sys.argv: import torch  # has CUDA's libraries where they are not installed
import numpy as np
import editor
from make import Shape, make
from editor.execution.executor import compile_placement
from editor.execution.generation import Generator
from editor.execution.invented_inputs import random_inputs
from editor.execution.generation import in_place
from editor.execution.measure.profile import profile_all
from editor.graph.states import sizes_of_step, states_of

folder = Path(tempfile.mkdtemp())
path = make(folder / "model", "llama", Shape(2, 256, 4, 2, 300, True))  # CUDA has GroupQueryAttention of 16 bits only
gpu = {"name": "GPU", "backendName": "CUDA"}
cpu = {"name": "CPU", "backendName": "CPU"}
prompt = list(range(3, 20))
reference = editor.partition(path, [cpu]).generate(prompt, 40)
for rules in ([], [{"name": "*layers.1*", "to": "CPU"}]):
    plan = editor.partition(path, [gpu, cpu], rules=rules)
    runner = Generator.of(plan.placement)
    for one in (runner, *runner.clones(1), runner):
        found = one.generate(prompt, 40, follow=reference.tokens)
        worst = max(np.abs(a - b).max() for a, b in zip(found.logits, reference.logits, strict=True))
        assert worst < 0.02 * np.abs(reference.logits).max()
    assert sum(map(len, (w.growing for w in runner._token._work))) == 4, "all caches grow where they lie"
    del runner, one

graph = editor.load_model(path)
graph = editor.load_model(path, {**graph.define, "batch": 1, **sizes_of_step(graph, 1, 12)})
plan = editor.partition(graph, [gpu, cpu], rules=[{"name": "*", "to": "GPU"}])
assert {s.device for s in plan.subgraphs} == {"GPU"}
values, compiled = random_inputs(graph), compile_placement(plan.placement)
expected = compiled.run(values)
step = in_place(compiled, expected)
assert step is not compiled
for each in (step, step.clone(), step):
    found = each.run_timed(values)[0]
    for name, value in expected.items():
        assert np.allclose(found[name], value, atol=2e-2), name
profile = profile_all(graph, plan.devices, 0.2)["GPU"]
assert "GroupQueryAttention" in profile.kernels
(second,) = editor.load_devices([{"name": "second", "backendName": "CUDA.1"}])
if not second.planned:
    found = Generator.of(editor.partition(path, [second]).placement).generate(prompt, 40, follow=reference.tokens)
    assert max(np.abs(a - b).max() for a, b in zip(found.logits, reference.logits, strict=True)) < 0.1
print("all grew")
"""


def test_a_session_may_go_while_its_run_is_still_queued() -> None:
    """Before, ONNX Runtime's callback freed the session's host memory where CUDA allows no calls: the process ended."""
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        pytest.skip("needs a GPU and onnxruntime-gpu")
    done = python("-c", DROPS_SESSIONS, cwd=ROOT)
    assert "all gone" in done.stdout, done.stderr[-2000:]


def test_caches_grow_where_they_lie_on_a_gpu() -> None:
    """Generation, a step that is measured and a profile: alone, in clones, and beside another device."""
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        pytest.skip("needs a GPU and onnxruntime-gpu")
    done = python("-c", GROWS, cwd=ROOT)
    assert "all grew" in done.stdout, done.stderr[-2000:]
