"""Base class of runtimes: plain answers to what a simple runtime need not know."""

from __future__ import annotations

from collections.abc import Sequence

from editor.devices.device import Device
from editor.graph.graph import Graph
from editor.runtimes.base import API_VERSION, KernelTime, MemorySpace, SubModel, Value
from editor.runtimes.values import to_numpy


class RuntimeDefaults:
    """Plain answers: values are numpy arrays in host memory, there is no profiler, float32 is float32."""

    name: str
    title: str
    api_version = API_VERSION
    slowdown = 1.0

    def memory_space(self, device: Device) -> MemorySpace:
        """Host memory."""
        return MemorySpace(self.name)

    def convert(self, value: Value, space: MemorySpace) -> Value:
        """A numpy array."""
        return to_numpy(value)

    def profile(self, graph: Graph, submodel: SubModel, device: Device, inputs: Sequence[Value], seconds: float,
                threads: int) -> list[KernelTime]:
        """No profiler: the latency of a sub-model is divided among its ops by estimated work."""
        return []

    def precision(self, device: Device) -> str:
        """Full precision."""
        return ""

    def runs_optimized_graphs(self, device: Device) -> bool:
        """No."""
        return False
