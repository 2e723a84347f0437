"""What every runtime offers: say what it can run, compile a sub-model, run it, profile it.

A runtime is one object of the protocol ``Runtime``. Everything that is special about it is in its module;
the rest of the program asks these methods and compares no names. ``CONTRIBUTING.md`` says how to add one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from onnx import ModelProto

from editor.devices.device import Device
from editor.devices.discovery import AvailableDevice, Target
from editor.errors import ExecutionError
from editor.graph.graph import Bools, Graph

API_VERSION = 1
"""Of this protocol. A package's runtime states the version that it was written for."""

Value = Any
"""A tensor where it lies: numpy array, ``OrtValue``, ``openvino.Tensor`` ...; a list for a sequence."""


@dataclass(frozen=True, eq=False)
class Capability:
    """What a device can run, from the runtime itself."""

    mask: Bools
    reasons: tuple[str, ...]
    """Per op: why not; "" where it can."""
    assumed: bool = False
    """Nobody could be asked: a planned device is taken to run everything its table allows."""

    @classmethod
    def of_reasons(cls, reasons: Sequence[str]) -> Capability:
        """Ops with a reason cannot run."""
        return cls(np.array([not r for r in reasons], bool), tuple(reasons))

    @classmethod
    def everything(cls, graph: Graph) -> Capability:
        """A device that nobody can be asked about."""
        return cls(np.ones(len(graph), bool), ("",) * len(graph), assumed=True)


@dataclass(frozen=True, eq=False)
class SubModel:
    """A self-contained sub-model, ready to compile. Nodes are named ``op<number of the op>``."""

    model: ModelProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    folder: Path
    """External data of ``model`` is relative to this folder."""
    label: str
    """For messages: "subgraph 3" or "the unsplit model"."""
    optimized: bool = False
    """ONNX Runtime has optimized this graph already; it must run it as it is."""
    in_place: tuple[tuple[str, str], ...] = ()
    """(operand, result) of kernels that save a copy where both lie in the same memory; nobody reads the operand later."""
    internal: frozenset[str] = frozenset()
    """Internal tensors exposed as outputs so that the executor chooses their buffers."""
    internal_tensor_count: int | None = None
    """Internal tensors for which the runtime itself allocates memory, where that is known."""
    model_names: Mapping[str, str] = field(default_factory=dict)
    """The model's names of tensors that an optimized graph keeps under other names."""
    absorbed_ops: tuple[int, ...] = ()
    """Ops of other subgraphs that it computes, fused with its own."""


@dataclass(frozen=True)
class CompileOptions:
    """Settings that are the same for every runtime."""

    threads: int = 0
    """Threads per subgraph; 0 leaves the choice to the runtime."""


@dataclass(frozen=True)
class MemorySpace:
    """Where the values of a device live. Between devices of one space values pass as they are."""

    runtime: str
    kind: str = "cpu"
    index: int = 0
    """Which of the devices of that kind."""

    @property
    def is_host(self) -> bool:
        """Values lie in the memory of the CPU."""
        return self.kind == "cpu"


@dataclass(frozen=True)
class KernelTime:
    """One kernel of a profiled run."""

    type: str
    ops: tuple[int, ...]
    """Ops of the model that it computes; none where that is not known."""
    seconds: float


class OutputShapeMismatch(ExecutionError):
    """Outputs do not fit the buffers chosen for them; other tensors in that memory may be overwritten already."""


class Executable(Protocol):
    """A compiled sub-model. One instance serves one thread at a time; ``clone`` shares the weights."""

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """Values in the order of the sub-model's inputs and outputs. Outputs live until the next run."""
        ...

    def clone(self) -> Executable:
        """Another instance for another thread."""
        ...


@runtime_checkable
class BoundExecutable(Protocol):
    """An executable whose inputs and outputs can be bound to fixed memory, so that a run is a single call.

    Optional: an executable that has these methods gets buffers chosen by the executor.
    """

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """As ``Executable.run``."""
        ...

    def clone(self) -> Executable:
        """As ``Executable.clone``."""
        ...

    def fixed_outputs(self) -> Sequence[Value]:
        """Outputs in memory that every further run writes to; empty before the first run or where it may move."""
        ...

    def bind_output_buffers(self, buffers: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Writes these outputs into given host memory from the next run on.

        Without buffers the runtime chooses again. A run whose outputs do not fit raises ``OutputShapeMismatch``.
        """
        ...

    def bind_inputs(self, inputs: Mapping[str, Value]) -> Callable[[], None] | None:
        """Binds these inputs for good; returns what launches a run, or None where output buffers may move."""
        ...

    def rebind_input(self, name: str, value: Value) -> bool:
        """Another value for one input of a launch; True when later writes into ``value`` are seen by later runs."""
        ...


class Runtime(Protocol):
    """One way to execute ONNX. ``defaults.RuntimeDefaults`` has plain answers for what a runtime need not know."""

    name: str
    """What device tables call it (``backendName``)."""
    title: str
    """Its name for people."""
    api_version: int
    slowdown: float
    """How many times slower than the peaks of its hardware it is, for estimates."""

    def devices(self) -> Sequence[AvailableDevice]:
        """Devices of this machine; raises ``ImportError`` when the runtime is not installed."""
        ...

    def resolve(self, name: str, provider: str) -> Target | None:
        """Where a device or backend name leads, None when the runtime does not answer to it."""
        ...

    def capability(self, graph: Graph, device: Device) -> Capability:
        """Which ops of a graph the device can run, and why not the others."""
        ...

    def compile(self, submodel: SubModel, device: Device, options: CompileOptions) -> Executable:
        """Compiles; raises ``ExecutionError`` with the runtime's message."""
        ...

    def memory_space(self, device: Device) -> MemorySpace:
        """Where the device's values live."""
        ...

    def convert(self, value: Value, space: MemorySpace) -> Value:
        """A value of any runtime in the form and the memory that this one takes.

        Raises:
            TypeError, ValueError, RuntimeError: it has no such values.
        """
        ...

    def profile(self, graph: Graph, submodel: SubModel, device: Device, inputs: Sequence[Value], seconds: float,
                threads: int) -> list[KernelTime]:
        """Median time of each kernel over the quietest runs; empty where the runtime has no profiler."""
        ...

    def precision(self, device: Device) -> str:
        """What float32 is computed with where that is less: ``bf16``, ``f16``, ``tf32``; else ""."""
        ...

    def runs_optimized_graphs(self, device: Device) -> bool:
        """Sub-models may be cut from the graph that the runtime has optimized (``execution.ort_optimized``)."""
        ...


def summarize_error(error: BaseException, noise: Sequence[re.Pattern[str]] = (), limit: int = 240) -> str:
    """First useful line of a runtime's error, shortened for display.

    Args:
        error: what the runtime raised.
        noise: patterns that say nothing to a person; removed.
        limit: characters.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    for pattern in noise:
        text = pattern.sub("", text)
    return text if len(text) <= limit else text[:limit] + "…"
