"""Compares outputs with the unsplit model, and finds where they begin to differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import NodeProto

from editor.devices.device import Device
from editor.execution.compiled_plan import CompiledPlan
from editor.execution.executor import compile_placement, compile_whole
from editor.execution.inputs import overridden_initializers
from editor.execution.measure.figures import Difference, OutputDifference
from editor.graph.graph import Graph
from editor.graph.model_file import read_again
from editor.groups import grouped
from editor.placement.placement import Placement
from editor.runtimes.base import Value
from editor.runtimes.registry import runtime_of
from editor.runtimes.trial_values import is_random

# Relative to the largest magnitude of an output; reordered sums differ by less than this.
_TOLERANCE = {
    "float64": 1e-9,
    "float32": 1e-3,
    "float16": 1e-2,
    "bfloat16": 5e-2,
    "complex64": 1e-3,
    "complex128": 1e-9,
}


# Tolerance of float32 on a device that computes with a lower precision.
_PRECISIONS = {"int8": 5e-2, "bf16": 5e-2, "f16": 1e-2, "tf32": 5e-3}
"""A boundary tensor that travels as int8 is off by up to 1/254 of its largest magnitude, about as a bfloat16 there."""
_OF_WIRES = {"float16": "f16", "int8": "int8"}


def precision_of(devices: Iterable[Device]) -> str:
    """The lowest precision that any of the devices is set to for float32: ``bf16``, ``f16``, ``tf32`` or ""."""
    own = [runtime_of(d.runtime).precision(d) for d in devices if not d.planned]
    return max(filter(None, own), key=lambda precision: _PRECISIONS[precision], default="")


def precision_of_plan(placement: Placement, reference: Device) -> str:
    """The lowest precision of the devices that a plan uses, of the wires between them, and of what it is compared with."""
    used = placement.used_devices
    sending = used if len({d.machine for d in used}) > 1 else ()
    wires = [_OF_WIRES[device.wire_type] for device in sending if device.wire_type]
    lowest = precision_of([reference, *used])
    return max([lowest, *wires], key=lambda each: _PRECISIONS.get(each, 0.0))


def compare(
    reference_name: str,
    expected: Mapping[str, Any],
    actual: Mapping[str, Any],
    precision: str = "",
    graph: Graph | None = None,
) -> Difference:
    """Differences per output; integers, booleans and strings must be equal.

    Args:
        reference_name: name of the device that computed the expected values.
        expected: values by name.
        actual: values by name.
        precision: precision of float32 computations, see ``precision_of``.
        graph: what computed them. A value is held to the tolerance of the narrowest float type on its way, and
            shares between 0 and 1 are compared with 1, not with the largest of them.
    """
    wide = {"float32": _PRECISIONS[precision]} if precision else {}
    tolerances = {**_TOLERANCE, **wide}
    outputs = []
    on_the_way = _on_the_way(graph, tolerances) if graph else []
    for name in expected:
        tensor = graph.tensor_index.get(name, -1) if graph else -1
        least = on_the_way[tensor] if tensor >= 0 else 0.0
        scale = _least_scale(graph, tensor) if graph and tensor >= 0 else 0.0
        held = {kind: max(tolerance, least) for kind, tolerance in tolerances.items()}
        outputs.append(_compare(name, expected[name], actual[name], held, scale))
    return Difference(
        reference_name,
        max((o.max_absolute for o in outputs), default=0.0),
        max((o.max_relative for o in outputs), default=0.0),
        tuple(outputs),
        all(o.ok for o in outputs),
    )


_SHARES = frozenset({"Sigmoid", "HardSigmoid", "Softmax"})
"""Ops of results between 0 and 1, whose errors runtimes bound absolutely."""
_PASS_ON = frozenset(
    {
        "Identity",
        "Cast",
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
        "Slice",
        "Gather",
    }
    | {"Concat", "Split", "Max", "Min", "Mean", "ReduceMean", "ReduceMax", "ReduceMin"}
)
"""Ops whose results are between the least and the largest of what they read first."""


def _on_the_way(graph: Graph, tolerances: Mapping[str, float]) -> list[float]:
    """[tensor] the tolerance of the narrowest float type in which it or what it depends on was computed."""
    least = [0.0] * len(graph.tensor_names)
    constant = graph.tensor_is_constant
    for op in graph.order.tolist():
        before = max((least[t] for t in graph.op_reads[op].tolist()), default=0.0)
        for t in graph.op_outputs[op].tolist():
            if t >= 0:
                own = 0.0 if constant[t] else tolerances.get(graph.tensor_types[t], 0.0)
                least[t] = max(before, own)
    return least


def _least_scale(graph: Graph, tensor: int) -> float:
    """The least scale of a tensor: 1 for shares, else 0."""
    op = int(graph.tensor_producer[tensor])
    while op >= 0 and graph.op_types[op] in _PASS_ON and len(graph.op_inputs[op]):
        op = int(graph.tensor_producer[graph.op_inputs[op][0]])
    return 1.0 if op >= 0 and graph.op_types[op] in _SHARES else 0.0


def _compare(
    name: str, expected: Any, actual: Any, tolerances: Mapping[str, float], least_scale: float
) -> OutputDifference:
    if isinstance(expected, list) and isinstance(actual, list):
        return _compare_sequence(name, expected, actual, tolerances, least_scale)
    if expected is None or actual is None or isinstance(expected, dict):
        return _exact(name, expected == actual)
    expected, actual = np.asarray(expected), np.asarray(actual)
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return _exact(name, False)
    tolerance = tolerances.get(
        expected.dtype.name, 0.1 if expected.dtype.name.startswith("float") else 0.0
    )
    if not tolerance:
        if expected.dtype.kind in "iu":
            gap = int(np.max(np.abs(expected.astype(object) - actual.astype(object)), initial=0))
            return OutputDifference(name, float(gap), float(gap > 0), 0.0, gap == 0)
        return _exact(name, bool((expected == actual).all()))
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    e, a = expected.astype(wide), actual.astype(wide)
    equal_or_nan = (np.isnan(e) & np.isnan(a)) | (e == a)
    with np.errstate(invalid="ignore"):
        gaps = np.where(equal_or_nan, 0.0, np.abs(e - a))
    largest = float(np.max(gaps, initial=0.0))
    largest = float("inf") if np.isnan(largest) else largest
    scale = float(np.max(np.abs(e[np.isfinite(e)]), initial=0.0))
    scale = max(scale, least_scale)
    relative = largest / scale if scale else largest
    return OutputDifference(name, largest, relative, tolerance, relative <= tolerance)


def _compare_sequence(
    name: str,
    expected: list[Any],
    actual: list[Any],
    tolerances: Mapping[str, float],
    least_scale: float,
) -> OutputDifference:
    if len(expected) != len(actual):
        return _exact(name, False)
    parts = [
        _compare(name, e, a, tolerances, least_scale) for e, a in zip(expected, actual, strict=True)
    ]
    return OutputDifference(
        name,
        max((p.max_absolute for p in parts), default=0.0),
        max((p.max_relative for p in parts), default=0.0),
        max((p.tolerance for p in parts), default=0.0),
        all(p.ok for p in parts),
    )


def _exact(name: str, same: bool) -> OutputDifference:
    gap = 0.0 if same else float("inf")
    return OutputDifference(name, gap, gap, 0.0, same)


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
        return (
            f"first seen in {self.tensor!r}, made by subgraph {self.subgraph} on {self.device} "
            f"({self.max_relative:.3g} relative)"
        )


class PlanValues:
    """Values of the tensors of a plan in a run: of boundary tensors and outputs, and of those within subgraphs.

    A subgraph that returns one of its inner tensors is compiled for it, so that its runtime fuses nothing over that tensor.
    """

    def __init__(self, placement: Placement, inputs: Mapping[str, Value], threads: int = 0) -> None:
        self.placement, self.inputs, self.threads = placement, inputs, threads
        self._as_it_is: CompiledPlan | None = None

    def of(self, names: Sequence[str]) -> dict[str, Any]:
        """The values by name, without those that no run has.

        Raises:
            ExecutionError: the plan does not run.
        """
        placement = with_inner_tensors(self.placement, names)
        if placement is not self.placement:
            return self._compile(placement).capture(self.inputs, names)
        if self._as_it_is is None:
            self._as_it_is = self._compile(placement)
        return self._as_it_is.capture(self.inputs, names)

    def _compile(self, placement: Placement) -> CompiledPlan:
        overridden = overridden_initializers(placement.graph, self.inputs)
        return compile_placement(placement, self.threads, as_cut=True, overridden=overridden)


def with_inner_tensors(placement: Placement, names: Iterable[str]) -> Placement:
    """The same placement, whose subgraphs return these tensors, too; itself where they do already."""
    graph, division = placement.graph, placement.division
    inner: dict[int, list[str]] = {}
    for name in names:
        op = int(graph.tensor_producer[graph.tensor_index[name]])
        subgraph = int(division.subgraph_of_op[op]) if op >= 0 else -1
        if subgraph >= 0 and name not in division.subgraphs[subgraph].outputs:
            inner.setdefault(subgraph, []).append(name)
    if not inner:
        return placement
    subgraphs = tuple(
        replace(s, outputs=(*s.outputs, *inner.get(s.id, ()))) for s in division.subgraphs
    )
    return replace(placement, division=replace(division, subgraphs=subgraphs))


def unsplit_values(
    graph: Graph,
    device: Device,
    inputs: Mapping[str, Value],
    names: Sequence[str],
    threads: int = 0,
) -> dict[str, Any]:
    """Values of tensors of the unsplit model in a run on a device.

    Raises:
        ExecutionError: the device does not run it.
    """
    overridden = overridden_initializers(graph, inputs)
    return compile_whole(graph, device, threads, names, overridden).capture(inputs, names)


def first_differences(
    placement: Placement,
    inputs: Mapping[str, Value],
    reference: Device,
    outputs: Sequence[str],
    threads: int = 0,
    precision: str = "",
    limit: int = MAX_BYTES,
) -> dict[str, FirstDifference]:
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
    graph = placement.graph
    dependencies = {name: tensors_needed_by(graph, name) for name in outputs}
    relevant = set().union(*dependencies.values())
    source_of = {
        name: (s.id, s.device)
        for s in placement.subgraphs
        for name in s.outputs
        if name in relevant
    }
    plan = PlanValues(placement, inputs, threads)
    result: dict[str, FirstDifference] = {}
    for group in in_groups(graph, list(source_of), limit):
        names = [
            name
            for name in group
            if any(name in dependencies[o] for o in outputs if o not in result)
        ]
        if not names:
            continue
        actual = plan.of(names)
        expected = unsplit_values(graph, reference, inputs, names, threads)
        for name in (n for n in names if n in expected and n in actual):
            gap = compare("", {name: expected[name]}, {name: actual[name]}, precision, graph)
            if not gap.within_tolerance:
                for output in outputs:
                    if name in dependencies[output]:
                        result.setdefault(
                            output, FirstDifference(name, *source_of[name], gap.max_relative)
                        )
    return result


def summary(differences: Mapping[str, FirstDifference], most: int = 4) -> str:
    """One line of text; names the outputs where their first differences are at different tensors."""
    places = grouped((str(place), output) for output, place in differences.items())
    if len(places) <= 1:
        return next(iter(places), "")
    texts = [
        f"{text} (output{'s' if len(names) > 1 else ''} {', '.join(map(repr, names[:most]))}"
        f"{', ...' if len(names) > most else ''})"
        for text, names in places.items()
    ]
    return "; ".join(texts[:most]) + (
        f"; {len(texts) - most} more places" if len(texts) > most else ""
    )


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


def drawn_outputs(graph: Graph) -> dict[str, int]:
    """Outputs that depend on random numbers, each with the op that draws them."""
    drawn = drawn_tensors(graph)
    return {graph.tensor_names[t]: drawn[t] for t in graph.outputs.tolist() if t in drawn}


def drawn_tensors(graph: Graph) -> dict[int, int]:
    """Tensors that depend on random numbers, each with the op that draws them."""
    types = {*graph.op_types, *(inner.op_type for inner in graph.inner_ops)}
    if not any(is_random(NodeProto(op_type=each, input=["", "", "?"])) for each in types):
        return {}
    model = read_again(graph)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    constants |= {
        name: attribute.t
        for node in model.graph.node
        if node.op_type == "Constant"
        for name in node.output
        for attribute in node.attribute
    }
    drawn: dict[int, int] = {}
    for op in graph.order.tolist():
        reads = (drawn[t] for t in graph.op_reads[op].tolist() if t in drawn)
        origin = op if is_random(model.graph.node[op], constants) else next(reads, -1)
        if origin >= 0:
            drawn.update(dict.fromkeys(graph.op_outputs[op].tolist(), origin))
    drawn.pop(-1, None)
    return drawn


_MOST_DRAWN = 4


def drawn_text(graph: Graph, drawn: Mapping[str, int]) -> str:
    """Says which outputs are random, and the op that makes the first of them so."""
    op = next(iter(drawn.values()))
    names = ", ".join(map(repr, list(drawn)[:_MOST_DRAWN]))
    more = f" and {len(drawn) - _MOST_DRAWN} more" if len(drawn) > _MOST_DRAWN else ""
    return (
        f"{graph.display_name(op)!r} ({graph.type_label(op)}) draws random numbers, "
        f"so {names}{more} differ{'s' if len(drawn) == 1 else ''} in every run"
    )


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
