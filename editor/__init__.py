"""Hetero Editor: split an ONNX model over devices, by hand and automatically at once.

    import editor
    graph = editor.load_model("m.onnx", define={"batch_size": 1})
    plan = editor.partition(graph, "HETERO:GPU,CPU")
    print(plan.why("logits"))
"""

from editor.devices.discovery import AvailableDevice, available_devices
from editor.devices.formats import load_devices
from editor.errors import (
    DeviceTableError,
    EditorError,
    ExecutionError,
    ExportError,
    JobError,
    ModelError,
    PinError,
    PlanError,
    UnboundSymbolError,
    UnsupportedOpError,
)
from editor.graph.graph import Graph
from editor.graph.loading import load_model
from editor.version import VERSION
from editor.workspace.plan import Plan, load_plan, partition

__version__ = VERSION

__all__ = [
    "AvailableDevice", "DeviceTableError", "EditorError", "ExecutionError", "ExportError", "Graph", "JobError",
    "ModelError", "PinError", "Plan", "PlanError", "UnboundSymbolError", "UnsupportedOpError", "available_devices",
    "load_devices", "load_model", "load_plan", "partition",
]
