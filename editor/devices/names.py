"""From the names that people and other tools use to a runtime and provider of this machine."""

from __future__ import annotations

from dataclasses import dataclass

from editor.devices.discovery import PROVIDER_NAMES, available_devices


@dataclass(frozen=True)
class Target:
    """Where a name leads: runtime, provider, and whether this machine has it."""

    runtime: str
    provider: str
    present: bool
    device: str
    """Default label of the device level."""


# Names of accelerators in other tools' tables. Nothing here runs them, so they stay planned.
_PLANNED = {name.lower(): name for name in (
    "OpenCL", "MYRIAD", "NPU", "HDDL", "HABANA", "Habana", "NNPI", "FPGA", "GNA", "VPU", "KEEMBAY", "DSP", "TPU",
    "Hexagon", "EdgeTPU", "ANE", "Vulkan", "Metal", "NVPTX", "BLAS", "MULTI", "BATCH", "AUTO", "DLA", "APU", "RKNN",
)}
_CPU_NAMES = {"cpu", "onnxruntime", "ort", "cpuexecutionprovider", "host"}
_INTERPRETER_NAMES = {"interpreter", "reference", "referenceevaluator"}


def _has(runtime: str, provider: str) -> bool:
    return any(a.runtime == runtime and a.provider == provider for a in available_devices())


def resolve(name: str, provider: str = "") -> Target | None:
    """Where a device or backend name leads; None when nobody knows the name.

    Args:
        name: ``CPU``, ``GPU``, ``GPU.1``, ``Interpreter``, ``OpenVINO``, ``OpenVINO.GPU``, ``OpenCL``, the name
            of an ONNX Runtime provider ... in any case.
        provider: an explicit provider of the runtime, from a table.
    """
    low = name.lower()
    base, _, unit = low.partition(".")
    if low in _INTERPRETER_NAMES:
        return Target("interpreter", "", True, "CPU")
    if low == "tvm":
        return Target("tvm", "llvm", True, "CPU") if _has("tvm", "llvm") else Target("", "", False, "CPU")
    if base == "openvino":
        chosen = (provider or unit or "CPU").upper()
        return Target("openvino", chosen, _has("openvino", chosen), chosen.partition(".")[0])
    if provider or low in ("onnxruntime", "ort"):
        return _onnxruntime_target(provider or "CPUExecutionProvider")
    if low in _CPU_NAMES:
        return _onnxruntime_target("CPUExecutionProvider")
    if base in ("gpu", "cuda") and (not unit or unit.isdigit()):
        return _gpu_target(base, unit)
    for candidate, short in PROVIDER_NAMES.items():
        if low in (candidate.lower(), short.lower()):
            return _onnxruntime_target(candidate)
    if base in _PLANNED:
        openvino_name = low.upper()
        if _has("openvino", openvino_name):
            return Target("openvino", openvino_name, True, base.upper())
        return Target("", "", False, _PLANNED[base])
    return None


def known_names() -> list[str]:
    """Names that a ``HETERO:`` string may use: what is here first, then what can be planned."""
    here = [a.name for a in available_devices()]
    planned = ["GPU", *sorted(set(_PLANNED.values()), key=str.lower)]
    return here + [name for name in planned if name not in here]


def _gpu_target(base: str, unit: str) -> Target:
    if _has("onnxruntime", "CUDAExecutionProvider"):
        return Target("onnxruntime", "CUDAExecutionProvider", True, "GPU")
    openvino_name = f"GPU.{unit}" if unit else "GPU"
    if base == "gpu" and _has("openvino", openvino_name):
        return Target("openvino", openvino_name, True, "GPU")
    for candidate in ("ROCMExecutionProvider", "DmlExecutionProvider"):
        if base == "gpu" and _has("onnxruntime", candidate):
            return Target("onnxruntime", candidate, True, "GPU")
    return Target("onnxruntime", "CUDAExecutionProvider", False, "GPU")


def _onnxruntime_target(provider: str) -> Target:
    exact = next((p for p in PROVIDER_NAMES if p.lower() == provider.lower()), provider)
    short = PROVIDER_NAMES.get(exact, exact)
    device = {"CPU": "CPU", "CUDA": "GPU", "TensorRT": "GPU", "ROCm": "GPU", "DirectML": "GPU"}.get(short, short)
    return Target("onnxruntime", exact, _has("onnxruntime", exact), device)
