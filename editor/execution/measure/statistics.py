"""Statistics of repeated measurements: intervals of medians, the end of warming up, and signs of a disturbed machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import perf_counter

import numpy as np
import psutil

from editor.text import human_seconds

CONFIDENCE_Z = 1.96
"""Of a normal distribution, for 95 %."""
_AIM = 0.02
"""Half the width of the interval of a median, relative to it, at which measuring may end."""
_DRIFT = 0.05
"""Difference between the medians of the first and last third that is more than chance, besides their intervals."""
_FEWEST_ENDS = 3
_OTHERS_BUSY, _OTHERS_SHARE = 0.25, 0.05
"""What other programs may keep busy on a quiet machine: processors, or a share of all of them where that is more."""
_SLOWER_CLOCK = 0.9
_MIDDLE = (0.25, 0.75)
"""Quantiles between which runs are about as long as the median one"""
_UNEVEN, _FEWEST_LOOKS = 1.3, 10
"""Between the slow and the fast tenth of equal pieces of work; a quiet processor has 1.05 to 1.2."""
_WARM = 0.1
"""A run that is at most this much slower than the fastest run before it is warm."""


def median_interval(seconds: Sequence[float]) -> tuple[float, float]:
    """95 % confidence interval of the median by order statistics, whatever the distribution.

    The number of values below the median is binomial (n, 1/2); its normal approximation, corrected for whole numbers, gives
    the ranks, as far from one end as from the other (Conover, Practical Nonparametric Statistics, 3.2). Below 6 values no such
    interval exists: the extremes are given.
    """
    ordered = np.sort(np.asarray(seconds, np.float64))
    n = len(ordered)
    reach = CONFIDENCE_Z * math.sqrt(n) / 2
    low = max(math.floor((n - 1) / 2 - reach), 0)
    return float(ordered[low]), float(ordered[n - 1 - low])


def medians_of_turns(seconds: Sequence[float], turns: Sequence[int]) -> list[float]:
    """The median of each turn, as runs in a row are alike, and would make any interval too narrow.

    Args:
        seconds: durations in the order in which they were measured.
        turns: [turn] how many of them it has; none: each is a turn.
    """
    if not turns:
        return list(seconds)
    return [float(np.median(part)) for part in np.split(np.asarray(seconds), np.cumsum(turns)[:-1])]


def is_settled(seconds: Sequence[float]) -> bool:
    """Whether the interval of the median is as narrow as wanted."""
    if len(seconds) < 6:
        return False
    low, high = median_interval(seconds)
    return high - low <= 2 * _AIM * float(np.median(seconds))


def is_warm(seconds: Sequence[float]) -> bool:
    """Whether a run brought nothing new: it took about as long as the fastest before it."""
    return len(seconds) > 1 and abs(seconds[-1] / min(seconds[:-1]) - 1) <= _WARM


def steady_rate(ends: Sequence[Sequence[float]]) -> float | None:
    """Runs per second while as many are in flight as there are threads; None where too few were finished to tell.

    At the beginning a plan of several devices is filled, and at the end it runs empty; neither happens in a server. So the
    first run of each thread only says when the next one began, and what ends after the first thread has stopped does not
    count.

    Args:
        ends: [thread] instants at which its runs ended, in seconds.
    """
    stop = min(each[-1] for each in ends)
    counted = [[end for end in each if end <= stop] for each in ends]
    if min(map(len, counted)) < _FEWEST_ENDS:
        return None
    return sum((len(each) - 1) / (each[-1] - each[0]) for each in counted)


def parts_of_median_run(
    parts: Sequence[Sequence[float]], totals: Sequence[float], median: float
) -> tuple[float, ...]:
    """[part] seconds in a run that takes the median, so that they add up: the medians of parts do not where runs vary.

    By the shares of the runs in the middle, which were disturbed as much as the median one.

    Args:
        parts: [run][part] seconds.
        totals: [run] seconds of the whole run.
        median: seconds.
    """
    whole = np.array(totals)
    low = np.quantile(whole, _MIDDLE[0], method="lower")
    high = np.quantile(whole, _MIDDLE[1], method="higher")
    middle = (whole >= low) & (whole <= high)
    shares = np.array(parts)[middle].sum(axis=0) / max(float(whole[middle].sum()), 1e-12)
    return tuple((median * shares).tolist())


def drift(seconds: Sequence[float]) -> str:
    """How times changed during the measurement; "" where they did not, or too few were taken to tell."""
    third = len(seconds) // 3
    if third < 6:
        return ""
    first, last = seconds[:third], seconds[-third:]
    (a, b), (c, d) = median_interval(first), median_interval(last)
    before, after = float(np.median(first)), float(np.median(last))
    if (a <= d and c <= b) or abs(after / before - 1) <= _DRIFT:
        return ""
    return f"times drifted from {human_seconds(before)} to {human_seconds(after)} while measuring"


def cpu_jitter(looks: Sequence[float]) -> str:
    """Describe how much identical work varied in duration; "" if it did not, or was too little.

    On a shared host, programs that cannot be seen from here use the other half of a processor: the same work then takes up to
    twice as long, and with it all that waits for the processor, such as the kernels of a GPU.

    Args:
        looks: seconds of each piece of work, all through the measurement.
    """
    if len(looks) < _FEWEST_LOOKS:
        return ""
    fast, slow = np.quantile(looks, [0.1, 0.9])
    return (
        f"the processor was {slow / fast:.1f} times as slow at times"
        if slow > _UNEVEN * fast
        else ""
    )


class MachineWatch:
    """Looks at the processors before, during and after a measurement."""

    def __init__(self) -> None:
        self._begun, self._busy, self._own = perf_counter(), _busy_seconds(), _own_seconds()
        self._clock = _clock()
        self._looks: list[float] = []

    def sample(self) -> None:
        """Times a little work, for a tenth of a millisecond: to be called all through the measurement."""
        self._looks.append(min(_seconds_of_work() for _ in range(3)))

    def disturbances(self) -> list[str]:
        """Describes what disturbed the measurement; empty on a quiet machine."""
        elapsed = max(perf_counter() - self._begun, 1e-9)
        others = (_busy_seconds() - self._busy - (_own_seconds() - self._own)) / elapsed
        allowed = max(_OTHERS_BUSY, _OTHERS_SHARE * (psutil.cpu_count() or 1))
        signs = (
            [f"other programs kept {others:.1f} processors busy"]
            if others > allowed and elapsed > 0.2
            else []
        )
        clock = _clock()
        if self._clock and clock and clock < _SLOWER_CLOCK * self._clock:
            signs.append(f"the processors' clock fell from {self._clock:.0f} to {clock:.0f} MHz")
        return [*signs, *filter(None, [cpu_jitter(self._looks)])]


def _seconds_of_work() -> float:
    """Seconds of the same work each time."""
    begin, total = perf_counter(), 0
    for i in range(1000):
        total += i
    return perf_counter() - begin


def _busy_seconds() -> float:
    """Seconds that all processors of the machine have worked."""
    times = psutil.cpu_times()
    return float(
        sum(times)
        - times.idle
        - getattr(times, "iowait", 0.0)
        - getattr(times, "guest", 0.0)
        - getattr(times, "guest_nice", 0.0)
    )


def _own_seconds() -> float:
    times = psutil.Process().cpu_times()
    return float(times.user + times.system)


def _clock() -> float:
    """Present clock of the processors in MHz; 0 where the system does not say."""
    try:
        frequency = psutil.cpu_freq()
    except (OSError, NotImplementedError):
        return 0.0
    return float(frequency.current) if frequency else 0.0
