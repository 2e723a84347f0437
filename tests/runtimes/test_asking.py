"""Ops are tried where a crash or a hang of a runtime does no harm, and is the reason why an op is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import ROOT, save_net
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.runtimes.trial_values import wrong_output
from editor.sandbox.worker import IsolatedProcess, ProcessEndedError

FAULTY = '''
"""Claims everything; crashes on Relu, hangs on Sigmoid, fails on Neg, computes Tanh wrongly, and the others well."""
import os, signal, time
import numpy as np
from editor.devices.discovery import AvailableDevice, Target
from editor.runtimes.loaded_model import LoadedModelRuntime


class Faulty(LoadedModelRuntime):
    name, title = "faulty", "Faulty"

    def devices(self):
        return [AvailableDevice("Faulty", "faulty", "", "1.0", "numpy", "Faulty")]

    def resolve(self, name, provider):
        return Target("faulty", "", True, "CPU", "Faulty") if name.lower() == "faulty" else None

    def check(self, model, device):
        pass

    def load(self, model, submodel, device):
        def run(inputs):
            values = dict(zip(submodel.inputs, inputs))
            for node in model.graph.node:
                x = values[node.input[0]]
                if node.op_type == "Relu":
                    os.kill(os.getpid(), signal.SIGSEGV)
                if node.op_type == "Sigmoid":
                    time.sleep(1000)
                if node.op_type == "Neg":
                    raise RuntimeError("no memory for Neg")
                values[node.output[0]] = {"Abs": np.abs, "Tanh": np.cosh, "Exp": np.exp}[node.op_type](x)
            return [values[name] for name in submodel.outputs]
        return lambda: run
'''
COMPILER = '''
"""Takes Relu only behind Add, as a compiler of fused ops does; hangs on Sigmoid and fails on Neg."""
import time
import faulty_runtime
from editor.devices.discovery import AvailableDevice, Target


class Compiler(faulty_runtime.Faulty):
    name, title = "compiler", "Compiler"

    def devices(self):
        return [AvailableDevice("Compiler", "compiler", "", "1.0", "numpy", "Compiler")]

    def resolve(self, name, provider):
        return Target("compiler", "", True, "CPU", "Compiler") if name.lower() == "compiler" else None

    def depends_on_neighbours(self, device):
        return True

    def refusal(self, model, device):
        return "no memory to compile it"

    def refusals(self, model, device):
        nodes = {node.output[0]: node for node in model.graph.node}
        if any(node.op_type == "Sigmoid" for node in model.graph.node):
            time.sleep(1000)
        if any(node.op_type == "Neg" for node in model.graph.node):
            return None
        if any(node.op_type == "Floor" for node in model.graph.node):
            return "no room for its graph"
        return {node.name: "not behind an Add" for node in model.graph.node if node.op_type == "Relu"
                and (node.input[0] not in nodes or nodes[node.input[0]].op_type != "Add")}
'''
ASK = """
import json, sys
import editor
from editor.runtimes import capability as asking
asking._SINGLE_SECONDS = 6.0  # the start of the process included
asked = []
asking.on_asking(asked.append)
plan = editor.partition(editor.load_model(sys.argv[1]), f"HETERO:{sys.argv[2]},CPU")
able = plan.placement.constraints.capabilities[0]
print(json.dumps([dict(zip(plan.graph.op_types, able.reasons)), asked]))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which a package with the faulty runtime is installed."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "faulty_runtime.py").write_text(FAULTY)
    (folder / "compiler_runtime.py").write_text(COMPILER)
    info = folder / "faulty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[hetero_editor.runtimes]\nfaulty = faulty_runtime:Faulty\n"
        "compiler = compiler_runtime:Compiler\n"
    )
    return {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}", "XDG_CACHE_HOME": str(folder / "cache")}


def chain(path: Path, kinds: list[str]) -> Path:
    nodes = [helper.make_node(kind, [f"t{i}"], [f"t{i + 1}"]) for i, kind in enumerate(kinds)]
    info = helper.make_tensor_value_info
    return save_net(
        path,
        nodes,
        [info("t0", TensorProto.FLOAT, [4])],
        [info(f"t{len(kinds)}", TensorProto.FLOAT, [4])],
        name="chain",
    )


def ask(
    environment: dict[str, str], model: Path, device: str = "Faulty"
) -> tuple[dict[str, str], list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(model), device],
        env=environment,
        cwd=ROOT,
        text=True,
        check=False,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    reasons, asked = json.loads(done.stdout)
    return reasons, asked


def test_crashes_hangs_failures_and_wrong_values_are_reasons(
    environment: dict[str, str], tmp_path: Path
) -> None:
    model = chain(tmp_path / "chain.onnx", ["Abs", "Relu", "Sigmoid", "Neg", "Tanh", "Exp"])
    reasons, asked = ask(environment, model)
    assert reasons["Abs"] == reasons["Exp"] == ""
    assert reasons["Relu"] == "Faulty crashed when it was tried (signal 11)"
    assert reasons["Sigmoid"] == "Faulty gave no answer within 6 s when it was tried"
    assert "no memory for Neg" in reasons["Neg"]
    assert "computes Tanh wrongly: off by up to" in reasons["Tanh"]
    assert asked == ["asking Faulty (Faulty) about 6 kinds of ops"]

    again, asked = ask(environment, chain(tmp_path / "other.onnx", ["Tanh", "Relu", "Abs"]))
    assert not asked, "equal ops of another model are known"
    assert again == {kind: reasons[kind] for kind in ("Tanh", "Relu", "Abs")}
    stored = Path(environment["XDG_CACHE_HOME"]) / "hetero-editor" / "capability"
    assert stored.stat().st_mode & 0o777 == 0o700


