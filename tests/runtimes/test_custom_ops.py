"""Libraries of custom ops: which are loaded, and that all processes and scripts know them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import ROOT, python
from onnx import TensorProto, helper, numpy_helper

import editor
from editor import custom_ops
from editor.environment import CUSTOM_OPS, CUSTOM_OPS_OF_TABLES, TRUST

extensions = pytest.importorskip(
    "onnxruntime_extensions", reason="needs onnxruntime-extensions, of the group dev"
)
LIBRARY = extensions.get_library_path()
SPLIT = [
    {"name": name, "backendName": "onnxruntime", "provider": "CPUExecutionProvider"}
    for name in ("A", "B")
]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (CUSTOM_OPS, CUSTOM_OPS_OF_TABLES, TRUST):
        monkeypatch.setenv(variable.name, "")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Counts which of three words are A, whatever the case; its op is of the domain of the package."""
    nodes = [
        helper.make_node("StringUpper", ["text"], ["up"], domain="ai.onnx.contrib"),
        helper.make_node("Equal", ["up", "key"], ["hit"]),
        helper.make_node("Cast", ["hit"], ["number"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["number", "x"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "upper",
        [
            helper.make_tensor_value_info("text", TensorProto.STRING, [3]),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [3]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
        [numpy_helper.from_array(np.array(["A"], object), "key")],
    )
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("ai.onnx.contrib", 1)]
    path = tmp_path / "upper.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


INPUTS = {"text": np.array(["a", "b", "A"], object), "x": np.zeros(3, np.float32)}


def command(
    *arguments: object, package: bool, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """The command line, in a Python that has the package or does not find it."""
    hide = (
        ""
        if package
        else "import editor.custom_ops as c; c._path_of_extensions = lambda folders: ''; "
    )
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); {hide}sys.argv = {['', *map(str, arguments)]!r}; "
        "from editor.__main__ import main; sys.exit(main())"
    )
    return python("-P", "-c", code, cwd=cwd, PYTHONPATH=os.pathsep.join(_installed()))


def _installed() -> list[str]:
    return [str(Path(extensions.__file__).parent.parent)]


def test_the_installed_package_is_used_where_a_model_has_its_ops(model: Path) -> None:
    plan = editor.partition(model, SPLIT, pins={"hit": "B"})
    assert plan.graph.type_label(0) == "ai.onnx.contrib::StringUpper"
    assert plan.run(INPUTS)["y"].tolist() == [1, 0, 1]
    assert all("customOps" not in d.entry for d in plan.devices)


def test_without_a_library_the_message_names_the_option(model: Path, tmp_path: Path) -> None:
    done = command(
        "partition", model, "--devices", "HETERO:CPU", "--out", tmp_path / "out", package=False
    )
    assert done.returncode == 1
    assert "ai.onnx.contrib" in done.stderr and "--custom-ops LIBRARY" in done.stderr


def test_a_library_of_the_command_line_is_kept_in_the_plan_and_needs_trust_later(
    model: Path, tmp_path: Path
) -> None:
    library, out = tmp_path / Path(LIBRARY).name, tmp_path / "out"
    shutil.copy(LIBRARY, library)
    told = ["--custom-ops", library]
    made = command(
        *("partition", model, "--devices", "HETERO:CPU", "--out", out), *told, package=False
    )
    assert made.returncode == 0, made.stderr
    plan = out / "plan.json"
    assert json.loads(plan.read_text())["devices"][0]["customOps"] == [str(library)]
    refused = command("run", plan, package=False)
    assert refused.returncode == 1
    assert "--trust" in refused.stderr and "--custom-ops" in refused.stderr
    for more in (told, ["--trust"]):
        assert command("run", plan, *more, package=False).returncode == 0
    bench = command("bench", plan, *told, "--seconds", "0.1", package=False)
    assert bench.returncode == 0, bench.stderr


def test_a_table_may_name_the_package_and_no_file(model: Path) -> None:
    devices = [{"name": "CPU", "customOps": [custom_ops.EXTENSIONS]}]
    assert editor.partition(model, devices).run(INPUTS)["y"].tolist() == [1, 0, 1]
    with pytest.raises(editor.DeviceTableError, match=r"(?s)libx\.so.*--trust.*--custom-ops"):
        editor.load_devices([{"name": "CPU", "customOps": "/tmp/libx.so"}])


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRUST.name, "1")
    with pytest.raises(editor.DeviceTableError, match=r"nowhere\.so: no such library"):
        editor.load_devices([{"name": "CPU", "customOps": ["/nowhere.so"]}])
    with pytest.raises(editor.DeviceTableError, match="OpenVINO.* registers no libraries"):
        editor.load_devices([{"name": "OpenVINO.CPU", "customOps": [custom_ops.EXTENSIONS]}])


def test_the_package_is_not_looked_for_in_the_current_folder(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "stranger" / "onnxruntime_extensions"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(
        "open('was_here', 'w')\ndef get_library_path(): return 'x'\n"
    )
    done = command(
        *("partition", model, "--devices", "HETERO:CPU", "--out", tmp_path / "out"),
        package=True,
        cwd=folder.parent,
    )
    assert done.returncode == 0, done.stderr
    assert not (folder.parent / "was_here").exists()


@pytest.mark.parametrize("to", ["split", "onnxruntime"])
def test_exported_scripts_register_the_library(model: Path, tmp_path: Path, to: str) -> None:
    devices = [{**entry, "customOps": custom_ops.EXTENSIONS} for entry in SPLIT]
    editor.partition(model, devices, pins={"hit": "B"}).export(to, tmp_path / to)
    np.savez(tmp_path / "in.npz", **INPUTS)
    call = (
        "import numpy, run; f = numpy.load('../in.npz', allow_pickle=True); print(run.Split().run(dict(f))['y'].tolist())"
        if to == "split"
        else "import upper_onnxruntime as m, numpy; s = m.open_session(); f = numpy.load('../in.npz', allow_pickle=True); "
        "print(s.run(None, dict(f))[0].tolist())"
    )
    done = python("-c", call, cwd=tmp_path / to, PYTHONPATH=os.pathsep.join(_installed()))
    assert done.stdout.strip().endswith("[1.0, 0.0, 1.0]"), done.stderr
