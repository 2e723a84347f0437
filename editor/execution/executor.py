"""Runs a plan: its sub-models in order, with boundary tensors passed between them without unneeded copies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from threading import Lock, Semaphore
from time import perf_counter, process_time
from typing import Any

import numpy as np

from editor.arguments import as_text, shown
from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.execution.compile.cut import Cutter, cut, missing_types
from editor.execution.compile.step import Step
from editor.execution.fixed_run import FixedRun
from editor.execution.inputs import check_inputs, expected_arrays, overridden_initializers
from editor.graph.external_data import weights_problem
from editor.graph.graph import Graph
from editor.placement.placement import Placement
from editor.placement.subgraphs.division import Subgraph
from editor.runtimes.base import (
    AsynchronousExecutable,
    CompileOptions,
    MemorySpace,
    SubModel,
    Value,
    run_to_end,
)
from editor.runtimes.registry import runtime_of, stand_in
from editor.runtimes.values import host_view, is_array, nbytes, to_numpy

log = logging.getLogger(__name__)

Progress = Callable[[int, int, str], None]
"""Called with (done, total, description) while a plan compiles."""
Overridden = frozenset[str]
"""Names of initializers that each run replaces."""
Compile = Callable[[Overridden], "CompiledPlan"]
RunLimits = Mapping[str, Semaphore]
"""Device -> what lets a limited number of runs compute on it at the same time; others have no limit."""
_MOST_RUNS = 4
"""That compute on a device with memory of its own at the same time. Eight requests over two H100: 203 a second with four at a
time on each, 150 to 175 without a limit; on one H100 four are as fast as eight."""


@dataclass(frozen=True)
class TransferTime:
    """Transfer of one boundary tensor to another device, in one run."""

    tensor: str
    source: int
    target: int
    seconds: float
    bytes: int
    copied: bool = False
    """Whether it went from one memory to another; otherwise the other device reads it where it is."""
    travelled_as: str = ""
    """The narrower type in which it went to another machine, because the device table allows it; "" for its own."""
    sent: int = 0
    """Bytes that went to another machine; 0 within one machine."""


@dataclass(frozen=True)
class RunTimes:
    """Times of one run, in seconds."""

    total: float
    subgraphs: tuple[float, ...]
    """[subgraph]"""
    cpu: tuple[float, ...]
    """[subgraph] CPU time of the process"""
    transfers: tuple[TransferTime, ...]


@dataclass(frozen=True)
class _Arrival:
    """An input of a step that another device produces."""

    position: int
    source: int
    """id of the producing subgraph"""
    converts: bool
    """Whether the value must change its memory space."""
    copies: bool
    """Whether it leaves a memory: in host memory runtimes look at the same bytes."""


class CompiledPlan:
    """The compiled sub-models of a plan.

    Runs from several threads take turns: buffers are used by one run at a time. Threads that compute at the same time need a
    ``clone`` each.
    """

    def __init__(self, graph: Graph, steps: list[Step], constants: Mapping[str, Value], subgraph_count: int,
                 recompile: Compile, overridden: Overridden = frozenset(), limits: RunLimits | None = None) -> None:
        self.graph, self.steps, self.subgraph_count = graph, steps, subgraph_count
        self.limits = limits or {}
        self.overridden = overridden
        """Initializers that are inputs of this instance; all others keep their default."""
        self._recompile, self._variant = recompile, self
        self._constants = constants
        self._outputs = [graph.tensor_names[t] for t in graph.outputs.tolist()]
        self._arrivals, self._dead = _data_flow(steps, set(self._outputs))
        self._sizes: dict[str, tuple[Value, int]] = {}
        self._has_run = False
        self._expected = expected_arrays(graph, overridden)
        self._fixed: FixedRun | None = None
        self._turn = Lock()
        """Held by the run that uses the buffers."""

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Any]:
        """Runs the plan once. Several threads may call this; their runs take turns.

        Args:
            inputs: a value for every graph input, by name, and optionally for initializers that the model
                declares as inputs. Sub-models are recompiled when the set of these initializers changes.

        Returns:
            The graph outputs by name, as numpy arrays of their own (lists for sequences): later runs do not change them.

        Raises:
            ExecutionError: an input has the wrong type or shape, or a runtime failed; the message names the subgraph.
        """
        with self._turn:
            if not self._has_run or not self._fits(inputs):
                inputs = self._checked(inputs)
                variant = self._variant_for(inputs)
                return variant.run(inputs) if variant is not self else self._results(self._execute(inputs)[0])
            if self._fixed is not None:
                try:
                    return self._fixed.run(inputs)
                except Exception:  # noqa: BLE001  # a data-dependent shape or a failed kernel: the slower path reports it
                    self._fixed = None
            return self._results(self._execute(inputs)[0])

    def _checked(self, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
        """The inputs, numpy scalars as arrays; raises ``ExecutionError`` where they do not fit the model."""
        check_inputs(self.graph, inputs)
        return {name: np.asarray(v) if isinstance(v, np.generic) else v for name, v in inputs.items()}

    def _fits(self, inputs: Mapping[str, Value]) -> bool:
        """Whether all inputs match exactly; False requires the full check."""
        if not isinstance(inputs, Mapping) or len(inputs) != len(self._expected):
            return False
        for name, (dtype, shape) in self._expected.items():
            value = inputs.get(name)
            if type(value) is not np.ndarray or value.dtype != dtype or value.shape != shape:
                return False
        return True

    def run_timed(self, inputs: Mapping[str, Value]) -> tuple[dict[str, Any], RunTimes]:
        """Like ``run``, with the time of every subgraph and transfer."""
        with self._turn:
            if not self._fits(inputs):
                inputs = self._checked(inputs)
            variant = self._variant_for(inputs)
            if variant is not self:
                return variant.run_timed(inputs)
            values, times = self._execute(inputs, timed=True)
            return self._results(values), times

    def _variant_for(self, inputs: Mapping[str, Value]) -> CompiledPlan:
        """The plan, compiled with these initializers as inputs."""
        overridden = overridden_initializers(self.graph, inputs)
        if overridden == self.overridden:
            return self
        variant = self._variant
        if overridden != variant.overridden:
            variant = self._variant = self._recompile(overridden)
        return variant

    def clone(self) -> CompiledPlan:
        """Another instance for another thread; compiled code and weights are shared."""
        with self._turn:
            steps = [Step(s.id, s.submodel, s.device, s.runs_on, s.executable.clone()) for s in self.steps]
        return CompiledPlan(self.graph, steps, self._constants, self.subgraph_count, self._recompile, self.overridden,
                            self.limits)

    def capture(self, inputs: Mapping[str, Value], names: Collection[str]) -> dict[str, Any]:
        """Runs the plan once; returns the named boundary tensors and outputs as numpy arrays."""
        if not isinstance(names, Collection):
            raise ExecutionError(f"names of tensors must be a list or set of text, not {shown(names)}")
        wanted = [as_text(name, "the name of a tensor", ExecutionError) for name in names]
        with self._turn:
            inputs = self._checked(inputs)
            variant = self._variant_for(inputs)
            if variant is not self:
                return variant.capture(inputs, wanted)
            values, _ = self._execute(inputs, wanted)
            return {name: values[name] for name in wanted if name in values}

    def _execute(self, inputs: Mapping[str, Value], keep: Collection[str] = (),
                 timed: bool = False) -> tuple[dict[str, Value], RunTimes]:
        """Runs the steps; ``keep`` are tensors to copy before a later step writes over them."""
        values: dict[str, Value] = {**self._constants, **inputs}
        spent, cpu = [0.0] * self.subgraph_count, [0.0] * self.subgraph_count
        transfers: list[TransferTime] = []
        kept: dict[str, Any] = {}
        begin = perf_counter()
        for step, arrivals, dead in zip(self.steps, self._arrivals, self._dead, strict=True):
            arguments = [values[name] for name in step.submodel.inputs]
            for arrival in arrivals:
                i, start = arrival.position, perf_counter()
                if arrival.converts:
                    arguments[i] = convert(arguments[i], step.runs_on)
                if timed:
                    if arrival.copies and isinstance(step.executable, AsynchronousExecutable):
                        step.executable.wait()
                    seconds = perf_counter() - start if arrival.converts else 0.0
                    name = step.submodel.inputs[i]
                    transfers.append(TransferTime(name, arrival.source, step.id, seconds, self._size(name, arguments[i]),
                                                  arrival.copies))
            limit = self.limits.get(step.device.name)
            if limit is not None:
                arguments = [convert(a, step.runs_on) for a in arguments]  # inputs of the model: copied while others compute
            with limit or nullcontext():
                if timed:
                    start, start_cpu = perf_counter(), process_time()
                    results = run_to_end(step.executable, arguments)
                    spent[step.id], cpu[step.id] = perf_counter() - start, process_time() - start_cpu
                else:
                    results = step.executable.run(arguments)
            values.update(zip(step.submodel.outputs, results, strict=True))
            if keep:  # copied now, because a later tensor may share this buffer
                lasting = set(keep).intersection(step.submodel.outputs)
                kept |= {name: owned(values[name]) for name in lasting}
            for name in dead:
                del values[name]
        times = RunTimes(perf_counter() - begin, tuple(spent), tuple(cpu), tuple(transfers))
        if not self._has_run:
            self._has_run = True
            self._fixed = FixedRun.of(self.steps, self._outputs)
        return {**values, **kept}, times

    def _size(self, name: str, value: Value) -> int:
        """Bytes of a boundary tensor, cached while its buffer stays the same."""
        known = self._sizes.get(name)
        if known is None or known[0] is not value:
            known = self._sizes[name] = (value, nbytes(value))
        return known[1]

    def _results(self, values: Mapping[str, Value]) -> dict[str, Any]:
        return {name: owned(values[name]) for name in self._outputs}


def _data_flow(steps: Sequence[Step], outputs: Collection[str]) -> tuple[list[list[_Arrival]], list[list[str]]]:
    """[step] its inputs from another device, and [step] the tensors that no later step reads."""
    producer: dict[str, Step] = {}
    last_reader: dict[str, int] = {}
    arrivals = []
    for i, step in enumerate(steps):
        from_other_device = []
        for position, name in enumerate(step.submodel.inputs):
            last_reader[name] = i
            source = producer.get(name)
            if source is not None and source.device.name != step.device.name:
                before, here = memory_space(source.runs_on), memory_space(step.runs_on)
                copies = before != here and not (before.is_host and here.is_host)
                from_other_device.append(_Arrival(position, source.id, before != here, copies))
        arrivals.append(from_other_device)
        producer.update(dict.fromkeys(step.submodel.outputs, step))
    dead: list[list[str]] = [[] for _ in steps]
    for name, i in last_reader.items():
        if name not in outputs:
            dead[i].append(name)
    return arrivals, dead


def memory_space(device: Device) -> MemorySpace:
    """The memory space of a device's values; within one space no conversion is needed."""
    return runtime_of(device.runtime).memory_space(device)


