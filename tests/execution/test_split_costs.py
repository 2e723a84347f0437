"""What a split costs is measured in splits, and the unsplit model is predicted by its own time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import write_dag
from hypothesis import given, settings
from hypothesis import strategies as st

import editor
from editor.execution.measure.profile import Share, profile_all, split_cost
from editor.placement.costs import ColdStart
from editor.placement.device_profile import DeviceProfile, costs_of

BOX = [
    {"name": "ORT", "backendName": "onnxruntime", "provider": "CPUExecutionProvider"},
    {"name": "OV", "backendName": "openvino", "provider": "CPU"},
]


WARM = ColdStart()


def share(
    alone: Sequence[float],
    gap: Sequence[float],
    factor: float,
    overhead: float,
    cold: ColdStart = WARM,
) -> Share:
    """Of a device that has half of each run."""
    ops, between = np.array(alone), np.array(gap)
    measured = float(factor * ops.sum() + overhead * len(ops) + cold.seconds(ops, between).sum())
    return Share(ops, between, 0.0, measured, 2 * measured)


def shares(alone: list[float], subgraphs: list[int], factor: float, overhead: float) -> list[Share]:
    """As if nothing ran in between."""
    return [
        share([x / n] * n, [0.0] * n, factor, overhead)
        for x, n in zip(alone, subgraphs, strict=True)
    ]


COUNTS = st.lists(st.integers(1, 20), min_size=2, max_size=8)


@settings(
    max_examples=20
)  # each has tens of thousands of plans, beside which one observation of a factor of 1 is nothing
@given(st.floats(1.0, 3.0), st.floats(1e-5, 1e-3), COUNTS, st.floats(1e-4, 1e-1))
def test_factor_and_overhead_are_found_where_plans_are_many(
    factor: float, overhead: float, counts: list[int], alone: float
) -> None:
    counts = [*counts, 1, 3, 10]
    found = split_cost(
        shares([alone * (1 + i) for i in range(len(counts))], counts, factor, overhead) * 3000
    )
    assert found.factor == pytest.approx(factor, rel=0.03)
    assert found.overhead == pytest.approx(overhead, rel=0.1, abs=2e-2 * alone)


@given(st.floats(1e-6, 1e-3), COUNTS, st.floats(1e-4, 1e-1))
def test_what_adds_the_same_to_each_subgraph_is_no_factor(
    overhead: float, counts: list[int], alone: float
) -> None:
    found = split_cost(shares([alone] * len(counts), counts, 1.0, overhead))
    assert found.factor == pytest.approx(1, abs=1e-6) and found.cold.most == 0
    assert found.overhead == pytest.approx(overhead, rel=1e-2, abs=1e-6 * alone)


@given(
    st.floats(1e-4, 1e-3),
    st.floats(1e-4, 2e-3),
    st.sampled_from([125e-6, 500e-6, 2e-3]),
    st.floats(2e-3, 2e-2),
)
def test_a_cold_start_is_found_in_stripes_of_several_lengths(
    overhead: float, most: float, constant: float, run: float
) -> None:
    """Two devices take turns, and half of the run is each one's; the last two plans are of one device but for a few ops."""
    cold = ColdStart(most, constant)
    stripes = [
        share([run / n] * (n // 2), [run / n] * (n // 2), 1.0, overhead, cold)
        for n in (2, 4, 12, 32)
    ]
    few = [
        share([run / 4] * 4, [1e-6] * 4, 1.0, overhead, cold),
        share([1e-6] * 3, [run / 4] * 3, 1.0, overhead, cold),
    ]
    found = split_cost([*stripes, *few])
    for n in (3, 6, 8, 20):
        part = np.array([run / n])
        there, here = (
            overhead + cold.seconds(part, part),
            found.overhead + found.cold.seconds(part, part),
        )
        assert (found.factor - 1) * part + here == pytest.approx(there, rel=0.05)


@given(st.floats(1e-4, 1e-3), st.floats(1e-10, 1e-8), st.floats(2e-3, 2e-2))
def test_what_grows_with_the_bytes_at_cuts_is_a_cost_per_byte(
    overhead: float, convert: float, run: float
) -> None:
    """Stripes that are cut where tensors are large and small."""
    plans = []
    for n, moved in ((2, 1e6), (4, 8e6), (12, 3e6), (32, 4e7), (4, 2e5), (3, 1e7)):
        warm = share([run / n] * (n // 2 + 1), [0.0] * (n // 2 + 1), 1.0, overhead)
        measured = warm.measured + convert * moved
        plans.append(replace(warm, moved=moved, measured=measured, total=2 * measured))
    found = split_cost(plans)
    there, here = (
        overhead * 4 + convert * 5e6,
        (found.factor - 1) * run / 2 + found.overhead * 4 + found.convert * 5e6,
    )
    assert here == pytest.approx(there, rel=0.15)


PART = st.floats(0, 1)


@given(
    st.lists(
        st.tuples(st.lists(PART, min_size=1, max_size=50), PART, PART, PART),
        min_size=1,
        max_size=20,
    )
)
def test_no_cost_of_a_split_is_absurd(found: list[tuple[list[float], float, float, float]]) -> None:
    cost = split_cost(
        [
            Share(np.array(alone), np.full(len(alone), gap), 1e6 * gap, mine, mine + rest)
            for alone, gap, mine, rest in found
        ]
    )
    assert 1.0 <= cost.factor <= 3.0
    assert all(0 <= each < float("inf") for each in (cost.overhead, cost.cold.most, cost.convert))


@pytest.mark.parametrize("table", [BOX, BOX[:1]])
def test_profiles_tell_what_a_split_costs(
    table: list[dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    graph = editor.load_model(
        write_dag(tmp_path / "net.onnx", [[i - 1] if i else [] for i in range(80)])
    )
    plan = editor.partition(graph, table)
    profiles = profile_all(graph, plan.devices, 0.2)
    for profile in profiles.values():
        assert isinstance(profile, DeviceProfile) and profile.launch_seconds > 0
        assert profile.in_latency > 0 and profile.total == pytest.approx(
            sum(profile.seconds.values()), rel=1e-6
        )
    first = profiles[plan.devices[0].name]
    assert isinstance(first, DeviceProfile)
    unsplit = plan.placement.price(costs_of(graph, plan.devices, "measured"))
    assert unsplit.total == pytest.approx(first.total, rel=1e-9), (
        "the unsplit model was measured as a whole"
    )
