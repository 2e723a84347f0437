"""Plans learn from subgraphs that fail although each of their ops runs alone."""

from __future__ import annotations

import locale
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from conftest import ROOT, save_net
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.execution.learning import smallest

DEVICES = "HETERO:OpenVINO.CPU,CPU"


def quantised(path: Path) -> Path:
    """Int16 QDQ around a Relu: OpenVINO runs each op alone, and not the first two without what follows."""
    zero = numpy_helper.from_array(np.int16(0), "zero")
    scales = [numpy_helper.from_array(np.float32(s), n) for n, s in (("a", 0.02), ("b", 0.03))]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "a", "zero"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "a", "zero"], ["xd"]),
        helper.make_node("Relu", ["xd"], ["r"]),
        helper.make_node("Softmax", ["r"], ["s"]),
        helper.make_node("Exp", ["s"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4, 8, 8]) for n in "xy"]
    return save_net(
        path,
        nodes,
        values[:1],
        values[1:],
        [zero, *scales],
        name=str(path),
        opset=21,
        ir_version=10,
    )


def _inputs() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).standard_normal((1, 4, 8, 8)).astype(np.float32)}


def _cli(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "editor", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_ops_that_fail_together_go_elsewhere_and_the_reason_stays(tmp_path: Path) -> None:
    path = quantised(tmp_path / "m.onnx")
    plan = editor.partition(path, DEVICES, pins={"r": "CPU"})
    assert plan.affinity["xq"] == plan.affinity["xd"] == "OpenVINO.CPU"
    encoding = locale.getencoding()
    with pytest.raises(editor.SubgraphError, match="OpenVINO"):
        plan.run(_inputs(), strict=True)
    assert locale.getencoding() == encoding, "OpenVINO leaves another locale where it fails"
    with pytest.warns(UserWarning, match=r"subgraph 0 fails on OpenVINO.CPU because of xq .* xd"):
        found = plan.run(_inputs())["y"]
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(found, session.run(None, _inputs())[0], rtol=1e-4)
    assert plan.successor is not None and plan.successor.affinity["xq"] == "CPU"
    assert plan.successor.affinity["s"] == "OpenVINO.CPU", "what runs there stays"
    again = editor.partition(path, DEVICES, pins={"r": "CPU"})
    refused = {v.device: v.reason for v in again.why("xq").verdicts if not v.allowed}
    assert "fails together with xd (DequantizeLinear)" in refused["OpenVINO.CPU"]
    again.run(_inputs(), strict=True)


def test_a_plan_that_is_pinned_to_what_fails_says_so(tmp_path: Path) -> None:
    path = quantised(tmp_path / "pinned.onnx")
    plan = editor.partition(path, DEVICES, pins={"r": "CPU", "xq": "OpenVINO.CPU"})
    with pytest.raises(editor.ExecutionError, match=r"there is no other plan: (?s:.)*xq"):
        plan.run(_inputs())


def test_a_run_with_inputs_that_no_device_takes_teaches_nothing(tmp_path: Path) -> None:
    save_net(
        tmp_path / "g.onnx",
        [helper.make_node("Gather", ["w", "i"], ["g"]), helper.make_node("Relu", ["g"], ["y"])],
        [helper.make_tensor_value_info("i", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(np.ones((4, 3), np.float32), "w")],
        opset=21,
        ir_version=10,
    )
    plan = editor.partition(tmp_path / "g.onnx", "HETERO:CPU")
    with pytest.raises(editor.SubgraphError, match="out of data bounds|out of range"):
        plan.run({"i": np.array([0, 9])})
    assert plan.successor is None


def test_the_command_line_tells_what_it_learned_and_reads_the_plan_again(tmp_path: Path) -> None:
    path = quantised(tmp_path / "cli.onnx")
    _cli("partition", path, "--devices", DEVICES, "--pin", "r=CPU", "--out", tmp_path)
    plan = tmp_path / "plan.json"
    before = plan.read_bytes()
    assert _cli("run", plan, "--strict").returncode == 1
    done = _cli("bench", plan, "--seconds", "0.1")
    assert done.returncode == 0 and "because of xq" in done.stderr, done.stderr
    assert "Unsplit on OpenVINO.CPU (OpenVINO, CPU): median" in done.stdout
    done = _cli("run", plan)
    assert done.returncode == 0 and "2 ops failed in a run since" in done.stderr
    assert plan.read_bytes() == before


@given(st.data())
def test_the_smallest_failing_set_is_found(data: st.DataObject) -> None:
    ops = list(range(data.draw(st.integers(1, 40))))
    fault = set(data.draw(st.lists(st.sampled_from(ops), min_size=1, max_size=4)))
    assert set(smallest(ops, lambda part: fault <= set(part))) == fault
