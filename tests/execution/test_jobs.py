"""Jobs run elsewhere: they stream, fail, crash and are cancelled without harm."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import EXAMPLES, ROOT, write_dag
from pages import free_port

import editor
from editor.execution.jobs import job_service, tasks
from editor.execution.machines.dask_jobs import DaskJobs
from editor.graph.model_file import file_sha256
from editor.placement.placement import Settings
from editor.sandbox.jobs import JobService
from editor.web.app_state import AppState
from editor.web.open_request import OpenRequest
from editor.workspace.history import Store

MODEL = str(EXAMPLES / "models" / "mobilenetv2.onnx")


@pytest.fixture(scope="module")
def service() -> Iterator[JobService]:
    jobs = JobService()
    yield jobs
    jobs.close()


def crash(channel: Any) -> None:
    channel.emit({"kind": "phase", "text": "about to crash"})
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(channel: Any) -> None:
    """Ignores the cancellation, as native code does."""
    time.sleep(60)


def much(channel: Any, seconds: float) -> Any:
    """Returns 96 MB, whose transfer is slow enough to be interrupted."""
    time.sleep(seconds)
    return np.ones(12_000_000)


def fail(channel: Any) -> None:
    raise ValueError("a bug")


def test_results_and_events_arrive(service: JobService) -> None:
    recipe = tasks.Recipe(MODEL, file_sha256(MODEL), {}, [{"name": "CPU"}], Settings())
    job = service.submit(tasks.benchmark, {"plan": recipe}, 0.4, "latency", 1)
    (result,) = job.result(120)
    assert result.plan == "plan" and result.runs >= 5
    assert {"phase", "sample"} <= {e["kind"] for e in job.events}


def test_errors_keep_their_type(service: JobService) -> None:
    with pytest.raises(editor.ModelError, match="no such file"):
        service.run(tasks.load_graph, "/nowhere.onnx", {})
    with pytest.raises(editor.JobError, match="ValueError: a bug"):
        service.run(fail)


def test_opening_can_be_cancelled(service: JobService, tmp_path: Path) -> None:
    state = AppState(Store(str(tmp_path)), service, None, EXAMPLES)
    model = write_dag(tmp_path / "long.onnx", [[i - 1] if i else [] for i in range(20_000)])
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(state.open, OpenRequest(str(model), "HETERO:GPU,CPU"))
        while not state._opening and not opening.done():
            time.sleep(0.005)
        state.cancel_opening()
        with pytest.raises(editor.JobError, match="cancelled"):
            opening.result(30)
    assert not state._opening and not state.store.recent(), "nothing is kept of it"
    assert state.open(OpenRequest(MODEL, "HETERO:GPU,CPU")).graph.name == "mobilenetv2", (
        "the next model opens"
    )


def test_two_measurements_take_turns_and_one_that_waits_can_be_cancelled(
    service: JobService,
) -> None:
    """They ran at the same time, and each slowed the other down fivefold."""
    recipe = editor.partition(editor.load_model(MODEL), "HETERO:CPU").recipe()
    for job in [service.submit(tasks.load_graph, MODEL, {}) for _ in range(2)]:
        job.result(180)  # both workers have imported what measures
    first = service.submit(tasks.benchmark, {"first": recipe}, 4.0, "latency", 1)
    until = time.monotonic() + 60
    while not any(e["kind"] == "sample" for e in first.events) and time.monotonic() < until:
        time.sleep(0.02)
    second, third = (
        service.submit(tasks.benchmark, {name: recipe}, 0.2, "latency", 1)
        for name in ("second", "third")
    )
    while (
        not any("waiting for another" in e.get("text", "") for e in second.events)
        and time.monotonic() < until
    ):
        time.sleep(0.02)
    assert not first.done and not any(e["kind"] == "sample" for e in second.events)
    third.cancel()
    assert first.result()[0].plan == "first" and second.result()[0].plan == "second"
    with pytest.raises(editor.EditorError, match="cancelled"):
        third.result()


def test_a_crash_is_reported_and_the_next_job_runs(service: JobService) -> None:
    with pytest.raises(editor.JobError, match="worker process died.*about to crash"):
        service.run(crash, timeout=60)
    assert (
        len(service.run(tasks.load_graph, MODEL, {}, timeout=180)) == 253
    )  # a fresh worker takes long on a busy machine


def test_any_running_job_can_be_cancelled(service: JobService) -> None:
    recipe = tasks.Recipe(MODEL, file_sha256(MODEL), {}, [{"name": "CPU"}], Settings())
    polite = service.submit(tasks.benchmark, {"plan": recipe}, 60.0, "latency", 1)
    stubborn = service.submit(hang)
    time.sleep(1.5)
    for job in (polite, stubborn):
        job.cancel()  # takes 0.1 to 0.6 s; the limit only tells it from waiting for the 60 s of the job
        with pytest.raises(editor.JobError, match="cancelled"):
            job.result(10)
    assert (
        len(service.run(tasks.load_graph, MODEL, {}, timeout=180)) == 253
    )  # a fresh worker takes long on a busy machine


def test_a_worker_remains_after_several_cancellations(service: JobService) -> None:
    """The later ones kill a worker that is still starting."""
    for _ in range(3):
        job = service.submit(hang)
        job.cancel()
        with pytest.raises(editor.JobError, match="cancelled"):
            job.result(120)
    assert len(service.run(tasks.load_graph, MODEL, {}, timeout=180)) == 253


def test_a_job_restarts_when_the_cancellation_of_another_loses_its_result(
    service: JobService,
) -> None:
    for wait in (
        0.3,
        0.4,
        0.5,
        0.6,
    ):  # so that one of them is being sent when the worker ends, about 0.6 s after the cancel
        job = service.submit(hang)
        service.run(
            tasks.load_graph, MODEL, {}, timeout=180
        )  # the other thread of the worker, which is up now
        large = service.submit(much, wait)
        job.cancel()
        assert large.result(180).sum() == 12e6


def test_cancelling_jobs_does_not_affect_other_jobs(service: JobService) -> None:
    """Cancelling removes waiting jobs and kills the worker of running ones; the last job finishes."""
    jobs = [service.submit(hang) for _ in range(5)]
    last = service.submit(tasks.load_graph, MODEL, {})
    time.sleep(1)
    for job in reversed(jobs):
        job.cancel()
    assert len(last.result(180)) == 253


def test_a_job_is_cancelled_at_its_time_limit(service: JobService) -> None:
    with pytest.raises(editor.JobError, match="gave up after 1 s"):
        service.run(hang, timeout=1.0)


def test_the_error_names_a_lost_scheduler_and_a_restarted_one_is_used() -> None:
    port = free_port()
    here = job_service(f"tcp://127.0.0.1:{port}")
    with scheduler(port):
        assert len(here.run(tasks.load_graph, MODEL, {}, timeout=180)) == 253
        lost = here.submit(hang)
        time.sleep(1)
    with pytest.raises(
        editor.JobError,
        match=f"lost the connection to the Dask scheduler at tcp://127.0.0.1:{port}",
    ):
        lost.result(60)
    with scheduler(port):
        assert len(here.run(tasks.load_graph, MODEL, {}, timeout=180)) == 253
    here.close()


def test_jobs_on_a_scheduler_can_be_cancelled_and_are_forgotten() -> None:
    port = free_port()
    here = job_service(f"tcp://127.0.0.1:{port}")
    assert isinstance(here, DaskJobs)
    with scheduler(port):
        job = here.submit(hang)
        until = time.monotonic() + 60
        while job not in here._addresses and time.monotonic() < until:
            time.sleep(0.02)
        job.cancel()
        with pytest.raises(editor.JobError, match="cancelled"):
            job.result(10)
        found = [weakref.ref(job)]
        for _ in range(3):
            job = here.submit(tasks.load_graph, MODEL, {})
            found += [weakref.ref(job.result(180)), weakref.ref(job)]
            assert any(e["kind"] == "phase" for e in job.events)
        del job
        while any(each() is not None for each in found) and time.monotonic() < until:
            time.sleep(0.05)
            gc.collect()
        assert not any(each() is not None for each in found)
        here.close()


@contextlib.contextmanager
def scheduler(port: int) -> Iterator[None]:
    """An external cluster, killed at the end."""
    code = (
        "from distributed import LocalCluster\n"
        "if __name__ == '__main__':\n"
        f"    LocalCluster(n_workers=1, scheduler_port={port}, dashboard_address='127.0.0.1:0')\n"
        "    print('up', flush=True)\n"
        "    input()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}:{Path(__file__).parent}"},
    )
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    yield
    process.kill()
    process.wait(20)
