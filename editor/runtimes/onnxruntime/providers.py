"""Execution providers of ONNX Runtime: their names, memory, and how a device's session lists them."""

from __future__ import annotations

from typing import Any

from editor.devices.device import Device
from editor.runtimes.base import MemorySpace

NAME = "onnxruntime"
CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
NOT_A_DEVICE = frozenset({"AzureExecutionProvider"})
"""Providers without hardware of their own: a cloud endpoint."""

PROVIDER_NAMES = {
    CPU: "CPU", CUDA: "CUDA", "TensorrtExecutionProvider": "TensorRT",
    "NvTensorRTRTXExecutionProvider": "TensorRT-RTX", "ROCMExecutionProvider": "ROCm",
    "MIGraphXExecutionProvider": "MIGraphX", "DmlExecutionProvider": "DirectML", "CoreMLExecutionProvider": "CoreML",
    "QNNExecutionProvider": "QNN", "VitisAIExecutionProvider": "VitisAI", "OpenVINOExecutionProvider": "ORT-OpenVINO",
    "XnnpackExecutionProvider": "XNNPACK", "ACLExecutionProvider": "ACL", "ArmNNExecutionProvider": "ArmNN",
    "DnnlExecutionProvider": "DNNL", "NnapiExecutionProvider": "NNAPI", "CANNExecutionProvider": "CANN",
    "WebGpuExecutionProvider": "WebGPU", "JsExecutionProvider": "JS", "SnpeExecutionProvider": "SNPE",
    "RknpuExecutionProvider": "RKNPU", "VSINPUExecutionProvider": "VSINPU", "TvmExecutionProvider": "ORT-TVM",
}
"""Providers by the names that people call the hardware."""
LEVEL_LABELS = {"CPU": "CPU", "CUDA": "GPU", "TensorRT": "GPU", "ROCm": "GPU", "DirectML": "GPU"}
"""Label of the device level by short name; others are labelled by their short name."""
_MEMORY = {CUDA: "cuda", "TensorrtExecutionProvider": "cuda"}
"""Providers with memory of their own in which values can stay between subgraphs."""


def memory_space(device: Device) -> MemorySpace:
    """Where the values of a device live."""
    kind = _MEMORY.get(device.provider, "cpu")
    number = device.properties.get("device_id", device.unit)
    return MemorySpace(NAME, kind, int(number) if kind != "cpu" and number.isdigit() else 0)


def provider_list(device: Device) -> list[Any]:
    """The ``providers`` argument of a session: the device's own first, the CPU behind it."""
    if device.provider == CPU:
        return [CPU]
    options = {k: v for k, v in device.properties.items() if "." not in k}
    space = memory_space(device)
    if not space.is_host:
        options = {"device_id": str(space.index), **options}
    return [(device.provider, options), CPU]


def provider_of(device: Device) -> str:
    """The execution provider of a device, "" when it is not one of ONNX Runtime's."""
    return device.provider if device.runtime == NAME else ""
