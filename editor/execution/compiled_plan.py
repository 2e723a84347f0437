"""Runs a plan: its sub-models in order, with boundary tensors passed between them without unneeded copies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from threading import Lock, Semaphore
from time import perf_counter, process_time
from typing import Any

import numpy as np

from editor.arguments import as_text, shown
from editor.devices.device import Device
from editor.errors import ExecutionError, SubgraphError
from editor.execution.cut import Cutter
from editor.execution.inputs import (
    check_inputs,
    expected_arrays,
    overridden_initializers,
    with_absent,
)
from editor.execution.invented_values import InventedInputs
from editor.graph.graph import Graph
from editor.graph.states import states_of
from editor.runtimes.base import MemorySpace, SubModel, Value
from editor.runtimes.profiling import run_to_end
from editor.runtimes.protocols import AsynchronousExecutable, BoundExecutable, Executable
from editor.runtimes.registry import runtime_of
from editor.runtimes.values import host_view, is_array, nbytes, to_numpy

log = logging.getLogger(__name__)

Progress = Callable[[int, int, str], None]
"""Called with (done, total, description) while a plan compiles."""
Overridden = frozenset[str]
"""Names of initializers that each run replaces."""
Compile = Callable[[Overridden], "CompiledPlan"]
RunLimits = Mapping[str, Semaphore]
"""Device -> what lets a limited number of runs compute on it at the same time; others have no limit."""


@dataclass(frozen=True, eq=False)
class Step:
    """One compiled subgraph and the device that runs it."""

    id: int
    submodel: SubModel
    """Without its weights, unless they were asked for."""
    device: Device
    """The device of the plan."""
    runs_on: Device
    """The same device, or the stand-in for a planned device."""
    executable: Executable

    @property
    def machine(self) -> str:
        """Where it runs; "" for the editor's machine."""
        return self.runs_on.machine

    def clone(self) -> Step:
        """The step for another thread; compiled code and weights are shared."""
        return replace(self, executable=self.executable.clone())


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

    def scaled_to(self, total: float) -> RunTimes:
        """The same shares of a run of another length, processor times unchanged."""
        factor = total / self.total if self.total else 1.0
        return replace(
            self,
            total=total,
            subgraphs=tuple(seconds * factor for seconds in self.subgraphs),
            transfers=tuple(replace(t, seconds=t.seconds * factor) for t in self.transfers),
        )


