"""Devices that queue their work are not made to wait for the figure of a whole run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter, sleep

import numpy as np
import pytest
from conftest import REAL

import editor
from editor.execution.compiled_plan import CompiledPlan
from editor.execution.executor import compile_placement
from editor.execution.invented_inputs import random_inputs
from editor.graph.graph import Graph
from editor.runtimes.base import Value
from editor.runtimes.protocols import Executable

NOTICE_SECONDS = 0.02
"""What a look at the device takes, done or not"""


class _Queued:
    """An executable of a device that takes long to say that it has finished, but only when it had something to do."""

    def __init__(self, executable: Executable, queue: list[int]) -> None:
        self._executable, self._queue = executable, queue

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        self._queue.append(1)
        return self._executable.run(inputs)

    def clone(self) -> Executable:
        return _Queued(self._executable.clone(), self._queue)

    def wait(self) -> None:
        if self._queue:
            self._queue.clear()
            sleep(NOTICE_SECONDS)


@pytest.fixture
def queueing(mobilenet: Graph) -> CompiledPlan:
    keys = [mobilenet.op_keys[op] for op in mobilenet.order.tolist()]
    eighth = len(keys) // 8
    pins = {key: REAL[i // eighth % 2]["name"] for i, key in enumerate(keys)}
    plan = editor.partition(mobilenet, REAL[:2], pins=pins)
    compiled = compile_placement(plan.placement)
    queue: list[int] = []
    compiled.steps = [replace(s, executable=_Queued(s.executable, queue)) for s in compiled.steps]
    compiled.queues = True
    assert len(compiled.steps) >= 4
    return compiled


def test_the_whole_waits_once_and_its_parts_add_up_to_no_more(queueing: CompiledPlan) -> None:
    inputs = random_inputs(queueing.graph)
    waits = len(queueing.steps) * NOTICE_SECONDS
    timed = min((queueing.run_timed(inputs)[1] for _ in range(3)), key=lambda t: t.total)
    assert timed.total >= waits
    begin = perf_counter()
    measured = min((queueing.run_measured(inputs) for _ in range(3)), key=lambda t: t.total)
    assert perf_counter() - begin >= 3 * waits, "parts are still told by runs that wait"
    assert NOTICE_SECONDS <= measured.total < timed.total
    parts = sum(measured.subgraphs) + sum(t.seconds for t in measured.transfers)
    assert 0 < parts <= measured.total * (1 + 1e-9)


def test_the_shares_stay(queueing: CompiledPlan) -> None:
    timed = queueing.run_timed(random_inputs(queueing.graph))[1]
    half = timed.scaled_to(timed.total / 2)
    assert np.allclose(np.array(half.subgraphs) * 2, timed.subgraphs)
    assert np.allclose(
        [t.seconds * 2 for t in half.transfers], [t.seconds for t in timed.transfers]
    )
    assert half.cpu == timed.cpu and half.total * 2 == pytest.approx(timed.total)


def test_plans_that_do_not_queue_run_once_for_their_times(mobilenet: Graph) -> None:
    compiled = compile_placement(editor.partition(mobilenet, REAL[:2]).placement)
    assert not compiled.queues, "values of these devices lie in host memory"
    times = compiled.run_measured(random_inputs(mobilenet))
    assert times.total > 0 and len(times.subgraphs) == compiled.subgraph_count
