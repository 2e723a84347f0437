"""Learns from subgraphs that do not compile or run although each of their ops does.

The smallest set of ops at fault is found by delta debugging (Zeller and Hildebrandt 2002). It becomes a reason why the device
does not get these ops, and the plan is solved again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, TypeVar

import numpy as np

from editor.devices.device import Device
from editor.errors import EditorError, ExecutionError, SubgraphError
from editor.execution.cut import Cutter
from editor.execution.executor import compile_placement, compile_subgraph, compile_whole
from editor.execution.inputs import overridden_initializers
from editor.graph.graph import TensorKind
from editor.placement.placement import Placement, solve
from editor.placement.subgraphs.division import Subgraph
from editor.runtimes.base import CompileOptions, Value, summarize_error
from editor.runtimes.registry import keep_lessons, stand_in
from editor.text import pluralize

_MOST_TRIALS, _MOST_SECONDS = 300, 60.0
_MOST_SETS = 8
"""Sets that are found one by one; then all ops of the types in them are taken from the device."""
_MOST_VALUES = 1 << 29
"""Bytes of values between ops that are kept to run parts of a subgraph on."""
_MOST_TIMES = 16
_NAMED = 4
_LONGEST = 300
_WHERE = re.compile(r"^subgraph \d+ on [^:]+: ")
"""How the messages of failed subgraphs begin."""


Result = TypeVar("Result")


@dataclass(frozen=True)
class Lesson:
    """What a failed subgraph taught."""

    device: str
    reasons: Mapping[str, str]
    """Op key -> why the device does not get it again"""
    text: str
    """For a person: what failed, and which ops are at fault."""


def learn(
    placement: Placement, error: SubgraphError, inputs: Mapping[str, Value] | None = None
) -> Lesson | None:
    """Finds the ops at fault in a subgraph that failed, and remembers them; None where nothing can be learned.

    Planned devices, other machines and forced pins teach nothing.

    Args:
        placement: the placement that was compiled or run.
        error: what failed.
        inputs: of the run that failed.
    """
    subgraph = placement.subgraphs[error.subgraph]
    device = next(d for d in placement.devices if d.name == subgraph.device)
    is_forced = not placement.settings.forced.isdisjoint(subgraph.ops)
    if (
        device.planned or device.machine or is_forced
    ):  # who forces wants to see what the device says
        return None
    trials = _Trials(placement, subgraph, device, inputs)
    reasons: dict[str, str] = {}
    rest = trials.ops
    sets: list[list[int]] = []
    while rest and trials.fails(rest):
        if len(sets) == _MOST_SETS or trials.is_over:
            kinds = {placement.graph.type_label(op) for found in sets for op in found}
            alike = [op for op in rest if placement.graph.type_label(op) in kinds]
            reasons |= _reasons(placement, alike, sets[-1] if sets else alike, trials.text)
            break
        found = smallest(rest, trials.fails)
        text = trials.text if trials.fails(found) else str(error)
        sets.append(found)
        reasons |= _reasons(placement, found, found, text)
        rest = [op for op in rest if op not in found]
    if not reasons:
        return None
    keep_lessons(placement.graph, device, reasons)
    names = _names(placement, sets[0]) if sets else pluralize(len(reasons), "op")
    more = len(reasons) - (len(sets[0]) if sets else 0)
    return Lesson(
        device.name,
        reasons,
        f"subgraph {subgraph.id} fails on {device.name} because of {names}"
        f"{f' and {more} more' if more > 0 else ''} ({_first_line(str(error))})",
    )


def improved(
    placement: Placement, error: SubgraphError, inputs: Mapping[str, Value] | None = None
) -> tuple[Placement, str]:
    """The placement solved again without what failed, and what was learned.

    Raises:
        ExecutionError: nothing could be learned (the failure itself), or there is no other plan.
    """
    lesson = learn(placement, error, inputs)
    if lesson is None:
        raise error
    return without(placement, lesson), f"{lesson.text}; the plan was solved again without that"


def run_until_right(
    placements: dict[str, Placement],
    act: Callable[[Mapping[str, Placement]], Result],
    inputs: Mapping[str, Value],
    tell: Callable[[str], None],
) -> Result:
    """Does something with placements of one model; those that fail are solved again, in place.

    Raises:
        ExecutionError: of ``act``, where nothing could be learned.
    """
    for _ in range(_MOST_TIMES):
        try:
            return act(placements)
        except SubgraphError as error:
            name, failure = _failing(placements, inputs)
            if not name:
                raise
            placements[name], text = improved(placements[name], failure or error, inputs)
            tell(f"{name}: {text}")
    return act(placements)


def _failing(
    placements: Mapping[str, Placement], inputs: Mapping[str, Value]
) -> tuple[str, SubgraphError | None]:
    """The first placement that fails, and how; "" where all run."""
    for name, placement in placements.items():
        try:
            compile_placement(
                placement, overridden=overridden_initializers(placement.graph, inputs)
            ).run(inputs)
        except SubgraphError as error:
            return name, error
    return "", None


def without(placement: Placement, lesson: Lesson) -> Placement:
    """The placement, solved again without the ops that a device does not get any more.

    Raises:
        ExecutionError: pins, or what the other devices can run, leave no other place for them.
    """
    refused = [lesson.reasons.get(key, "") for key in placement.graph.op_keys]
    capabilities = [
        capability.without(refused) if device.name == lesson.device else capability
        for device, capability in zip(
            placement.devices, placement.constraints.capabilities, strict=True
        )
    ]
    try:
        return solve(placement.graph, placement.devices, placement.settings, capabilities)
    except EditorError as error:
        raise ExecutionError(f"{lesson.text}; and there is no other plan: {error}") from error


def smallest(ops: Sequence[int], fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """A smallest set of ops that still fails; a set that no single part or rest of fails, where time is short."""
    found, parts = list(ops), 2
    while len(found) >= 2:
        size = -(-len(found) // parts)
        chunks = [found[i : i + size] for i in range(0, len(found), size)]
        rests = [[op for op in found if op not in chunk] for chunk in chunks]
        part = next((chunk for chunk in chunks if fails(chunk)), None)
        if part is not None:
            found, parts = part, 2
            continue
        rest = next((rest for rest in rests if rest and fails(rest)), None)
        if rest is not None:
            found, parts = rest, max(parts - 1, 2)
        elif parts >= len(found):
            break
        else:
            parts = min(len(found), 2 * parts)
    return found


class _Trials:
    """Compiles and runs parts of a subgraph."""

    def __init__(
        self,
        placement: Placement,
        subgraph: Subgraph,
        device: Device,
        inputs: Mapping[str, Value] | None,
    ) -> None:
        self.placement, self.subgraph, self.device = placement, subgraph, device
        graph = placement.graph
        numbers = [graph.key_index[key] for key in subgraph.ops]
        self.ops = [op for op in numbers if placement.division.subgraph_of_op[op] >= 0]
        self._placed = placement.division.subgraph_of_op >= 0
        self._constants = [op for op in numbers if not self._placed[op]]
        self._cutter = Cutter.open(graph)
        self._values = self._values_of(inputs) if inputs is not None else {}
        self._known: dict[tuple[int, ...], str] = {}
        self._until = monotonic() + _MOST_SECONDS
        self.text = ""
        """What the runtime said at the last failure."""

    @property
    def is_over(self) -> bool:
        """Whether there were as many trials as may be."""
        return len(self._known) >= _MOST_TRIALS or monotonic() > self._until

    def fails(self, ops: Sequence[int]) -> bool:
        """Whether these ops of the subgraph do not compile or run; False where there is no time to try."""
        key = tuple(ops)
        if key not in self._known:
            if self.is_over:
                return False
            self._known[key] = self._tried(ops)
        self.text = self._known[key] or self.text
        return bool(self._known[key])

    def _tried(self, ops: Sequence[int]) -> str:
        part = self._part(ops)
        if not part.outputs:
            return ""
        try:
            submodel, executable = compile_subgraph(
                self._cutter, self.placement, part, self.device, CompileOptions()
            )
            if all(name in self._values for name in submodel.inputs):
                executable.run([self._values[name] for name in submodel.inputs])
        except ExecutionError as error:
            return str(error)
        return ""

    def _part(self, ops: Sequence[int]) -> Subgraph:
        """These ops as a subgraph of their own."""
        graph = self.placement.graph
        own = set(ops)
        is_output = set(graph.outputs.tolist())

        def is_given(tensor: int) -> bool:
            producer = int(graph.tensor_producer[tensor])
            from_outside = producer >= 0 and producer not in own and self._placed[producer]
            return bool(from_outside or graph.tensor_kind[tensor] == TensorKind.INPUT)

        read = (t for op in ops for t in graph.op_reads[op].tolist() if is_given(t))
        made = (t for op in ops for t in graph.op_outputs[op].tolist() if t >= 0)
        kept = sorted([*ops, *self._constants], key=lambda op: int(graph.rank[op]))
        return replace(
            self.subgraph,
            ops=tuple(graph.op_keys[op] for op in kept),
            inputs=tuple(dict.fromkeys(graph.tensor_names[t] for t in read)),
            outputs=tuple(
                graph.tensor_names[t]
                for t in made
                if t in is_output or not own.issuperset(graph.readers[t].tolist())
            ),
        )

    def _values_of(self, inputs: Mapping[str, Value]) -> Mapping[str, Any]:
        """Values of all tensors of the subgraph in the unsplit model; none where that fails or they are too large."""
        graph = self.placement.graph
        tensors = np.array(
            [
                t
                for op in self.ops
                for t in (*graph.op_reads[op].tolist(), *graph.op_outputs[op].tolist())
                if t >= 0
                and graph.tensor_kind[t] == TensorKind.OP_OUTPUT
                and not graph.op_is_constant[graph.tensor_producer[t]]
            ],
            np.int64,
        )
        if not len(tensors) or graph.tensor_bytes[tensors].clip(min=0).sum() > _MOST_VALUES:
            return dict(inputs)
        names = list(dict.fromkeys(graph.tensor_names[t] for t in tensors.tolist()))
        try:
            whole = compile_whole(graph, stand_in(graph.format), extra_outputs=names)
            return {**inputs, **whole.capture(inputs, names)}
        except ExecutionError:
            return {}


def _reasons(
    placement: Placement, ops: Sequence[int], together: Sequence[int], text: str
) -> dict[str, str]:
    """The reason for each op at fault."""
    said = _first_line(text)
    if len(together) == 1 and len(ops) == 1:
        return {placement.graph.op_keys[ops[0]]: f"fails as it is read here: {said}"}
    reasons = {}
    for op in ops:
        others = [other for other in together if other != op]
        with_others = f"fails together with {_names(placement, others)}"
        reasons[placement.graph.op_keys[op]] = (
            f"{with_others}: {said}" if op in together else f"as others that failed here: {said}"
        )
    return reasons


def _names(placement: Placement, ops: Sequence[int]) -> str:
    graph = placement.graph
    named = [f"{graph.display_name(op)} ({graph.type_label(op)})" for op in ops[:_NAMED]]
    more = [f"{len(ops) - _NAMED} more"] if len(ops) > _NAMED else []
    return ", ".join([*named, *more])


def _first_line(text: str) -> str:
    return summarize_error(ExecutionError(text), [_WHERE], _LONGEST)
