"""The protocol of runtimes, which packages implement: query capabilities, compile a sub-model, run it, profile it.

A runtime is one object of the protocol ``Runtime``. Everything that is special about it is in its module;
the rest of the program calls these methods and compares no names. ``docs/adapters.md`` explains how to add one.
They are protocols, and not base classes, so that a package needs nothing of the editor where it is imported;
``LoadedModelRuntime`` and ``RuntimeDefaults`` are classes for those that want less work: they answer as the bodies here do.
Within an ``API_VERSION``, methods are only added with such a body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from onnx import ModelProto

from editor.devices.device import Device, Property
from editor.devices.discovery import AvailableDevice, Target, UnusableRuntime
from editor.graph.graph import Graph
from editor.runtimes.base import (
    Capability,
    CompileOptions,
    KernelTime,
    MemoryOverhead,
    MemorySpace,
    SubModel,
    Value,
)
from editor.runtimes.values import to_numpy

API_VERSION = 1
"""Version of this protocol. Each runtime states the version that it implements."""


class Executable(Protocol):
    """A compiled sub-model. One instance serves one thread at a time; ``clone`` shares the weights."""

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """Values in the order of the sub-model's inputs and outputs. Outputs live until the next run."""
        ...

    def clone(self) -> Executable:
        """Another instance for another thread."""
        ...


@runtime_checkable
class BoundExecutable(Executable, Protocol):
    """An executable whose inputs and outputs can be bound to fixed memory, so that a run is a single call.

    Optional: a plan of such executables in one memory runs by one call per subgraph.
    """

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


@runtime_checkable
class UnsharedExecutable(Protocol):
    """An executable whose outputs may outlive the next run. Optional."""

    def returns_new_memory(self) -> bool:
        """Whether no run writes to what another one returned."""
        ...


@runtime_checkable
class StatefulExecutable(Protocol):
    """An executable that may keep a state inside, as ``CompileOptions.keeps_state`` asks. Optional."""

    def keeps_state(self) -> bool:
        """Whether a run leaves a state to the next one."""
        ...

    def reset(self) -> None:
        """The next run begins with the initial state."""
        ...


@runtime_checkable
class GrowingExecutable(Executable, Protocol):
    """An executable that may add to a state in the memory that it reads it from, so that no step copies it. Optional."""

    def growing(self) -> Mapping[str, str]:
        """Input -> output of such states."""
        ...

    def sequence(self, states: Mapping[str, Value]) -> Callable[[Sequence[Value]], list[Value]]:
        """What runs each step of one sequence: as ``Executable.run``, without inputs and outputs of these states.

        Args:
            states: input -> value with room for all tokens of the sequence, which the runs write to.
        """
        ...


class Runtime(Protocol):
    """One way to execute ONNX models.

    A class that inherits from ``RuntimeDefaults`` writes ``devices``, ``resolve`` and ``compile``; the other methods have a
    plain answer here.
    """

    name: str
    """Name in device tables (``backendName``)."""
    title: str
    """Display name."""
    api_version: int
    slowdown: float
    """Factor by which it is slower than the peak performance of its hardware, for estimates."""

    def devices(self) -> Sequence[AvailableDevice]:
        """Devices of this machine; raises ``ModuleNotFoundError`` when the runtime is not installed."""
        raise NotImplementedError

    def resolve(self, name: str, provider: str) -> Target | None:
        """Resolves a device or backend name; None when the runtime does not know it."""
        raise NotImplementedError

    def resolve_library(self, library: str, provider: str) -> Target | None:
        """The device of a local build that a table names; None when the runtime loads no libraries."""
        return None

    def properties(self, provider: str) -> Sequence[Property]:
        """The properties that it takes from device tables, which may come from strangers, for a provider; "": for any.

        None of them may name a file or a folder, or load code.
        """
        return ()

    def unusable(self) -> Sequence[UnusableRuntime]:
        """Parts of it that are installed but cannot be used, with the reason."""
        return ()

    def capability(self, graph: Graph, device: Device) -> Capability:
        """Which ops of a graph the device can run, and why not the others."""
        raise NotImplementedError

    def refusal(self, model: ModelProto, device: Device) -> str:
        """Why the device cannot run every node of a small model, or "". It may be wrong about that, crash and hang: it is
        called in a process of its own, and what it accepts is tried."""
        return ""

    def refusals(self, model: ModelProto, device: Device) -> Mapping[str, str] | str | None:
        """As ``refusal``, for each node that the device cannot run, by its name. Where it is not known which these are, what
        ``refusal`` would say, or None: it is then asked about fewer at a time."""
        return self.refusal(model, device) or {}

    def is_tried(self, device: Device) -> bool:
        """Whether claims of the device are to be tried; not where it is the measure of others, or compiling takes seconds."""
        return True

    def depends_on_neighbours(self, device: Device) -> bool:
        """Whether the device takes an op or leaves it by the ops around it, as compilers of quantised subgraphs do.

        ``refusals`` is then asked about whole models, and their ops are not tried one by one."""
        return False

    def compile(self, submodel: SubModel, device: Device, options: CompileOptions) -> Executable:
        """Compiles; raises ``ExecutionError`` with the runtime's message."""
        raise NotImplementedError

    def memory_space(self, device: Device) -> MemorySpace:
        """The memory space of the device's values."""
        return MemorySpace(self.name)

    def memory_overhead(self, device: Device) -> MemoryOverhead:
        """What it takes beside weights and tensors, for estimates."""
        return MemoryOverhead()

    def memory_in_use(self, device: Device) -> int | None:
        """Bytes in use in the memory of a device, by all processes; None in host memory, and where it is not known."""
        return None

    def convert(self, value: Value, space: MemorySpace) -> Value:
        """Converts a value of any runtime to a memory space of this one.

        Raises:
            TypeError, ValueError, RuntimeError: the runtime does not support such values.
        """
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
        """Median time of each kernel over the quietest runs; empty where the runtime has no profiler.

        A state that has room for what a run adds (``GrowingExecutable``) grows where it lies.
        """
        return []

    def precision(self, device: Device) -> str:
        """Precision of float32 computations where it is lower: ``bf16``, ``f16``, ``tf32``; else ""."""
        return ""

    def precision_note(self, device: Device) -> str:
        """That the runtime is told to keep float32, what it would compute in by itself, and how to choose that; else ""."""
        return ""