def net_with_weights_beside(path: Path) -> Path:
    """Add of a constant, which is in the file ``net.weights`` beside the model; Relu; Abs."""
    nodes = [
        helper.make_node("Add", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Abs", ["r"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [info("x", TensorProto.FLOAT, [4])],
        [info("y", TensorProto.FLOAT, [4])],
        [numpy_helper.from_array(np.ones(4, np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=True, size_threshold=0, location="net.weights")
    return path


def test_a_device_that_looks_at_neighbours_is_asked_about_the_whole_model(
    environment: dict[str, str], tmp_path: Path
) -> None:
    net_with_weights_beside(tmp_path / "net.onnx")
    reasons, asked = ask(environment, tmp_path / "net.onnx", "Compiler")
    assert reasons == {"Add": "", "Relu": "", "Abs": ""}
    assert asked == ["asking Compiler (Compiler) about the whole model"]
    assert ask(environment, tmp_path / "net.onnx", "Compiler") == (reasons, []), (
        "the answer is kept"
    )
    alone, _ = ask(environment, chain(tmp_path / "alone.onnx", ["Abs", "Relu"]), "Compiler")
    assert alone == {"Abs": "", "Relu": "not behind an Add"}


def test_weights_of_a_whole_model_are_found_in_a_cache_of_links_and_may_be_missing(
    environment: dict[str, str], tmp_path: Path
) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    model = net_with_weights_beside(blobs / "net.onnx")
    (snapshot / "linked.onnx").symlink_to(model)
    reasons, _ = ask(environment, snapshot / "linked.onnx", "Compiler")
    assert reasons == {"Add": "", "Relu": "", "Abs": ""}

    (blobs / "net.weights").unlink()
    reasons, asked = ask(environment, model, "Compiler")
    assert not asked
    for reason in reasons.values():
        assert reason.startswith(
            f"Compiler can be asked about whole models only: the weights of 'w' in {blobs / 'net.weights'} "
        )


def test_a_whole_model_that_a_device_refuses_or_hangs_on_is_the_reason_for_all_its_ops(
    environment: dict[str, str], tmp_path: Path
) -> None:
    refused, _ = ask(environment, chain(tmp_path / "refused.onnx", ["Abs", "Neg"]), "Compiler")
    assert refused == dict.fromkeys(("Abs", "Neg"), "no memory to compile it")
    known, _ = ask(environment, chain(tmp_path / "known.onnx", ["Abs", "Floor"]), "Compiler")
    assert known == dict.fromkeys(("Abs", "Floor"), "no room for its graph"), (
        "compiled once, not twice"
    )
    short = {**environment, "HETERO_LIMIT_SECONDS": "10"}
    hung, _ = ask(short, chain(tmp_path / "hung.onnx", ["Abs", "Sigmoid"]), "Compiler")
    reason = "Compiler gave no answer within 6 s when it was tried, with the whole model"
    assert hung == dict.fromkeys(("Abs", "Sigmoid"), reason)


def test_an_isolated_process_that_ends_is_started_again() -> None:
    process = IsolatedProcess(1 << 30)
    with pytest.raises(ProcessEndedError, match=r"crashed when it was tried \(signal 6\)"):
        process.call(20, os.abort)
    with pytest.raises(ProcessEndedError, match=r"gave no answer within 0\.5 s when it was tried"):
        process.call(0.5, time.sleep, 60)
    with pytest.raises(ZeroDivisionError):
        process.call(20, divmod, 1, 0)
    assert process.call(20, os.getpid) != os.getpid()
    process.close()


def test_rounding_is_not_wrong_and_nan_says_nothing() -> None:
    exact = np.array([1.0, -100.0, np.nan], np.float32)
    assert not wrong_output(exact, exact * np.float32(1.001), "")
    assert not wrong_output(exact, np.array([1, -100, 7], np.float32), "")
    assert (
        wrong_output(exact, np.array([1, np.inf, np.nan], np.float32), "")
        == "a value is not finite"
    )
    assert wrong_output(exact, exact * 2, "") == "off by up to 1e+02, where values go up to 1e+02"
    assert wrong_output(exact, exact[:2], "") == "shape [2] instead of [3]"
    assert (
        wrong_output(np.array([True, False]), np.array([True, True]), "")
        == "50% of the values are wrong"
    )
    assert not wrong_output(np.array([3], np.int8), np.array([4], np.int8), ""), (
        "quantised results may round up"
    )


def test_an_openvino_maximum_that_is_compared_with_infinity_is_refused(tmp_path: Path) -> None:
    """OpenVINO 2026.4 says that the largest of nothing but -inf is the lowest finite number."""
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], axes=[1]),
        helper.make_node("Equal", ["m", "low"], ["y"]),
        helper.make_node("ReduceMax", ["x"], ["z"], axes=[0]),
    ]
    path = tmp_path / "mask.onnx"
    save_net(
        path,
        nodes,
        [info("x", TensorProto.FLOAT, [2, 2])],
        [info("y", TensorProto.BOOL, [2, 1]), info("z", TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor("low", TensorProto.FLOAT, [], [-np.inf])],
        name="mask",
    )
    plan = editor.partition(editor.load_model(path), "HETERO:OpenVINO,CPU")
    assert plan.affinity == {"m": "CPU", "y": "OpenVINO", "z": "OpenVINO"}
    assert "Equal compares the result" in str(plan.why("m"))
    x = np.array([[-np.inf, -np.inf], [1, 2]], np.float32)
    assert plan.run({"x": x})["y"].tolist() == [[True], [False]]
