"""A runtime of another package: one new file and an entry point, and it is everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, save_net
from onnx import TensorProto, helper

TOY = '''
"""Runs Relu and Add with numpy."""
import numpy as np
from editor.devices.discovery import AvailableDevice, Target
from editor.runtimes.base import Capability, KernelTime
from editor.runtimes.loaded_model import LoadedModelRuntime, RuntimeDefaults

KERNELS = {"Relu": lambda x: np.maximum(x, 0), "Add": lambda x, y: x + y}


class Toy(LoadedModelRuntime):
    name, title = "toy", "Toy"

    def devices(self):
        return [AvailableDevice("Toy", "toy", "", "1.0", "numpy", "Toy")]

    def resolve(self, name, provider):
        return Target("toy", "", True, "CPU", "Toy") if name.lower() == "toy" else None

    def check(self, model, device):
        for node in model.graph.node:
            if node.op_type not in KERNELS:
                raise NotImplementedError(f"no kernel for {node.op_type}")

    def load(self, model, submodel, device):
        def run(inputs):
            values = dict(zip(submodel.inputs, inputs))
            values |= {t.name: np.asarray(onnx_array(t)) for t in model.graph.initializer}
            for node in model.graph.node:
                values[node.output[0]] = KERNELS[node.op_type](*(values[name] for name in node.input))
            return [values[name] for name in submodel.outputs]
        from onnx.numpy_helper import to_array as onnx_array
        return lambda: run

    def profile(self, graph, submodel, device, inputs, seconds, threads):
        return [KernelTime("numpy", (int(node.name[2:]),), 1e-5) for node in submodel.model.graph.node]


class Compiler(RuntimeDefaults):
    name, title, answers_for_planned = "compiler", "Compiler", True

    def devices(self):
        return []

    def resolve(self, name, provider):
        return Target("compiler", "", False, "NPU") if name.lower() == "chip" else None

    def capability(self, graph, device):
        return Capability.of_reasons(["" if t == "Relu" else f"{t} is for the CPU" for t in graph.op_types])
'''


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which a package with the toy runtime is installed, and one that fails to load."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "toy_runtime.py").write_text(TOY)
    for name, points in (
        ("toy", "toy = toy_runtime:Toy\ncompiler = toy_runtime:Compiler"),
        ("broken", "broken = no_such_module:Runtime"),
    ):
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[hetero_editor.runtimes]\n{points}\n")
    return {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "relu"),
        helper.make_node("Add", ["r", "x"], ["a"], "add"),
        helper.make_node("Sigmoid", ["a"], ["s"], "sigmoid"),
        helper.make_node("Add", ["s", "x"], ["y"], "last"),
    ]
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    return save_net(
        path, nodes, [info("x", TensorProto.FLOAT, [8])], [info("y", TensorProto.FLOAT, [8])]
    )


def run(environment: dict[str, str], *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "editor", *map(str, arguments)],
        env=environment,
        cwd=ROOT,
        text=True,
        check=False,
        capture_output=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_added_runtime_is_listed_and_a_failing_package_has_a_reason(
    package: dict[str, str],
) -> None:
    devices = json.loads(run(package, "devices", "--json"))
    assert "toy" in {d["runtime"] for d in devices}
    said = run(package, "devices")
    assert "Toy 1.0" in said
    assert "broken: installed but unusable: ModuleNotFoundError" in said


def test_a_compiler_answers_for_a_device_that_is_not_here_and_a_stand_in_runs(
    package: dict[str, str], net: Path, tmp_path: Path
) -> None:
    """Before, such a device took every op, whatever its compiler says."""
    said = run(package, "partition", net, "--devices", "HETERO:Chip,CPU", "--out", tmp_path)
    assert "planned: Chip is not on this machine" in said
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["affinities"] == {"r": "Chip", "a": "CPU", "s": "CPU", "y": "CPU"}
    assert "no: Add is for the CPU" in run(package, "why", tmp_path / "plan.json", "a")
    measured = run(package, "bench", tmp_path / "plan.json", "--seconds", "0.1")
    assert "as stand-in" in measured and measured.startswith("Outputs match")


def test_an_added_runtime_is_queried_run_profiled_and_benchmarked(
    package: dict[str, str], net: Path, tmp_path: Path
) -> None:
    run(package, "partition", net, "--devices", "HETERO:Toy,CPU", "--out", tmp_path)
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["affinities"] == {"r": "Toy", "a": "Toy", "s": "CPU", "y": "Toy"}
    assert "Toy: no kernel for Sigmoid" in run(package, "why", tmp_path / "plan.json", "s")

    x = np.linspace(-2, 2, 8, dtype=np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    run(
        package,
        "run",
        tmp_path / "plan.json",
        "--inputs",
        tmp_path / "in.npz",
        "--outputs",
        tmp_path / "out.npz",
    )
    a = np.maximum(x, 0) + x
    assert np.allclose(np.load(tmp_path / "out.npz")["y"], 1 / (1 + np.exp(-a)) + x, atol=1e-6)

    assert "Toy (Toy)" in run(package, "profile", tmp_path / "plan.json", "--seconds", "0.2")
    measured = run(
        package,
        "bench",
        tmp_path / "plan.json",
        "--seconds",
        "0.3",
        "--json",
        tmp_path / "bench.json",
    )
    assert "execType: Toy" in measured
    (result,) = json.loads((tmp_path / "bench.json").read_text())
    assert [s["runs_on"] for s in result["subgraphs"]] == ["Toy", "ONNX Runtime, CPU", "Toy"]
    assert result["difference"]["within_tolerance"]


def test_only_the_module_of_a_runtime_compares_its_name() -> None:
    """Elsewhere names of runtimes and providers stand in texts for people, and in files of other tools."""
    names = {
        "onnxruntime",
        "openvino",
        "tvm",
        "interpreter",
        "CPUExecutionProvider",
        "CUDAExecutionProvider",
    }
    found = []
    import ast

    for path in sorted((ROOT / "editor").rglob("*.py")):
        if path.is_relative_to(ROOT / "editor" / "runtimes") or "runners" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                texts = [
                    c.value
                    for side in (node.left, *node.comparators)
                    for c in ast.walk(side)
                    if isinstance(c, ast.Constant) and isinstance(c.value, str)
                ]
                found += [f"{path}:{node.lineno}" for text in texts if text in names]
    assert not found
