"""What names of devices mean on machines with other devices than this one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import editor
from editor.devices.discovery import (
    AvailableDevice,
    available_devices,
    names_here,
    set_available_devices,
    unusable_runtimes,
)

CPU = AvailableDevice("CPU", "onnxruntime", "CPUExecutionProvider", "1.31.1", "AMD", "ONNX Runtime")
QNN_CPU = AvailableDevice(
    "QNN.CPU", "onnxruntime", "QNNExecutionProvider", "1.31.1", "", "ONNX Runtime", kind="CPU"
)
QNN_NPU = AvailableDevice(
    "QNN.NPU",
    "onnxruntime",
    "QNNExecutionProvider",
    "1.31.1",
    "Hexagon",
    "ONNX Runtime",
    None,
    "cpu",
    "Qualcomm",
    1,
    kind="NPU",
)
OPENVINO_NPU = AvailableDevice(
    "OpenVINO.NPU", "openvino", "NPU", "2026.4.1", "Intel AI Boost", "OpenVINO"
)


@pytest.fixture(autouse=True)
def own_devices() -> Iterator[None]:
    before = available_devices(), unusable_runtimes()
    yield
    set_available_devices(*before)


def test_npu_is_the_npu_of_a_plugin_where_there_is_one() -> None:
    set_available_devices([CPU, QNN_CPU, QNN_NPU])
    npu, first, second = editor.load_devices("HETERO:NPU,NPU.0,NPU.1")
    assert (npu.present, npu.provider, npu.index) == (True, "QNNExecutionProvider", "1")
    assert first.present and first.index == "1" and second.planned


def test_an_npu_of_openvino_comes_before_that_of_a_plugin() -> None:
    set_available_devices([CPU, QNN_NPU, OPENVINO_NPU])
    (npu,) = editor.load_devices("HETERO:NPU")
    assert npu.present and npu.runtime == "openvino"


def test_the_devices_of_this_machine_are_those_that_hetero_alone_means() -> None:
    gpu = replace(CPU, name="CUDA", provider="CUDAExecutionProvider", memory_space="cuda")
    set_available_devices([CPU, gpu, replace(CPU, name="server/CPU", machine="server")])
    assert names_here() == ["CUDA", "CPU"], (
        "a device of another machine is not wanted by itself, and the CPU takes every op"
    )


def test_without_any_an_npu_is_planned() -> None:
    set_available_devices([CPU])
    (npu,) = editor.load_devices("HETERO:NPU")
    assert npu.planned


def test_the_runtime_is_named_beside_names_that_do_not_say_it() -> None:
    table = [
        {"name": "CPU", "backendName": "CPU"},
        {"name": "OpenVINO.CPU", "backendName": "OpenVINO.CPU"},
        {"name": "onnx_runtime 1", "backendName": "CPU"},
        {"name": "Reference", "backendName": "Interpreter"},
        {"name": "Card", "backendName": "OpenCL"},
    ]
    beside = [device.runtime_beside for device in editor.load_devices(table)]
    assert beside == ["ONNX Runtime", "", "", "ONNX reference interpreter", ""]