@dataclass(frozen=True)
class Arrival:
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

    def __init__(
        self,
        graph: Graph,
        steps: list[Step],
        constants: Mapping[str, Value],
        subgraph_count: int,
        recompile: Compile,
        overridden: Overridden = frozenset(),
        limits: RunLimits | None = None,
    ) -> None:
        self.graph, self.steps, self.subgraph_count = graph, steps, subgraph_count
        self.limits = limits or {}
        self.overridden = overridden
        """Initializers that are inputs of this instance; all others keep their default."""
        self._recompile = recompile
        self._variant: CompiledPlan | None = None
        """With other initializers as inputs. Not this plan itself: in a cycle, memory of devices waits for the collector."""
        self._constants = constants
        self._outputs = list(graph.output_names)
        self._arrivals, self._dead = data_flow(steps, self._outputs)
        self.queues = sum(map(queues, steps)) > 1
        """Whether a run that waits after each subgraph, as a timed one does, takes longer than one that does not"""
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
        try:
            return self._run(inputs)
        except ExecutionError as error:
            if isinstance(inputs, InventedInputs):
                inputs.explain(error)
            raise

    def _run(self, inputs: Mapping[str, Value]) -> dict[str, Any]:
        with self._turn:
            if not self._has_run or not self._fits(inputs):
                inputs = self._checked(inputs)
                variant = self._variant_for(inputs)
                return (
                    variant.run(inputs)
                    if variant is not self
                    else self._results(self._execute(inputs)[0])
                )
            if self._fixed is not None:
                try:
                    return self._fixed.run(inputs)
                except Exception:  # noqa: BLE001  # a data-dependent shape or a failed kernel: the slower path reports it
                    self._fixed = None
            return self._results(self._execute(inputs)[0])

    def _checked(self, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
        """The inputs, numpy scalars as arrays; raises ``ExecutionError`` where they do not fit the model."""
        check_inputs(self.graph, inputs)
        return {
            name: np.asarray(v) if isinstance(v, np.generic) else v
            for name, v in with_absent(self.graph, inputs).items()
        }

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
        try:
            return self._run_timed(inputs)
        except ExecutionError as error:
            if isinstance(inputs, InventedInputs):
                inputs.explain(error)
            raise

    def _run_timed(self, inputs: Mapping[str, Value]) -> tuple[dict[str, Any], RunTimes]:
        with self._turn:
            if not self._fits(inputs):
                inputs = self._checked(inputs)
            variant = self._variant_for(inputs)
            if variant is not self:
                return variant.run_timed(inputs)
            values, times = self._execute(inputs, timed=True)
            return self._results(values), times

    def run_measured(self, inputs: Mapping[str, Value]) -> RunTimes:
        """Times of a run as others make it, which waits for its devices only at the end.

        Of a plan that ``queues`` these are two runs: one for the whole, and a timed one, whose parts are scaled to it.
        """
        times = self.run_timed(inputs)[1]
        if not self.queues:
            return times
        with self._turn:
            inputs = self._checked(inputs)
            return times.scaled_to(self._variant_for(inputs)._seconds_to_end(inputs))

    def _seconds_to_end(self, inputs: Mapping[str, Value]) -> float:
        begin = perf_counter()
        self._execute(inputs)
        wait_for(reversed(self.steps))
        return perf_counter() - begin

    def _variant_for(self, inputs: Mapping[str, Value]) -> CompiledPlan:
        """The plan, compiled with these initializers as inputs."""
        overridden = overridden_initializers(self.graph, inputs)
        if overridden == self.overridden:
            return self
        if self._variant is None or overridden != self._variant.overridden:
            self._variant = self._recompile(overridden)
        return self._variant

    def clone(self) -> CompiledPlan:
        """Another instance for another thread; compiled code and weights are shared."""
        with self._turn:
            steps = [step.clone() for step in self.steps]
        return self._of(self, steps)

    @classmethod
    def _of(cls, plan: CompiledPlan, steps: list[Step]) -> CompiledPlan:
        """A plan with other steps for the same subgraphs."""
        return cls(
            plan.graph,
            steps,
            plan._constants,
            plan.subgraph_count,
            plan._recompile,
            plan.overridden,
            plan.limits,
        )

    def capture(self, inputs: Mapping[str, Value], names: Collection[str]) -> dict[str, Any]:
        """Runs the plan once; returns the named boundary tensors and outputs as numpy arrays."""
        if not isinstance(names, Collection):
            raise ExecutionError(
                f"names of tensors must be a list or set of text, not {shown(names)}"
            )
        wanted = [as_text(name, "the name of a tensor", ExecutionError) for name in names]
        with self._turn:
            inputs = self._checked(inputs)
            variant = self._variant_for(inputs)
            if variant is not self:
                return variant.capture(inputs, wanted)
            values, _ = self._execute(inputs, wanted)
            return {name: values[name] for name in wanted if name in values}

    def _execute(
        self, inputs: Mapping[str, Value], keep: Collection[str] = (), timed: bool = False
    ) -> tuple[dict[str, Value], RunTimes]:
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
                    if arrival.copies:
                        wait_for([step])
                    seconds = perf_counter() - start if arrival.converts else 0.0
                    name = step.submodel.inputs[i]
                    transfers.append(
                        TransferTime(
                            name,
                            arrival.source,
                            step.id,
                            seconds,
                            self._size(name, arguments[i]),
                            arrival.copies,
                        )
                    )
            limit = self.limits.get(step.device.name)
            if limit is not None:
                arguments = [
                    convert(a, step.runs_on) for a in arguments
                ]  # inputs of the model: copied while others compute
            with limit or nullcontext():
                try:
                    if timed:
                        start, start_cpu = perf_counter(), process_time()
                        results = run_to_end(step.executable, arguments)
                        spent[step.id], cpu[step.id] = (
                            perf_counter() - start,
                            process_time() - start_cpu,
                        )
                    else:
                        results = step.executable.run(arguments)
                except ExecutionError as error:
                    raise SubgraphError(str(error), step.id) from error
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


def data_flow(
    steps: Sequence[Step], outputs: Collection[str]
) -> tuple[list[list[Arrival]], list[list[str]]]:
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
                from_other_device.append(Arrival(position, source.id, before != here, copies))
        arrivals.append(from_other_device)
        producer.update(dict.fromkeys(step.submodel.outputs, step))
    dead: list[list[str]] = [[] for _ in steps]
    for name, i in last_reader.items():
        if name not in outputs:
            dead[i].append(name)
    return arrivals, dead


def wait_for(steps: Iterable[Step]) -> None:
    """Returns when the devices have finished what the steps were given."""
    for step in steps:
        if isinstance(step.executable, AsynchronousExecutable):
            step.executable.wait()


def queues(step: Step) -> bool:
    """Whether a run of the step may return before its device has finished."""
    return (
        isinstance(step.executable, AsynchronousExecutable)
        and not memory_space(step.runs_on).is_host
    )


def memory_space(device: Device) -> MemorySpace:
    """The memory space of a device's values; within one space no conversion is needed."""
    return runtime_of(device.runtime).memory_space(device)


def convert(value: Value, target: Device) -> Value:
    """Converts a value to the memory space of a device.

    Raises:
        ExecutionError: the device's runtime does not support such values.
    """
    try:
        runtime = runtime_of(target.runtime)
        return runtime.convert(value, runtime.memory_space(target))
    except (TypeError, AttributeError, RuntimeError, ValueError) as error:
        raise ExecutionError(
            f"a value of type {type(value).__name__} cannot be passed to {target.name}: {error}"
        ) from error


def with_states_at_home(
    graph: Graph, steps: Sequence[Step], values: Mapping[str, Value]
) -> dict[str, Value]:
    """The inputs of a plan, with states in the memory of the device that reads them first: the step before left them there."""
    found = dict(values)
    waiting = {state.input for state in states_of(graph)} & found.keys()
    for step in steps:
        for name in waiting.intersection(step.submodel.inputs):
            waiting.discard(name)
            if not memory_space(step.runs_on).is_host:
                found[name] = convert(found[name], step.runs_on)
    return found


def owned(value: Value) -> Any:
    """A numpy copy of a value, valid after the next run; even the interpreter may return views."""
    if (view := host_view(value)) is not None:
        return np.array(view)
    result = to_numpy(value)
    if is_array(value):  # read from the memory of a device
        return result
    if isinstance(result, list):
        return [owned(item) for item in result]
    return np.array(result) if isinstance(result, np.ndarray) else result


class FixedRun:
    """A plan in which every tensor has a fixed buffer, so that a run is one call per subgraph.

    Each line of Python costs microseconds when its data is not in the cache. So an input array that is already bound
    is not bound a second time, and results are read through views created once.
    """

    def __init__(
        self,
        launches: Sequence[Callable[[], None]],
        inputs: Mapping[str, Sequence[BoundExecutable]],
        results: Mapping[str, Value],
    ) -> None:
        self._launches, self._inputs = launches, inputs
        self._bound: dict[str, Value] = dict.fromkeys(inputs)
        """Input name -> array whose memory the executables read; None when they hold a copy."""
        self._results = results
        self._views = {name: host_view(value) for name, value in results.items()}
        """Output name -> view of it; None for results in device memory."""

    @classmethod
    def of(cls, steps: Sequence[Step], outputs: Sequence[str]) -> FixedRun | None:
        """The fixed run of steps that have run once; None unless all buffers are fixed and in one memory space."""
        values: dict[str, Value] = {}
        inputs: dict[str, list[BoundExecutable]] = {}
        launches = []
        for step in steps:
            executable = step.executable
            if not isinstance(executable, BoundExecutable) or memory_space(
                step.runs_on
            ) != memory_space(steps[0].runs_on):
                return None
            fixed = executable.fixed_outputs()
            launch = executable.bind_inputs(
                {name: values[name] for name in step.submodel.inputs if name in values}
            )
            if not fixed or launch is None:
                return None
            launches.append(launch)
            for name in step.submodel.inputs:
                if name not in values:
                    inputs.setdefault(name, []).append(executable)
            values.update(zip(step.submodel.outputs, fixed, strict=True))
        if any(name not in values or not is_array(values[name]) for name in outputs):
            return None
        return cls(launches, inputs, {name: values[name] for name in outputs})

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Any]:
        """Runs the plan; returns copies of the graph outputs by name."""
        for name, value in self._bound.items():
            if inputs[name] is not value:
                shared = [one.rebind_input(name, inputs[name]) for one in self._inputs[name]]
                self._bound[name] = inputs[name] if all(shared) else None
        for launch in self._launches:
            launch()
        return {
            name: view.copy() if view is not None else to_numpy(self._results[name])
            for name, view in self._views.items()
        }


def constant_outputs(graph: Graph, cutter: Cutter) -> dict[str, Value]:
    """Initializers that are also graph outputs, by name."""
    from onnx import TensorProto, numpy_helper

    return {
        name: numpy_helper.to_array(proto, str(graph.folder))
        for name in graph.output_names
        if isinstance(proto := cutter.initializers.get(name), TensorProto)
    }
