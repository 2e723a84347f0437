"""Runs a model that keeps a state as it is used: a prompt, then one token at a time, the state on the devices that made it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from time import perf_counter
from typing import Any

import numpy as np

from editor.arguments import MOST_TOKENS
from editor.devices.device import Device
from editor.errors import ExecutionError, SubgraphError
from editor.execution.compiled_plan import (
    Arrival,
    CompiledPlan,
    Step,
    convert,
    data_flow,
    memory_space,
    owned,
    queues,
    wait_for,
)
from editor.execution.cut import open_submodels
from editor.execution.invented_values import numpy_dtype
from editor.execution.machines.machines_plan import MachinesPlan
from editor.execution.measure.figures import Spread
from editor.graph.graph import Graph
from editor.graph.states import BEAMS, MASKS, POSITIONS, TOKEN_INPUTS, State, states_of
from editor.groups import firsts
from editor.placement.placement import Placement
from editor.runtimes.base import CompileOptions, SubModel, Value
from editor.runtimes.protocols import (
    AsynchronousExecutable,
    Executable,
    GrowingExecutable,
    StatefulExecutable,
    UnsharedExecutable,
)
from editor.runtimes.registry import runtime_of, stand_in
from editor.runtimes.values import to_numpy

_LOGITS = ("logits", "lm_logits", "output")


@dataclass(frozen=True)
class Generation:
    """What one sequence gave, and what it took."""

    tokens: tuple[int, ...]
    """That were generated"""
    prompt: int
    """Tokens of the prompt"""
    first_token: float
    """seconds until the first token: the prompt"""
    token: Spread
    """seconds of each further token"""
    seconds: tuple[float, ...]
    """[token] seconds, those of the first left out"""
    logits: tuple[Any, ...]
    """[token] what it was chosen from: an array of the vocabulary's size"""
    by_subgraph: tuple[tuple[float, ...], ...] = ()
    """[token] seconds of each subgraph, those of the first token left out; empty where a device only queues its work"""

    @property
    def tokens_per_second(self) -> float:
        """Of the tokens after the first."""
        return len(self.seconds) / sum(self.seconds) if self.seconds else 0.0


