"""The optional runtime TVM; skipped where it is not installed (requirements-tvm.txt)."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="apache-tvm is an optional extra")

from conftest import EXAMPLES, python

import editor
from editor.execution.executor import compile_whole
from editor.execution.invented_inputs import random_inputs
from editor.execution.measure.mismatch import compare
from editor.graph.graph import Graph

BOX = [{"name": "TVM"}, {"name": "CPU"}]


def test_a_plan_runs_on_tvm_and_onnx_runtime(mobilenet: Graph) -> None:
    keys = [mobilenet.op_keys[op] for op in mobilenet.order if not mobilenet.op_is_constant[op]]
    plan = editor.partition(mobilenet, BOX, pins=dict.fromkeys(keys[20:60], "CPU"))
    assert {s.device for s in plan.subgraphs} == {"TVM", "CPU"}
    inputs = random_inputs(mobilenet)
    expected = compile_whole(mobilenet, plan.devices[1]).run(inputs)
    assert compare("", expected, plan.run(inputs)).within_tolerance


def test_tvm_is_discovered_and_names_unsupported_ops() -> None:
    assert any(d.name == "TVM" for d in editor.available_devices())
    graph = editor.load_model(
        EXAMPLES / "models" / "whisper-tiny-decoder.onnx", {"batch": 1, "sequence": 8}
    )
    plan = editor.partition(graph, BOX)
    for key in (k for k, d in plan.affinity.items() if d == "CPU"):
        refused = [v for v in plan.why(key).verdicts if v.device == "TVM" and not v.allowed]
        assert not refused or refused[0].reason


def test_the_exported_script_runs_on_tvm(mobilenet: Graph, tmp_path: Path) -> None:
    keys = [mobilenet.op_keys[op] for op in mobilenet.order if not mobilenet.op_is_constant[op]]
    plan = editor.partition(mobilenet, BOX, pins=dict.fromkeys(keys[20:60], "CPU"))
    plan.export("tvm", tmp_path)
    done = python(tmp_path / "mobilenetv2_tvm.py")
    assert done.returncode == 0, done.stderr
    assert "2 TVM {'logits': (1, 1000)}" in done.stdout


def test_the_exported_script_feeds_the_types_of_the_inputs(tmp_path: Path) -> None:
    """It fed float32 to all of them: TVM refuses that for token ids."""
    graph = editor.load_model(
        EXAMPLES / "models" / "whisper-tiny-decoder.onnx", {"batch": 1, "sequence": 8}
    )
    editor.partition(graph, "HETERO:CPU").export("tvm", tmp_path)
    (script,) = tmp_path.glob("*_tvm.py")
    done = python(script)
    assert done.returncode == 0, done.stderr
