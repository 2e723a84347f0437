"""What a split costs is measured in splits, and the unsplit model is predicted by its own time."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import write_dag
from hypothesis import given
from hypothesis import strategies as st

import editor
from editor.execution.measure.profile import profile_all
from editor.execution.measure.split_costs import Share, split_cost
from editor.placement.device_profile import DeviceProfile, costs_of

BOX = [{"name": "ORT", "backendName": "onnxruntime", "provider": "CPUExecutionProvider"},
       {"name": "OV", "backendName": "openvino", "provider": "CPU"}]


def shares(alone: list[float], subgraphs: list[int], factor: float, overhead: float) -> list[Share]:
    """Of a device that has half of each run."""
    measured = [factor * x + overhead * n for x, n in zip(alone, subgraphs, strict=True)]
    return [Share(x, y, n, 2 * y) for x, y, n in zip(alone, measured, subgraphs, strict=True)]


COUNTS = st.lists(st.integers(1, 20), min_size=2, max_size=8)


@given(st.floats(1.0, 3.0), st.floats(1e-5, 1e-3), COUNTS, st.floats(1e-4, 1e-1))
def test_factor_and_overhead_are_found_where_plans_are_many(
        factor: float, overhead: float, counts: list[int], alone: float) -> None:
    counts = [*counts, 1, 3, 10]
    found = split_cost(shares([alone * (1 + i) for i in range(len(counts))], counts, factor, overhead) * 3000)
    assert found == (pytest.approx(factor, rel=0.03), pytest.approx(overhead, rel=0.1, abs=2e-2 * alone))


@given(st.floats(1e-6, 1e-3), COUNTS, st.floats(1e-4, 1e-1))
def test_what_adds_the_same_to_each_subgraph_is_no_factor(overhead: float, counts: list[int], alone: float) -> None:
    factor, seconds = split_cost(shares([alone] * len(counts), counts, 1.0, overhead))
    assert (factor, seconds) == (pytest.approx(1, abs=1e-6), pytest.approx(overhead, rel=1e-2, abs=1e-6 * alone))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(1, 50), st.floats(0, 1)), min_size=1, max_size=20))
def test_neither_factor_nor_overhead_is_absurd(found: list[tuple[float, float, int, float]]) -> None:
    factor, overhead = split_cost([Share(alone, mine, n, mine + others) for alone, mine, n, others in found])
    assert 1.0 <= factor <= 3.0 and 0 <= overhead < float("inf")


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