class Generator:
    """A compiled plan with open sizes, and the names of what it reads.

    Not for several threads at once: each sequence in flight needs a ``clone``.
    """

    def __init__(
        self,
        graph: Graph,
        steps: Sequence[Step],
        states: Sequence[State],
        inputs: _Inputs,
        prompt: Sequence[Step] | None = None,
    ) -> None:
        self.graph, self.states, self._inputs = graph, tuple(states), inputs
        # Where the prompt has steps of its own, states go from one session to another.
        may_grow = self.states if prompt is None else ()
        self._token = _Phase(graph, steps, self.states, inputs.logits, may_grow)
        self._prompt = self._token
        if prompt is not None:
            self._prompt = _Phase(graph, prompt, self.states, inputs.logits, may_grow)
        self._moved = {
            (before, after): _moving(self.states, before, after)
            for before in (self._prompt, self._token)
            for after in (self._prompt, self._token)
        }
        self._clones: list[Generator] = []

    @classmethod
    def of(
        cls,
        placement: Placement,
        state: Mapping[str, str] | None = None,
        threads: int = 0,
        prompt: Placement | None = None,
        sequences: int = 1,
    ) -> Generator:
        """Compiles a plan.

        Args:
            placement: the plan.
            prompt: the placement of the prompt, where that is another one; what both have alike is compiled once.
            state: output -> input of the next step, beside what names and ``genai_config.json`` say.
            threads: per subgraph; 0 leaves the choice to the runtime.
            sequences: in flight at the same time, of this one and its clones.

        Raises:
            ExecutionError: the model keeps no state, has no token ids, or a runtime refuses a subgraph.
            ModelError: a pair of ``state`` is not one.
        """
        graph = placement.graph
        states, inputs = _described(graph, state)
        same = prompt is None or np.array_equal(
            prompt.assignment.device[prompt.placed_ops],
            placement.assignment.device[prompt.placed_ops],
        )
        options = _options(threads, sequences)
        steps = _steps_of(placement, options, [], keep_states=same)
        if prompt is None or same:
            return cls(graph, steps, states, inputs)
        return cls(graph, steps, states, inputs, _steps_of(prompt, options, steps))

    @classmethod
    def unsplit(
        cls,
        graph: Graph,
        device: Device,
        state: Mapping[str, str] | None = None,
        threads: int = 0,
        sequences: int = 1,
    ) -> Generator:
        """Compiles the whole model for one device; raises as ``of``."""
        states, inputs = _described(graph, state)
        (whole,) = open_submodels(graph, [list(range(len(graph)))], keep_states=True)
        step = _step(graph, 0, whole, device, replace(_options(threads, sequences), alone=True))
        return cls(graph, [step], states, inputs)

    @property
    def logits(self) -> str:
        """The output that tokens are chosen from."""
        return self._inputs.logits

    @property
    def ids(self) -> str:
        """The input that takes tokens."""
        return self._inputs.ids

    @property
    def is_reference(self) -> bool:
        """Whether all of it runs where planned devices are simulated, which is what results are compared with."""
        measure = stand_in(self.graph.format)
        return all(
            (step.runs_on.runtime, step.runs_on.provider) == (measure.runtime, measure.provider)
            for step in (*self._prompt.steps, *self._token.steps)
        )

    def clones(self, count: int) -> list[Generator]:
        """Others that share code and weights, for as many threads; they are made once."""
        while len(self._clones) < count:
            steps = [step.clone() for step in self._token.steps]
            prompt = None
            if self._prompt is not self._token:
                prompt = [step.clone() for step in self._prompt.steps]
            self._clones.append(Generator(self.graph, steps, self.states, self._inputs, prompt))
        return self._clones[:count]

    def generate(
        self,
        prompt: Sequence[int],
        new: int,
        given: Mapping[str, Value] | None = None,
        follow: Sequence[int] = (),
        should_stop: Callable[[], bool] = bool,
    ) -> Generation:
        """One sequence: the prompt, then further tokens, each the most likely one.

        Args:
            prompt: ids of tokens.
            new: tokens to generate, at least 1.
            given: values of other inputs, such as what an encoder computed.
            follow: ids that are taken in place of the most likely ones, as far as there are some, so that two plans can be
                compared token by token.
            should_stop: asked before each token; the sequence ends there.

        Raises:
            ExecutionError: an input has no value, or a runtime failed.
        """
        if not prompt or not 1 <= new <= MOST_TOKENS:
            raise ExecutionError(
                "generation needs a prompt of at least one token, and at least one new token"
            )
        room = len(prompt) + new - 1
        runs = {
            phase: phase.begin(self._inputs.first_states(phase.growing, room))
            for phase in {self._prompt, self._token}
        }
        values = self._inputs.first_states(self._prompt.passed)
        tokens: list[int] = []
        times: list[float] = []
        parts: list[tuple[float, ...]] = []
        logits: list[Any] = []
        steps, past, turn = self._inputs.steps(prompt), 0, 0
        while len(tokens) < new and not should_stop():
            start = perf_counter()
            phase = self._token if tokens else self._prompt
            for piece, ids in enumerate(steps, 1):
                fed = {**self._inputs.fed(ids, past), **(given or {}), **values}
                if not past:
                    self._check_all(fed)
                results = phase.run(fed, runs[phase][turn])
                following = self._token if piece == len(steps) else phase
                values = phase.states(results)
                if moved := self._moved[phase, following]:
                    moving = dict(values)
                    for name, device in moved:
                        values[name] = convert(values[name], device)
                    following.wait()
                    del moving
                past, turn = past + len(ids), 1 - turn
            rows = to_numpy(results[self._inputs.logits])
            last = rows.reshape(-1, rows.shape[-1])[-1]
            phase.settle()
            number = len(tokens)
            tokens.append(int(follow[number]) if number < len(follow) else int(last.argmax()))
            times.append(perf_counter() - start)
            if phase.waits:
                parts.append(tuple(phase.taken))
            logits.append(
                last.copy()
            )  # the runtime may write there again, and a prompt has a row for each token
            steps = [tokens[-1:]]
        return Generation(
            tuple(tokens),
            len(prompt),
            times[0] if times else 0.0,
            Spread.of(times[1:] or times or [0.0]),
            tuple(times[1:]),
            tuple(logits),
            tuple(parts[1:]),
        )

    def _check_all(self, fed: Mapping[str, Value]) -> None:
        if lacking := [name for name in self._inputs.names if name not in fed]:
            raise ExecutionError(
                f"{self.graph.path}: input {lacking[0]!r} is neither a token, a mask, a position nor a state: give it a value "
                "with --inputs FILE.npz (Python: generate(..., inputs={...}))"
            )


