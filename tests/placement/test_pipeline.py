"""Policy `pipeline`: contiguous stages, balanced, within memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import EXAMPLES, write_dag

import editor
from editor.graph.graph import Graph
from editor.placement.costs import estimate
from editor.runtimes.base import Capability


def test_pipeline_stages_are_contiguous_and_balanced(mobilenet: Graph) -> None:
    table = [{"name": f"NPU{i}", "backendName": "NPU", "unit": i} for i in range(4)]
    plan = editor.partition(mobilenet, table, policy="pipeline")
    assert [s.device for s in plan.subgraphs] == ["NPU0", "NPU1", "NPU2", "NPU3"]
    assignment = plan.placement.assignment
    assert assignment.objective is not None and assignment.bound is not None
    assert assignment.bound <= assignment.objective <= 2 * assignment.bound
    op = mobilenet.key_index[plan.subgraphs[2].ops[-1]]
    assert "in stage 3 of 4" in assignment.because(op), (
        "not that it is fastest there: others are as fast"
    )


def test_pipeline_finds_the_stages_that_pins_of_a_large_model_leave(tmp_path: Path) -> None:
    """Graphs of many ops are merged into blocks first: one over the border of two pinned parts was allowed nowhere."""
    path = write_dag(tmp_path / "dag.onnx", [[i - 1] if i else [] for i in range(1201)])
    graph = editor.load_model(path)
    pins = {key: "GPU" if i < 700 else "NPU" for i, key in enumerate(graph.op_keys)}
    plan = editor.partition(graph, "HETERO:NPU,GPU", policy="pipeline", pins=pins)
    assert plan.affinity == pins and [s.device for s in plan.subgraphs] == ["GPU", "NPU"]
    half = editor.partition(
        graph,
        "HETERO:NPU,GPU",
        policy="pipeline",
        pins={k: v for k, v in pins.items() if v == "GPU"},
    )
    assert [s.device for s in half.subgraphs] == ["GPU", "NPU"] and half.placement.op_counts[
        "GPU"
    ] >= 700
    keys = graph.op_keys
    with pytest.raises(
        editor.EditorError,
        match="can run, 3 pins, and rules leave no contiguous stage per device; take",
    ):
        editor.partition(
            graph,
            "HETERO:NPU,GPU",
            policy="pipeline",
            pins={keys[0]: "GPU", keys[600]: "NPU", keys[1200]: "GPU"},
        )


def test_pipeline_says_that_memory_is_the_cause(mobilenet: Graph) -> None:
    table = [{"name": name, "backendName": name, "memory": "4MB"} for name in ("GPU", "NPU")]
    said = r"fits the memory \(GPU has 4 MB, NPU has 4 MB\): the weights are 13.\d+ MB in all"
    with pytest.raises(editor.EditorError, match=said):
        editor.partition(mobilenet, table, policy="pipeline")


@pytest.mark.parametrize(("sequence", "memory"), [(128, "300 kB"), (128, "1 MB"), (448, "3 MB")])
def test_stages_fit_where_a_device_without_a_limit_can_take_the_rest(
    sequence: int, memory: str
) -> None:
    """GPUs whose tensors did not fit beside the weights were over their memory, though the CPU has room for all."""
    graph = editor.load_model(
        EXAMPLES / "models" / "whisper-tiny-decoder.onnx", {"batch": 4, "sequence": sequence}
    )
    table = [
        {"name": f"GPU.{i}", "backendName": "GPU", "unit": i, "memory": memory} for i in range(2)
    ] + [{"name": "CPU"}]
    plan = editor.partition(graph, table, policy="pipeline")
    assert all(m.peak <= m.limit for m in plan.run_memory.devices if m.limit is not None)


def test_a_small_device_more_does_not_push_stages_off_a_larger_one(mobilenet: Graph) -> None:
    """All went to the CPU, nine times slower, and the larger device was said to have no room."""
    gpu, npu = {"name": "GPU", "memory": "12 MB"}, {"name": "NPU", "memory": "1 MB"}
    able = [Capability.everything(mobilenet)]
    two = editor.partition(
        mobilenet, [gpu, {"name": "CPU"}], policy="pipeline", capabilities=able * 2
    )
    three = editor.partition(
        mobilenet, [gpu, npu, {"name": "CPU"}], policy="pipeline", capabilities=able * 3
    )
    assert two.placement.op_counts["GPU"] > 50
    assert three.placement.assignment.objective <= 1.01 * two.placement.assignment.objective  # type: ignore[operator]
    assert all(m.peak <= m.limit for m in three.run_memory.devices if m.limit is not None)
    assert "on GPU" not in three.why(mobilenet.op_keys[int(mobilenet.order[-1])]).because


def test_impossible_stages_are_explained(dag: Callable[..., Graph]) -> None:
    with pytest.raises(editor.EditorError, match="contiguous stage"):
        editor.partition(
            dag([[], [0], [1], [2]]),
            [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}],
            policy="pipeline",
            pins={"t0": "A", "t1": "B", "t2": "A", "t3": "B"},
        )


def test_stages_hold_their_tensors_beside_their_weights(mobilenet: Graph) -> None:
    """Stages whose weights fitted were a tenth too large with their tensors, and memory then did not take them."""
    table = [
        {"name": "GPU.0", "memory": "9MB"},
        {"name": "GPU.1", "memory": "9MB"},
        {"name": "CPU"},
    ]
    weights = editor.partition(
        mobilenet, [{"name": "GPU.0"}, {"name": "GPU.1"}], policy="pipeline"
    ).placement
    assert max(weights.run_memory.peaks.values()) > 9e6, "unlimited, a stage is larger"
    stages = editor.partition(mobilenet, table, policy="pipeline").placement
    assert all(
        stages.run_memory.peaks[d.name] <= d.memory for d in stages.devices if d.memory is not None
    )
    memory = editor.partition(mobilenet, table, policy="memory").placement
    costs = estimate(mobilenet, stages.devices)
    assert memory.price(costs).total <= stages.price(costs).total * (1 + 1e-9)
