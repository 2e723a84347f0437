"""What every runtime offers: say what it can run, compile a sub-model, run it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from onnx import ModelProto

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.graph.graph import Bools, Graph

Value = Any
"""A tensor where it lies: numpy array, ``OrtValue``, ``openvino.Tensor``; a list for a sequence."""


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
    """A self-contained part of a model, ready to compile."""

    model: ModelProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    folder: Path
    """External data of ``model`` is relative to this folder."""
    label: str
    """For messages: "subgraph 3" or "the unsplit model"."""
    optimised: bool = False
    """ONNX Runtime has optimised this graph already; it must take it as it is."""
    in_place: tuple[tuple[str, str], ...] = ()
    """(operand, result) of kernels that save a copy where both lie in the same memory; nobody reads the operand later."""
    inner: frozenset[str] = frozenset()
    """Outputs that nobody outside reads: they are put out to lie where we choose."""
    hidden: int | None = None
    """Tensors for which the runtime itself finds memory, where that is known."""
    model_names: Mapping[str, str] = field(default_factory=dict)
    """What the model calls tensors that an optimised graph keeps by other names."""
    also: tuple[int, ...] = ()
    """Ops of other subgraphs that it computes, fused with its own."""


@dataclass(frozen=True)
class CompileOptions:
    """Settings that are the same for every runtime."""

    threads: int = 0
    """Threads per subgraph; 0 leaves the choice to the runtime."""
    properties: dict[str, str] = field(default_factory=dict)


class OtherShapes(ExecutionError):
    """Outputs do not fit the memory that was chosen for them; other tensors in that memory may be overwritten already."""


class Executable(Protocol):
    """A compiled sub-model. One instance serves one thread at a time; ``clone`` shares the weights."""

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """Values in the order of the sub-model's inputs and outputs. Outputs live until the next run."""
        ...

    def clone(self) -> Executable:
        """Another instance for another thread."""
        ...

    def move_outputs(self, buffers: Mapping[str, Value]) -> None:
        """Asks to write outputs into given memory from the next run on; a runtime with its own memory need not.

        Without buffers the runtime chooses again. A run whose outputs turn out not to fit raises ``OtherShapes``.
        """
        ...


class Runtime(Protocol):
    """One way to execute ONNX."""

    name: str

    def capability(self, graph: Graph, device: Device) -> Capability:
        """Asks the runtime which ops of a graph the device can run."""
        ...

    def compile(self, part: SubModel, device: Device, options: CompileOptions) -> Executable:
        """Compiles; raises ``ExecutionError`` with the runtime's message."""
        ...


_NOISE = (
    re.compile(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : "),
    re.compile(r"^Fatal error: "),
    re.compile(r"/onnxruntime_src/\S+ .*?\) "),  # the C++ function that complained
    re.compile(r" with name 'op\d+'"),  # names of the probe's own nodes
    re.compile(r"Node \(op\d+\) "),
)


def first_line(error: BaseException, limit: int = 240) -> str:
    """A runtime's message without its inner life, short enough to show."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    if text.startswith(("Check '", "Exception from")) and len(lines) > 1:
        text = lines[-1]  # OpenVINO puts the place first and the cause last
    for noise in _NOISE:
        text = noise.sub("", text)
    return text if len(text) <= limit else text[:limit] + "…"