_Run = Callable[[Sequence[Value]], list[Value]]


@dataclass(frozen=True)
class _Work:
    """A step, with what it reads and makes in each run; states that grow where they lie are left out."""

    step: Step
    growing: Sequence[State]
    arrivals: Sequence[Arrival]
    """Their positions are those of ``reads``"""
    dead: Sequence[str]
    """What no later step reads"""
    reads: Sequence[str]
    makes: Sequence[str]

    @classmethod
    def of(
        cls,
        step: Step,
        growing: Sequence[State],
        arrivals: Sequence[Arrival],
        dead: Sequence[str],
    ) -> _Work:
        """The work of a step."""
        inputs, outputs = {s.input for s in growing}, {s.output for s in growing}
        reads = [name for name in step.submodel.inputs if name not in inputs]
        return cls(
            step,
            growing,
            [replace(a, position=reads.index(step.submodel.inputs[a.position])) for a in arrivals],
            [name for name in dead if name not in inputs],
            reads,
            [name for name in step.submodel.outputs if name not in outputs],
        )

    def run(self, states: Mapping[str, Value]) -> _Run:
        """What runs it in one sequence."""
        executable = self.step.executable
        if not self.growing or not isinstance(executable, GrowingExecutable):
            return executable.run
        return executable.sequence({s.input: states[s.input] for s in self.growing})


class _Phase:
    """The steps of the prompt, or of each token after it."""

    def __init__(
        self,
        graph: Graph,
        steps: Sequence[Step],
        states: Sequence[State],
        logits: str,
        may_grow: Sequence[State],
    ) -> None:
        self.steps = list(steps)
        self._keeping = [
            each
            for s in steps
            if isinstance(each := s.executable, StatefulExecutable) and each.keeps_state()
        ]
        # What a run returns may be the memory that the next run of the same executable writes to.
        self._second = [
            s if self._keeping or _is_unshared(s.executable) else s.clone() for s in steps
        ]
        arrivals, dead = data_flow(steps, {*graph.output_names, *(s.output for s in states)})
        growing = growing_states(steps, may_grow)
        self._work = list(map(_Work.of, steps, growing, arrivals, dead))
        self.growing = list(chain.from_iterable(growing))
        """States that stay in one memory for a whole sequence"""
        self.homes = _homes(steps)
        read = {name for work in self._work for name in work.reads}
        self.passed = [s for s in states if s.input in read]
        index = {step.id: i for i, step in enumerate(steps)}
        places = [[replace(a, source=index[a.source]) for a in each] for each in arrivals]
        makes = next((i for i, s in enumerate(steps) if logits in s.submodel.outputs), 0)
        later = computed_later([step.device.name for step in steps], places, makes)
        self._behind = [steps[i] for i in later]
        self.waits = not any(map(queues, steps))
        """Whether a step has computed when it returns"""
        self.taken = [0.0] * (1 + max((step.id for step in steps), default=0))
        """[subgraph] seconds of the last run"""
        self._copied: list[Value] = []
        """Values whose copies to other devices may not be done; their memory must stay as it is"""

    def begin(self, states: Mapping[str, Value]) -> list[list[_Run]]:
        """[turn][step] what runs one sequence.

        Args:
            states: by the input; the memory of those that grow where they lie.
        """
        for executable in self._keeping:
            executable.reset()
        if self._copied:  # by a sequence that failed
            self.wait()
        first = [work.run(states) for work in self._work]
        second = [
            run if work.growing else step.executable.run
            for run, work, step in zip(first, self._work, self._second, strict=True)
        ]
        return [first, second]

    def wait(self) -> None:
        """Waits for everything that the devices were given."""
        wait_for(self.steps)
        self._copied.clear()

    def settle(self) -> None:
        """Ends a step whose logits were read."""
        wait_for(self._behind)
        self._copied.clear()

    def run(self, values: dict[str, Value], runs: Sequence[_Run]) -> dict[str, Value]:
        """Adds what the steps compute to the values of the inputs, and leaves out what nothing reads afterwards.

        Args:
            values: by the name of the tensor; they are changed in place.
            runs: [step] of this turn: two by turns, so that what one run returned stays as it is during the next.

        Raises:
            SubgraphError: a runtime failed.
        """
        for work, run in zip(self._work, runs, strict=True):
            arguments = [values[name] for name in work.reads]
            for arrival in work.arrivals:
                if arrival.converts:
                    i = arrival.position
                    self._copied.append(arguments[i])
                    arguments[i] = convert(arguments[i], work.step.runs_on)
            start = perf_counter()
            try:
                results = run(arguments)
            except ExecutionError as error:
                raise SubgraphError(str(error), work.step.id) from error
            self.taken[work.step.id] = perf_counter() - start
            values.update(zip(work.makes, results, strict=True))
            for name in work.dead:
                del values[name]
        return values

    def states(self, results: Mapping[str, Value]) -> dict[str, Value]:
        """What the next step reads, of what this one made; states that stay inside are left out."""
        return {state.input: results[state.output] for state in self.passed}


