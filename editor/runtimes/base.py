"""The protocol of runtimes: query capabilities, compile a sub-model, run it, profile it.

A runtime is one object of the protocol ``Runtime``. Everything that is special about it is in its module;
the rest of the program calls these methods and compares no names. ``CONTRIBUTING.md`` explains how to add one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from onnx import GraphProto, ModelProto

from editor.devices.device import Device
from editor.devices.discovery import AvailableDevice, Target, UnusableRuntime
from editor.devices.properties import Property
from editor.graph.graph import Bools, Graph

API_VERSION = 1
"""Version of this protocol. Each runtime states the version that it implements."""

Value = Any
"""A tensor in its memory space: numpy array, ``OrtValue``, ``openvino.Tensor`` ...; a list for a sequence."""


@dataclass(frozen=True, eq=False)
class Capability:
    """The ops that a device can run, as reported by its runtime."""

    mask: Bools
    reasons: tuple[str, ...]
    """[op] why the device cannot run it; "" where it can"""
    assumed: bool = False
    """Whether the device is planned, so that it is assumed to run everything that its table allows."""

    @classmethod
    def of_reasons(cls, reasons: Sequence[str]) -> Capability:
        """The capability given by reasons; ops with a reason cannot run."""
        return cls(np.array([not r for r in reasons], bool), tuple(reasons))

    @classmethod
    def everything(cls, graph: Graph) -> Capability:
        """The capability of a planned device, which cannot be queried."""
        return cls(np.ones(len(graph), bool), ("",) * len(graph), assumed=True)

    def without(self, refusals: Sequence[str]) -> Capability:
        """This capability without the ops that have a refusal; reasons of its own come first."""
        reasons = tuple(own or refusal for own, refusal in zip(self.reasons, refusals, strict=True))
        return Capability(
            self.mask & np.array([not r for r in refusals], bool), reasons, self.assumed
        )


@dataclass(frozen=True)
class Signature:
    """What an executable keeps of its sub-model: names, and no weights."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    label: str
    """For messages: "subgraph 3" or "the unsplit model"."""


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

    @property
    def signature(self) -> Signature:
        """Inputs, outputs and label."""
        return Signature(self.inputs, self.outputs, self.label)

    def without_weights(self) -> SubModel:
        """This sub-model without its initializers, for use after it was compiled.

        A copy: removing them from ``model`` would not give back their memory.
        """
        old, graph = self.model.graph, GraphProto(name=self.model.graph.name)
        graph.node.extend(old.node)
        graph.input.extend(old.input)
        graph.output.extend(old.output)
        model = ModelProto(ir_version=self.model.ir_version, graph=graph)
        model.opset_import.extend(self.model.opset_import)
        return replace(self, model=model)


@dataclass(frozen=True)
class CompileOptions:
    """Settings that are the same for every runtime."""

    threads: int = 0
    """Threads per subgraph; 0 leaves the choice to the runtime."""
    keep: bool = False
    """Whether the runtime may keep the compiled model on disk for the next time."""
    requests: int = 1
    """Runs in flight at the same time. With several, a thread that waits should leave its core to the others."""


@dataclass(frozen=True)
class MemoryOverhead:
    """What a runtime takes beside one copy of the weights and of the tensors of a run: medians over real models.

    `benchmarks/memory.py` measures and fits them.
    """

    weight_copies: float = 1.0
    """How often weights are in memory: as they came, and in the layout of the kernels"""
    tensor_copies: float = 1.0
    """Memory for tensors against the most that are needed at once; allocators keep more"""
    shares_tensors: bool = True
    """Whether subgraphs use the same memory for their tensors, one after the other; else each keeps its own"""
    bytes_per_op: int = 0
    bytes_per_subgraph: int = 0
    first_bytes: int = 0
    """When the device is first used"""
    host_bytes: int = 0
    """In host memory when the device is first used, where it computes in another memory"""


@dataclass(frozen=True)
class MemorySpace:
    """The memory of a device's values. Within one space, values need no conversion."""

    runtime: str
    kind: str = "cpu"
    index: int = 0
    """Index among the devices of this kind."""

    @property
    def is_host(self) -> bool:
        """Whether values are in CPU memory."""
        return self.kind == "cpu"


@dataclass(frozen=True)
class KernelTime:
    """One kernel of a profiled run."""

    type: str
    ops: tuple[int, ...]
    """Ops of the model that it computes; empty where unknown."""
    seconds: float


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

    Optional: a plan of such executables in one memory runs by one call per subgraph.
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

    def bind_inputs(self, inputs: Mapping[str, Value]) -> Callable[[], None] | None:
        """Binds these inputs for good; returns what launches a run, or None where output buffers may move."""
        ...

    def rebind_input(self, name: str, value: Value) -> bool:
        """Another value for one input of a launch; True when later writes into ``value`` are seen by later runs."""
        ...


