"""Runs one step of a sequence again and again, as generation runs each step: caches grow where they lie, nothing copies them.

Each run writes the values of the step's tokens again to where they already are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from editor.execution.compiled_plan import CompiledPlan, Step, convert, memory_space, owned
from editor.execution.generation import growing_states
from editor.execution.machines.machines_plan import MachinesPlan
from editor.graph.states import State, states_of
from editor.runtimes.base import Value
from editor.runtimes.protocols import AsynchronousExecutable, Executable, GrowingExecutable


def in_place(plan: CompiledPlan, outputs: Mapping[str, Any]) -> CompiledPlan:
    """The plan, with states in memory of its own where executables can add to them there; the same plan where none can.

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
