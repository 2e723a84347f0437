"""Intervals contain the true median as often as they say, and disturbed measurements are called so."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editor.execution.measure import statistics
from editor.execution.measure.figures import Spread
from editor.execution.measure.statistics import (
    MachineWatch,
    cpu_jitter,
    drift,
    is_settled,
    is_warm,
    median_interval,
    parts_of_median_run,
)
from editor.kinds import Kind, basis_of_costs, compare_medians, kind_of_run


@pytest.mark.parametrize("size", [12, 50, 300])
@pytest.mark.parametrize("shape", ["normal", "skewed"])
def test_the_interval_contains_the_median_in_95_of_100_samples(size: int, shape: str) -> None:
    rng = np.random.default_rng(size)
    draw = rng.standard_normal if shape == "normal" else rng.standard_exponential
    median, inside, trials = (0.0 if shape == "normal" else float(np.log(2))), 0, 2000
    for _ in range(trials):
        low, high = median_interval(draw(size).tolist())
        inside += low <= median <= high
    assert inside / trials >= 0.94


@pytest.mark.parametrize(
    ("count", "lowest"), [(6, 1), (7, 1), (8, 1), (9, 2), (10, 2), (15, 4), (20, 6)]
)
def test_the_ranks_of_the_interval_are_those_of_the_tables(count: int, lowest: int) -> None:
    assert median_interval(range(1, count + 1)) == (lowest, count + 1 - lowest)


@given(st.integers(6, 400))
def test_the_interval_has_95_percent_and_no_direction(count: int) -> None:
    low, high = median_interval(range(1, count + 1))
    assert median_interval([-value for value in range(1, count + 1)]) == (-high, -low)
    outside = 2 * sum(
        math.comb(count, below) for below in range(int(low))
    )  # of 2^n ways to lie above or below the median
    assert outside <= 0.05 * 2**count


@given(st.lists(st.floats(1e-6, 10), min_size=1, max_size=60))
def test_the_interval_holds_the_median_of_the_sample(seconds: list[float]) -> None:
    spread = Spread.of(seconds)
    assert (
        spread.min <= spread.low <= spread.median <= spread.high <= spread.max
        and spread.margin >= 0
    )
    assert spread.count == len(seconds)


def test_measuring_ends_when_the_interval_is_narrow() -> None:
    rng = np.random.default_rng(1)
    assert not is_settled([1.0] * 5), "five values have no interval"
    assert is_settled([1.0] * 6)
    assert not is_settled((1 + 0.3 * rng.random(20)).tolist())
    assert is_settled((1 + 0.3 * rng.random(3000)).tolist())


def test_warming_up_ends_when_a_run_takes_as_long_as_the_fastest_before() -> None:
    assert not is_warm([1.0])
    assert not is_warm([1.0, 0.5]), "still getting faster"
    assert is_warm([1.0, 0.5, 0.52])
    assert not is_warm([1.0, 0.5, 0.8])


def test_times_that_drift_are_said() -> None:
    rng = np.random.default_rng(2)
    noise = 0.01 * rng.standard_normal(90)
    assert not drift((1 + noise).tolist())
    assert "drifted from" in drift((np.linspace(1, 1.4, 90) + noise).tolist())


@pytest.mark.parametrize(
    ("busy", "own", "said"), [(0.0, 0.0, False), (0.9, 0.9, False), (0.9, 0.0, True)]
)
def test_other_load_is_said(
    busy: float, own: float, said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``busy`` and ``own`` are shares of the machine's time, within one second."""
    seconds = psutil.cpu_count() or 1
    counters = {
        "perf_counter": iter((0.0, 1.0)),
        "_busy_seconds": iter((50.0, 50.0 + busy * seconds)),
        "_own_seconds": iter((5.0, 5.0 + own * seconds)),
    }
    for name, values in counters.items():
        monkeypatch.setattr(statistics, name, values.__next__)
    watch = MachineWatch()
    assert any("other programs kept" in sign for sign in watch.disturbances()) == said


def test_a_processor_whose_speed_changes_is_said() -> None:
    """The halves of a shared processor: 10 ms or 20 ms for the same work, which no count of other programs shows."""
    rng = np.random.default_rng(0)
    quiet = 1e-4 * (1 + 0.03 * rng.standard_normal(40))
    assert not cpu_jitter(quiet.tolist()) and not cpu_jitter([1e-4, 2e-4])
    assert cpu_jitter(np.where(np.arange(40) % 4, quiet, 2 * quiet).tolist()).startswith(
        "the processor was 2."
    )
    watch = MachineWatch()
    for _ in range(20):
        watch.sample()
    assert len(watch._looks) == 20 and all(seconds > 0 for seconds in watch._looks)
    watch._looks += [2 * max(watch._looks)] * 20
    assert any("times as slow at times" in sign for sign in watch.disturbances())


def test_an_interval_that_is_not_even_is_given_by_its_ends() -> None:
    """34.8 ms ±15 % and, of the same run, 31.5 to 41.8 ms."""
    even = Spread(0.0348, 0.0338, 0.0358, 0.04, 0.04, 0.03, 0.04, 0.035, 50)
    assert even.precision == "95 % interval ±2.9 %"
    assert replace(even, low=0.0315, high=0.0418).precision == "95 % interval 31.5 ms to 41.8 ms"


def test_a_winner_is_named_only_where_intervals_do_not_overlap() -> None:
    assert compare_medians((1.0, 1.2), (1.1, 1.3), 0.92) == "too close to call"
    assert compare_medians((1.0, 1.05), (1.2, 1.3), 1 / 1.22) == "22 % faster"
    assert compare_medians((1.2, 1.3), (1.0, 1.05), 1.22) == "22 % slower"
    assert compare_medians((41.0, 42.0), (1.0, 1.1), 41.2) == "41x slower"
    assert compare_medians((2.0, 2.1), (1.0, 1.1), 2.0) == "2x slower"


def test_every_number_is_one_of_three_kinds() -> None:
    assert str(basis_of_costs(estimated=True, profiled=False)) == "estimate from shapes"
    assert str(basis_of_costs(estimated=True, profiled=True)) == "estimate in part from profile"
    assert basis_of_costs(estimated=False, profiled=True).kind is Kind.PREDICTION
    assert (
        kind_of_run(on_stand_in=True) is Kind.ESTIMATE
        and kind_of_run(on_stand_in=False) is Kind.MEASUREMENT
    )


@given(
    st.lists(
        st.tuples(st.floats(1e-5, 1.0), st.floats(1e-5, 1.0), st.floats(0.0, 0.5)),
        min_size=1,
        max_size=60,
    )
)
def test_parts_of_the_median_run_add_up_with_the_rest(
    runs: list[tuple[float, float, float]],
) -> None:
    """Medians of two parts were 6 ms where the median run took 15 ms: the rest looked like transfers."""
    parts, totals = [run[:2] for run in runs], [sum(run) for run in runs]
    median = float(np.median(totals))
    found = parts_of_median_run(parts, totals, median)
    rests = [run[2] / total for run, total in zip(runs, totals, strict=True)]
    assert min(rests) - 1e-9 <= 1 - sum(found) / median <= max(rests) + 1e-9


def test_a_disturbed_run_leaves_the_parts_of_the_median_one_as_they_are() -> None:
    quiet = [(0.002, 0.003)] * 19
    totals = [0.006] * 19 + [0.5]
    assert parts_of_median_run([*quiet, (0.4, 0.05)], totals, 0.006) == pytest.approx(
        (0.002, 0.003)
    )
