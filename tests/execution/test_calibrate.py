"""A split that profiles recommend is run before it is believed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.devices.device import Device
from editor.execution.executor import compile_whole
from editor.execution.inputs import random_inputs
from editor.execution.measure.calibrate import calibrate
from editor.graph.graph import Graph
from editor.placement.device_profile import DeviceProfile, load_profile, save_profile
from editor.placement.placement import Placement, Settings, solve

ORT = {"name": "ORT", "backendName": "onnxruntime", "provider": "CPUExecutionProvider"}
SLOW = {"name": "Interpreter", "backendName": "interpreter"}
OPTIMAL = Settings("optimal", {"costs": "measured"})


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def save(folder: Path, nodes: list[onnx.NodeProto], shape: list[int], weights: list[TensorProto]) -> Graph:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in (nodes[0].input[0], nodes[-1].output[0])]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "net.onnx")
    return editor.load_model(folder / "net.onnx")


def believe(graph: Graph, device: Device, seconds: list[float]) -> DeviceProfile:
    """A profile in which op i takes ``seconds[i]`` and nothing else costs anything."""
    taken = dict(zip(graph.op_keys, seconds, strict=True))
    fused, small = dict.fromkeys(taken, 0), 1e-9
    profile = DeviceProfile(device.description, sum(seconds), taken, fused, ("?",), small, small, 0.0, small, 0.0, 1)
    save_profile(graph, device, profile)
    return profile


def solved(graph: Graph, devices: tuple[Device, ...]) -> Placement:
    return solve(graph, devices, OPTIMAL)


def test_a_slower_split_is_not_chosen_a_second_time(tmp_path: Path) -> None:
    """Forty tiny ops, each said to be free on the other device than the one before: forty hand-overs."""
    count = 40
    graph = save(tmp_path, [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"], f"n{i}") for i in range(count)], [16], [])
    devices = editor.load_devices([ORT, SLOW])
    profiles = {d.name: believe(graph, d, [1e-6 if i % 2 == n else 1e-4 for i in range(count)]) for n, d in enumerate(devices)}
    assert len(solved(graph, devices).subgraphs) == count
    alone = {"ORT": compile_whole(graph, devices[0], 1)}
    found = calibrate(graph, devices, profiles, alone, random_inputs(graph), 0.2, 1)
    assert {s.device for s in solved(graph, devices).subgraphs} in ({"ORT"}, {"Interpreter"})
    for device in devices:
        kept = load_profile(graph, device)
        assert kept == found[device.name] and kept.in_latency > profiles[device.name].in_latency
        assert kept.seconds == profiles[device.name].seconds, "only what hand-overs cost has changed"


def test_a_faster_split_leaves_the_profiles_unchanged(tmp_path: Path) -> None:
    """A convolution that the interpreter takes ten times as long for, and an op that is said to be dear on ONNX Runtime."""
    kernel = np.random.default_rng(0).standard_normal((32, 32, 3, 3)).astype(np.float32)
    graph = save(tmp_path, [helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1] * 4),
                            helper.make_node("Relu", ["y"], ["z"], "relu")], [1, 32, 24, 24],
                 [numpy_helper.from_array(kernel, "w")])
    devices = editor.load_devices([ORT, SLOW])
    profiles = {d.name: believe(graph, d, seconds) for d, seconds in zip(devices, ([1e-3, 1e-1], [1e-1, 1e-3]), strict=True)}
    alone = {"Interpreter": compile_whole(graph, devices[1], 1)}
    assert calibrate(graph, devices, profiles, alone, random_inputs(graph), 0.2, 1) == profiles
    assert [s.device for s in solved(graph, devices).subgraphs] == ["ORT", "Interpreter"]


def test_a_split_that_a_runtime_refuses_is_not_chosen_a_second_time(tmp_path: Path) -> None:
    """A part that cannot be compiled counts as twice the time of the whole model."""
    graph = save(tmp_path, [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"], f"n{i}") for i in range(2)], [16], [])
    devices = editor.load_devices([ORT, {"name": "Strict", "backendName": "onnxruntime", "provider": "CPUExecutionProvider",
                                         "properties": {"session.layer_assignment_settings": "cpu((("}}])
    profiles = {d.name: believe(graph, d, seconds) for d, seconds in zip(devices, ([1e-6, 1.0], [1.0, 1e-6]), strict=True)}
    alone = {"ORT": compile_whole(graph, devices[0], 1)}
    with pytest.raises(editor.EditorError):
        compile_whole(graph, devices[1], 1)
    found = calibrate(graph, devices, profiles, alone, random_inputs(graph), 0.1, 1)
    assert found["ORT"].in_latency > profiles["ORT"].in_latency
