"""Where several requests are in flight, each device with memory of its own computes only its share of them at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from threading import Semaphore
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import editor
from editor.execution.compiled_plan import CompiledPlan, Step, owned
from editor.execution.executor import compile_whole, run_limits
from editor.execution.invented_inputs import random_inputs
from editor.execution.measure.statistics import steady_rate
from editor.graph.graph import Graph
from editor.runtimes.base import Value
from editor.runtimes.protocols import Executable


class Watched:
    """An executable that notes how many runs of it and its clones there are at once."""

    def __init__(self, inner: Executable, seen: list[int], now: list[int]) -> None:
        self.inner, self.seen, self.now = inner, seen, now

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        self.now.append(1)
        self.seen.append(len(self.now))
        time.sleep(0.005)
        results = self.inner.run(inputs)
        self.now.pop()
        return results

    def clone(self) -> Watched:
        return Watched(self.inner.clone(), self.seen, self.now)


@pytest.mark.parametrize("most", [1, 2])
def test_clones_of_a_plan_share_its_limits_and_compute_the_same(
    mobilenet: Graph, most: int
) -> None:
    plan = compile_whole(mobilenet, editor.load_devices("HETERO:CPU")[0], requests=4)
    inputs = random_inputs(mobilenet)
    expected, seen = plan.run(inputs), []  # type: tuple[dict[str, Any], list[int]]
    (step,) = plan.steps
    watched = Step(
        step.id, step.submodel, step.device, step.runs_on, Watched(step.executable, seen, [])
    )
    first = CompiledPlan(
        mobilenet, [watched], {}, 1, lambda _: plan, limits={"CPU": Semaphore(most)}
    )
    results: list[dict[str, Any]] = []
    threads = [
        threading.Thread(target=lambda c=c: results.extend(c.run(inputs) for _ in range(4)))
        for c in [first, *(first.clone() for _ in range(3))]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(seen) == most and len(seen) == len(results) == 16
    assert all(
        np.array_equal(result[name], value)
        for result in results
        for name, value in expected.items()
    )


@pytest.mark.parametrize(
    ("requests", "devices", "most"),
    [(1, 2, None), (2, 2, 1), (4, 2, 2), (8, 2, 4), (4, 1, 4), (9, 1, 4)],
)
def test_the_limit_is_the_share_of_a_device_up_to_four(
    mobilenet: Graph, requests: int, devices: int, most: int | None
) -> None:
    step = compile_whole(mobilenet, editor.load_devices("HETERO:CPU")[0]).steps[0]
    gpus = [
        replace(step.device, name=f"GPU.{i}", provider="CUDAExecutionProvider", unit=str(i))
        for i in range(devices)
    ]
    limits = run_limits(
        [Step(i, step.submodel, gpu, gpu, step.executable) for i, gpu in enumerate(gpus)], requests
    )
    free = []
    for limit in limits.values():
        free.append(0)
        while limit.acquire(blocking=False):
            free[-1] += 1
    assert free == ([] if most is None else [most] * devices)
    assert not run_limits([step], requests), (
        "processors share their memory, and runtimes share the processors"
    )


def test_results_in_host_memory_are_copied(mobilenet: Graph) -> None:
    plan = compile_whole(mobilenet, editor.load_devices("HETERO:CPU")[0])
    array = np.ones(3, np.float32)
    assert owned(array) is not array
    first = plan.run(random_inputs(mobilenet))
    kept = {name: value.copy() for name, value in first.items()}
    plan.run(random_inputs(mobilenet, seed=1))
    assert all(np.array_equal(first[name], kept[name]) for name in first)


@given(
    threads=st.integers(1, 8),
    runs=st.integers(4, 30),
    seconds=st.floats(0.001, 1),
    offset=st.floats(0, 1),
)
def test_a_steady_rate_does_not_count_how_a_plan_fills_and_runs_empty(
    threads: int, runs: int, seconds: float, offset: float
) -> None:
    """Each thread takes ``threads * seconds`` a run; the first runs take longer, and the last ones end one by one."""
    ends = [
        [5 + offset * seconds * thread + seconds * threads * run for run in range(runs)]
        for thread in range(threads)
    ]
    rate = steady_rate(ends)
    assert rate == pytest.approx(1 / seconds, rel=1e-6)


def test_a_rate_of_runs_that_end_together_is_that_of_all_of_them() -> None:
    assert steady_rate([[1.0, 2.0, 3.0, 4.0]] * 4) == pytest.approx(4)
    assert steady_rate([[1.0, 2.0], [1.0, 2.0]]) is None, "too few"
