"""Runs one step of a sequence again and again as generation runs it once: caches grow where they lie, and nothing copies them.

Each run writes the values of its tokens again to where they already are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from editor.execution.compiled_plan import CompiledPlan, Step, owned
from editor.execution.generation import growing_states
from editor.graph.states import State, states_of
from editor.runtimes.base import SubModel, Value
from editor.runtimes.protocols import AsynchronousExecutable, Executable, GrowingExecutable


def in_place(plan: CompiledPlan, outputs: Mapping[str, Any]) -> CompiledPlan:
    """A plan whose states lie in memory of its own, where executables can add to them; else the plan itself.

    Args:
        plan: of one step.
        outputs: of its run, so that they hold all states as the step leaves them. They become the memory of the states: runs
            read these, whatever inputs there are for them, and return them without a copy.
    """
    growing = growing_states(plan.steps, states_of(plan.graph))
    if not any(growing):
        return plan
    steps = [_in_place(*each, outputs) for each in zip(plan.steps, growing, strict=True)]
    return _PlanInPlace.of(plan, steps)


def _in_place(step: Step, states: Sequence[State], outputs: Mapping[str, Any]) -> Step:
    if not states or not isinstance(step.executable, GrowingExecutable):
        return step
    kept = {state.input: (state.output, outputs[state.output]) for state in states}
    return replace(step, executable=_InPlace(step.executable, step.submodel, kept))


def given_to(step: Step, values: Mapping[str, Value]) -> list[Value]:
    """The inputs of a step; states that lie in memory of their own as they are there, with room for the tokens of the step."""
    executable = step.executable
    kept = executable.kept if isinstance(executable, _InPlace) else {}
    return [kept[n][1] if n in kept else values[n] for n in step.submodel.inputs]


class _InPlace:
    """An executable with the memory of its states.

    Args:
        executable: that adds to them.
        submodel: what it runs.
        kept: input -> output, and an array with the values of both.
    """

    def __init__(
        self,
        executable: GrowingExecutable,
        submodel: SubModel,
        kept: Mapping[str, tuple[str, Any]],
    ) -> None:
        self._executable, self._submodel, self.kept = executable, submodel, kept
        self._run = executable.sequence({name: array for name, (_, array) in kept.items()})
        self._reads = [i for i, name in enumerate(submodel.inputs) if name not in kept]
        arrays = dict(kept.values())
        self._results = [arrays.get(name) for name in submodel.outputs]
        self._makes = [i for i, name in enumerate(submodel.outputs) if name not in arrays]

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """As ``Executable.run``; states are not read from the inputs."""
        results = list(self._results)
        made = self._run([inputs[i] for i in self._reads])
        for i, value in zip(self._makes, made, strict=True):
            results[i] = value
        return results

    def clone(self) -> Executable:
        """Another instance, with states of its own."""
        other = self._executable.clone()
        kept = {name: (output, np.array(array)) for name, (output, array) in self.kept.items()}
        if not isinstance(other, GrowingExecutable):
            return other
        return _InPlace(other, self._submodel, kept)

    def wait(self) -> None:
        """As ``AsynchronousExecutable.wait``."""
        if isinstance(self._executable, AsynchronousExecutable):
            self._executable.wait()


class _PlanInPlace(CompiledPlan):
    """A plan of one step whose states lie in memory of its own."""

    @classmethod
    def of(cls, plan: CompiledPlan, steps: list[Step]) -> _PlanInPlace:
        """The plan with other steps."""
        return cls(
            plan.graph,
            steps,
            plan._constants,
            plan.subgraph_count,
            plan._recompile,
            plan.overridden,
            plan.limits,
        )

    def clone(self) -> CompiledPlan:
        """Another instance, with states of its own."""
        return self.of(self, super().clone().steps)

    def _results(self, values: Mapping[str, Value]) -> dict[str, Any]:
        kept = {
            output
            for step in self.steps
            if isinstance(step.executable, _InPlace)
            for output, _ in step.executable.kept.values()
        }
        return {
            name: values[name] if name in kept else owned(values[name]) for name in self._outputs
        }
