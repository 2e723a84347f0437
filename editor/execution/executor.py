"""Running a plan: sub-models in order, boundary tensors handed over where they lie."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter, process_time
from typing import Any

import numpy as np

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.execution.compile.cut import Cutter, cut, missing_types
from editor.execution.compile.step import Step
from editor.execution.inputs import check_inputs, expected_arrays, overridden_initializers
from editor.execution.ort_optimized.buffers import FixedRun, allocate_after_run, allocate_before_run
from editor.execution.ort_optimized.optimized_cut import optimized_parts
from editor.graph.graph import Graph
from editor.placement.placement import Placement
from editor.placement.subgraphs.division import Subgraph
from editor.runtimes.base import BoundExecutable, CompileOptions, MemorySpace, OutputShapeMismatch, SubModel, Value
from editor.runtimes.registry import runtime_of, stand_in
from editor.runtimes.values import nbytes, to_numpy

log = logging.getLogger(__name__)

Progress = Callable[[int, int, str], None]
"""Called with (done, total, what) while a plan compiles."""
Overridden = frozenset[str]
"""Names of initializers whose value comes with each run."""
Compile = Callable[[Overridden], "CompiledPlan"]


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


@dataclass(frozen=True)
class _Arrival:
    """An input of a step that another device made."""

    position: int
    source: int
    """id of the subgraph"""
    converts: bool
    """It has to change its form or its memory."""


class CompiledPlan:
    """All sub-models of a partition, compiled. One instance serves one thread; see ``clone``."""

    def __init__(self, graph: Graph, steps: list[Step], constants: Mapping[str, Value], subgraph_count: int,
                 recompile: Compile, overridden: Overridden = frozenset()) -> None:
        self.graph, self.steps, self.subgraph_count = graph, steps, subgraph_count
        self.overridden = overridden
        """Initializers that are inputs of this instance; in others they keep their default."""
        self._recompile, self._variant = recompile, self
        self._constants = constants
        self._outputs = [graph.tensor_names[t] for t in graph.outputs.tolist()]
        self._arrivals, self._dead = _data_flow(steps, set(self._outputs))
        self._sizes: dict[str, tuple[Value, int]] = {}
        self._packed = False
        self._expected = expected_arrays(graph, overridden)
        self._fixed: FixedRun | None = None

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Any]:
        """Runs the plan once.

        Args:
            inputs: a value for every graph input, by name; also for initializers that the model declares as
                inputs. The parts are compiled again when other initializers are given than in the last run.

        Returns:
            The graph outputs by name, as numpy arrays (lists for sequences).

        Raises:
            ExecutionError: an input does not fit, or a runtime failed; the message names the subgraph.
        """
        if not self._packed or not self._fits(inputs):
            inputs = {name: np.asarray(v) if isinstance(v, np.generic) else v for name, v in inputs.items()}
            check_inputs(self.graph, inputs)
            able = self._for(inputs)
            return able.run(inputs) if able is not self else self._results(self._execute(inputs)[0])
        if self._fixed is not None:
            try:
                return self._fixed.run(inputs)
            except Exception:  # noqa: BLE001  # a shape that depends on the data, or a kernel that failed: the slower way reports it
                self._fixed = None
        return self._results(self._execute(inputs)[0])

    def _fits(self, inputs: Mapping[str, Value]) -> bool:
        """A quick yes; no means that a closer look is needed."""
        if len(inputs) != len(self._expected):
            return False
        for name, (dtype, shape) in self._expected.items():
            value = inputs.get(name)
            if type(value) is not np.ndarray or value.dtype != dtype or value.shape != shape:
                return False
        return True

    def run_timed(self, inputs: Mapping[str, Value]) -> tuple[dict[str, Any], RunTimes]:
        """The same, with the time of every subgraph and transfer."""
        able = self._for(inputs)
        values, times = able._execute(inputs, timed=True)
        return able._results(values), times

    def _for(self, inputs: Mapping[str, Value]) -> CompiledPlan:
        """The plan compiled for these initializers as inputs."""
        overridden = overridden_initializers(self.graph, inputs)
        if overridden == self.overridden:
            return self
        if overridden != self._variant.overridden:
            self._variant = self._recompile(overridden)
        return self._variant

    def clone(self) -> CompiledPlan:
        """Another instance for another thread; compiled code and weights are shared."""
        steps = [Step(s.id, s.part, s.device, s.runs_on, s.executable.clone()) for s in self.steps]
        return CompiledPlan(self.graph, steps, self._constants, self.subgraph_count, self._recompile, self.overridden)

    def keep(self, inputs: Mapping[str, Value], names: Collection[str]) -> dict[str, Any]:
        """These boundary tensors and outputs of one run as numpy arrays, for finding where a difference starts."""
        values, _ = self._for(inputs)._execute(inputs, names)
        return {name: values[name] for name in names if name in values}

    def _execute(self, inputs: Mapping[str, Value], keep: Collection[str] = (),
                 timed: bool = False) -> tuple[dict[str, Value], RunTimes]:
        """From the start again, without shared memory, where a shape depends on the data after all."""
        try:
            return self._execute_once(inputs, keep, timed)
        except OutputShapeMismatch as mismatch:
            log.info("boundary tensors get memory of their own: %s", mismatch)
            for step in self.steps:
                if isinstance(step.executable, BoundExecutable):
                    step.executable.bind_output_buffers({})
            self._packed, self._fixed = True, None
            return self._execute_once(inputs, keep, timed)

    def _execute_once(self, inputs: Mapping[str, Value], keep: Collection[str],
                      timed: bool) -> tuple[dict[str, Value], RunTimes]:
        values: dict[str, Value] = {**self._constants, **inputs}
        spent, cpu = [0.0] * self.subgraph_count, [0.0] * self.subgraph_count
        transfers: list[TransferTime] = []
        kept: dict[str, Any] = {}
        allocated = not self._packed and allocate_before_run(self.steps, self._outputs)
        begin = perf_counter()
        for step, arrivals, dead in zip(self.steps, self._arrivals, self._dead, strict=True):
            arguments = [values[name] for name in step.part.inputs]
            for arrival in arrivals:
                i, start = arrival.position, perf_counter()
                if arrival.converts:
                    arguments[i] = convert(arguments[i], step.runs_on)
                if timed:
                    seconds = perf_counter() - start if arrival.converts else 0.0
                    name = step.part.inputs[i]
                    transfers.append(TransferTime(name, arrival.source, step.id, seconds, self._size(name, arguments[i])))
            if timed:
                start, start_cpu = perf_counter(), process_time()
                results = step.executable.run(arguments)
                spent[step.id], cpu[step.id] = perf_counter() - start, process_time() - start_cpu
            else:
                results = step.executable.run(arguments)
            values.update(zip(step.part.outputs, results, strict=True))
            if keep:  # a copy at once: this memory is soon another tensor's
                lasting = set(keep).intersection(step.part.outputs) - step.part.internal
                kept |= {name: _owned(values[name]) for name in lasting}
            for name in dead:
                del values[name]
        times = RunTimes(perf_counter() - begin, tuple(spent), tuple(cpu), tuple(transfers))
        if not self._packed:
            self._packed = True
            if not allocated:
                allocate_after_run(self.steps, self._outputs)
            self._fixed = FixedRun.of(self.steps, self._outputs)
        return {**values, **kept}, times

    def _size(self, name: str, value: Value) -> int:
        """Bytes of a boundary tensor; asked once where its buffer stays."""
        known = self._sizes.get(name)
        if known is None or known[0] is not value:
            known = self._sizes[name] = (value, nbytes(value))
        return known[1]

    def _results(self, values: Mapping[str, Value]) -> dict[str, Any]:
        return {name: _owned(values[name]) for name in self._outputs}


def _data_flow(steps: Sequence[Step], outputs: Collection[str]) -> tuple[list[list[_Arrival]], list[list[str]]]:
    """Per step: inputs that come from another device, and tensors that nothing reads after it."""
    maker: dict[str, Step] = {}
    last_reader: dict[str, int] = {}
    arrivals = []
    for i, step in enumerate(steps):
        from_elsewhere = []
        for position, name in enumerate(step.part.inputs):
            last_reader[name] = i
            source = maker.get(name)
            if source is not None and source.device.name != step.device.name:
                from_elsewhere.append(_Arrival(position, source.id, memory_space(source.runs_on) != memory_space(step.runs_on)))
        arrivals.append(from_elsewhere)
        maker.update(dict.fromkeys(step.part.outputs, step))
    dead: list[list[str]] = [[] for _ in steps]
    for name, i in last_reader.items():
        if name not in outputs:
            dead[i].append(name)
    return arrivals, dead


def memory_space(device: Device) -> MemorySpace:
    """Where the values of a device live; between devices of one space they pass as they are."""
    return runtime_of(device.runtime).memory_space(device)


def compile_placement(placement: Placement, threads: int = 0, progress: Progress | None = None,
                      as_cut: bool = False, overridden: Overridden = frozenset()) -> CompiledPlan:
    """Cuts and compiles every subgraph.

    Args:
        placement: what to compile.
        threads: per subgraph; 0 leaves the choice to the runtime.
        progress: told what is being compiled.
        as_cut: cut the model's own graph even where ONNX Runtime's optimized one could be cut, so that the
            boundary tensors are those of the placement.
        overridden: initializers that are inputs of the parts that read them. Without them such a plan does not run.

    Raises:
        ExecutionError: a runtime refuses a sub-model; the message names subgraph, device and cause.
    """
    cutter = Cutter.open(placement.graph, overridden)
    by_name = {d.name: d for d in placement.devices}
    real = {d.name: stand_in() if d.planned else d for d in placement.devices}

    def step_of(subgraph: Subgraph, part: SubModel) -> Step:
        device, runs_on = by_name[subgraph.device], real[subgraph.device]
        runtime = runtime_of(runs_on.runtime)
        try:
            return Step(subgraph.id, part, device, runs_on, runtime.compile(part, runs_on, CompileOptions(threads)))
        except ExecutionError:  # runtimes check constants more strictly than values that come in a run
            plain = cutter.part(placement, subgraph)
            if part.optimized or plain.inputs == part.inputs:
                raise
            return Step(subgraph.id, plain, device, runs_on, runtime.compile(plain, runs_on, CompileOptions(threads)))

    def steps_of(parts: Sequence[SubModel | None]) -> list[Step]:
        found = []
        for subgraph, part in zip(placement.subgraphs, parts, strict=True):
            if part is None:
                continue
            if progress:
                progress(subgraph.id, len(parts), f"compiling subgraph {subgraph.id} on {subgraph.device}")
            found.append(step_of(subgraph, part))
        return found

    steps = None
    if not as_cut and len(placement.subgraphs) == 1:
        whole = replace(cutter.whole(), label="subgraph 0")  # uncut: what the runtime sees is then the model as it is
        steps = steps_of([whole]) if whole.outputs else None
    elif not as_cut:
        optimized = optimized_parts(placement, cutter)
        try:
            steps = steps_of(optimized) if optimized else None
        except ExecutionError as error:
            log.info("the optimized graph cannot be cut here: %s", error)
    if steps is None:
        unknown = missing_types(placement)
        if unknown:
            cutter.find_types(unknown)
        steps = steps_of(cut(placement, cutter, fold_shapes=True))
    return CompiledPlan(placement.graph, steps, _constant_outputs(placement.graph, cutter), len(placement.subgraphs),
                        lambda names: compile_placement(placement, threads, None, as_cut, names), overridden)


def compile_whole(graph: Graph, device: Device, threads: int = 0, extra_outputs: Sequence[str] = (),
                  overridden: Overridden = frozenset()) -> CompiledPlan:
    """The unsplit model on one device, as a plan of one step.

    Args:
        graph: the model.
        device: a real device.
        threads: 0 leaves the choice to the runtime.
        extra_outputs: internal tensors to return as well; the runtime then cannot fuse them away.
        overridden: initializers that are inputs.

    Raises:
        ExecutionError: the device cannot run the whole model.
    """
    cutter = Cutter.open(graph, overridden)
    part = cutter.whole(extra_outputs)
    steps = []
    if part.outputs:
        executable = runtime_of(device.runtime).compile(part, device, CompileOptions(threads))
        steps = [Step(0, part, device, device, executable)]
    return CompiledPlan(graph, steps, _constant_outputs(graph, cutter), len(steps),
                        lambda names: compile_whole(graph, device, threads, extra_outputs, names), overridden)


def _constant_outputs(graph: Graph, cutter: Cutter) -> dict[str, Value]:
    """Initializers that are graph outputs as they are."""
    from onnx import TensorProto, numpy_helper

    found: dict[str, Value] = {}
    for tensor in graph.outputs.tolist():
        proto = cutter.initializers.get(graph.tensor_names[tensor])
        if isinstance(proto, TensorProto):
            found[graph.tensor_names[tensor]] = numpy_helper.to_array(proto, str(graph.folder))
    return found


def convert(value: Value, target: Device) -> Value:
    """A value in the form and the memory that a device takes.

    Raises:
        ExecutionError: the device's runtime has no such values.
    """
    try:
        runtime = runtime_of(target.runtime)
        return runtime.convert(value, runtime.memory_space(target))
    except (TypeError, AttributeError, RuntimeError, ValueError) as error:
        raise ExecutionError(f"a value of type {type(value).__name__} cannot be handed to {target.name}: {error}") from error


def _owned(value: Value) -> Any:
    """A numpy result that stays valid after the next run: what the interpreter returns may be a view as well."""
    result = to_numpy(value)
    if isinstance(result, list):
        return [_owned(item) for item in result]
    return np.array(result) if isinstance(result, np.ndarray) else result
