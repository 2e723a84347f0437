"""Workers serve the process that started them, and leave nothing behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import EXAMPLES, ROOT

import editor
from editor.execution.jobs import tasks
from editor.execution.machines.dask_jobs import JobClient
from editor.graph.graph import Graph
from editor.sandbox.jobs import JobService
from editor.sandbox.watch import Section
from editor.sandbox.worker import Channel, Worker, WorkerEndedError, run

MODEL = str(EXAMPLES / "models" / "mobilenetv2.onnx")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def jobs() -> Iterator[JobService]:
    service = JobService()
    yield service
    service.close()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def leave_a_file(channel: Channel) -> str:
    """Makes a temporary file, tells of it, and ends only when its process is killed."""
    channel.emit({"kind": "file", "path": tempfile.mkstemp()[1]})
    time.sleep(600)
    return ""


def stop_politely(channel: Channel) -> None:
    channel.emit({"kind": "phase", "text": "waiting"})
    while not channel.stopped():
        time.sleep(0.01)


def pid_of(channel: Channel) -> int:
    return os.getpid()


def test_the_second_call_uses_the_same_process_in_the_folder_and_environment_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker()
    try:
        first = worker.call(os.getpid)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HETERO_TEST", "yes")
        assert worker.call(os.getcwd) == str(tmp_path)
        assert worker.call(os.getenv, "HETERO_TEST") == "yes"
        assert worker.call(os.getpid) == first != os.getpid()
    finally:
        worker.kill()


def test_a_job_that_stops_when_it_is_asked_keeps_its_worker(jobs: JobService) -> None:
    worker = jobs.run(pid_of)
    job = jobs.submit(stop_politely)
    until(lambda: job.events)
    job.cancel()
    with pytest.raises(editor.JobError, match="cancelled"):
        job.result(60)
    assert jobs.run(pid_of) == worker, "not killed, and not told to stop once more"
    assert jobs.run(pid_of) == worker


def test_a_killed_worker_leaves_no_files(temporary: Path, jobs: JobService) -> None:
    job = jobs.submit(leave_a_file)
    until(lambda: job.events)
    assert Path(job.events[0]["path"]).is_relative_to(temporary)
    job.cancel()
    with pytest.raises(editor.JobError, match="cancelled"):
        job.result(60)
    until(lambda: not list(temporary.iterdir()))


def test_a_closed_service_leaves_no_folder_and_no_process(temporary: Path) -> None:
    before = set(psutil.Process().children(recursive=True))
    service = JobService()
    job = service.submit(leave_a_file)
    until(lambda: job.events)
    service.close()
    with pytest.raises(editor.JobError, match="ending"):
        job.result(60)
    left = set(psutil.Process().children(recursive=True)) - before
    _, alive = psutil.wait_procs(left, timeout=20)
    assert not alive and list(temporary.iterdir()) == []
    with pytest.raises(editor.JobError, match="ending"):
        service.submit(pid_of)


WITH_EDITOR = {**os.environ, "PYTHONPATH": str(ROOT)}
OWNER = """
import os, sys, tempfile, time
tempfile.tempdir = sys.argv[1]
from editor.sandbox.worker import Worker
worker = Worker()
worker.call(os.getpid)
print(worker.pid, flush=True)
if sys.argv[2] == "hang":
    worker.call(pow, 3, 1 << 40)
"""


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("what", ["hang", "end"])
def test_a_worker_ends_with_its_owner_even_in_native_code(tmp_path: Path, what: str) -> None:
    """``pow`` of large numbers keeps the lock of the interpreter."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path), what],
        env=WITH_EDITOR,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    if what == "hang":
        worker = psutil.Process(pid)
        until(lambda: worker.cpu_percent(0.2) > 20)
        owner.kill()
    owner.wait(60)
    until(lambda: has_ended(pid))
    assert what == "hang" or not list(tmp_path.iterdir())


def test_the_next_worker_removes_what_a_killed_owner_left_and_nothing_of_a_living_one(
    temporary: Path,
) -> None:
    living = Worker()
    (of_living,) = temporary.iterdir()
    code = OWNER + "os.kill(os.getpid(), 9)"
    killed = subprocess.run(
        [sys.executable, "-c", code, str(temporary), "end"],
        env=WITH_EDITOR,
        check=False,
        capture_output=True,
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(list(temporary.iterdir())) == 2
    second = Worker()
    assert of_living.exists() and len(list(temporary.iterdir())) == 2
    for each in (living, second):
        each.kill()
    assert list(temporary.iterdir()) == []


def test_a_crash_says_its_status_and_a_limit_which_one() -> None:
    section = Section("reading", "m.onnx", 0.2, 1 << 40)
    worker = Worker()
    with pytest.raises(WorkerEndedError) as ended:
        worker.call(os._exit, 3)
    assert ended.value.status == 3 and not worker.usable
    worker = Worker()
    with pytest.raises(editor.LimitError, match=r"reading m\.onnx took longer.*HETERO_LIMIT_SEC"):
        worker.call(time.sleep, 600, section=section)
    assert not worker.usable


def test_time_is_counted_for_a_model_across_workers_until_it_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HETERO_LIMIT_SECONDS", "1.5")
    path = tmp_path / "m.onnx"
    run(time.sleep, 1.0, what="reading", path=path)
    with pytest.raises(editor.LimitError, match="asking CPU about"):
        run(time.sleep, 1.0, what="asking CPU about", path=path)
    run(time.sleep, 1.0, what="reading", path=path)


def _graphs_after(service: JobService, count: int) -> list[weakref.ref[Graph]]:
    found = []
    for _ in range(count):
        job = service.submit(tasks.load_graph, MODEL, {})
        found += [weakref.ref(job), weakref.ref(job.result(180))]
    return found


def test_nothing_keeps_finished_jobs_and_their_results(jobs: JobService) -> None:
    found: list[weakref.ref[Any]] = [*_graphs_after(jobs, 4)]

    def gone() -> bool:
        gc.collect()
        return not any(reference() is not None for reference in found)

    until(gone)


def test_a_client_that_cannot_connect_leaves_nothing_for_the_garbage_collector_to_close() -> None:
    before = {thread.ident for thread in threading.enumerate()}
    with pytest.raises(OSError) as failed:
        JobClient("tcp://127.0.0.1:1", timeout=1, set_as_default=False)
    (client,) = (
        entry.frame.f_locals["self"]
        for entry in failed.traceback
        if entry.name == "start" and entry.path.name == "dask_jobs.py"
    )
    assert client.status == "closed"
    assert not [
        t.name for t in threading.enumerate() if t.ident not in before and t.name == "IO loop"
    ]
