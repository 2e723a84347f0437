"""Finds the boundary tensor in which a difference to the unsplit model first appears.

Boundary tensors are compared in order of execution, so the result is the first one. Bisection would need fewer
comparisons, but misses a difference that later ops hide (a Relu, a rounding). Memory is bounded: each pass keeps at
most ``MAX_BYTES`` of tensors of the plan and as many of the unsplit model, which is recompiled for each pass, until
all differing outputs are explained.
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
"""Bytes of the tensors compared in one pass; twice that is held. A larger tensor has a pass of its own."""
_UNKNOWN_SHARE = 8
"""A tensor of unknown size counts as the limit divided by this."""


@dataclass(frozen=True)
class FirstDifference:
    """The first tensor outside its tolerance, in order of execution, on which an output depends."""

    tensor: str
    subgraph: int
    device: str
    max_relative: float

    def __str__(self) -> str:
        return (f"first seen in {self.tensor!r}, made by subgraph {self.subgraph} on {self.device} "
                f"({self.max_relative:.3g} relative)")


def first_differences(placement: Placement, inputs: Mapping[str, Value], reference: Device, outputs: Sequence[str],
                      threads: int = 0, precision: str = "", limit: int = MAX_BYTES) -> dict[str, FirstDifference]:
    """Runs the plan and the unsplit model, and compares their boundary tensors.

    Args:
        placement: the plan.
        inputs: values by name.
        reference: the device that runs the unsplit model.
        outputs: graph outputs that differ.
        threads: threads per subgraph; 0 leaves the choice to the runtime.
        precision: see ``tolerances.precision_of``.
        limit: bytes of the tensors compared in one pass.

    Returns:
        output -> its first difference; without outputs whose boundary tensors all agree.

    Raises:
        ExecutionError: the plan or the unsplit model does not run.
    """
    graph, overridden = placement.graph, overridden_initializers(placement.graph, inputs)
    dependencies = {name: tensors_needed_by(graph, name) for name in outputs}
    relevant = set().union(*dependencies.values())
    source_of = {name: (s.id, s.device) for s in placement.subgraphs for name in s.outputs if name in relevant}
    plan = compile_placement(placement, threads, as_cut=True, overridden=overridden)
    result: dict[str, FirstDifference] = {}
    for group in in_groups(graph, list(source_of), limit):
        names = [name for name in group if any(name in dependencies[o] for o in outputs if o not in result)]
        if not names:
            continue
        actual = plan.capture(inputs, names)
        expected = compile_whole(graph, reference, threads, names, overridden).capture(inputs, names)
        for name in (n for n in names if n in expected and n in actual):
            gap = compare("", {name: expected[name]}, {name: actual[name]}, precision)
            if not gap.within_tolerance:
                for output in outputs:
                    if name in dependencies[output]:
                        result.setdefault(output, FirstDifference(name, *source_of[name], gap.max_relative))
    return result


def summary(differences: Mapping[str, FirstDifference], most: int = 4) -> str:
    """One line of text; names the outputs where their first differences are at different tensors."""
    places: dict[str, list[str]] = {}
    for output, place in differences.items():
        places.setdefault(str(place), []).append(output)
    if len(places) <= 1:
        return next(iter(places), "")
    texts = [f"{text} (output{'s' if len(names) > 1 else ''} {', '.join(map(repr, names[:most]))}"
            f"{', ...' if len(names) > most else ''})" for text, names in places.items()]
    return "; ".join(texts[:most]) + (f"; {len(texts) - most} more places" if len(texts) > most else "")


def tensors_needed_by(graph: Graph, output: str) -> set[str]:
    """The output and every tensor on which it depends."""
    tensor = graph.tensor_index[output]
    seen, stack = {tensor}, [tensor]
    while stack:
        op = int(graph.tensor_producer[stack.pop()])
        new = set(graph.op_reads[op].tolist()) - seen if op >= 0 else set()
        seen |= new
        stack += new
    return {graph.tensor_names[t] for t in seen}


def in_groups(graph: Graph, names: Sequence[str], limit: int) -> Iterator[list[str]]:
    """Yields groups of consecutive tensors within the limit of bytes."""
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
