"""The model named on the command line is preloaded in a separate process; when that fails, a job loads it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import EXAMPLES, REAL, write_dag

import editor
from editor.execution.jobs.preload import ModelPreloader
from editor.runtimes.registry import capability
from editor.sandbox.jobs import JobService
from editor.web.app_state import AppState
from editor.web.open_request import OpenRequest
from editor.workspace.history import Store

MODEL = str(EXAMPLES / "models" / "mobilenetv2.onnx")


@pytest.fixture
def jobs() -> Iterator[JobService]:
    service = JobService()
    yield service
    service.close()


def test_the_preloader_returns_the_same_graph_and_capabilities_as_a_worker(
    jobs: JobService,
) -> None:
    early = ModelPreloader(jobs, MODEL, {}, REAL)
    devices = editor.load_devices(REAL)
    graph = early.graph(MODEL, {}, 60)
    assert graph is not None
    answers = early.capabilities(graph, [dict(d.entry) for d in devices], 60)
    assert answers is not None
    expected = editor.load_model(MODEL)
    assert graph.sha256 == expected.sha256 and list(graph.op_types) == list(expected.op_types)
    for answer, device in zip(answers, devices, strict=True):
        wanted = capability(expected, device)
        assert answer.mask.tolist() == wanted.mask.tolist() and answer.reasons == wanted.reasons
    assert early.graph(MODEL, {}, 0) is graph, "asked twice, read once"
    assert early.capabilities(graph, [{"name": "GPU"}], 0) is None, "another table"


def test_the_preloader_rejects_other_models_and_changed_files(
    jobs: JobService, tmp_path: Path
) -> None:
    model = write_dag(tmp_path / "m.onnx", [[], [0]])
    early = ModelPreloader(jobs, str(model), {}, [{"name": "CPU"}])
    assert early.graph(str(model), {}, 60) is not None
    assert early.graph(str(model), {"n": 1}, 60) is None and early.graph(MODEL, {}, 60) is None
    write_dag(model, [[], [0], [1]])
    assert early.graph(str(model), {}, 60) is None, "the file has changed since"


def test_sizes_that_a_model_leaves_open_are_assumed_where_that_is_wanted(
    jobs: JobService, tmp_path: Path
) -> None:
    model = EXAMPLES / "models" / "whisper-tiny-decoder.onnx"
    left = editor.load_model(model).unbound
    early = ModelPreloader(jobs, str(model), {left[0]: 2}, REAL, assume_sizes=True)
    graph = early.graph(str(model), {left[0]: 2}, 60)
    assert (
        graph is not None
        and not graph.unbound
        and graph.define[left[0]] == 2
        and set(graph.define) == set(left)
    )
    devices = [dict(d.entry) for d in editor.load_devices(REAL)]
    assert early.capabilities(graph, devices, 60) is not None
    assert (
        early.capabilities(editor.load_model(model, {**graph.define, left[0]: 1}), devices, 60)
        is None
    ), "other sizes"
    opened = AppState(Store(str(tmp_path)), jobs, None, EXAMPLES).open(
        OpenRequest(str(model), REAL, assume_sizes=True)
    )
    assert set(opened.graph.define) == set(left), "by a job, where nothing was read before"


def test_errors_of_the_loader_keep_their_type(jobs: JobService, tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    early = ModelPreloader(jobs, str(broken), {}, REAL)
    for _ in range(2):
        with pytest.raises(editor.ModelError, match=r"broken\.onnx"):
            early.graph(str(broken), {}, 60)


def test_loading_stops_at_the_time_limit(jobs: JobService, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never.onnx")
    early = ModelPreloader(jobs, str(tmp_path / "never.onnx"), {}, REAL)
    with pytest.raises(
        editor.JobError, match=r"gave up after 0 s \(last step: reading the model\)"
    ):
        early.graph(str(tmp_path / "never.onnx"), {}, 0.2)
    assert early._job.wait(10)
    until = time.monotonic() + 10
    while jobs._running and time.monotonic() < until:
        time.sleep(0.02)
    assert not jobs._running, "it goes on nowhere"


def test_a_job_loads_the_model_when_the_preloader_dies(jobs: JobService, tmp_path: Path) -> None:
    early = ModelPreloader(jobs, MODEL, {}, [{"name": "CPU"}])
    while early._job not in jobs._running:
        time.sleep(0.001)
    os.kill(jobs._running[early._job].pid, signal.SIGKILL)
    state = AppState(Store(str(tmp_path)), jobs, None, EXAMPLES, early)
    assert len(state.open(OpenRequest(MODEL, [{"name": "CPU"}])).graph) == 253


def test_preloading_can_be_cancelled(jobs: JobService, tmp_path: Path) -> None:
    model = write_dag(tmp_path / "long.onnx", [[i - 1] if i else [] for i in range(20_000)])
    request = OpenRequest(str(model), [{"name": "CPU", "backendName": "CPU"}])
    state = AppState(
        Store(str(tmp_path)),
        jobs,
        request,
        EXAMPLES,
        ModelPreloader(jobs, request.path, {}, request.devices),
    )
    try:
        state.begin()
        time.sleep(0.1)
        state.cancel_opening()
        with pytest.raises(editor.JobError, match="cancelled"):
            state.open_first()
        assert not state.store.recent()
    finally:
        state.close()


def test_devices_that_were_mended_open_the_model_that_failed_at_the_start(
    jobs: JobService, tmp_path: Path
) -> None:
    """The page showed the first error again and again."""
    start, failed = OpenRequest(MODEL, "CPUU"), "did you mean 'CPU'"
    early = ModelPreloader(jobs, MODEL, {}, start.devices)
    state = AppState(Store(str(tmp_path)), jobs, start, EXAMPLES, early)
    try:
        state.begin()
        with pytest.raises(editor.DeviceTableError, match=failed):
            state.open_first()
        with pytest.raises(editor.DeviceTableError, match=failed):  # the page asks, to say it
            state.open(OpenRequest(MODEL, "CPUU"))
        assert len(state.open(OpenRequest(MODEL, "CPU")).graph) == 253
    finally:
        state.close()
