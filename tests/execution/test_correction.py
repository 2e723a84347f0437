"""Profiles that are corrected by a run predict that run."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import write_dag

import editor
from editor.errors import EditorError
from editor.execution.measure.benchmark import Benchmark
from editor.execution.measure.correction import correct_profiles
from editor.execution.measure.profile import profile_all
from editor.graph.graph import Graph
from editor.placement.device_profile import costs_of, load_profile

BOX = [{"name": "ORT", "backendName": "onnxruntime", "provider": "CPUExecutionProvider"},
       {"name": "OV", "backendName": "openvino", "provider": "CPU"}]


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return editor.load_model(write_dag(tmp_path / "net.onnx", [[i - 1] if i else [] for i in range(24)]))


def test_a_run_corrects_what_is_predicted_for_it(chain: Graph) -> None:
    plan = editor.partition(chain, BOX, pins={key: ("ORT", "OV")[i // 4 % 2] for i, key in enumerate(chain.op_keys)})
    profile_all(chain, plan.devices, 0.2)
    result = Benchmark({"plan": plan.placement}, 0.5).run()[0]
    assert result.can_correct_profiles
    assert set(correct_profiles(plan.placement, result)) == {"ORT", "OV"}
    predicted = plan.placement.price(costs_of(chain, plan.devices, "measured")).total
    parts = sum(s.time.median for s in result.subgraphs) + sum(t.time.median for t in result.transfers)
    assert predicted == pytest.approx(parts, rel=1e-6)


def test_an_unprofiled_or_planned_device_is_not_corrected(chain: Graph) -> None:
    plan = editor.partition(chain, "HETERO:NPU,CPU", pins={chain.op_keys[0]: "NPU"})
    result = plan.benchmark(seconds=0.1)
    assert not result.can_correct_profiles
    with pytest.raises(EditorError, match="stand-in"):
        correct_profiles(plan.placement, result)
    assert all(load_profile(chain, d) is None for d in plan.devices)


def test_throughputs_come_with_intervals(chain: Graph) -> None:
    plan = editor.partition(chain, BOX)
    result = plan.benchmark(seconds=0.6, mode="throughput", requests=2)
    assert result.throughput_interval is not None
    low, high = result.throughput_interval
    assert low <= high and low <= result.throughput * 1.5 and high >= result.throughput / 1.5
    assert "95 % interval" in result.text()