def compile_placement(placement: Placement, threads: int = 0, progress: Progress | None = None,
                      as_cut: bool = False, overridden: Overridden = frozenset(), requests: int = 1,
                      keep_weights: bool = False) -> CompiledPlan:
    """Cuts and compiles every subgraph.

    Args:
        placement: the placement to compile.
        threads: threads per subgraph; 0 leaves the choice to the runtime.
        progress: called before each subgraph.
        as_cut: cut a plan of one subgraph, too, so that its boundary tensors are those of the placement.
        overridden: initializers that become inputs of the sub-models that read them; every run must provide them.
        requests: runs in flight at the same time, each on a clone.
        keep_weights: leave the weights in the sub-models of the steps, for profilers, which compile them once more.

    Raises:
        ExecutionError: a runtime refuses a sub-model; the message names subgraph, device and cause.
    """
    if any(d.machine and d.present for d in placement.used_devices):
        from editor.execution.machines.machines_plan import compile_over_machines

        return compile_over_machines(placement, threads, progress, overridden, requests)
    cutter = Cutter.open(placement.graph, overridden)
    _check_weights(cutter)
    options = CompileOptions(threads, keep=True, requests=requests)
    by_name = {d.name: d for d in placement.devices}
    real = {d.name: stand_in() if d.planned else d for d in placement.devices}

    def step_of(subgraph: Subgraph, submodel: SubModel) -> Step:
        device, runs_on = by_name[subgraph.device], real[subgraph.device]
        runtime = runtime_of(runs_on.runtime)
        try:
            executable = runtime.compile(submodel, runs_on, options)
        except ExecutionError:  # runtimes check constants more strictly than input values
            plain = cutter.submodel(placement, subgraph)
            if plain.inputs == submodel.inputs:
                raise
            submodel, executable = plain, runtime.compile(plain, runs_on, options)
        return Step(subgraph.id, submodel if keep_weights else submodel.without_weights(), device, runs_on, executable)

    def steps_of(submodels: Sequence[SubModel | None]) -> list[Step]:
        result = []
        for subgraph, submodel in zip(placement.subgraphs, submodels, strict=True):
            if submodel is None:
                continue
            if progress:
                progress(subgraph.id, len(submodels), f"compiling subgraph {subgraph.id} on {subgraph.device}")
            result.append(step_of(subgraph, submodel))
        return result

    steps = None
    if not as_cut and len(placement.subgraphs) == 1:
        whole = replace(cutter.whole(), label="subgraph 0")  # uncut, so the runtime optimizes the original model
        steps = steps_of([whole]) if whole.outputs else None
    if steps is None:
        unknown = missing_types(placement)
        if unknown:
            cutter.infer_types(unknown)
        steps = steps_of(cut(placement, cutter, fold_shapes=True))
    return CompiledPlan(placement.graph, steps, constant_outputs(placement.graph, cutter), len(placement.subgraphs),
                        lambda names: compile_placement(placement, threads, None, as_cut, names, requests,
                                                        keep_weights), overridden, run_limits(steps, requests))


