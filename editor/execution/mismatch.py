"""Where a difference to the unsplit model first appears: a look at every boundary tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from editor.devices.device import Device
from editor.execution.cut import Cutter
from editor.execution.executor import compile_partition
from editor.execution.fidelity import compare
from editor.execution.inputs import fed_initializers
from editor.partition.partition import Partition
from editor.runtimes.base import CompileOptions, Value
from editor.runtimes.registry import runtime_of
from editor.runtimes.values import to_numpy


@dataclass(frozen=True)
class FirstDifference:
    """The first boundary tensor, in the order of execution, that is outside its tolerance."""

    tensor: str
    subgraph: int
    device: str
    max_relative: float

    def __str__(self) -> str:
        return (f"first seen in {self.tensor!r}, made by subgraph {self.subgraph} on {self.device} "
                f"({self.max_relative:.3g} relative)")


def first_difference(partition: Partition, inputs: Mapping[str, Value], reference: Device,
                     threads: int = 0, precision: str = "") -> FirstDifference | None:
    """Runs the plan and the unsplit model once, and compares what crosses subgraphs.

    Returns None when only graph outputs differ, or nothing does.

    Raises:
        ExecutionError: one of them does not run.
    """
    graph = partition.graph
    fed = fed_initializers(graph, inputs)
    kept = compile_partition(partition, threads, as_cut=True, fed=fed).keep(inputs)
    made = [(s.id, s.device, name) for s in partition.subgraphs for name in s.outputs if name in kept]
    names = list(dict.fromkeys(name for _, _, name in made))
    whole = Cutter.open(graph, fed).whole(names)
    executable = runtime_of(reference.runtime).compile(whole, reference, CompileOptions(threads))
    values = executable.run([inputs[name] for name in whole.inputs])
    expected = dict(zip(whole.outputs, map(to_numpy, values), strict=True))
    for number, device, name in made:
        found = compare("", {name: expected[name]}, {name: kept[name]}, precision)
        if not found.within_tolerance:
            return FirstDifference(name, number, device, found.max_relative)
    return None
