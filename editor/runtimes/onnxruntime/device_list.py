"""Lists the devices of ONNX Runtime, and resolves their names."""

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
from editor.devices.discovery import (
    AvailableDevice,
    Target,
    UnusableRuntime,
    devices_of_runtime,
    unusable_parts,
)
from editor.operating_system import cpu_name
from editor.runtimes.onnxruntime.cuda_streams import cuda_context, cuda_driver
from editor.runtimes.onnxruntime.options import (
    BUILT_IN,
)  # which loads CUDA's libraries, where these are Python packages
from editor.runtimes.onnxruntime.plugins import PluginDevice, plugin_devices, unusable_plugins
from editor.runtimes.onnxruntime.providers import (
    CPU,
    CUDA,
    LEVEL_LABELS,
    NAME,
    NOT_A_DEVICE,
    PROVIDER_NAMES,
    SELECTS_BY_UNIT,
    SIMULATED,
    TITLE,
    full_name,
    memory_kind,
    short_name,
)

_CPU_NAMES = frozenset({"cpu", "onnxruntime", "ort", "cpuexecutionprovider", "host"})
_OTHER_GPUS = ("ROCMExecutionProvider", "DmlExecutionProvider")
_UNIT = re.compile(r"\d{0,4}|(cpu|gpu|npu)(\.\d{1,4})?")
"""What follows the dot in a name of a device: its number, or its kind with a number."""


def target_of_name(name: str, provider: str) -> Target | None:
    """The device of a name, or of an explicit provider; None for names of others."""
    base, _, unit = name.lower().partition(".")
    if provider:
        exact = full_name(provider)
        return (
            _target(exact)
            if exact in PROVIDER_NAMES or exact.endswith("ExecutionProvider") or base == NAME
            else None
        )
    if name.lower() in _CPU_NAMES:
        return _target(CPU)
    if not _UNIT.fullmatch(unit):
        return None
    if base in ("gpu", "cuda"):
        return _gpu(base, unit) if not unit or unit.isdigit() else None
    if base == "npu":
        return _npu(unit) if not unit or unit.isdigit() else None
    exact = full_name(base)
    if exact not in PROVIDER_NAMES:  # perhaps a plugin of an unknown provider
        exact = next(
            (
                d.provider
                for d in devices_of_runtime(NAME)
                if base in (short_name(d.provider).lower(), d.provider.lower())
            ),
            "",
        )
    return _target(exact, unit=unit) if exact else None


def _gpu(base: str, unit: str) -> Target:
    """CUDA, else another provider of GPUs that is here."""
    here = devices_of_runtime(NAME)
    if base == "gpu" and all(d.provider != CUDA for d in here):
        others = [d for d in here if d.provider in _OTHER_GPUS or d.kind == "GPU"]
        number = int(unit) if unit else 0
        if number < len(others):
            return _target(others[number].provider, 1, str(others[number].index) if unit else "")
    return _target(CUDA, unit=unit)


def _npu(unit: str) -> Target | None:
    """An NPU of a plugin that is here; where another runtime has one, that comes first."""
    here = [d for d in devices_of_runtime(NAME) if d.kind == "NPU"]
    number = int(unit) if unit else 0
    return (
        _target(here[number].provider, 1, f"npu.{number}" if unit else "npu")
        if number < len(here)
        else None
    )


def _target(provider: str, preference: int = 0, unit: str = "") -> Target:
    """A device of a provider.

    Args:
        provider: its full name.
        preference: see ``Target``.
        unit: number of the device, or its kind with a number (``npu``, ``gpu.1``); "" for the first.
    """
    here = [d for d in devices_of_runtime(NAME) if d.provider.lower() == provider.lower()]
    exact = here[0].provider if here else provider
    kind, _, number = ("", "", unit) if unit.isdigit() or not unit else unit.partition(".")
    same = [d for d in here if not kind or d.kind.lower() == kind]
    device = _at(same, int(number) if number else 0)
    title = f"{TITLE}, {exact.removesuffix('ExecutionProvider')}"
    short = short_name(exact)
    label = (
        device.kind
        if device is not None and device.kind in ("GPU", "NPU")
        else LEVEL_LABELS.get(short, short)
    )
    selects = exact in SELECTS_BY_UNIT or any(d.kind for d in here)
    return Target(
        NAME,
        exact,
        device is not None,
        label,
        title,
        preference=preference,
        unit=str(device.index) if device is not None and selects and unit else number,
        unit_selects=selects,
        reason="" if here else _reason(exact),
        link=device.link if device is not None else None,
    )


def _at(devices: Sequence[AvailableDevice], position: int) -> AvailableDevice | None:
    """The device at a position; where their number is not known any position will do."""
    if devices and not any(d.kind for d in devices):
        return devices[0]
    return devices[position] if position < len(devices) else None


def _reason(provider: str) -> str:
    """Why a provider that is installed as a plugin cannot be used."""
    short = short_name(provider).lower().removesuffix("-ep")
    return next(
        (
            part.reason
            for part in unusable_parts(NAME)
            if part.name == provider or short in part.name.lower()
        ),
        "",
    )


def library_target(library: str, provider: str) -> Target:
    """The device of a local build that a table names; not present, with the reason, where it may not be loaded."""
    from editor.runtimes.onnxruntime.plugins import LIBRARIES_VARIABLE, local_builds, tried_library

    found = next(
        (b for b in local_builds() if library in (b.name, b.path) or _same(library, b.path)), None
    )
    reason = f"a table loads no library that the machine's owner has not allowed; set {LIBRARIES_VARIABLE}=NAME={library}"
    if found is not None:
        tried = tried_library(found)
        given = next((d.provider for d in tried.devices if provider in ("", d.provider)), "")
        if given:
            return _target(given)
        reason = next(
            (reason for _, reason in tried.reasons), f"{library} has no provider {provider}"
        )
    return Target("", "", False, short_name(provider) or library, reason=reason)


def _same(one: str, other: str) -> bool:
    try:
        return Path(one).resolve() == Path(other).resolve()
    except (OSError, ValueError):
        return False


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
    return tuple(_nvidia_gpu(driver, number) for number in range(count.value))


def cuda_memory_in_use(number: int) -> int | None:
    """Bytes in use on a GPU, by all processes; None where the driver does not say."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with cuda_context(number, keep=False) as driver:
        if driver is None or driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)):
            return None
    return int(total.value - free.value)


def _nvidia_gpu(driver: ctypes.CDLL, number: int) -> Gpu:
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
