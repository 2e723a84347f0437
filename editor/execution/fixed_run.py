"""Runs of a plan whose tensors all have fixed buffers: one call per subgraph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from editor.execution.compile.step import Step
from editor.runtimes.base import BoundExecutable, MemorySpace, Value
from editor.runtimes.registry import runtime_of
from editor.runtimes.values import host_view, is_array, to_numpy


class FixedRun:
    """A plan in which every tensor has a fixed buffer, so that a run is one call per subgraph.

    Each line of Python costs microseconds when its data is not in the cache. So an input array that is already bound
    is not bound a second time, and results are read through views created once.
    """

    def __init__(self, launches: Sequence[Callable[[], None]], inputs: Mapping[str, Sequence[BoundExecutable]],
                 results: Mapping[str, Value]) -> None:
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
            if not isinstance(executable, BoundExecutable) or _space(step) != _space(steps[0]):
                return None
            fixed = executable.fixed_outputs()
            launch = executable.bind_inputs({name: values[name] for name in step.submodel.inputs if name in values})
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
                self._rebind(name, inputs[name])
        for launch in self._launches:
            launch()
        return {name: view.copy() if view is not None else to_numpy(self._results[name])
                for name, view in self._views.items()}

    def _rebind(self, name: str, value: Value) -> None:
        shared = [executable.rebind_input(name, value) for executable in self._inputs[name]]
        self._bound[name] = value if all(shared) else None


def _space(step: Step) -> MemorySpace:
    return runtime_of(step.runs_on.runtime).memory_space(step.runs_on)