def growing_states(steps: Sequence[Step], states: Sequence[State]) -> list[list[State]]:
    """[step] States that it adds to where they lie: no other step reads them."""
    readers = Counter(name for step in steps for name in step.submodel.inputs)
    alone = [s for s in states if s.axis >= 0 and readers[s.input] == 1 and not readers[s.output]]
    found = []
    for step in steps:
        executable = step.executable
        pairs = executable.growing() if isinstance(executable, GrowingExecutable) else {}
        found.append([s for s in alone if pairs.get(s.input) == s.output])
    return found


def computed_later(
    devices: Sequence[str], arrivals: Sequence[Sequence[Arrival]], logits: int
) -> list[int]:
    """Steps that read values of other devices, and that may not have begun once the logits are there.

    A device computes its steps in order, and a step waits for what it reads.

    Args:
        devices: [step] that computes it.
        arrivals: [step] inputs from other devices; their sources are steps.
        logits: the step that makes them.
    """
    done = {devices[logits]: logits}
    """Device -> its last step that is surely computed"""
    for i in range(len(devices) - 1, -1, -1):
        if i <= done.get(devices[i], -1):
            for arrival in arrivals[i]:
                source = devices[arrival.source]
                done[source] = max(done.get(source, -1), arrival.source)
    return [i for i, d in enumerate(devices) if arrivals[i] and i > done.get(d, -1)]


def _moving(states: Sequence[State], before: _Phase, after: _Phase) -> list[tuple[str, Device]]:
    """States that the next step reads on another device than made them, with that device."""
    homes = [(s.input, before.homes.get(s.output), after.homes.get(s.input)) for s in states]
    return [
        (name, read)
        for name, made, read in homes
        if made is not None and read is not None and memory_space(made) != memory_space(read)
    ]


def split_inputs(
    runner: Generator, tokens: Sequence[int] | Mapping[str, Value]
) -> tuple[list[int], dict[str, Value]]:
    """The prompt, and the values of other inputs.

    Raises:
        ExecutionError: there are no tokens, or they are not whole numbers.
    """
    given = dict(tokens) if isinstance(tokens, Mapping) else {runner.ids: tokens}
    ids = given.pop(runner.ids, None)
    try:
        array = np.asarray(ids)
        if ids is None or array.dtype.kind not in "iu" or not array.size:
            raise ValueError
    except ValueError:
        raise ExecutionError(
            f"the prompt must be whole numbers, for the input {runner.ids!r}"
        ) from None
    row = array if array.ndim < 2 else array.reshape(-1, array.shape[-1])[0]
    return row.reshape(-1).tolist(), given


