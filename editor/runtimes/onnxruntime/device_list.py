"""Lists the devices of ONNX Runtime: built-in providers, GPUs and plugins."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import onnxruntime as ort

from editor.devices.device import Link
from editor.devices.discovery import AvailableDevice, UnusableRuntime
from editor.operating_system import cpu_name
from editor.runtimes.onnxruntime.cuda_streams import cuda_context, cuda_driver
from editor.runtimes.onnxruntime.options import (
    BUILT_IN,
)  # which loads CUDA's libraries, where these are Python packages
from editor.runtimes.onnxruntime.plugins import PluginDevice, plugin_devices, unusable_plugins
from editor.runtimes.onnxruntime.providers import (
    CPU,
    CUDA,
    NAME,
    NOT_A_DEVICE,
    SIMULATED,
    TITLE,
    memory_kind,
    short_name,
)

_LATENCY = 10e-6
"""Seconds of a transfer over PCI Express; a boundary between two GPUs took 19 to 30 us."""
_ENCODING = {2.5: 0.8, 5.0: 0.8}
"""Share of the transferred bits that is data, by GT/s; 128 of 130 for the faster ones."""


@dataclass(frozen=True)
class Gpu:
    """One GPU."""

    name: str
    memory: int
    """bytes"""
    link: Link | None
    """None where the kernel does not say."""


@cache
def cuda_gpus() -> tuple[Gpu, ...]:
    """GPUs by CUDA's numbers; none where the driver is not there or does not answer."""
    driver, count = cuda_driver(), ctypes.c_int()
    if driver is None or driver.cuDeviceGetCount(ctypes.byref(count)):
        return ()
    return tuple(_gpu(driver, number) for number in range(count.value))


def cuda_memory_in_use(number: int) -> int | None:
    """Bytes in use on a GPU, by all processes; None where the driver does not say."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with cuda_context(number, keep=False) as driver:
        if driver is None or driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)):
            return None
    return int(total.value - free.value)


def _gpu(driver: ctypes.CDLL, number: int) -> Gpu:
    handle, memory = ctypes.c_int(), ctypes.c_size_t()
    name, address = ctypes.create_string_buffer(256), ctypes.create_string_buffer(32)
    driver.cuDeviceGet(ctypes.byref(handle), number)
    driver.cuDeviceGetName(name, len(name), handle)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), handle)
    driver.cuDeviceGetPCIBusId(address, len(address), handle)
    return Gpu(
        name.value.decode("utf-8", "replace"),
        int(memory.value),
        pci_link(address.value.decode("ascii", "replace")),
    )


def pci_link(address: str, root: Path = Path("/sys/bus/pci/devices")) -> Link | None:
    """The fastest link of a PCI device, from its address such as ``0000:18:00.0``; None where the kernel does not say."""
    try:
        folder = root / address.lower()
        speed = re.match(r"([\d.]+) GT/s", (folder / "max_link_speed").read_text(encoding="ascii"))
        width = int((folder / "max_link_width").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    if speed is None or not 0 < width <= 32:  # 255 where it is unknown
        return None
    rate = float(speed[1])
    return Link(rate * 1e9 * width / 8 * _ENCODING.get(rate, 128 / 130), _LATENCY)


_FOLDER = Path(ort.__file__).parent / "capi"
_PREFIX, _SUFFIX = (
    ("", ".dll")
    if sys.platform == "win32"
    else ("lib", ".dylib" if sys.platform == "darwin" else ".so")
)


def problems() -> dict[str, str]:
    """Provider -> why it cannot be used, "" where it can; in ONNX Runtime's order."""
    return {
        p: load_problem(p) for p in ort.get_available_providers() if p in BUILT_IN - NOT_A_DEVICE
    }


@cache
def load_problem(provider: str, folder: Path = _FOLDER) -> str:
    """Why the library of a provider cannot be loaded; "" where it can, or where the provider has none of its own.

    It stays loaded: a session would load it as well, and would look for what it needs in the same places.
    """
    library = _library(provider.removesuffix("ExecutionProvider").lower(), folder)
    if not library.exists():
        return ""
    try:
        shared = _library("shared", folder)
        if shared.exists():
            ctypes.CDLL(
                str(shared), mode=ctypes.RTLD_GLOBAL
            )  # the other libraries take functions from it
        ctypes.CDLL(str(library))
    except OSError as error:
        return f"{str(error).removeprefix(f'{library}: ')} (needed by {library.name})"
    return ""


def _library(name: str, folder: Path) -> Path:
    return folder / f"{_PREFIX}onnxruntime_providers_{name}{_SUFFIX}"


def available() -> Sequence[AvailableDevice]:
    """Every device: the built-in providers, the CPU last of these, and then plugins."""
    found: list[AvailableDevice] = []
    for provider, problem in reversed(problems().items()):
        if problem:
            continue
        if provider == CUDA:
            found += _cuda()
        else:
            found.append(
                AvailableDevice(
                    short_name(provider),
                    NAME,
                    provider,
                    ort.__version__,
                    cpu_name() if provider == CPU else "",
                    TITLE,
                    memory_space=memory_kind(provider),
                )
            )
    for device, name in named_plugins(plugin_devices()).items():
        version = (
            f"{ort.__version__} (plugin {device.version})" if device.version else ort.__version__
        )
        found.append(
            AvailableDevice(
                name,
                NAME,
                device.provider,
                version,
                _hardware(device),
                TITLE,
                None,
                device.memory_kind,
                device.vendor,
                device.position,
                kind=device.kind,
            )
        )
    return found


def unusable() -> Sequence[UnusableRuntime]:
    """Built-in providers and plugins that are installed but cannot be used."""
    return [
        *(
            UnusableRuntime(short_name(provider), problem)
            for provider, problem in problems().items()
            if problem
        ),
        *(UnusableRuntime(name, reason) for name, reason in unusable_plugins()),
    ]


def _hardware(device: PluginDevice) -> str:
    if device.kind != "CPU":
        return device.hardware
    if device.provider in SIMULATED:
        return f"{SIMULATED[device.provider]} {cpu_name()}"
    return cpu_name() if device.memory_kind == "cpu" else f"{cpu_name()}, in software"


def _cuda() -> list[AvailableDevice]:
    name, gpus = short_name(CUDA), cuda_gpus()
    if not gpus:  # the driver does not answer; a session says why
        return [
            AvailableDevice(
                name,
                NAME,
                CUDA,
                ort.__version__,
                "",
                TITLE,
                memory_space=memory_kind(CUDA),
                vendor="NVIDIA",
            )
        ]
    return [
        AvailableDevice(
            f"{name}.{i}" if i else name,
            NAME,
            CUDA,
            ort.__version__,
            gpu.name,
            TITLE,
            gpu.memory,
            memory_kind(CUDA),
            "NVIDIA",
            i,
            gpu.link,
            "GPU",
        )
        for i, gpu in enumerate(gpus)
    ]


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
