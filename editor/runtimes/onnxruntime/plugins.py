"""Plugin execution providers in this process: which there are, and ONNX Runtime's object for each of their devices.

A library is loaded here only after a process of its own has loaded it, and has run an op on its devices. What came of that
is kept in the user's cache as long as the files, the machine's devices and the settings of drivers stay the same, so
that the next command need not start a process.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import onnxruntime as ort

from editor.errors import ExecutionError, ExportError
from editor.files import cache_folder, write_atomic
from editor.isolated import IsolatedProcess, ProcessEndedError
from editor.runtimes.onnxruntime import plugin_trial
from editor.runtimes.onnxruntime.built_in import BUILT_IN
from editor.runtimes.onnxruntime.errors import reason_of
from editor.runtimes.onnxruntime.plugin_libraries import PluginLibrary, plugin_libraries
from editor.runtimes.onnxruntime.plugin_trial import PluginDevice, TriedLibrary

_TRIAL_SECONDS = 8.0
_TRIAL_MEMORY = 4 << 30
"""Bytes; drivers map a lot."""
_FAILURES_KEPT = 600.0
"""Seconds: a driver may be repaired, so a library that failed is tried again."""
_SETTINGS = ("VK_", "LD_", "ORT_", "CUDA_", "NVIDIA_", "MESA_", "QNN_", "ADSP_", "OPENVINO_", "XDG_RUNTIME_")
"""Beginnings of environment variables that drivers read."""
_DEVICE_FILES = ("/dev/dri", "/dev/accel")
_MAX_STORED = 32
_lock = threading.RLock()
_known: dict[PluginLibrary, TriedLibrary] = {}
_registered: dict[str, str] = {}
"""Path of a library -> the name that it is registered by, in this process"""


def plugin_devices() -> tuple[PluginDevice, ...]:
    """Devices of all libraries; one provider's stand together, in the order of their positions."""
    found: dict[tuple[str, int], PluginDevice] = {}
    for tried in _tried():
        for device in tried.devices:
            if device.provider not in BUILT_IN:
                found.setdefault((device.provider, device.position), device)
    return tuple(found.values())


def unusable_plugins() -> tuple[tuple[str, str], ...]:
    """(provider or package, why it cannot be used)"""
    return tuple(dict.fromkeys(reason for tried in _tried() for reason in tried.reasons))


def plugin_device(provider: str, position: int) -> PluginDevice | None:
    """The device at a position; None where this machine has none."""
    if provider in BUILT_IN:
        return None
    return next((d for d in plugin_devices() if d.provider == provider and d.position == position), None)


def ep_device(device: PluginDevice) -> Any:
    """ONNX Runtime's object for a device; registers the library in this process.

    Raises:
        ExecutionError: the device is gone.
    """
    tried = next(t for t in _tried() if device in t.devices)
    with _lock:
        if tried.path not in _registered:  # under two names its devices would be there twice
            try:
                plugin_trial.register(tried.path, tried.registration)
            except Exception as error:  # ONNX Runtime's errors have no base class of their own
                raise ExecutionError(f"{device.provider}: {reason_of(error)}") from error
            _registered[tried.path] = tried.registration
    here = plugin_trial.devices_of_provider(device.provider)
    if device.position >= len(here):
        raise ExecutionError(f"{device.provider}: device {device.position} is not here any more")
    return here[device.position]


def tried_library(library: PluginLibrary) -> TriedLibrary:
    """What came of one library."""
    return _results((library,))[0]


def _tried() -> tuple[TriedLibrary, ...]:
    return _results(plugin_libraries())


def _results(libraries: tuple[PluginLibrary, ...]) -> tuple[TriedLibrary, ...]:
    """[library] what came of it; tried at most once in this process."""
    with _lock:
        new = [library for library in libraries if library not in _known]
        if new:
            _known.update(_look_up(new))
        return tuple(_known[library] for library in libraries)


def _look_up(libraries: Sequence[PluginLibrary]) -> dict[PluginLibrary, TriedLibrary]:
    """Results from the cache, and from trials of the others."""
    stored, keys = _read(), {library: _key(library) for library in libraries}
    fresh = [library for library, key in keys.items() if key not in stored]
    with ThreadPoolExecutor(max_workers=4) as pool:
        results = dict(zip(fresh, pool.map(_try, fresh), strict=True))
    if fresh:
        _write({**{k: e for k, e in stored.items() if k not in keys.values()}, **{keys[n]: r for n, r in results.items()},
                **{k: stored[k] for k in keys.values() if k in stored}})
    return {library: results[library] if library in results else stored[key] for library, key in keys.items()}


def _try(library: PluginLibrary) -> TriedLibrary:
    process = IsolatedProcess(_TRIAL_MEMORY)
    try:
        return process.call(_TRIAL_SECONDS, plugin_trial.try_library, library)
    except ProcessEndedError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001  # the package's own
        reason = reason_of(error).removeprefix("ONNX Runtime: ")
    finally:
        process.close()
    return TriedLibrary(library.name, library.path, library.name, (), ((library.name, reason),))


def _key(library: PluginLibrary) -> str:
    """Everything that the result of a trial depends on, as a hash."""
    settings = sorted((name, value) for name, value in os.environ.items() if name.startswith(_SETTINGS))
    files: list[Path] = []
    for folder in _DEVICE_FILES:
        with contextlib.suppress(OSError):
            files += sorted(Path(folder).iterdir())
    boot = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return hashlib.sha256(repr((2, library.stamp, ort.__version__, settings, files, boot)).encode()).hexdigest()


def _path() -> Path:
    return cache_folder() / "execution-providers.json"


def _read() -> dict[str, TriedLibrary]:
    """Results of earlier trials by key, without failures that are too old."""
    try:
        stored: dict[str, Any] = json.loads(_path().read_text(encoding="utf-8"))
        now = time.time()
        return {key: _library(entry["library"]) for key, entry in stored.items()
                if not entry["library"]["reasons"] or 0 <= now - entry["time"] < _FAILURES_KEPT}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _write(results: Mapping[str, TriedLibrary]) -> None:
    """Keeps the newest of these results."""
    now = time.time()
    results = dict(list(results.items())[-_MAX_STORED:])
    with contextlib.suppress(ExportError):
        write_atomic(_path(), json.dumps({k: {"time": now, "library": asdict(v)} for k, v in results.items()}), private=True)


def _library(entry: Mapping[str, Any]) -> TriedLibrary:
    return TriedLibrary(entry["name"], entry["path"], entry["registration"],
                        tuple(_device(device) for device in entry["devices"]),
                        tuple((name, reason) for name, reason in entry["reasons"]))


def _device(entry: Mapping[str, Any]) -> PluginDevice:
    return PluginDevice(**{**entry, "settings": tuple((name, value) for name, value in entry["settings"])})
