"""Where a difference to the unsplit model first appears: a look at the tensors that cross subgraphs.

They are compared in the order of execution, so what is found is the first for certain. Bisecting would need fewer
comparisons, but misses a difference that later ops hide (a Relu, a rounding) and that shows again behind them.
Memory stays bounded: as many tensors at once as fit in ``MAX_BYTES`` are kept of the plan and of the unsplit
model, which is compiled and run once for each such group, until the outputs in question are explained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from editor.devices.device import Device
from editor.execution.executor import compile_placement, compile_whole
from editor.execution.inputs import overridden_initializers
from editor.execution.measure.tolerances import compare
from editor.graph.graph import Graph
from editor.placement.placement import Placement
from editor.runtimes.base import Value

MAX_BYTES = 256 << 20
"""Of the tensors that are compared at once; twice that is held, and a single larger tensor goes alone."""
_UNKNOWN_SHARE = 8
"""A tensor of unknown size counts as this part of the limit."""


@dataclass(frozen=True)
class FirstDifference:
    """The first tensor before an output, in the order of execution, that is outside its tolerance."""

    tensor: str
    subgraph: int
    device: str
    max_relative: float

    def __str__(self) -> str:
        return (f"first seen in {self.tensor!r}, made by subgraph {self.subgraph} on {self.device} "
                f"({self.max_relative:.3g} relative)")


def first_differences(placement: Placement, inputs: Mapping[str, Value], reference: Device, outputs: Sequence[str],
                      threads: int = 0, precision: str = "", limit: int = MAX_BYTES) -> dict[str, FirstDifference]:
    """Runs the plan and the unsplit model, and compares what crosses subgraphs.

    Args:
        placement: the plan.
        inputs: by name.
        reference: the device for the unsplit model.
        outputs: graph outputs that differ.
        threads: per subgraph; 0 leaves the choice to the runtime.
        precision: see ``fidelity.precision_of``.
        limit: bytes of the tensors that are compared at once.

    Returns:
        Per output where its difference first appears; outputs for which nothing is found are left out.

    Raises:
        ExecutionError: the plan or the unsplit model does not run.
    """
    graph, overridden = placement.graph, overridden_initializers(placement.graph, inputs)
    before = {name: tensors_before(graph, name) for name in outputs}
    asked = set().union(*before.values())
    made = {name: (s.id, s.device) for s in placement.subgraphs for name in s.outputs if name in asked}
    plan = compile_placement(placement, threads, as_cut=True, overridden=overridden)
    found: dict[str, FirstDifference] = {}
    for group in in_groups(graph, list(made), limit):
        names = [name for name in group if any(name in before[o] for o in outputs if o not in found)]
        if not names:
            continue
        actual = plan.keep(inputs, names)
        expected = compile_whole(graph, reference, threads, names, overridden).keep(inputs, names)
        for name in (n for n in names if n in expected and n in actual):
            gap = compare("", {name: expected[name]}, {name: actual[name]}, precision)
            if not gap.within_tolerance:
                for output in outputs:
                    if name in before[output]:
                        found.setdefault(output, FirstDifference(name, *made[name], gap.max_relative))
    return found


def summary(found: Mapping[str, FirstDifference], most: int = 4) -> str:
    """One line; outputs are named where their differences start at different tensors."""
    places: dict[str, list[str]] = {}
    for output, place in found.items():
        places.setdefault(str(place), []).append(output)
    if len(places) <= 1:
        return next(iter(places), "")
    told = [f"{text} (output{'s' if len(names) > 1 else ''} {', '.join(map(repr, names[:most]))}"
            f"{', ...' if len(names) > most else ''})" for text, names in places.items()]
    return "; ".join(told[:most]) + (f"; {len(told) - most} more places" if len(told) > most else "")


def tensors_before(graph: Graph, output: str) -> set[str]:
    """The output and every tensor that it depends on."""
    tensor = graph.tensor_index[output]
    seen, stack = {tensor}, [tensor]
    while stack:
        op = int(graph.tensor_producer[stack.pop()])
        new = set(graph.reads[op].tolist()) - seen if op >= 0 else set()
        seen |= new
        stack += new
    return {graph.tensor_names[t] for t in seen}


def in_groups(graph: Graph, names: Sequence[str], limit: int) -> Iterator[list[str]]:
    """Runs of tensors that fit together."""
    group: list[str] = []
    total = 0
    for name in names:
        size = int(graph.tensor_bytes[graph.tensor_index[name]])
        size = size if size >= 0 else limit // _UNKNOWN_SHARE
        if group and total + size > limit:
            yield group
            group, total = [], 0
        group.append(name)
        total += size
    if group:
        yield group
