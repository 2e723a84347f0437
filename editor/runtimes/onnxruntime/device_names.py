"""What names mean to ONNX Runtime: by the list of devices, which another process may have made. The library is not needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from editor.devices.discovery import AvailableDevice, Target, devices_of_runtime, unusable_parts
from editor.environment import LIBRARIES
from editor.runtimes.onnxruntime.providers import (
    CPU,
    CUDA,
    LEVEL_LABELS,
    NAME,
    PROVIDER_NAMES,
    SELECTS_BY_UNIT,
    TITLE,
    full_name,
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
    from editor.runtimes.onnxruntime.plugins import local_builds, tried_library

    found = next(
        (b for b in local_builds() if library in (b.name, b.path) or _same(library, b.path)), None
    )
    reason = f"a table loads no library that the machine's owner has not allowed; set {LIBRARIES.name}=NAME={library}"
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
