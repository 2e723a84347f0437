"""What profilers of runtimes have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from editor.graph.graph import Graph
from editor.runtimes.base import KernelTime, Value
from editor.runtimes.protocols import AsynchronousExecutable, Executable

MIN_RUNS, MAX_RUNS = 8, 200
QUIET_SHARE = 0.4
"""Share of the runs that counts, quickest first: the others were disturbed."""
_LEAST_QUIET = 5
_FEWEST_RUNS, _OVERTIME = 3, 2
"""So few runs do where more would take longer than so many times the time for them: a slow run is disturbed less."""


def enough_runs(runs: int, elapsed: float, seconds: float) -> bool:
    """Whether a model has run often enough.

    Args:
        runs: made so far.
        elapsed: seconds that they took.
        seconds: time for them.
    """
    if elapsed < seconds:
        return runs >= MAX_RUNS
    return runs >= MIN_RUNS or (runs >= _FEWEST_RUNS and elapsed >= _OVERTIME * seconds)


def runs_within(seconds: float) -> Iterator[int]:
    """Yields the number of each run that is to be made, from 1, until there are enough (``enough_runs``)."""
    begin, run = perf_counter(), 0
    while not enough_runs(run, perf_counter() - begin, seconds):
        run += 1
        yield run


def seconds_of(call: Callable[[], object]) -> float:
    """Returns what a call takes."""
    start = perf_counter()
    call()
    return perf_counter() - start


def median_of_quiet_runs(runs: Sequence[tuple[float, Sequence[KernelTime]]]) -> list[KernelTime]:
    """The median of each kernel over the quietest whole runs.

    A mean would not do: a kernel during which the system took the processor away for some milliseconds would look so
    slow that giving it to another device seemed to pay. The caller scales the medians to the latency of the run.

    Args:
        runs: (seconds of the whole run, its kernels); all with the same kernels in the same order.
    """
    quiet = sorted(runs, key=lambda run: run[0])[: max(_LEAST_QUIET, int(len(runs) * QUIET_SHARE))]
    if not quiet:
        return []
    first = quiet[0][1]
    alike = [times for _, times in quiet if len(times) == len(first)]
    return [
        replace(kernel, seconds=float(np.median([times[i].seconds for times in alike])))
        for i, kernel in enumerate(first)
    ]


def fused_regions(
    graph: Graph, anchors: Sequence[Sequence[int]], given: Sequence[set[int]] | None = None
) -> list[tuple[int, ...]]:
    """Ops of each kernel: its anchors and what lies before them that no other kernel claims.

    Args:
        graph: the model.
        anchors: ops that each kernel surely computes, kernels in an order of execution.
        given: ops whose results each kernel reads as inputs; the region ends there.
    """
    rank = graph.rank
    claimed = {op for ops in anchors for op in ops}
    regions = []
    for i, ops in enumerate(anchors):
        region, stack = set(ops), list(ops)
        while stack:
            for op in graph.predecessors[stack.pop()].tolist():
                if (
                    op not in claimed
                    and not graph.op_is_constant[op]
                    and (given is None or op not in given[i])
                ):
                    claimed.add(op)
                    region.add(op)
                    stack.append(op)
        regions.append(tuple(sorted(region, key=lambda op: int(rank[op]))))
    return regions


def run_to_end(executable: Executable, inputs: Sequence[Value]) -> list[Value]:
    """Runs, and returns when the device has finished; for measurements."""
    results = executable.run(inputs)
    if isinstance(executable, AsynchronousExecutable):
        executable.wait()
    return results
