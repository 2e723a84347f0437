"""Turns of contenders that are measured side by side.

The first runs after another contender are slower, up to twice as slow for a model of less than a millisecond: its code and
weights have left the caches, and threads sleep. After eight runs or so a model is as fast as it is alone, and as it is for who
runs nothing else. So a contender runs several times in its turn, and the first runs do not count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

TURN_SECONDS = 0.04
"""A turn is short, so that a slower machine affects all contenders alike."""
_MOST_RUNS, _MOST_UNCOUNTED = 32, 8
_LONG_SECONDS = 0.2
"""In a run of this length what was left in the caches makes no difference."""


@dataclass(frozen=True)
class Turn:
    """How many runs a turn has."""

    uncounted: int
    """first runs, which do not count"""
    counted: int

    @classmethod
    def of(cls, run_seconds: float, seconds: float = TURN_SECONDS) -> Turn:
        """For runs that take about ``run_seconds``, in a turn of about ``seconds``: one run in any case."""
        if run_seconds >= _LONG_SECONDS:
            return cls(0, 1)
        runs = int(min(max(seconds / max(run_seconds, 1e-9), 2), _MOST_RUNS))
        uncounted = min(runs // 2, _MOST_UNCOUNTED)
        return cls(uncounted, runs - uncounted)

    def take(self, run: Callable[[], T]) -> list[T]:
        """Runs; the results of the runs that count."""
        for _ in range(self.uncounted):
            run()
        return [run() for _ in range(self.counted)]
