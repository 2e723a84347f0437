"""Contenders run several times in a turn, and the first runs do not count."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from editor.execution.measure.figures import Spread
from editor.execution.measure.statistics import is_settled, median_interval, medians_of_turns
from editor.execution.measure.turns import TURN_SECONDS, Turn


@given(st.floats(1e-6, 20), st.floats(1e-3, TURN_SECONDS))
def test_a_turn_has_a_run_that_counts_and_is_no_longer_than_two_runs_or_its_time(
    run: float, seconds: float
) -> None:
    turn = Turn.of(run, seconds)
    assert turn.counted >= 1 and turn.uncounted <= turn.counted
    runs = turn.counted + turn.uncounted
    assert runs <= 2 or runs * run <= seconds * (1 + 1e-9)


def test_the_first_runs_of_a_turn_do_not_count() -> None:
    made = iter(range(100))
    assert Turn(2, 3).take(lambda: next(made)) == [2, 3, 4]
    assert Turn.of(0.001).uncounted == 8, "a short run needs several until caches are warm"
    assert Turn.of(0.03) == Turn(1, 1)
    assert Turn.of(1.0) == Turn(0, 1), "in a long run it makes no difference"


def test_runs_of_a_turn_are_alike_and_the_interval_knows_it() -> None:
    rng = np.random.default_rng(0)
    inside, naive, trials, turns = 0, 0, 1000, [12] * 20
    for _ in range(trials):
        runs = (rng.standard_normal((20, 1)) + 0.1 * rng.standard_normal((20, 12))).ravel().tolist()
        spread = Spread.of(runs, turns)
        inside += spread.low <= 0 <= spread.high
        low, high = median_interval(runs)
        naive += low <= 0 <= high
    assert inside / trials >= 0.94
    assert naive / trials < 0.7, (
        "taken as independent, they would give an interval that is far too narrow"
    )


def test_medians_of_turns() -> None:
    assert medians_of_turns([1, 2, 3, 10, 20], [3, 2]) == [2, 15]
    assert medians_of_turns([1, 2, 3], []) == [1, 2, 3], "without turns each run stands for itself"
    assert Spread.of([1, 2, 3, 10, 20], [3, 2]).median == 8.5
    assert Spread.of([1, 2, 3, 10, 20], [3, 2]).count == 5
    assert not is_settled(medians_of_turns([1.0] * 50, [10] * 5)), "fifty runs, but five turns only"