class _Inputs:
    """The inputs of a step, by what they are."""

    def __init__(self, graph: Graph, states: Sequence[State]) -> None:
        self.graph = graph
        kept = {state.input for state in states}
        self.names = [name for name in graph.input_names if name not in kept]
        whole = [n for n in self.names if self._dtype(n) in (np.dtype("int64"), np.dtype("int32"))]
        self.ids = next((n for n in TOKEN_INPUTS if n in whole), "") or next(iter(whole), "")
        self.masks = [n for n in self.names if n in MASKS]
        self.positions = [n for n in self.names if n in POSITIONS]
        self.beams = [n for n in self.names if n in BEAMS]
        others = [n for n in graph.output_names if n not in {state.output for state in states}]
        self.logits = next((n for n in _LOGITS if n in others), "") or next(iter(others), "")
        if not self.ids:
            raise ExecutionError(
                f"{graph.path}: no input takes tokens, so that nothing can be generated"
            )
        if not self.logits:
            raise ExecutionError(
                f"{graph.path}: no output has logits, so that nothing can be generated"
            )

        self._forms = {
            name: (self._dtype(name), len(self._shape(name)))
            for name in (self.ids, *self.masks, *self.positions)
        }
        shape = self._shape(self.ids)
        self._batch = shape[0] if len(shape) > 1 else 1
        self._ones = np.ones(0, np.int64)

    def _dtype(self, name: str) -> Any:
        return numpy_dtype(self.graph.tensor_types[self.graph.tensor_index[name]])

    def _shape(self, name: str) -> tuple[int, ...]:
        shape = self.graph.tensor_shapes[self.graph.tensor_index[name]] or ()
        return tuple(d if isinstance(d, int) else 1 for d in shape)

    def steps(self, prompt: Sequence[int]) -> list[list[int]]:
        """The prompt as the model takes it: at once, or in pieces where the file fixes how many tokens a step has."""
        dims = self.graph.input_dims.get(self.ids, ())
        size = dims[-1] if dims and isinstance(dims[-1], int) else len(prompt)
        if len(prompt) % max(size, 1):
            raise ExecutionError(
                f"{self.graph.path}: the model takes {size} tokens in each step, and the prompt has {len(prompt)}"
            )
        return [list(prompt[i : i + size]) for i in range(0, len(prompt), max(size, 1))]

    def fed(self, ids: Sequence[int], past: int) -> dict[str, Any]:
        """Tokens with their mask and positions."""
        total = past + len(ids)
        ones, positions = self._first_ones(total), np.arange(past, total)
        return {
            self.ids: self._repeated(self.ids, ids),
            **{name: self._repeated(name, ones) for name in self.masks},
            **{name: self._repeated(name, positions) for name in self.positions},
            **{name: np.arange(self._batch, dtype=self._dtype(name)) for name in self.beams},
        }

    def _first_ones(self, count: int) -> Any:
        """So many of the ones of a mask, which are made once."""
        ones = self._ones
        if len(ones) < count:
            ones = self._ones = np.ones(2 * count, np.int64)
        return ones[:count]

    def _repeated(self, name: str, row: Any) -> Any:
        """A row of an input, for each sequence of the batch."""
        dtype, rank = self._forms[name]
        array = np.asarray(row, dtype)
        if rank == 1:
            return array
        return array[None] if self._batch == 1 else np.tile(array, (self._batch, 1))

    def _has_first_value(self, state: State) -> bool:
        read = int(self.graph.tensor_producer[self.graph.tensor_index[state.input]])
        return len(self.graph.op_inputs[read]) > 0

    def first_states(self, states: Sequence[State], room: int = 0) -> dict[str, Any]:
        """Zeros; where they grow, for as many tokens as there is room for."""
        values = {}
        for state in states:
            if state.inside and state.axis < 0 and self._has_first_value(state):
                raise ExecutionError(
                    f"{self.graph.path.name}: the state {state.input!r} begins with values of the model, so that it generates "
                    "in one piece only: assign all ops to one device"
                )
            shape = list(self._shape(state.input))
            if state.axis >= 0:
                shape[state.axis] = room
            values[state.input] = np.zeros(shape, self._dtype(state.input))
        return values


def _described(graph: Graph, state: Mapping[str, str] | None) -> tuple[tuple[State, ...], _Inputs]:
    states = states_of(graph, state)
    if not states:
        raise ExecutionError(
            f"{graph.path.name}: no output is known to be an input of the next step, so that it would see one token at a time; "
            "say which with --state present.0.key=past.0.key"
        )
    return states, _Inputs(graph, states)


def _options(threads: int, sequences: int) -> CompileOptions:
    return CompileOptions(threads, requests=sequences, open_sizes=True, keeps_state=True)


def _steps_of(
    placement: Placement, options: CompileOptions, known: Sequence[Step], keep_states: bool = False
) -> list[Step]:
    """The compiled subgraphs of a placement; those that are known from another one share code and weights."""
    there = {(step.device.name, _content(step.submodel)): step for step in known}
    steps = []
    graph = placement.graph
    parts = open_submodels(graph, placement.ops_of_subgraphs(), keep_states)
    options = replace(options, alone=len(parts) == 1)
    for part in parts:
        number = int(part.label.rpartition(" ")[2])
        device = placement.by_name[placement.subgraphs[number].device]
        same = there.get((device.name, _content(part)))
        if same is None:
            steps.append(_step(graph, number, part, device, options))
        else:
            steps.append(Step(number, same.submodel, device, same.runs_on, same.executable.clone()))
    return steps


