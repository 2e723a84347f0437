"""ONNX Runtime's devices on this machine: built-in providers, each GPU of a provider, and plugins."""

from __future__ import annotations

from collections.abc import Sequence

import onnxruntime as ort

from editor.devices.discovery import AvailableDevice, UnusableRuntime
from editor.devices.hardware import cpu_name
from editor.runtimes.onnxruntime import built_in
from editor.runtimes.onnxruntime.gpus import cuda_gpus
from editor.runtimes.onnxruntime.plugin_trial import PluginDevice
from editor.runtimes.onnxruntime.plugins import plugin_devices, unusable_plugins
from editor.runtimes.onnxruntime.providers import CPU, CUDA, NAME, SIMULATED, TITLE, memory_kind, short_name


def available() -> Sequence[AvailableDevice]:
    """Every device: the built-in providers, the CPU last of these, and then plugins."""
    found: list[AvailableDevice] = []
    for provider, problem in reversed(built_in.problems().items()):
        if problem:
            continue
        if provider == CUDA:
            found += _cuda()
        else:
            found.append(AvailableDevice(short_name(provider), NAME, provider, ort.__version__,
                                         cpu_name() if provider == CPU else "", TITLE, memory_space=memory_kind(provider)))
    for device, name in named_plugins(plugin_devices()).items():
        version = f"{ort.__version__} (plugin {device.version})" if device.version else ort.__version__
        found.append(AvailableDevice(name, NAME, device.provider, version, _hardware(device), TITLE, None, device.memory_kind,
                                     device.vendor, device.position, kind=device.kind))
    return found


def unusable() -> Sequence[UnusableRuntime]:
    """Built-in providers and plugins that are installed but cannot be used."""
    return [*(UnusableRuntime(short_name(provider), problem) for provider, problem in built_in.problems().items() if problem),
            *(UnusableRuntime(name, reason) for name, reason in unusable_plugins())]


def _hardware(device: PluginDevice) -> str:
    if device.kind != "CPU":
        return device.hardware
    if device.provider in SIMULATED:
        return f"{SIMULATED[device.provider]} {cpu_name()}"
    return cpu_name() if device.memory_kind == "cpu" else f"{cpu_name()}, in software"


def _cuda() -> list[AvailableDevice]:
    name, gpus = short_name(CUDA), cuda_gpus()
    if not gpus:  # the driver does not answer; a session says why
        return [AvailableDevice(name, NAME, CUDA, ort.__version__, "", TITLE, memory_space=memory_kind(CUDA), vendor="NVIDIA")]
    return [AvailableDevice(f"{name}.{i}" if i else name, NAME, CUDA, ort.__version__, gpu.name, TITLE, gpu.memory,
                            memory_kind(CUDA), "NVIDIA", i, gpu.link, "GPU") for i, gpu in enumerate(gpus)]


def named_plugins(devices: Sequence[PluginDevice]) -> dict[PluginDevice, str]:
    """Devices with their names: ``WebGPU``, ``WebGPU.1``; with the kind where a provider has several kinds."""
    names: dict[PluginDevice, str] = {}
    for device in devices:
        same = [d for d in devices if d.provider == device.provider]
        base = short_name(device.provider)
        if len({d.kind for d in same}) > 1:
            base = f"{base}.{device.kind}"
            same = [d for d in same if d.kind == device.kind]
        position = same.index(device)
        names[device] = f"{base}.{position}" if position else base
    return names
