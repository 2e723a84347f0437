"""Hetero Editor: split an ONNX model over devices, by hand and automatically at once.

    import editor
    graph = editor.load_model("m.onnx", define={"batch_size": 1})
    plan = editor.partition(graph, "HETERO:GPU,CPU")
    print(plan.why("logits"))

Names are imported when they are first used: whoever needs one of them does not wait for all.
"""

from editor import startup

startup.prepare()  # before any other import

from importlib import import_module
from typing import TYPE_CHECKING

from editor.devices import discovery
from editor.version import VERSION

if TYPE_CHECKING:
    from editor.devices.discovery import AvailableDevice, available_devices
    from editor.devices.table import load_devices
    from editor.errors import (
        DeviceTableError,
        EditorError,
        ExecutionError,
        ExportError,
        JobError,
        LimitError,
        ModelError,
        PinError,
        PlanError,
        UnboundSymbolError,
        UnsupportedOpError,
    )
    from editor.graph.graph import Graph
    from editor.graph.loading import load_model
    from editor.workspace.plan import Plan, load_plan, partition

__version__ = VERSION

__all__ = [
    "AvailableDevice", "DeviceTableError", "EditorError", "ExecutionError", "ExportError", "Graph", "JobError",
    "LimitError", "ModelError", "PinError", "Plan", "PlanError", "UnboundSymbolError", "UnsupportedOpError",
    "available_devices", "load_devices", "load_model", "load_plan", "partition",
]

_HOMES = {"AvailableDevice": "devices.discovery", "available_devices": "devices.discovery",
          "load_devices": "devices.table", "Graph": "graph.graph", "load_model": "graph.loading",
          "Plan": "workspace.plan", "load_plan": "workspace.plan", "partition": "workspace.plan"}
"""Modules that names come from; the others are errors."""


def _runtimes() -> discovery.Sources:
    from editor.runtimes import registry

    return registry


discovery.connect(_runtimes)  # devices know no runtimes; this is where the two meet


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