@runtime_checkable
class AsynchronousExecutable(Protocol):
    """An executable whose ``run`` may return before its device has finished. Optional."""

    def wait(self) -> None:
        """Returns when everything that ``run`` launched is computed; for measurements."""
        ...


def run_to_end(executable: Executable, inputs: Sequence[Value]) -> list[Value]:
    """Runs, and returns when the device has finished; for measurements."""
    results = executable.run(inputs)
    if isinstance(executable, AsynchronousExecutable):
        executable.wait()
    return results


class Runtime(Protocol):
    """One way to execute ONNX models. ``defaults.RuntimeDefaults`` implements the optional methods."""

    name: str
    """Name in device tables (``backendName``)."""
    title: str
    """Display name."""
    api_version: int
    slowdown: float
    """Factor by which it is slower than the peak performance of its hardware, for estimates."""

    def devices(self) -> Sequence[AvailableDevice]:
        """Devices of this machine; raises ``ModuleNotFoundError`` when the runtime is not installed."""
        ...

    def resolve(self, name: str, provider: str) -> Target | None:
        """Resolves a device or backend name; None when the runtime does not know it."""
        ...

    def resolve_library(self, library: str, provider: str) -> Target | None:
        """The device of a local build that a table names; None when the runtime loads no libraries."""
        ...

    def properties(self, provider: str) -> Sequence[Property]:
        """The properties that it takes from device tables, which may come from strangers, for a provider; "": for any.

        None of them may name a file or a folder, or load code.
        """
        ...

    def unusable(self) -> Sequence[UnusableRuntime]:
        """Parts of it that are installed but cannot be used, with the reason."""
        ...

    def capability(self, graph: Graph, device: Device) -> Capability:
        """Which ops of a graph the device can run, and why not the others."""
        ...

    def refusal(self, model: ModelProto, device: Device) -> str:
        """Why the device cannot run every node of a small model, or "". It may be wrong about that, crash and hang: it is
        called in a process of its own, and what it accepts is tried."""
        ...

    def refusals(self, model: ModelProto, device: Device) -> Mapping[str, str] | str | None:
        """As ``refusal``, for each node that the device cannot run, by its name. Where it is not known which these are, what
        ``refusal`` would say, or None: it is then asked."""
        ...

    def is_tried(self, device: Device) -> bool:
        """Whether claims of the device are to be tried; not where it is the measure of others, or compiling takes seconds."""
        ...

    def depends_on_neighbours(self, device: Device) -> bool:
        """Whether the device takes an op or leaves it by the ops around it, as compilers of quantised subgraphs do.

        ``refusals`` is then asked about whole models, and their ops are not tried one by one."""
        ...

    def compile(self, submodel: SubModel, device: Device, options: CompileOptions) -> Executable:
        """Compiles; raises ``ExecutionError`` with the runtime's message."""
        ...

    def memory_space(self, device: Device) -> MemorySpace:
        """The memory space of the device's values."""
        ...

    def memory_overhead(self, device: Device) -> MemoryOverhead:
        """What it takes beside weights and tensors, for estimates."""
        ...

    def memory_in_use(self, device: Device) -> int | None:
        """Bytes in use in the memory of a device, by all processes; None in host memory, and where it is not known."""
        ...

    def convert(self, value: Value, space: MemorySpace) -> Value:
        """Converts a value of any runtime to a memory space of this one.

        Raises:
            TypeError, ValueError, RuntimeError: the runtime does not support such values.
        """
        ...

    def profile(
        self,
        graph: Graph,
        submodel: SubModel,
        device: Device,
        inputs: Sequence[Value],
        seconds: float,
        threads: int,
    ) -> list[KernelTime]:
        """Median time of each kernel over the quietest runs; empty where the runtime has no profiler."""
        ...

    def precision(self, device: Device) -> str:
        """Precision of float32 computations where it is lower: ``bf16``, ``f16``, ``tf32``; else ""."""
        ...

    def precision_note(self, device: Device) -> str:
        """That the runtime is told to keep float32, what it would compute in by itself, and how to choose that; else ""."""
        ...


def summarize_error(
    error: BaseException, noise: Sequence[re.Pattern[str]] = (), limit: int = 240
) -> str:
    """First useful line of a runtime's error, shortened for display.

    Args:
        error: the exception of the runtime.
        noise: patterns of uninformative text to remove.
        limit: most characters.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    for pattern in noise:
        text = pattern.sub("", text)
    return text if len(text) <= limit else text[:limit] + "…"
