"""What runtimes take and return: sub-models, capabilities, memory spaces and times; `editor.runtimes.protocols` says when."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto

from editor.graph.graph import Bools, Graph

NOT_ASKED = "not asked: "
"""How a reason begins where a runtime could not be asked."""
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
    remarks: tuple[str, ...] = ()
    """[op] what the device makes of NaN and infinities in it that others do not, or ""; empty where nothing is known"""

    @classmethod
    def of_reasons(cls, reasons: Sequence[str], remarks: Sequence[str] = ()) -> Capability:
        """The capability given by reasons; ops with a reason cannot run."""
        return cls(np.array([not r for r in reasons], bool), tuple(reasons), remarks=tuple(remarks))

    @classmethod
    def everything(cls, graph: Graph) -> Capability:
        """The capability of a planned device, which cannot be queried."""
        return cls(np.ones(len(graph), bool), ("",) * len(graph), assumed=True)

    def without(self, refusals: Sequence[str]) -> Capability:
        """This capability without the ops that have a refusal; reasons of its own come first."""
        reasons = tuple(own or refusal for own, refusal in zip(self.reasons, refusals, strict=True))
        mask = self.mask & np.array([not r for r in refusals], bool)
        return replace(self, mask=mask, reasons=reasons)


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
    open_sizes: bool = False
    """Whether sizes differ from run to run, so that outputs get new memory in each"""
    requests: int = 1
    """Runs in flight at the same time. With several, a thread that waits should leave its core to the others."""
    alone: bool = False
    """Whether runs follow each other with no other subgraph between them, so that threads may wait for the next one"""
    keeps_state: bool = False
    """Whether a state inside the model stays from run to run, until ``StatefulExecutable.reset``"""


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
