"""Ops are slower after those of other devices, and plans are priced with that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import editor
from editor.execution.measure.prediction import expected_parts
from editor.graph.graph import Graph
from editor.placement.costs import ColdStart, estimate, gaps

AB = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}]


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(1e-6, 1.0)), min_size=1, max_size=30))
def test_gaps_are_what_others_computed_and_the_device_did_not_make_up_for(
    parts: list[tuple[int, float]],
) -> None:
    device, seconds = np.array([d for d, _ in parts]), np.array([s for _, s in parts])
    found = gaps(device, seconds)
    for d in set(device.tolist()):
        last = max(i for i, each in enumerate(device) if each == d)
        turns, cold, expected = np.roll(np.arange(len(parts)), -last - 1).tolist(), 0.0, {}
        for turn in turns * 2:  # the second run is like all that follow
            if device[turn] == d:
                expected[turn] = cold
                cold = max(cold - seconds[turn], 0.0)
            else:
                cold += seconds[turn]
        for turn, seconds_cold in expected.items():
            assert found[turn] == pytest.approx(seconds_cold, abs=1e-9)


def test_one_op_does_not_warm_a_device_for_the_long_subgraph_after_it() -> None:
    """Islands of one op made a split over two equal devices look cheaper, by a profile of a busy machine."""
    halves = gaps(np.array([0, 1]), np.array([4.0, 4.0]))
    islands = gaps(np.array([0, 1, 0, 1]), np.array([4.0, 0.01, 0.01, 4.0]))
    assert halves.tolist() == [4.0, 4.0]
    assert islands[[0, 3]].min() >= 3.9, "as cold as without"


@given(st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=30))
def test_a_device_that_is_alone_has_no_gaps(seconds: list[float]) -> None:
    """Rounding left 1e-19 s, and the fit of a split divided by it: "61,423,466,446 s" for one more subgraph."""
    assert not gaps(np.zeros(len(seconds), np.int64), np.array(seconds)).any()


@given(st.floats(0, 1), st.floats(0, 1), st.floats(1e-6, 1e-2), st.floats(1e-5, 1e-1))
def test_a_cold_start_costs_at_most_its_most_and_more_after_more(
    ops: float, gap: float, most: float, constant: float
) -> None:
    cold = ColdStart(most, constant)
    lost, later = cold.seconds(np.array([ops, ops]), np.array([gap, gap + 1])).tolist()
    assert 0 <= lost <= later <= most
    assert cold.seconds(np.array([ops]), np.array([0.0])) == 0


def test_a_plan_costs_the_sum_of_its_parts_cold_starts_included(dag: Callable[..., Graph]) -> None:
    graph = dag([[i - 1] if i else [] for i in range(12)])
    plan = editor.partition(graph, AB, pins={f"t{i}": "AB"[i // 3 % 2] for i in range(12)})
    warm = estimate(graph, plan.devices)
    cold = replace(warm, cold=(ColdStart(1e-3, 1e-5), ColdStart(0.0, 1e-5)))
    before, after = plan.placement.price(warm), plan.placement.price(cold)
    parts = expected_parts(plan.placement, cold)
    assert sum(parts.subgraphs.values()) + parts.transfers == pytest.approx(after.total)
    convert = np.array([1e-6, 2e-6])  # seconds per byte; tensors have 16 bytes
    converting = replace(
        cold, convert=convert, enter=cold.enter + 16 * convert, leave=cold.leave + 16 * convert
    )
    parts = expected_parts(plan.placement, converting)
    assert sum(parts.subgraphs.values()) + parts.transfers == pytest.approx(
        plan.placement.price(converting).total
    )
    assert parts.subgraphs[0] == pytest.approx(
        expected_parts(plan.placement, cold).subgraphs[0] + 16 * 1e-6
    )  # leaves
    assert parts.subgraphs[1] == pytest.approx(
        expected_parts(plan.placement, cold).subgraphs[1] + 2 * 16 * 2e-6
    )  # and enters
    lost = 1e-3 * -np.expm1(-warm.op[:3, 0].sum() / 1e-5)  # three ops of A after three of B, twice
    assert after.launches - before.launches == pytest.approx(2 * lost)
    alone = editor.partition(graph, AB, pins={f"t{i}": "A" for i in range(12)})
    assert alone.placement.price(cold).total == alone.placement.price(warm).total, (
        "nobody runs in between"
    )
