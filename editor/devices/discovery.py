"""What this machine really has."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass

from editor.devices.device import RUNTIME_NAMES

# Providers that are no device of their own: a cloud endpoint.
_NOT_A_DEVICE = {"AzureExecutionProvider"}


@dataclass(frozen=True)
class AvailableDevice:
    """A runtime and provider that can be used here."""

    name: str
    """The short name that a ``HETERO:`` string may use."""
    runtime: str
    provider: str
    version: str
    hardware: str
    """Full hardware name where the runtime tells it."""

    @property
    def description(self) -> str:
        """For people."""
        provider = f" {self.provider}" if self.provider else ""
        return f"{RUNTIME_NAMES[self.runtime]} {self.version}{provider}"


# ONNX Runtime's providers by the names people call the hardware.
PROVIDER_NAMES = {
    "CPUExecutionProvider": "CPU", "CUDAExecutionProvider": "CUDA", "TensorrtExecutionProvider": "TensorRT",
    "NvTensorRTRTXExecutionProvider": "TensorRT-RTX", "ROCMExecutionProvider": "ROCm",
    "MIGraphXExecutionProvider": "MIGraphX", "DmlExecutionProvider": "DirectML", "CoreMLExecutionProvider": "CoreML",
    "QNNExecutionProvider": "QNN", "VitisAIExecutionProvider": "VitisAI", "OpenVINOExecutionProvider": "ORT-OpenVINO",
    "XnnpackExecutionProvider": "XNNPACK", "ACLExecutionProvider": "ACL", "ArmNNExecutionProvider": "ArmNN",
    "DnnlExecutionProvider": "DNNL", "NnapiExecutionProvider": "NNAPI", "CANNExecutionProvider": "CANN",
    "WebGpuExecutionProvider": "WebGPU", "JsExecutionProvider": "JS", "SnpeExecutionProvider": "SNPE",
    "RknpuExecutionProvider": "RKNPU", "VSINPUExecutionProvider": "VSINPU", "TvmExecutionProvider": "ORT-TVM",
}


def available_devices() -> tuple[AvailableDevice, ...]:
    """Every runtime and device of this machine, best known names first.

    Runtimes that are not installed are simply absent.
    """
    if not _known:
        _known.extend((*_onnxruntime(), *_openvino(), *_tvm(), *_interpreter()))
    return tuple(_known)


def take_over(found: Sequence[AvailableDevice]) -> None:
    """Believes another process of this machine, instead of loading all runtimes once more."""
    _known[:] = found


_known: list[AvailableDevice] = []
"""The interpreter is always there, so this is empty only until somebody asks."""


def _onnxruntime() -> list[AvailableDevice]:
    try:
        import onnxruntime
    except ImportError:
        return []
    hardware = {"CPUExecutionProvider": _cpu_name()}
    return [AvailableDevice(PROVIDER_NAMES.get(p, p), "onnxruntime", p, onnxruntime.__version__, hardware.get(p, ""))
            for p in reversed(onnxruntime.get_available_providers()) if p not in _NOT_A_DEVICE]


def _openvino() -> list[AvailableDevice]:
    try:
        import openvino
    except ImportError:
        return []
    core = openvino.Core()
    version = importlib.metadata.version("openvino")
    return [AvailableDevice(f"OpenVINO.{name}", "openvino", name, version,
                            str(core.get_property(name, "FULL_DEVICE_NAME")))
            for name in core.available_devices]


def _tvm() -> list[AvailableDevice]:
    try:
        version = importlib.metadata.version("apache-tvm")
    except importlib.metadata.PackageNotFoundError:
        return []
    return [AvailableDevice("TVM", "tvm", "llvm", version, _cpu_name())]


def _interpreter() -> list[AvailableDevice]:
    return [AvailableDevice("Interpreter", "interpreter", "", importlib.metadata.version("onnx"), "numpy on the CPU")]


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    import platform
    return platform.processor() or platform.machine()
