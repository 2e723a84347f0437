"""The memory that the state of a model takes on each device, and the context at which it no longer fits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from editor.devices.published import assumed_bytes
from editor.graph.states import states_of, tokens_of_step
from editor.placement.placement import Placement
from editor.placement.subgraphs.division import Subgraph
from editor.text import human_bytes, pluralize

_COPIES = 2
"""Of a state while a step runs, at most: what it was, and what it becomes."""


@dataclass(frozen=True)
class StateMemory:
    """The state on one device."""

    device: str
    states: int
    bytes: int
    """At the sizes of the plan, once"""
    bytes_per_token: int
    """By which it grows with each token of the context"""
    context: int
    """Tokens of the past at the sizes of the plan"""
    rest: int
    """Bytes of the device's peak that do not grow with the context, such as weights"""
    limit: int | None
    """Bytes of the device's memory"""
    growth: float
    """Bytes by which the device's peak grows with each token: at most those of the state before and after a step"""
    step: int
    """Tokens of a step; more of them at once, as a prompt has, may take more"""
    added: int
    """Bytes that the device's runtime is known to take beside its peak, estimated"""
    added_growth: float = 0.0
    """Bytes by which that grows with each token"""

    @property
    def fits_until(self) -> int | None:
        """Tokens of the context that fit into the device's memory beside the rest, estimated; None without a limit."""
        return self._full_at(0, 0.0)

    @property
    def roomy_until(self) -> int | None:
        """The same with room for what the runtime adds."""
        return self._full_at(self.added - self.added_growth * self.context, self.added_growth)

    def _full_at(self, kept_free: float, growth: float) -> int | None:
        if self.limit is None or not self.bytes_per_token or not self.growth:
            return None
        return max(int((self.limit - self.rest - kept_free) // (self.growth + growth)), 0)

    def needed(self, context: int) -> int:
        """Bytes that the device needs at a context of so many tokens, estimated; at that of the plan, its peak."""
        return self.rest + int(self.growth * context)

    def taken(self, context: int) -> int:
        """The same with what the runtime adds."""
        return self.needed(context) + int(self.added + self.added_growth * (context - self.context))

    def kept(self, context: int) -> int:
        """Bytes of the states at a context of so many tokens, once."""
        return self.bytes + self.bytes_per_token * (context - self.context)

    def text(self) -> str:
        """One line."""
        text = (
            f"{self.device} keeps {pluralize(self.states, 'state')}: {human_bytes(self.bytes)} at "
            f"{pluralize(self.context, 'token')}, {human_bytes(self.bytes_per_token)} for each further one, up to twice "
            "while a step runs"
        )
        if self.roomy_until is None:
            return text
        added = "with what its runtime adds, " if self.added else ""
        if not self.roomy_until:
            return f"{text}; {added}its memory is full without any (estimate)"
        steps = f", {self.step:,} at once" if self.step > 1 else ""
        return f"{text}; {added}its memory is full at about {self.roomy_until:,} tokens{steps} (estimate)"


def state_memory(placement: Placement) -> list[StateMemory]:
    """[device] what it keeps; devices without a state are left out, and those whose state takes nothing, as in a prompt.

    A state is on the device of the first op that reads it.
    """
    graph = placement.graph
    step = tokens_of_step(graph) or 1
    found: dict[int, list[tuple[int, int, int]]] = {}
    for state in states_of(graph):
        tensor = graph.tensor_index[state.input]
        readers = graph.readers[tensor].tolist()
        if not readers:
            continue
        if state.inside:  # a run begins without a past: what it leaves tells the size of a token
            tensor = graph.tensor_index[state.output]
        size = max(int(graph.tensor_bytes[tensor]), 0)
        past, each = 0, 0
        shape = graph.tensor_shapes[tensor] or ()
        length = shape[state.axis] if state.axis >= 0 else 0
        if isinstance(length, int) and length:
            past, each = length, size // length
        home = int(placement.device_of_op[min(readers, key=lambda op: int(graph.rank[op]))])
        found.setdefault(home, []).append((size, each, past))
    result = []
    for number, entries in sorted(found.items()):
        device = placement.devices[number]
        size, each = sum(e[0] for e in entries), sum(e[1] for e in entries)
        if not size:
            continue
        past = max(e[2] for e in entries)
        memory = next(d for d in placement.run_memory.devices if d.device == device.name)
        growth = float(_COPIES * each)
        if past:  # not all of it is there twice at the peak: at the context of the plan, the peak is what was worked out
            growth = min(growth, (memory.peak - memory.constants) / past)
        rest = int(memory.peak - growth * past)
        names = (device.name, len(entries), size, each, past, rest, device.memory, growth)
        added = placement.run_memory.added_by_runtime(number)
        more = growth * max(memory.overhead.tensor_copies - 1.0, 0.0)
        result.append(StateMemory(*names, step, added, more))
    return result


FAR_CONTEXT = 131_072
"""Tokens of a context where nothing limits it"""


def full_at(placement: Placement) -> int | None:
    """Tokens of the context at which the first device is full, with what runtimes add, estimated; None where none gets full."""
    full = [each.roomy_until for each in state_memory(placement)]
    return min((tokens for tokens in full if tokens is not None), default=None)


def extra_weights(phase: Placement, other: Placement) -> dict[str, int]:
    """Device -> bytes of constants that the subgraphs of the one phase hold there beside those of the other phase.

    A runtime keeps the weights of each subgraph that it compiles: both phases share those of subgraphs that they have alike.
    """
    shared, graph = set(map(content_of, other.subgraphs)), phase.graph
    found = Counter[str]()
    for subgraph, ops in zip(phase.subgraphs, phase.ops_of_subgraphs(), strict=True):
        if content_of(subgraph) in shared:
            continue
        size = assumed_bytes(graph, phase.by_name[subgraph.device].published.assumes)
        read = {tensor for op in ops for tensor in graph.op_reads[op].tolist()} - {-1}
        held = [tensor for tensor in read if graph.tensor_is_constant[tensor]]
        found[subgraph.device] += int(np.maximum(size[held], 0).sum())
    return {device: size for device, size in found.items() if size}


def content_of(subgraph: Subgraph) -> tuple[str, frozenset[str]]:
    """What tells a subgraph from others of the same model: its device and its ops."""
    return subgraph.device, frozenset(subgraph.ops)
