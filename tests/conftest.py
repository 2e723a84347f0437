"""Models and tables that many tests use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from hypothesis import settings
from onnx import TensorProto, helper

import editor
from editor.exports.formats import FORMATS
from editor.files import cache_folder
from editor.graph.graph import Graph

if TYPE_CHECKING:
    from editor.web.app_state import AppState
    from editor.workspace.document import Document

settings.register_profile(
    "suite", deadline=None
)  # machines are busy at times; no test is about time
settings.load_profile("suite")

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
ODDITIES = Path(__file__).parent / "data" / "oddities"
MANIFEST: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "manifest.json").read_text()
)

GOLDEN = Path(__file__).parent / "golden"

sys.path[:0] = [str(Path(__file__).parent / folder) for folder in ("", "browser", "execution")]

from markers import pytest_collection_modifyitems  # noqa: E402,F401  # which tests are slow or need a browser
from pages import (  # noqa: E402,F401  # fixtures for tests of the page
    browser,
    chromium,
    fresh,
    layered,
    opened,
    page,
    page_jobs,
    profile,
    serve,
    server,
    server_state,
    show,
)


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Profiles and workspaces of whoever runs the tests are neither read nor written, by servers and workers neither.

    Processes that run tests beside each other share what devices have answered.
    """
    base = tmp_path_factory.getbasetemp()
    answers = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "capability"
    answers.mkdir(mode=0o700, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        cache_folder().mkdir()
        cache_folder("capability").symlink_to(answers)
        yield


@pytest.fixture(scope="module", autouse=True)
def own_profiles(own_home: None) -> Iterator[None]:
    """Tests of other files would plan by what the tests of one profiled."""
    yield
    for stored in cache_folder("profiles").glob("*.json"):
        stored.unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def current_folder_of_children() -> Iterator[None]:
    """A command that runs in this process has its children start without the current folder; other tests need that."""
    yield
    os.environ.pop("PYTHONSAFEPATH", None)


SWIFTSHADER = Path("/usr/lib/chromium")
"""Debian's Chromium brings a GPU in software: a second memory that every machine has."""


@pytest.fixture(scope="session")
def software_gpu() -> None:
    """A GPU for the WebGPU execution provider, in this process and in those that it starts."""
    pytest.importorskip(
        "onnxruntime_ep_webgpu", reason="the package onnxruntime-ep-webgpu is not installed"
    )
    if not (SWIFTSHADER / "vk_swiftshader_icd.json").exists():
        pytest.skip("there is no SwiftShader of Debian's Chromium")
    import ctypes

    ctypes.CDLL(
        str(SWIFTSHADER / "libvulkan.so.1")
    )  # of this process, which LD_LIBRARY_PATH would reach too late
    os.environ.update(
        VK_DRIVER_FILES=str(SWIFTSHADER / "vk_swiftshader_icd.json"),
        LD_LIBRARY_PATH=str(SWIFTSHADER),
        ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER="1",
    )


REAL = [
    {"name": "ort", "backendName": "CPU"},
    {"name": "ov", "backendName": "openvino"},
    {"name": "ref", "backendName": "Interpreter"},
]


PLAIN_FORMATS = [name for name, form in FORMATS.items() if "onnx" in form.models and not form.unfit]
"""Formats that any ONNX model is exported in; the others have tests of their own."""


def python(
    *arguments: object,
    cwd: Path | None = None,
    check: bool = False,
    timeout: float | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """A process of this Python that has ended."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=check,
        cwd=cwd,
        env={**os.environ, **environment},
        timeout=timeout,
    )


def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The editor on the command line."""
    return python("-m", "editor", *arguments, cwd=cwd, PYTHONPATH=str(ROOT))


def run_cases(name: str, folder: Path) -> None:
    """Runs the tests of a file of ``runtimes`` in a process of its own; none may fail or be skipped."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-rs",
            "-p",
            "no:xdist",
            "-p",
            "no:cacheprovider",
            "--basetemp",
            str(folder / "base"),
            f"tests/runtimes/{name}",
        ],
        cwd=ROOT,
        env=own,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "SKIPPED" not in done.stdout and "100%" in done.stdout


def make_inputs(spec: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """Inputs as the manifest of the test models describes them."""
    rng = np.random.default_rng(seed)

    def one(s: dict[str, Any]) -> Any:
        if s["kind"] == "sequence":
            return [one(e) for e in s["items"]]
        dtype = np.dtype(object if s["dtype"] == "string" else s["dtype"])
        if s["kind"] == "values":
            return np.array(s["data"], dtype).reshape(s["shape"])
        if s["kind"] == "ones":
            return np.ones(s["shape"], dtype)
        if s["kind"] == "int":
            return rng.integers(s["low"], s["high"], s["shape"]).astype(dtype)
        if s["kind"] == "normal":
            return rng.standard_normal(s["shape"]).astype(dtype)
        return rng.uniform(s["low"], s["high"], s["shape"]).astype(dtype)

    return {name: one(s) for name, s in spec.items()}


def save_net(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto] = (),
    name: str = "net",
    opset: int = 17,
    ir_version: int = 8,
) -> Path:
    """Writes a model of the ops of ONNX."""
    graph = helper.make_graph(nodes, name, inputs, outputs, weights)
    opsets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=ir_version), path)
    return path


LAYERS = 40


def write_layers(path: Path, towers: Sequence[str] = ("model",)) -> Path:
    """Towers of 40 layers of two branches each, with slash names; enough ops to open with closed blocks."""
    nodes, before = [], "x"
    for tower in towers:
        for layer in range(LAYERS):
            scope = f"/{tower}/layers.{layer}/"
            for branch in ("left", "right"):
                last = before
                for step in range(12):
                    nodes.append(
                        helper.make_node(
                            "Neg",
                            [last],
                            [f"{scope}{branch}/{step}"],
                            f"{scope}{branch}/Neg_{step}",
                        )
                    )
                    last = f"{scope}{branch}/{step}"
            nodes.append(
                helper.make_node(
                    "Add", [f"{scope}left/11", f"{scope}right/11"], [scope + "out"], scope + "Add"
                )
            )
            before = scope + "out"
    value = helper.make_tensor_value_info
    return save_net(
        path, nodes, [value("x", TensorProto.FLOAT, [4])], [value(before, TensorProto.FLOAT, [4])]
    )


def write_wide_stages(path: Path) -> Path:
    """Four stages, each of a list of alike blocks and of ops side by side that are in no block but the stage."""
    nodes, before = [], "x"

    def add(op_type: str, inputs: list[str], name: str) -> str:
        nodes.append(helper.make_node(op_type, inputs, [name], name))
        return name

    for stage in ("stem", "body", "neck", "head"):
        scope = f"/{stage}"
        for block in range(16):
            for step in range(8):
                before = add("Neg", [before], f"{scope}/blocks/blocks.{block}/Neg_{step}")
        sides = [add("Neg", [before], f"{scope}/Neg_{side}") for side in range(4)]
        before = add("Sum", sides, f"{scope}/Sum")
    value = helper.make_tensor_value_info
    ends = [[value(name, TensorProto.FLOAT, [4])] for name in ("x", before)]
    return save_net(path, nodes, *ends)


def write_dag(
    path: Path, predecessors: Sequence[Sequence[int]], op_types: Sequence[str] | None = None
) -> Path:
    """A model whose op i reads the outputs of ``predecessors[i]``, or the graph input when there are none.

    Ops that nothing reads make the graph outputs. Tensors are float32 of shape [4].
    """
    nodes, read = [], {p for ps in predecessors for p in ps}
    for i, before in enumerate(predecessors):
        inputs = [f"t{p}" for p in before] or ["x"]
        kind = op_types[i] if op_types else ("Sum" if len(inputs) > 1 else "Neg")
        nodes.append(helper.make_node(kind, inputs, [f"t{i}"], f"n{i}"))
    outputs = [
        helper.make_tensor_value_info(f"t{i}", TensorProto.FLOAT, [4])
        for i in range(len(predecessors))
        if i not in read
    ]
    return save_net(
        path,
        nodes,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        outputs,
        name="dag",
    )


@pytest.fixture
def dag(tmp_path: Path) -> Callable[..., Graph]:
    """Builds and loads a model from lists of predecessors."""

    def build(
        predecessors: Sequence[Sequence[int]], op_types: Sequence[str] | None = None
    ) -> Graph:
        return editor.load_model(write_dag(tmp_path / "dag.onnx", predecessors, op_types))

    return build


@pytest.fixture(scope="session")
def mobilenet() -> Graph:
    """A real network with weights that are made by constant ops."""
    return editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx")


@pytest.fixture(scope="session")
def whisper() -> Graph:
    """A real network with dynamic sizes, bound."""
    return editor.load_model(
        EXAMPLES / "models" / "whisper-tiny-decoder.onnx", {"batch": 1, "sequence": 8}
    )


@pytest.fixture(scope="session")
def reference_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two models of the published Glow logs, with weights in a sparse file of zeros."""
    import gen_reference

    folder = tmp_path_factory.mktemp("reference")
    gen_reference.save(
        gen_reference.mobilenetv2("zeros", tail="flatten"),
        str(folder / "mobilenetv2-7.onnx"),
        "zeros",
    )
    gen_reference.save(
        gen_reference.fcn("zeros", resize="Upsample"), str(folder / "fcn.onnx"), "zeros"
    )
    return folder


@pytest.fixture
def state(tmp_path: Path) -> Iterator[AppState]:
    """What a server holds, without one."""
    from editor.sandbox.jobs import JobService
    from editor.web.app_state import AppState
    from editor.workspace.history import Store

    made = AppState(Store(str(tmp_path / "workspace")), JobService(), None, EXAMPLES)
    yield made
    made.close()


@pytest.fixture
def document(state: AppState) -> Document:
    """A real network with 20 ops of the middle on a second runtime."""
    from editor.web.open_request import OpenRequest

    table = [{"name": "ORT", "backendName": "CPU"}, {"name": "OV", "backendName": "openvino"}]
    found = state.open(OpenRequest(str(EXAMPLES / "models" / "mobilenetv2.onnx"), table))
    found.pin(found.placement.placed_ops[40:60].tolist(), "OV")
    return found
