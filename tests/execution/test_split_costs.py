"""What a split costs is measured in splits, and the unsplit model is predicted by its own time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import write_dag
from hypothesis import given
from hypothesis import strategies as st

import editor
from editor.execution.measure.profile import profile_all
from editor.execution.measure.split_costs import line
from editor.placement.device_profile import DeviceProfile, costs_of

BOX = [{"name": "ORT", "backendName": "onnxruntime", "provider": "CPUExecutionProvider"},
       {"name": "OV", "backendName": "openvino", "provider": "CPU"}]


@given(st.floats(0.8, 3.0), st.floats(0, 1e-3), st.lists(st.floats(1e-5, 1e-1), min_size=2, max_size=20, unique=True))
def test_a_line_without_noise_is_found(factor: float, overhead: float, alone: list[float]) -> None:
    measured = [factor * x + overhead for x in alone]
    slope, offset = line(alone, measured)
    assert np.allclose(slope * np.array(alone) + offset, measured, rtol=0.02, atol=1e-6)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20))
def test_neither_factor_nor_overhead_is_absurd(points: list[tuple[float, float]]) -> None:
    factor, overhead = line(*zip(*points, strict=True))
    assert 0.8 <= factor <= 3.0 and overhead >= 0


@pytest.mark.parametrize("table", [BOX, BOX[:1]])
def test_profiles_tell_what_a_split_costs(table: list[dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    graph = editor.load_model(write_dag(tmp_path / "net.onnx", [[i - 1] if i else [] for i in range(80)]))
    plan = editor.partition(graph, table)
    profiles = profile_all(graph, plan.devices, 0.2)
    for profile in profiles.values():
        assert isinstance(profile, DeviceProfile) and profile.launch_seconds > 0
        assert profile.in_latency > 0 and profile.total == pytest.approx(sum(profile.seconds.values()), rel=1e-6)
    first = profiles[plan.devices[0].name]
    assert isinstance(first, DeviceProfile)
    unsplit = plan.placement.price(costs_of(graph, plan.devices, "measured"))
    assert unsplit.total == pytest.approx(first.total, rel=1e-9), "the unsplit model was measured as a whole"
