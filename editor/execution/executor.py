"""Running a plan: sub-models in order, boundary tensors handed over where they lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

import numpy as np

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.execution.cut import Cutter, cut, missing_types
from editor.execution.inputs import check_inputs
from editor.graph.graph import Graph
from editor.partition.partition import Partition
from editor.runtimes.base import CompileOptions, Executable, SubModel, Value
from editor.runtimes.registry import runtime_of, stand_in
from editor.runtimes.values import is_openvino, is_ort, nbytes, to_numpy, to_openvino, to_ort

Progress = Callable[[int, int, str], None]
"""Called with (done, total, what) while a plan compiles."""


@dataclass(frozen=True)
class TransferTime:
    """One boundary tensor handed to another runtime or device."""

    tensor: str
    source: int
    target: int
    seconds: float
    bytes: int


@dataclass(frozen=True)
class RunTimes:
    """Where the time of one run went, in seconds."""

    total: float
    subgraphs: tuple[float, ...]
    """by subgraph id"""
    cpu: tuple[float, ...]
    """CPU seconds of the process, by subgraph id"""
    transfers: tuple[TransferTime, ...]


@dataclass(frozen=True, eq=False)
class Step:
    """One compiled subgraph and where it runs."""

    id: int
    part: SubModel
    device: Device
    """The device of the plan."""
    runs_on: Device
    """The same, or the stand-in of a planned device."""
    executable: Executable


class CompiledPlan:
    """All sub-models of a partition, compiled. One instance serves one thread; see ``clone``."""

    def __init__(self, graph: Graph, steps: list[Step], constants: Mapping[str, Value], subgraph_count: int) -> None:
        self.graph, self.steps, self.subgraph_count = graph, steps, subgraph_count
        self._constants = constants
        self._last_use: dict[str, int] = {}
        for i, step in enumerate(steps):
            for name in step.part.inputs:
                self._last_use[name] = i
        self._outputs = [graph.tensor_names[t] for t in graph.outputs.tolist()]
        for name in self._outputs:
            self._last_use[name] = len(steps)

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Any]:
        """Runs the plan once.

        Args:
            inputs: a value for every graph input, by name.

        Returns:
            The graph outputs by name, as numpy arrays (lists for sequences).

        Raises:
            ExecutionError: an input does not fit, or a runtime failed; the message names the subgraph.
        """
        values = {name: np.asarray(v) if isinstance(v, np.generic) else v for name, v in inputs.items()}
        check_inputs(self.graph, values)
        return self._results(self._execute(values)[0])

    def run_timed(self, inputs: Mapping[str, Value]) -> tuple[dict[str, Any], RunTimes]:
        """The same, with the time of every subgraph and transfer."""
        values, times = self._execute(inputs)
        return self._results(values), times

    def clone(self) -> CompiledPlan:
        """Another instance for another thread; compiled code and weights are shared."""
        steps = [Step(s.id, s.part, s.device, s.runs_on, s.executable.clone()) for s in self.steps]
        return CompiledPlan(self.graph, steps, self._constants, self.subgraph_count)

    def keep(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """Every boundary tensor of one run, for finding where a difference starts."""
        values, _ = self._execute(inputs, keep=True)
        return {name: _owned(value) for name, value in values.items()}

    def _execute(self, inputs: Mapping[str, Value], keep: bool = False) -> tuple[dict[str, Value], RunTimes]:
        values: dict[str, Value] = {**self._constants, **inputs}
        home: dict[str, Step] = {}
        spent, cpu = [0.0] * self.subgraph_count, [0.0] * self.subgraph_count
        transfers: list[TransferTime] = []
        begin = perf_counter()
        for i, step in enumerate(self.steps):
            arguments = []
            for name in step.part.inputs:
                source = home.get(name)
                if source is not None and source.runs_on is not step.runs_on and source.device.name != step.device.name:
                    start = perf_counter()
                    moved = _convert(values[name], step.runs_on.runtime)
                    transfers.append(TransferTime(name, source.id, step.id, perf_counter() - start, nbytes(moved)))
                    arguments.append(moved)
                else:
                    arguments.append(values[name])
            start, start_cpu = perf_counter(), process_time()
            results = step.executable.run(arguments)
            spent[step.id], cpu[step.id] = perf_counter() - start, process_time() - start_cpu
            for name, value in zip(step.part.outputs, results, strict=True):
                values[name] = value
                home[name] = step
            if not keep:
                for name in step.part.inputs:  # free what no later step reads
                    if self._last_use[name] == i:
                        del values[name]
        return values, RunTimes(perf_counter() - begin, tuple(spent), tuple(cpu), tuple(transfers))

    def _results(self, values: Mapping[str, Value]) -> dict[str, Any]:
        return {name: _owned(values[name]) for name in self._outputs}


def compile_partition(partition: Partition, threads: int = 0, progress: Progress | None = None) -> CompiledPlan:
    """Cuts and compiles every subgraph.

    Raises:
        ExecutionError: a runtime refuses a sub-model; the message names subgraph, device and cause.
    """
    cutter = Cutter.open(partition.graph)
    unknown = missing_types(partition)
    if unknown:
        cutter.find_types(unknown)
    parts = cut(partition, cutter)
    by_name = {d.name: d for d in partition.devices}
    steps: list[Step] = []
    for subgraph, part in zip(partition.subgraphs, parts, strict=True):
        if part is None:
            continue
        device = by_name[subgraph.device]
        if progress:
            progress(subgraph.id, len(parts), f"compiling subgraph {subgraph.id} on {device.name}")
        real = stand_in() if device.planned else device
        executable = runtime_of(real.runtime).compile(part, real, CompileOptions(threads))
        steps.append(Step(subgraph.id, part, device, real, executable))
    return CompiledPlan(partition.graph, steps, _constant_outputs(partition.graph, cutter), len(parts))


def compile_whole(graph: Graph, device: Device, threads: int = 0) -> CompiledPlan:
    """The unsplit model on one device, as a plan of one step.

    Raises:
        ExecutionError: the device cannot run the whole model.
    """
    cutter = Cutter.open(graph)
    part = cutter.whole()
    if not part.outputs:
        return CompiledPlan(graph, [], _constant_outputs(graph, cutter), 0)
    executable = runtime_of(device.runtime).compile(part, device, CompileOptions(threads))
    return CompiledPlan(graph, [Step(0, part, device, device, executable)], _constant_outputs(graph, cutter), 1)


def _constant_outputs(graph: Graph, cutter: Cutter) -> dict[str, Value]:
    """Initializers that are graph outputs as they are."""
    from onnx import TensorProto, numpy_helper

    found: dict[str, Value] = {}
    for tensor in graph.outputs.tolist():
        proto = cutter.initializers.get(graph.tensor_names[tensor])
        if isinstance(proto, TensorProto):
            found[graph.tensor_names[tensor]] = numpy_helper.to_array(proto, str(graph.path.resolve().parent))
    return found


def _convert(value: Value, runtime: str) -> Value:
    """A value in the form that a runtime takes."""
    try:
        if runtime == "openvino":
            return to_openvino(value)
        if runtime == "onnxruntime" and is_openvino(value):
            return to_ort(value)
        return to_numpy(value) if runtime == "interpreter" else value
    except (TypeError, AttributeError, RuntimeError, ValueError) as error:
        raise ExecutionError(f"a value of type {type(value).__name__} cannot be handed to {runtime}: {error}") from error


def _owned(value: Value) -> Any:
    """A numpy result that stays valid after the next run."""
    result = to_numpy(value)
    return np.array(result) if is_openvino(value) or (is_ort(value) and isinstance(result, np.ndarray)) else result