def _content(part: SubModel) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """What tells two sub-models of one model apart."""
    return part.inputs, part.outputs, tuple(node.name for node in part.model.graph.node)


def _step(
    graph: Graph, number: int, part: SubModel, device: Device, options: CompileOptions
) -> Step:
    runs_on = stand_in(graph.format) if device.planned else device
    executable = runtime_of(runs_on.runtime).compile(part, runs_on, options)
    return Step(number, part.without_weights(), device, runs_on, executable)


def _is_unshared(executable: Executable) -> bool:
    return isinstance(executable, UnsharedExecutable) and executable.returns_new_memory()


def _homes(steps: Sequence[Step]) -> dict[str, Device]:
    """Tensor -> the device that reads it first, or makes it."""
    return firsts(
        (name, step.runs_on)
        for step in steps
        for name in (*step.submodel.inputs, *step.submodel.outputs)
    )


def in_place(plan: CompiledPlan, outputs: Mapping[str, Any]) -> CompiledPlan:
    """The plan, with states in memory of its own where executables can add to them there; the same plan where none can.

    So one step runs again and again as generation runs each step: caches grow where they lie, nothing copies them. Each run
    writes the values of the step's tokens again to where they already are.

    Args:
        plan: of one step.
        outputs: of a run of it, with all states. They become that memory: whatever inputs later runs are given for these
            states, they read them there, and return them without a copy.
    """
    growing = growing_states(plan.steps, states_of(plan.graph))
    if isinstance(plan, MachinesPlan) or not any(growing):
        return plan
    steps = [_in_place(*each, outputs) for each in zip(plan.steps, growing, strict=True)]
    return _PlanInPlace._of(plan, steps)


def given_to(step: Step, values: Mapping[str, Value]) -> list[Value]:
    """The inputs of a step; states in memory of their own have room for its tokens there."""
    executable = step.executable
    own = executable.states if isinstance(executable, _InPlace) else {}
    return [own[name][1] if name in own else values[name] for name in step.submodel.inputs]


def _in_place(step: Step, states: Sequence[State], outputs: Mapping[str, Any]) -> Step:
    if not states or not isinstance(step.executable, GrowingExecutable):
        return step
    own = {state.input: (state.output, outputs[state.output]) for state in states}
    return replace(step, executable=_InPlace(step.executable, step, own))


class _InPlace:
    """An executable with the memory of its states.

    Args:
        executable: that adds to them.
        step: that it runs.
        states: input -> output, and the values of both. An array becomes their memory where the device reads host memory.
    """

    def __init__(
        self,
        executable: GrowingExecutable,
        step: Step,
        states: Mapping[str, tuple[str, Any]],
    ) -> None:
        self._executable, self._step, submodel = executable, step, step.submodel
        at_home = memory_space(step.runs_on).is_host
        self.states = {
            name: (output, value if at_home else convert(value, step.runs_on))
            for name, (output, value) in states.items()
        }
        """Input -> output, and the memory that is both"""
        self._run = executable.sequence({name: own for name, (_, own) in self.states.items()})
        self._reads = [i for i, name in enumerate(submodel.inputs) if name not in states]
        own = dict(self.states.values())
        self._results = [own.get(name) for name in submodel.outputs]
        self._makes = [i for i, name in enumerate(submodel.outputs) if name not in own]

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """As ``Executable.run``, but for inputs of the states, which it does not read."""
        results = list(self._results)
        made = self._run([inputs[i] for i in self._reads])
        for i, value in zip(self._makes, made, strict=True):
            results[i] = value
        return results

    def clone(self) -> Executable:
        """Another instance, with states of its own."""
        other = self._executable.clone()
        if not isinstance(other, GrowingExecutable):
            return other
        states = {name: (output, owned(value)) for name, (output, value) in self.states.items()}
        return _InPlace(other, self._step, states)

    def wait(self) -> None:
        """As ``AsynchronousExecutable.wait``."""
        if isinstance(self._executable, AsynchronousExecutable):
            self._executable.wait()


class _PlanInPlace(CompiledPlan):
    """A plan of one step whose states lie in memory of its own."""

    def _results(self, values: Mapping[str, Value]) -> dict[str, Any]:
        states = {
            output
            for step in self.steps
            if isinstance(step.executable, _InPlace)
            for output, own in step.executable.states.values()
            if isinstance(own, np.ndarray)
        }
        return {n: values[n] if n in states else owned(values[n]) for n in self._outputs}
