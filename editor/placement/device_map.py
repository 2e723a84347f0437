"""The modules of a PyTorch model by the device that they are on, as `accelerate` takes them."""

from __future__ import annotations

from collections.abc import Iterator

from editor.devices.device import Device
from editor.placement.placement import Placement


class DeviceMap(dict[str, int | str]):
    """Module path -> device; ``split`` are the modules that are on several."""

    def __init__(self, modules: dict[str, int | str], split: tuple[str, ...]) -> None:
        super().__init__(modules)
        self.split = split


def device_map(placement: Placement) -> DeviceMap:
    """The largest modules that are on one device each, by their paths; "" is the whole model.

    A device is what `accelerate` calls it, the number of a GPU or ``cpu``; or as in the plan, where two of its devices would
    have one name.
    A module with ops of its own on several devices is in ``split``, and only the modules in it have a device.
    """
    graph = placement.graph
    called = {d.name: _called(d) for d in placement.devices}
    if len(set(called.values())) < len(called):
        called = {name: name for name in called}
    devices: dict[str, set[int | str]] = {}
    for op in placement.placed_ops.tolist():
        path = graph.op_modules[op] or _module_of_name(graph.op_names[op])
        device = called[placement.devices[int(placement.device_of_op[op])].name]
        for module in ("", *_prefixes(path)):
            devices.setdefault(module, set()).add(device)
    modules: dict[str, int | str] = {}
    for module in sorted(devices, key=lambda each: (each.count(".") + bool(each), each)):
        if len(devices[module]) == 1 and not any(p in modules for p in ("", *_prefixes(module))):
            modules[module] = next(iter(devices[module]))
    split = tuple(module for module in devices if len(devices[module]) > 1 and module)
    return DeviceMap(modules, split)


def _called(device: Device) -> int | str:
    if device.provider.startswith("CPU"):
        return "cpu"
    if device.provider.startswith("CUDA") or (device.planned and device.device == "GPU"):
        number = device.index or device.unit
        return int(number) if number.isdigit() else 0
    return device.name


def _module_of_name(name: str) -> str:
    """``model.layers.0`` of ``/model/layers.0/MatMul``, which exporters without metadata write."""
    return name.strip("/").rpartition("/")[0].replace("/", ".") if name.startswith("/") else ""


def _prefixes(path: str) -> Iterator[str]:
    """``a``, ``a.b`` and ``a.b.c`` of ``a.b.c``."""
    parts = path.split(".") if path else []
    return (".".join(parts[: i + 1]) for i in range(len(parts)))
