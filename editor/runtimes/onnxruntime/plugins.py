"""Finds plugin execution providers, tries them, and knows their devices."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import helper

from editor import operating_system
from editor.devices.device import Device
from editor.environment import LIBRARIES
from editor.errors import ExecutionError
from editor.files import cache_folder, keep_json, kept_json
from editor.groups import firsts
from editor.runtimes.base import MemorySpace
from editor.runtimes.onnxruntime.options import BUILT_IN, reason_of, session_options
from editor.runtimes.onnxruntime.providers import CPU, NAME, SETTINGS_TO_TRY, index_of, memory_kind
from editor.runtimes.onnxruntime.values import kind_of
from editor.runtimes.op_models import small_model
from editor.sandbox.worker import IsolatedProcess, ProcessEndedError
from editor.startup import installed_folders

_MAX_INIT_BYTES = 1 << 16
_GIVES_PATH = re.compile(rb"^def (?:get_)?library_path\b", re.MULTILINE)
_GIVES_NAME = re.compile(rb"\bget_ep_names?\b|\bEP_NAMES?\b")
_VIRTUAL = ".virtual"
"""A registration under a name that ends so adds devices that only compile."""


@dataclass(frozen=True)
class PluginLibrary:
    """A library of execution providers, or the package that knows its path."""

    name: str
    """Of the package, or the name that the environment variable gives it."""
    module: str = ""
    """The package; "" for a local build."""
    path: str = ""
    """The file of a local build; "" for a package."""

    @property
    def stamp(self) -> tuple[object, ...]:
        """Changes with the files of the library."""
        folder = Path(self.module).parent if self.module else Path(self.path).parent
        try:
            files = [
                (e.name, e.stat().st_size, e.stat().st_mtime_ns)
                for e in os.scandir(folder)
                if e.is_file()
            ]
        except OSError:
            files = []
        return self.name, self.module, self.path, sorted(files)


def local_builds() -> tuple[PluginLibrary, ...]:
    """Libraries of the environment variable."""
    parts = (part.strip().partition("=") for part in LIBRARIES.value.split(os.pathsep))
    return tuple(
        PluginLibrary(name if given else Path(name).stem, path=path if given else name)
        for name, given, path in parts
        if name
    )


@cache
def _packages(folders: tuple[str, ...]) -> tuple[PluginLibrary, ...]:
    found: dict[str, PluginLibrary] = {}
    for folder in folders:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name in found or not entry.name.isidentifier():
                continue
            init = Path(entry.path, "__init__.py")
            if _is_plugin(init):
                found[entry.name] = PluginLibrary(entry.name, module=str(init))
    return tuple(found.values())


def _is_plugin(init: Path) -> bool:
    try:
        with init.open("rb") as file:
            text = file.read(_MAX_INIT_BYTES)
    except OSError:
        return False
    return bool(_GIVES_PATH.search(text) and _GIVES_NAME.search(text))


def path_and_names(library: PluginLibrary) -> tuple[str, list[str]]:
    """The file of a library, and the names of its providers as far as it says so.

    Imports the package, so call it only where that may fail.

    Raises:
        Exception: whatever the package raises.
    """
    if not library.module:
        if not Path(library.path).is_file():
            raise FileNotFoundError(f"{library.path}: no such file ({LIBRARIES.name})")
        return str(Path(library.path).resolve()), [library.name]
    module = import_module(library.name)
    path = getattr(module, "get_library_path", None) or module.library_path
    names = (
        getattr(module, "get_ep_names", None)
        or getattr(module, "get_ep_name", None)
        or getattr(module, "EP_NAMES", None)
        or getattr(module, "EP_NAME", None)
    )
    listed = names() if callable(names) else names
    given = [listed] if isinstance(listed, str) else list(listed or [library.name])
    return str(path() if callable(path) else path), [
        name for name in given if not name.endswith(_VIRTUAL)
    ]


NO_OTHER_PROVIDER = {"session.disable_cpu_ep_fallback": "1"}
"""Entry of a session that is not created where the CPU would have to run some of its ops."""
_IS_VIRTUAL = "is_virtual"
"""Key of a device's metadata: it compiles for hardware that is not here."""


@dataclass(frozen=True)
class PluginDevice:
    """A device of a plugin execution provider."""

    provider: str
    """Name of the execution provider."""
    position: int
    """Among the devices of the provider that are not virtual."""
    kind: str
    """The kind of hardware: ``CPU``, ``GPU`` or ``NPU``."""
    vendor: str
    hardware: str
    version: str
    """The version of the provider."""
    memory_kind: str = "cpu"
    """The name that ONNX Runtime gives the memory of its values."""
    memory_index: int = 0
    settings: tuple[tuple[str, str], ...] = ()
    """Options without which a session on it cannot be created."""