def run_limits(steps: Sequence[Step], requests: int) -> RunLimits:
    """Lets each device with memory of its own compute its share of the runs in flight, so that none of them is idle.

    A GPU shares its time among the runs that it is given. So runs that begin together on the first device of a plan end
    together, go on to the second one together, and leave the first one idle: two GPUs are then hardly faster than one.

    Args:
        steps: of a plan.
        requests: runs in flight at the same time.
    """
    names = {step.device.name for step in steps if not memory_space(step.runs_on).is_host}
    if requests == 1 or not names:
        return {}
    devices = len({step.device.name for step in steps})
    return {name: Semaphore(min(-(-requests // devices), _MOST_RUNS)) for name in names}


def _check_weights(cutter: Cutter) -> None:
    """Raises ``ExecutionError`` where a file of weights is not there: each runtime would say so in words of its own."""
    problem = weights_problem(cutter.source, cutter.graph.path)
    if problem:
        raise ExecutionError(f"{cutter.graph.path} cannot run: {problem}")


def compile_whole(graph: Graph, device: Device, threads: int = 0, extra_outputs: Sequence[str] = (),
                  overridden: Overridden = frozenset(), requests: int = 1) -> CompiledPlan:
    """The unsplit model on one device, as a plan of one step.

    Args:
        graph: the model.
        device: a real device.
        threads: 0 leaves the choice to the runtime.
        extra_outputs: internal tensors to return; this prevents fusions that would remove them.
        overridden: initializers that are inputs.
        requests: runs in flight at the same time, each on a clone.

    Raises:
        ExecutionError: the device cannot run the whole model.
    """
    if device.machine and device.present:
        from editor.execution.machines.machines_plan import compile_whole_on_machine

        return compile_whole_on_machine(graph, device, threads, extra_outputs, overridden, requests)
    cutter = Cutter.open(graph, overridden)
    _check_weights(cutter)
    submodel = cutter.whole(extra_outputs)
    steps = []
    if submodel.outputs:
        executable = runtime_of(device.runtime).compile(submodel, device, CompileOptions(threads, keep=True, requests=requests))
        steps = [Step(0, submodel.without_weights(), device, device, executable)]
    return CompiledPlan(graph, steps, constant_outputs(graph, cutter), len(steps),
                        lambda names: compile_whole(graph, device, threads, extra_outputs, names, requests), overridden,
                        run_limits(steps, requests))


def constant_outputs(graph: Graph, cutter: Cutter) -> dict[str, Value]:
    """Initializers that are also graph outputs, by name."""
    from onnx import TensorProto, numpy_helper

    result: dict[str, Value] = {}
    for tensor in graph.outputs.tolist():
        proto = cutter.initializers.get(graph.tensor_names[tensor])
        if isinstance(proto, TensorProto):
            result[graph.tensor_names[tensor]] = numpy_helper.to_array(proto, str(graph.folder))
    return result


def convert(value: Value, target: Device) -> Value:
    """Converts a value to the memory space of a device.

    Raises:
        ExecutionError: the device's runtime does not support such values.
    """
    try:
        runtime = runtime_of(target.runtime)
        return runtime.convert(value, runtime.memory_space(target))
    except (TypeError, AttributeError, RuntimeError, ValueError) as error:
        raise ExecutionError(f"a value of type {type(value).__name__} cannot be passed to {target.name}: {error}") from error


def owned(value: Value) -> Any:
    """A numpy copy of a value, valid after the next run; even the interpreter may return views."""
    result = to_numpy(value)
    if is_array(value) and host_view(value) is None:  # read from the memory of a device
        return result
    if isinstance(result, list):
        return [owned(item) for item in result]
    return np.array(result) if isinstance(result, np.ndarray) else result
