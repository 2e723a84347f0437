"""Execution providers of ONNX Runtime: their names, memory, and how a device's session lists them."""

from __future__ import annotations

from collections.abc import Mapping

from editor.devices.device import Device

NAME = "onnxruntime"
TITLE = "ONNX Runtime"
CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
QNN = "QNNExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
TENSORRT_RTX = "NvTensorRTRTXExecutionProvider"
WEBGPU = "WebGpuExecutionProvider"
NOT_A_DEVICE = frozenset({"AzureExecutionProvider"})
"""Providers without hardware of their own: a cloud endpoint."""

PROVIDER_NAMES = {
    CPU: "CPU",
    CUDA: "CUDA",
    TENSORRT: "TensorRT",
    TENSORRT_RTX: "TensorRT-RTX",
    "ROCMExecutionProvider": "ROCm",
    "MIGraphXExecutionProvider": "MIGraphX",
    "DmlExecutionProvider": "DirectML",
    "CoreMLExecutionProvider": "CoreML",
    QNN: "QNN",
    "VitisAIExecutionProvider": "VitisAI",
    "OpenVINOExecutionProvider": "OpenVINO-EP",
    "XnnpackExecutionProvider": "XNNPACK",
    "ACLExecutionProvider": "ACL",
    "ArmNNExecutionProvider": "ArmNN",
    "DnnlExecutionProvider": "DNNL",
    "NnapiExecutionProvider": "NNAPI",
    "CANNExecutionProvider": "CANN",
    WEBGPU: "WebGPU",
    "JsExecutionProvider": "JS",
    "SnpeExecutionProvider": "SNPE",
    "RknpuExecutionProvider": "RKNPU",
    "VSINPUExecutionProvider": "VSINPU",
    "TvmExecutionProvider": "ORT-TVM",
}
"""Providers by the names that people call the hardware."""
LEVEL_LABELS = {"CPU": "CPU", "CUDA": "GPU", "TensorRT": "GPU", "ROCm": "GPU", "DirectML": "GPU"}
"""Label of the device level by short name; others are labelled by their short name."""
_MEMORY = {CUDA: "cuda", TENSORRT: "cuda"}
"""Built-in providers with memory of their own in which values can stay between subgraphs."""
SETTINGS_TO_TRY: Mapping[str, tuple[Mapping[str, str], ...]] = {QNN: ({"backend_type": "htp"},)}
"""Options of plugins for a device that does not work without any."""
SIMULATED = {QNN: "Hexagon NPU, simulated on"}
"""Providers of NPUs that run on a CPU too, in a simulator: results are right, times say nothing about the NPU."""
DEPEND_ON_NEIGHBOURS = frozenset({QNN})
"""Providers that compile subgraphs: a Conv between DequantizeLinear and QuantizeLinear is theirs, and alone it may not be."""
WRITE_CONTEXTS = frozenset(
    {QNN, "OpenVINOExecutionProvider", "VitisAIExecutionProvider", TENSORRT_RTX}
)
"""Providers that write what they compiled into a model of ``EPContext`` ops, which loads without compiling."""
SELECTS_BY_UNIT = frozenset({CUDA, TENSORRT, "ROCMExecutionProvider", "MIGraphXExecutionProvider"})
"""Built-in providers that take the number of a GPU."""


def full_name(name: str) -> str:
    """The full name of a provider, from that or a short one in any case; a name that is not known stays as it is."""
    low = name.lower()
    return next(
        (p for p, short in PROVIDER_NAMES.items() if low in (p.lower(), short.lower())), name
    )


def short_name(provider: str) -> str:
    """Names the hardware of a provider."""
    return PROVIDER_NAMES.get(provider, provider.removesuffix("ExecutionProvider"))


def memory_kind(provider: str) -> str:
    """The kind of memory of a built-in provider."""
    return _MEMORY.get(provider, "cpu")


def index_of(device: Device) -> int:
    """Which of its provider's devices a device is."""
    return int(device.index) if device.index.isdigit() else 0


def provider_of(device: Device) -> str:
    """The execution provider of a device, "" when it is not one of ONNX Runtime's."""
    return device.provider if device.runtime == NAME else ""