@dataclass(frozen=True)
class TriedLibrary:
    """The result of trying a library."""

    name: str
    path: str
    registration: str
    """The name to register the library by: some providers take it as theirs."""
    devices: tuple[PluginDevice, ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()
    """(provider or package, why it cannot be used)"""


def register(path: str, registration: str) -> None:
    """Registers a library in this process; raises whatever ONNX Runtime raises."""
    ort.register_execution_provider_library(registration, path)


def devices_of_provider(provider: str) -> list[Any]:
    """ONNX Runtime's devices of a provider whose hardware is here, in its order."""
    return [
        device
        for device in ort.get_ep_devices()
        if device.ep_name == provider
        and dict(device.device.metadata).get(_IS_VIRTUAL, "0") in ("0", "")
    ]


def try_library(library: PluginLibrary) -> TriedLibrary:
    """Registers a library and runs an op on each of its devices; raises whatever the library raises."""
    path, names = path_and_names(library)
    before = {device.ep_name for device in ort.get_ep_devices()}
    register(path, names[0])
    providers = [
        p for p in dict.fromkeys(d.ep_name for d in ort.get_ep_devices()) if p not in before
    ]
    devices, reasons = [], []
    for provider in providers:
        for position, device in enumerate(devices_of_provider(provider)):
            found, reason = _first_that_works(device, position)
            devices += [found] if found else []
            reasons += [(provider, reason)] if reason else []
    if not devices and not reasons:
        reasons.append((names[0], "it has no device on this machine"))
    return TriedLibrary(library.name, path, names[0], tuple(devices), tuple(reasons))


def _first_that_works(device: Any, position: int) -> tuple[PluginDevice | None, str]:
    """The device with the first settings that it works with; else why it does not with the provider's own."""
    reason = ""
    for settings in ({}, *SETTINGS_TO_TRY.get(device.ep_name, ())):
        try:
            return _try_device(device, position, settings), ""
        except Exception as error:  # noqa: BLE001  # ONNX Runtime's errors have no base class of their own
            reason = reason or reason_of(error)
    return None, reason


def _try_device(device: Any, position: int, settings: Mapping[str, str]) -> PluginDevice:
    options = session_options(entries=NO_OTHER_PROVIDER)
    options.add_provider_for_devices([device], dict(settings))
    model = small_model([helper.make_node("Add", ["x", "x"], ["y"])], [4])
    session = ort.InferenceSession(model.SerializeToString(), options, enable_fallback=0)
    if not np.array_equal(
        session.run(None, {"x": np.ones(4, np.float32)})[0], np.full(4, 2, np.float32)
    ):
        raise RuntimeError("it computes 1 + 1 wrongly")
    info = device.memory_info(ort.OrtDeviceMemoryType.DEFAULT)
    kind, index = "cpu", 0
    if info is not None:
        value = ort.OrtValue.ortvalue_from_shape_and_type([1], np.float32, memory_info=info)
        kind, index = kind_of(value.device_name(), int(info.device_vendor_id)), int(info.device_id)
    hardware = device.device
    return PluginDevice(
        device.ep_name,
        position,
        hardware.type.name,
        hardware.vendor or device.ep_vendor,
        _hardware(hardware),
        str(dict(device.ep_metadata).get("version", "")),
        kind,
        index,
        tuple(sorted(settings.items())),
    )


def _hardware(hardware: Any) -> str:
    """Names the hardware, or says its numbers."""
    named = str(dict(hardware.metadata).get("Description", ""))
    numbers = f"{hardware.type.name} {hardware.vendor_id:04x}:{hardware.device_id:04x}"
    return named or f"{hardware.vendor or 'unknown vendor'} {numbers}"


_TRIAL_SECONDS = 8.0
_TRIAL_MEMORY = 4 << 30
"""Bytes; drivers map a lot."""
_FAILURES_KEPT = 600.0
"""Seconds: a driver may be repaired, so a library that failed is tried again."""
_SETTINGS = (
    "VK_",
    "LD_",
    "ORT_",
    "CUDA_",
    "NVIDIA_",
    "MESA_",
    "QNN_",
    "ADSP_",
    "OPENVINO_",
    "XDG_RUNTIME_",
)
"""Beginnings of environment variables that drivers read."""
_DEVICE_FILES = ("/dev/dri", "/dev/accel")
_MAX_STORED, _MAX_BYTES = 32, 16 << 20
_lock = threading.RLock()
_known: dict[PluginLibrary, TriedLibrary] = {}
_registered: dict[str, str] = {}
"""Path of a library -> the name that it is registered by, in this process"""


def plugin_devices() -> tuple[PluginDevice, ...]:
    """Devices of all libraries; one provider's stand together, in the order of their positions."""
    found = firsts(
        ((device.provider, device.position), device)
        for tried in _tried()
        for device in tried.devices
        if device.provider not in BUILT_IN
    )
    return tuple(found.values())


def unusable_plugins() -> tuple[tuple[str, str], ...]:
    """(provider or package, why it cannot be used)"""
    return tuple(dict.fromkeys(reason for tried in _tried() for reason in tried.reasons))


def plugin_device(provider: str, position: int) -> PluginDevice | None:
    """The device at a position; None where this machine has none."""
    if provider in BUILT_IN:
        return None
    return next(
        (d for d in plugin_devices() if d.provider == provider and d.position == position), None
    )


def ep_device(device: PluginDevice) -> Any:
    """ONNX Runtime's object for a device; registers the library in this process.

    Raises:
        ExecutionError: the device is gone.
    """
    tried = next(t for t in _tried() if device in t.devices)
    with _lock:
        if tried.path not in _registered:  # under two names its devices would be there twice
            try:
                register(tried.path, tried.registration)
            except Exception as error:  # ONNX Runtime's errors have no base class of their own
                raise ExecutionError(f"{device.provider}: {reason_of(error)}") from error
            _registered[tried.path] = tried.registration
    here = devices_of_provider(device.provider)
    if device.position >= len(here):
        raise ExecutionError(f"{device.provider}: device {device.position} is not here any more")
    return here[device.position]


def tried_library(library: PluginLibrary) -> TriedLibrary:
    """Returns the result of trying one library."""
    return _results((library,))[0]


def _tried() -> tuple[TriedLibrary, ...]:
    """Every library that this machine has: local builds first, then those of installed packages."""
    return _results((*local_builds(), *_packages(installed_folders())))


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
        _write(
            {
                **{k: e for k, e in stored.items() if k not in keys.values()},
                **{keys[n]: r for n, r in results.items()},
                **{k: stored[k] for k in keys.values() if k in stored},
            }
        )
    return {
        library: results[library] if library in results else stored[key]
        for library, key in keys.items()
    }


def _try(library: PluginLibrary) -> TriedLibrary:
    process = IsolatedProcess(_TRIAL_MEMORY)
    try:
        return process.call(_TRIAL_SECONDS, try_library, library)
    except ProcessEndedError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001  # the package's own
        reason = reason_of(error).removeprefix("ONNX Runtime: ")
    finally:
        process.close()
    return TriedLibrary(library.name, library.path, library.name, (), ((library.name, reason),))


def _key(library: PluginLibrary) -> str:
    """Everything that the result of a trial depends on, as a hash."""
    settings = sorted(
        (name, value) for name, value in os.environ.items() if name.startswith(_SETTINGS)
    )
    files: list[Path] = []
    for folder in _DEVICE_FILES:
        with contextlib.suppress(OSError):
            files += sorted(Path(folder).iterdir())
    boot = operating_system.boot_id()
    return hashlib.sha256(
        repr((2, library.stamp, ort.__version__, settings, files, boot)).encode()
    ).hexdigest()


def _path() -> Path:
    return cache_folder() / "execution-providers.json"


def _read() -> dict[str, TriedLibrary]:
    """Results of earlier trials by key, without failures that are too old."""
    now, stored = time.time(), kept_json(_path(), _MAX_BYTES)
    try:
        return {
            key: _library(entry["library"])
            for key, entry in stored.items()
            if not entry["library"]["reasons"] or 0 <= now - entry["time"] < _FAILURES_KEPT
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def _write(results: Mapping[str, TriedLibrary]) -> None:
    """Keeps the newest of these results."""
    now = time.time()
    newest = list(results.items())[-_MAX_STORED:]
    keep_json(_path(), {key: {"time": now, "library": asdict(library)} for key, library in newest})


def _library(entry: Mapping[str, Any]) -> TriedLibrary:
    return TriedLibrary(
        entry["name"],
        entry["path"],
        entry["registration"],
        tuple(_device(device) for device in entry["devices"]),
        tuple((name, reason) for name, reason in entry["reasons"]),
    )


def _device(entry: Mapping[str, Any]) -> PluginDevice:
    return PluginDevice(
        **{**entry, "settings": tuple((name, value) for name, value in entry["settings"])}
    )


def memory_space(device: Device) -> MemorySpace:
    """Where the values of a device live."""
    if device.provider == CPU or memory_kind(device.provider) != "cpu":
        return MemorySpace(
            NAME, memory_kind(device.provider), index_of(device) if device.provider != CPU else 0
        )
    plugin = plugin_device(device.provider, index_of(device))
    return (
        MemorySpace(NAME)
        if plugin is None
        else MemorySpace(NAME, plugin.memory_kind, plugin.memory_index)
    )
