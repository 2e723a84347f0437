"""Tries a library of execution providers, in a process of its own: drivers crash and hang.

Registering shows which devices there are, and only a session shows whether one of them works.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

from editor.runtimes.onnxruntime.errors import reason_of
from editor.runtimes.onnxruntime.memory_spaces import kind_of
from editor.runtimes.onnxruntime.options import session_options
from editor.runtimes.onnxruntime.plugin_libraries import PluginLibrary, path_and_names
from editor.runtimes.onnxruntime.providers import SETTINGS_TO_TRY

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
    """Of hardware: ``CPU``, ``GPU`` or ``NPU``."""
    vendor: str
    hardware: str
    version: str
    """Of the provider."""
    memory_kind: str = "cpu"
    """What ONNX Runtime calls the memory of its values."""
    memory_index: int = 0
    settings: tuple[tuple[str, str], ...] = ()
    """Options without which a session on it cannot be created."""


@dataclass(frozen=True)
class TriedLibrary:
    """What came of a library."""

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
    return [device for device in ort.get_ep_devices() if device.ep_name == provider
            and dict(device.device.metadata).get(_IS_VIRTUAL, "0") in ("0", "")]


def try_library(library: PluginLibrary) -> TriedLibrary:
    """Registers a library and runs an op on each of its devices; raises whatever the library raises."""
    path, names = path_and_names(library)
    before = {device.ep_name for device in ort.get_ep_devices()}
    register(path, names[0])
    providers = [p for p in dict.fromkeys(d.ep_name for d in ort.get_ep_devices()) if p not in before]
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
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "trial", [value],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), options, enable_fallback=0)
    if not np.array_equal(session.run(None, {"x": np.ones(4, np.float32)})[0], np.full(4, 2, np.float32)):
        raise RuntimeError("it computes 1 + 1 wrongly")
    info = device.memory_info(ort.OrtDeviceMemoryType.DEFAULT)
    kind, index = "cpu", 0
    if info is not None:
        value = ort.OrtValue.ortvalue_from_shape_and_type([1], np.float32, memory_info=info)
        kind, index = kind_of(value.device_name(), int(info.device_vendor_id)), int(info.device_id)
    hardware = device.device
    return PluginDevice(device.ep_name, position, hardware.type.name, hardware.vendor or device.ep_vendor, _hardware(hardware),
                        str(dict(device.ep_metadata).get("version", "")), kind, index, tuple(sorted(settings.items())))


def _hardware(hardware: Any) -> str:
    """What people call the hardware, or its numbers."""
    named = str(dict(hardware.metadata).get("Description", ""))
    numbers = f"{hardware.type.name} {hardware.vendor_id:04x}:{hardware.device_id:04x}"
    return named or f"{hardware.vendor or 'unknown vendor'} {numbers}"
