"""The memory of a plan is measured in a process that runs nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import save_net
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.execution.jobs import tasks
from editor.execution.measure.memory_use import measure_memory
from editor.kinds import Kind
from editor.sandbox.jobs import JobService


def write_layers(path: Path, width: int, layers: int = 4) -> Path:
    """A chain of matrix products; each has ``4 * width * width`` bytes of weights."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.random((width, width), np.float32), f"w{i}")
        for i in range(layers)
    ]
    nodes = [helper.make_node("MatMul", [f"t{i}", f"w{i}"], [f"t{i + 1}"]) for i in range(layers)]
    value = [
        helper.make_tensor_value_info(f"t{i}", TensorProto.FLOAT, [64, width]) for i in (0, layers)
    ]
    return save_net(path, nodes, value[:1], value[1:], weights, name="layers")


@pytest.mark.parametrize("devices", ["HETERO:CPU", "HETERO:CPU,OpenVINO.CPU"])
def test_a_plan_takes_at_least_what_it_needs_and_more_with_more_weights(
    tmp_path: Path, devices: str
) -> None:
    taken = []
    for width in (1024, 2048):
        plan = editor.partition(
            editor.load_model(write_layers(tmp_path / f"{width}.onnx", width)), devices
        )
        if "," in devices:
            plan = plan.repin(dict.fromkeys(plan.graph.op_keys[2:], "OpenVINO.CPU"))
        (use,) = measure_memory(plan.recipe())
        assert use.where == "host memory" and use.devices == tuple(d.name for d in plan.devices)
        assert use.constants == 4 * 4 * width * width
        assert use.constants < use.needed == plan.run_memory.peak_of(range(len(plan.devices)))
        # What the tiny model before it has left free is used again: some hundred kilobytes.
        assert use.peak > 0.95 * use.needed and use.compiled <= use.peak
        assert use.peak == pytest.approx(use.predicted, rel=0.3, abs=15e6), (
            "weights once, in OpenVINO twice"
        )
        taken.append(use.peak)
    assert taken[1] - taken[0] > 0.9 * 4 * 4 * (2048**2 - 1024**2)


def test_the_weights_of_a_compiled_model_are_in_memory_once(tmp_path: Path) -> None:
    """Neither the model that was handed over nor its serialized form is kept."""
    plan = editor.partition(
        editor.load_model(write_layers(tmp_path / "model.onnx", 2048)), "HETERO:CPU"
    )
    (use,) = measure_memory(plan.recipe())
    assert use.peak < 1.5 * use.constants


def test_a_benchmark_brings_the_memory_where_it_is_asked_for(tmp_path: Path) -> None:
    plan = editor.partition(
        editor.load_model(write_layers(tmp_path / "small.onnx", 256)), "HETERO:CPU"
    )
    jobs = JobService()
    try:
        (with_memory,) = jobs.run(
            tasks.benchmark, {"plan": plan.recipe()}, 0.2, "latency", 1, 0, None, True, timeout=120
        )
        (without,) = jobs.run(
            tasks.benchmark, {"plan": plan.recipe()}, 0.2, "latency", 1, timeout=120
        )
    finally:
        jobs.close()
    assert [row["kind"] for row in with_memory.to_dict()["memory"]] == [Kind.MEASUREMENT]
    assert "Memory, host memory (CPU): estimate " in with_memory.text()
    assert without.memory == () and "Memory" not in without.text()
