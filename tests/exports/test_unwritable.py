"""Exports of what cannot be read or written: an error in words, and nothing half-written is left."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import PLAIN_FORMATS, ROOT
from onnx import TensorProto, helper

import editor
from editor.exports.formats import FORMATS
from editor.exports.registry import problem_of
from editor.sandbox.jobs import JobService
from editor.web.app_state import AppState
from editor.web.open_request import OpenRequest
from editor.web.panels.export_menu import export_groups
from editor.workspace.history import Store
from editor.workspace.plan import Plan

SIZE = 3000


def write_model(path: Path, external: bool = False, shaped: bool = True) -> Path:
    """Two ops, the first with a weight of 12 kB; its output may lack a shape."""
    weight = helper.make_tensor(
        "w", TensorProto.FLOAT, [SIZE], np.ones(SIZE, np.float32).tobytes(), raw=True
    )
    if external:
        weight = TensorProto(
            name="w", data_type=TensorProto.FLOAT, dims=[SIZE], data_location=TensorProto.EXTERNAL
        )
        for key, value in (("location", "w.bin"), ("length", str(4 * SIZE))):
            weight.external_data.add(key=key, value=value)
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Add", ["x", "w"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, [SIZE])],
        [value("z", TensorProto.FLOAT, [SIZE] if shaped else None)],
        [weight],
    )
    path.write_bytes(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        ).SerializeToString()
    )
    return path


def planned(model: Path) -> Plan:
    devices = [{"name": "A", "backendName": "CPU"}, {"name": "OV", "backendName": "openvino"}]
    return editor.partition(model, devices, pins={"z": "OV"})


def test_a_model_whose_output_has_no_shape_is_exported_and_runs(tmp_path: Path) -> None:
    import onnxruntime

    (path,) = planned(write_model(tmp_path / "m.onnx", shaped=False)).export(
        "onnx", tmp_path / "out"
    )
    x = np.ones(SIZE, np.float32)
    assert (
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[
            0
        ]
        == 2
    ).all()
    nodes = onnx.load(path).graph.node
    assert [node.device_configurations[0].sharding_spec[0].device[0] for node in nodes] == [0, 1]


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
@pytest.mark.filterwarnings("ignore")
def test_weights_that_are_no_file_are_refused_by_every_export_and_run(
    tmp_path: Path, kind: str
) -> None:
    weights = tmp_path / "w.bin"
    if kind == "device" and os.geteuid():
        pytest.skip("only root makes devices")
    weights.write_bytes(bytes(4 * SIZE))
    plan = planned(write_model(tmp_path / "m.onnx", external=True))
    weights.unlink()  # a model with such a file is refused when it is read; this one changed later
    if kind == "socket":
        socket.socket(socket.AF_UNIX).bind(str(weights))
    else:
        os.mkfifo(weights) if kind == "pipe" else os.mknod(weights, 0o020600, os.makedev(1, 3))
    writers = {
        form: lambda form=form: plan.export(form, tmp_path / form)
        for form in ("openvino", "onnxruntime", "onnx", "split", "tvm")
    }
    writers |= {
        "kit": lambda: plan.write_kit(tmp_path / "kit", "A"),
        "run": lambda: plan.run({"x": np.ones(SIZE, np.float32)}),
    }
    for name, write in writers.items():
        with pytest.raises(editor.EditorError, match=r"is not a regular file \(w\.bin\)"):
            write()
        assert not list(tmp_path.glob(f"{name}/*")), name


@pytest.mark.filterwarnings("ignore")
def test_a_format_says_before_it_is_written_whether_it_needs_weights_that_are_missing(
    tmp_path: Path,
) -> None:
    model = onnx.load(write_model(tmp_path / "m.onnx", external=True), load_external_data=False)
    for node in model.graph.node:  # a format of names copies a model without them
        node.name = node.op_type
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    plan, needing = planned(tmp_path / "m.onnx"), set()
    for form in set(FORMATS) - {"plan"}:
        problem = problem_of(plan.graph, form)
        if "the weights in w.bin are not here" in problem:
            needing.add(form)
            (tmp_path / "w.bin").write_bytes(bytes(4 * SIZE))
            assert not problem_of(plan.graph, form)
            (tmp_path / "w.bin").unlink()
        elif not problem and form != "executorch":  # whose ops this model has not
            plan.export(form, tmp_path / form)
    assert needing == {
        "openvino", "onnxruntime", "onnx", "tvm", "split", "model-package", "olive",
    }  # fmt: skip


@contextmanager
def full_disk(limit: int) -> Iterator[None]:
    """No file may grow beyond a few bytes, as on a full disk; Python ignores the signal."""
    before, bytecode = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # what is imported meanwhile would be cut
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = bytecode


@pytest.mark.parametrize("form", [*PLAIN_FORMATS, "kit", "save"])
@pytest.mark.parametrize("external", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, form: str, external: bool) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(4 * SIZE))
    plan, out = planned(write_model(tmp_path / "m.onnx", external)), tmp_path / "out"
    plan.sha256  # noqa: B018  # what is cached is not written now
    for limit in (0, 8192):  # nothing fits; the weights do not
        if limit and form not in ("openvino", "onnxruntime", "onnx", "split", "tvm", "kit"):
            continue
        write = {
            "kit": lambda: plan.write_kit(out, "A"),
            "save": lambda: plan.save(out / "p.json"),
        }.get(form, lambda: plan.export(form, out))
        with full_disk(limit), pytest.raises(editor.EditorError, match="cannot be written"):
            write()
        assert not [
            path
            for path in out.rglob("*")
            if path.name.startswith(".") or path.stat().st_size > limit
        ]


def test_commands_on_a_full_disk(tmp_path: Path) -> None:
    model, plan = write_model(tmp_path / "m.onnx"), tmp_path / "plan.json"
    planned(model).save(plan)
    (tmp_path / "pins.json").write_text('{"z": "A"}')
    commands = [
        ["partition", str(model), "--devices", "HETERO:CPU", "--out", "out"],
        ["run", str(plan), "--outputs", "out/o.npz"],
        ["kit", str(plan), "--device", "A", "--out", "out"],
        ["import", str(plan), "pins.json", "--out", "out/p.json"],
        ["export", str(plan), "--to", "split", "--out", "out"],
    ]
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "editor", *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            # Python does not notice that it has cut a file of bytecode; later tests would read it.
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)),
        )
        assert done.returncode == 1 and "cannot be written" in done.stderr, (command, done.stderr)
        assert "Traceback" not in done.stderr, command
        assert not [
            path
            for path in (tmp_path / "out").rglob("*")
            if path.name.startswith(".") or path.stat().st_size == 64
        ]


def test_the_menu_says_what_formats_need_that_a_model_does_not_have(tmp_path: Path) -> None:
    """It stood in the title of a button that takes no pointer."""
    state = AppState(Store(str(tmp_path / "workspace")), JobService(), None, tmp_path)
    table = [{"name": "A", "backendName": "CPU"}]
    document = state.open(OpenRequest(str(write_model(tmp_path / "m.onnx", external=True)), table))
    menu = str(export_groups(document))
    for says in (
        "for OpenVINO IR",
        "for models with a genai_config.json",
        "for TensorFlow Lite files",
        "needs the weights, which are missing",
    ):
        assert f"'{says}'" in menu
    (tmp_path / "w.bin").write_bytes(bytes(4 * SIZE))
    assert "needs the weights" not in str(export_groups(document))
    state.close()
