"""The tab Benchmark and its neighbours say what a figure is, and disable what cannot work, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import write_dag

from editor.execution.measure.accuracy import Accuracy, TensorError
from editor.placement.fallbacks import Hint
from editor.sandbox.jobs import JobService
from editor.web.app_state import AppState
from editor.web.benchmark_state import JobOptions
from editor.web.open_request import OpenRequest
from editor.web.panels.accuracy import accuracy_view
from editor.web.panels.after_run import why_no_calibration
from editor.web.panels.benchmark_panel import benchmark_panel
from editor.web.panels.memory_panel import memory_view
from editor.web.panels.suggestions import hints_view
from editor.workspace.document import Document
from editor.workspace.history import Store

CPU = {"name": "CPU", "backendName": "CPU"}
OTHER = {"name": "Other", "backendName": "CPU", "nonSupportedNodes": "Gemm"}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppState]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = AppState(Store(str(tmp_path / "ws")), JobService(), None, tmp_path)
    yield made
    made.close()


def opened(state: AppState, tmp_path: Path, *table: dict[str, str]) -> Document:
    model = write_dag(tmp_path / "net.onnx", [[i - 1] if i else [] for i in range(8)])
    return state.open(OpenRequest(str(model), list(table)))


def test_calibrate_is_off_and_says_why_where_it_cannot_work(
    state: AppState, tmp_path: Path
) -> None:
    """It was on for a plan that is not split, and answered in red."""
    document = opened(state, tmp_path, CPU, OTHER)

    def said() -> str:
        return str(why_no_calibration(state.benchmarks.get(document.id), document))

    assert "a plan of one subgraph" in said(), "before any run"
    state.start_job(document, "benchmark", JobOptions(0.1)).job.result(120)
    assert "a plan of one subgraph" in said()
    document.pin(document.placement.placed_ops[4:].tolist(), "Other")
    state.start_job(document, "benchmark", JobOptions(0.1, "throughput")).job.result(120)
    assert "several requests in flight" in said()
    state.start_job(document, "benchmark", JobOptions(0.1)).job.result(120)
    assert "no profile of this model" in said() or "too uncertain" in said()


def test_what_calibrate_lacks_is_what_is_missing_now(state: AppState, tmp_path: Path) -> None:
    """After a profile it said "Press Profile, then Start"."""
    document = opened(state, tmp_path, CPU, OTHER)
    document.pin(document.placement.placed_ops[4:].tolist(), "Other")
    assert "profiles before it. Press Profile, then Start" in str(
        why_no_calibration(None, document)
    )
    state.start_job(document, "profile", JobOptions(0.1)).job.result(120)
    said = str(why_no_calibration(state.benchmarks.get(document.id), document))
    assert "it goes by a benchmark. Press Start" in said and "Profile" not in said


def test_seconds_say_what_they_are_for(state: AppState, tmp_path: Path) -> None:
    said = str(benchmark_panel(opened(state, tmp_path, CPU), JobOptions()))
    assert "Throughput: of each of them, one after the other" in said


def test_planned_devices_are_measured_by_a_kit_and_not_profiled(
    state: AppState, tmp_path: Path
) -> None:
    """The advice was "profile first" where no device is here."""
    npu = {"name": "NPU", "backendName": "NPU"}
    hint = Hint("", (0,), "CPU", 1e-9, 0, 0, True, before=1.0)
    for table, said in (([npu], "a measurement kit (tab Devices)"), ([CPU], "profile first")):
        document = opened(state, tmp_path, *table)
        of_device = replace(hint, tensor=document.graph.op_keys[0], device=table[0]["name"])
        assert said in str(hints_view(document, [of_device]))


def test_what_a_runtime_adds_is_not_called_what_a_process_takes(
    state: AppState, tmp_path: Path
) -> None:
    """A process took "about 296.7 kB"."""
    said = str(memory_view(opened(state, tmp_path, CPU)))
    assert "with its runtime" in said and "a process takes" not in said


def test_rows_of_an_accuracy_say_why_they_are_shown() -> None:
    """Two of 122 rows were there without a reason, and "grown" without a meaning."""
    one = TensorError("t", "t", "op", "Relu", 0, "A", "t", 1e-7, 1e-7, 1.0, 1e-3, True, "none", 0.0)
    tensors = [replace(one, tensor=f"t{i}", key=f"t{i}") for i in range(20)]
    tensors[3] = replace(tensors[3], origin="grown")
    view = str(accuracy_view(Accuracy("the unsplit model", True, tuple(tensors), ("t19",), ("x",))))
    assert "The table has 2 of them: the outputs, " in view
    assert "'Shown because'" in view and "'noise grows'" in view and "'output'" in view
    assert "grown: more than 2 times the noise of what the op reads" in view
    assert "children='X.'" in view, "notes are sentences"
