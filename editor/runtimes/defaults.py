"""Base class of runtimes: plain answers to what a simple runtime need not know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from onnx import ModelProto

from editor.devices.device import Device
from editor.devices.discovery import Target, UnusableRuntime
from editor.devices.properties import Property
from editor.graph.graph import Graph
from editor.runtimes.base import (
    Capability,
    KernelTime,
    MemoryOverhead,
    MemorySpace,
    SubModel,
    Value,
)
from editor.runtimes.protocols import API_VERSION, Runtime
from editor.runtimes.values import to_numpy


class RuntimeDefaults:
    """Plain answers: values are numpy arrays in host memory, there is no profiler, float32 is float32."""

    name: str
    title: str
    api_version = API_VERSION
    slowdown = 1.0

    def resolve_library(self, library: str, provider: str) -> Target | None:
        """No libraries."""
        return None

    def properties(self, provider: str) -> Sequence[Property]:
        """None."""
        return ()

    def unusable(self) -> Sequence[UnusableRuntime]:
        """Nothing."""
        return ()

    def refusal(self, model: ModelProto, device: Device) -> str:
        """Nothing: all that is wrong with an op shows when it is tried."""
        return ""

    def refusals(self, model: ModelProto, device: Device) -> Mapping[str, str] | str | None:
        """From ``refusal``: which nodes are meant is found by asking about fewer at a time."""
        return self.refusal(model, device) or {}

    def is_tried(self, device: Device) -> bool:
        """Whatever a runtime claims is tried."""
        return True

    def depends_on_neighbours(self, device: Device) -> bool:
        """No."""
        return False

    def capability(self, graph: Graph, device: Device) -> Capability:
        """Asks about single ops, and tries them; see ``asking``."""
        from editor.runtimes.capability import (
            capability_of,
        )  # which imports what runtimes are made of

        return capability_of(graph, cast(Runtime, self), device)

    def memory_space(self, device: Device) -> MemorySpace:
        """Host memory."""
        return MemorySpace(self.name)

    def memory_overhead(self, device: Device) -> MemoryOverhead:
        """Nothing is known."""
        return MemoryOverhead()

    def memory_in_use(self, device: Device) -> int | None:
        """Not known."""
        return None

    def convert(self, value: Value, space: MemorySpace) -> Value:
        """A numpy array."""
        return to_numpy(value)

    def profile(
        self,
        graph: Graph,
        submodel: SubModel,
        device: Device,
        inputs: Sequence[Value],
        seconds: float,
        threads: int,
    ) -> list[KernelTime]:
        """No profiler: the latency of a sub-model is divided among its ops by estimated work."""
        return []

    def precision(self, device: Device) -> str:
        """Full precision."""
        return ""

    def precision_note(self, device: Device) -> str:
        """It is told nothing."""
        return ""
