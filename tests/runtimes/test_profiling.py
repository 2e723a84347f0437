"""How often a model runs for its profile."""

from __future__ import annotations

import pytest

from editor.runtimes.profiling import MAX_RUNS, MIN_RUNS, enough_runs


@pytest.mark.parametrize(
    ("run_seconds", "seconds", "runs"),
    [
        (0.001, 0.1, 100),
        (0.0001, 0.1, MAX_RUNS),
        (0.02, 0.1, MIN_RUNS),
        (0.2, 0.4, 4),
        (5.0, 0.1, 3),
    ],
    ids=[
        "fills the time",
        "is fast",
        "is slow for the time",
        "would take twice the time",
        "takes all the time",
    ],
)
def test_a_model_runs_often_enough_if_it(run_seconds: float, seconds: float, runs: int) -> None:
    done = 0
    while not enough_runs(done, done * run_seconds + 1e-9, seconds):
        done += 1
    assert done == runs
