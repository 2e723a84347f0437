"""A plan is of its model: whatever reads the file again says that it changed, or is gone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import PLAIN_FORMATS, write_dag

import editor
from editor.errors import EditorError
from editor.execution.jobs import tasks
from editor.exports.formats import FORMATS
from editor.sandbox.worker import Channel

PREDECESSORS: list[list[int]] = [[], [0], [1], [2]]
READS_THE_MODEL = {"openvino", "onnxruntime", "onnx", "tvm", "split", "olive", "model-package"}
CHANGES: dict[str, Callable[[Path], object]] = {
    "fewer ops": lambda path: write_dag(path, PREDECESSORS[:2]),
    "more ops": lambda path: write_dag(path, [*PREDECESSORS, [3], [4]]),
    "other ops": lambda path: write_dag(path, PREDECESSORS, ["Neg", "Abs", "Relu", "Neg"]),
    "not a model": lambda path: path.write_bytes(b"\0" * 100),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:40]),
    "gone": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


SILENT = Channel(lambda _event: None, lambda: False)
"""A channel that nobody hears."""


@pytest.fixture(params=CHANGES)
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> editor.Plan:
    """A plan whose model file has changed since."""
    path = write_dag(tmp_path / "m.onnx", PREDECESSORS)
    made = editor.partition(editor.load_model(path), "HETERO:OpenVINO.CPU,CPU", pins={"t2": "CPU"})
    made.save(tmp_path / "plan.json")
    CHANGES[request.param](path)
    return made


@pytest.mark.parametrize("form", sorted(READS_THE_MODEL))
def test_an_export_is_of_the_model_that_was_opened(
    form: str, plan: editor.Plan, tmp_path: Path
) -> None:
    with pytest.raises(EditorError, match=r"m\.onnx"):
        plan.export(form, tmp_path / "out")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_the_formats_that_read_the_model_are_known(tmp_path: Path) -> None:
    path = write_dag(tmp_path / "m.onnx", PREDECESSORS)
    made = editor.partition(editor.load_model(path), "HETERO:OpenVINO.CPU,CPU")
    path.unlink()
    for form in FORMATS:
        if form in READS_THE_MODEL or form not in PLAIN_FORMATS:
            continue
        try:
            made.export(form, tmp_path / "out")
        except EditorError as error:
            assert "m.onnx" not in str(error), form


def test_runs_and_jobs_are_of_the_model_that_was_opened(plan: editor.Plan, tmp_path: Path) -> None:
    recipe, define = plan.recipe(), {}
    devices = [dict(d.entry) for d in plan.devices]
    for work in (
        lambda: plan.run({"x": np.zeros(4, np.float32)}),
        lambda: plan.benchmark(seconds=0.1),
        plan.compile,
        lambda: tasks.benchmark(SILENT, {"plan": recipe}, 0.1, "latency", 1),
        lambda: tasks.profile(SILENT, recipe, 0.1),
        lambda: tasks.tune(SILENT, recipe, 0.1, "latency", 1),
        lambda: tasks.ask_capabilities(
            SILENT, str(plan.graph.path), plan.graph.sha256, define, devices
        ),
        lambda: plan.at_sizes({"n": [1]}),
    ):
        with pytest.raises(EditorError, match=r"m\.onnx|no dimension"):
            work()


def test_a_saved_plan_says_that_its_model_changed(plan: editor.Plan, tmp_path: Path) -> None:
    with pytest.raises(EditorError, match=r"m\.onnx"):
        editor.load_plan(tmp_path / "plan.json")


def test_how_it_changed_is_said(tmp_path: Path) -> None:
    path = write_dag(tmp_path / "m.onnx", PREDECESSORS)
    made = editor.partition(editor.load_model(path), "HETERO:CPU")
    shutil.copy(path, tmp_path / "kept")
    write_dag(path, PREDECESSORS[:2])
    with pytest.raises(
        EditorError, match="changed since it was opened .it had 4 ops, and has 2 now"
    ):
        made.export("onnxruntime", tmp_path / "out")
    shutil.copy(tmp_path / "kept", path)
    assert made.export("onnxruntime", tmp_path / "out"), "the same content again is the same model"
