"""Least total time by minimum cuts (expansion moves).

One expansion move decides optimally, for all ops at once, which of them switch to a device: a minimum
cut (Boykov, Veksler and Zabih, "Fast approximate energy minimization via graph cuts", 2001). With two
devices, a single move from "all on the first" reaches every placement, so it is exact (the s-t cut
formulation of Stone, 1977). Tensors read by several ops are charged once, through an auxiliary node.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from editor.graph.flops import Floats
from editor.graph.graph import Bools, Ints, mask_of, numbers_at
from editor.placement.policies.problem import Problem

_UNITS_PER_SECOND = 1e12
"""Capacities are integers; picoseconds keep rounding errors far below any cost."""
_MOST_UNITS = float(1 << 56)
"""All costs together: where they are more, units are longer, or sums would overflow and cost nothing."""
_NEVER = 1 << 60
_MAX_ROUNDS = 6


class Expansion:
    """A placement problem prepared for expansion moves."""

    def __init__(
        self, problem: Problem, per_cut: float = 0.0, per_byte: Floats | None = None
    ) -> None:
        """Prepares the integer costs.

        Args:
            problem: what to place.
            per_cut: extra seconds for every transfer: approximates launch overhead, which no cut can
                express.
            per_byte: [device] extra seconds for every byte of weights; a price on full devices.
        """
        time = problem.time if per_byte is None else problem.time + problem.size[:, None] * per_byte
        slowest = np.where(problem.allowed, time, 0.0).max(axis=1, initial=0.0)
        most = float(
            slowest.sum()
            + problem.leave.max(axis=1, initial=0.0).sum()
            + (problem.enter + per_cut).sum()
        )
        self.unit = unit = min(_UNITS_PER_SECOND, _MOST_UNITS / max(most, 1e-300))
        """Units per second"""
        self.cost = np.where(
            problem.allowed, np.rint(np.where(problem.allowed, time, 0.0) * unit), _NEVER
        ).astype(np.int64)
        self.problem = problem
        self.leave = np.rint(problem.leave * unit).astype(np.int64)
        self.enter = np.rint((problem.enter + per_cut) * unit).astype(np.int64)

    def solve(self, start: Ints) -> Ints:
        """Moves until none helps; exact for two devices. ``start`` is [node] device, and so is the result."""
        devices = self.cost.shape[1]
        if devices == 1:
            return start
        if devices == 2:
            return self.move(np.zeros(len(self.cost), np.int64), 1)
        label, value = start.copy(), self.value(start)
        for _ in range(_MAX_ROUNDS):
            before = value
            for device in range(devices):
                moved = self.move(label, device)
                reached = self.value(moved)
                if reached < value:
                    label, value = moved, reached
            if value == before:
                break
        return label

    def value(self, label: Ints) -> int:
        """Objective of a placement, in units."""
        leaving, tensor, device = self.problem.crossings(label)
        source_device = label[self.problem.source[leaving]]
        return int(
            self.cost[np.arange(len(label)), label].sum()
            + self.leave[leaving, source_device].sum()
            + self.enter[tensor, device].sum()
        )

    def seconds(self, label: Ints) -> float:
        """Objective of a placement, in seconds."""
        return self.value(label) / self.unit

    def move(self, label: Ints, device: int) -> Ints:
        """The best placement in which every op keeps its device or switches to ``device``."""
        free = self.problem.allowed[:, device] & (label != device)
        if not free.any():
            return label
        cut = _Cut(len(self.cost))
        rows = np.arange(len(label))
        stay, switch = self.cost[rows, label], self.cost[:, device]
        settled = label == device
        cut.terminals(np.where(settled, 0, stay), np.where(settled, 0, switch))
        if len(label) and (label == label[0]).all() and label[0] != device:
            self._uniform_terms(cut, int(label[0]), device)
        else:
            beside = self._beside(free)
            single = self._reader_count[beside] == 1
            self._single_terms(cut, label, device, beside[single])
            of, tensors = label.tolist(), self.problem.tensors
            several = beside[~single]
            costs = zip(self.leave[several].tolist(), self.enter[several].tolist(), strict=True)
            for i, (leave, enter) in zip(several.tolist(), costs, strict=True):
                _tensor_terms(
                    cut, of, device, tensors[i].source, list(tensors[i].readers), leave, enter
                )
        return np.where(cut.solve() | settled, device, label)

    def _beside(self, free: Bools) -> Ints:
        """Tensors that an op which may switch makes or reads; the cost of all others is the same whatever switches."""
        problem = self.problem
        read = (
            np.bincount(
                problem.readers.row_of_value, free[problem.readers.values], len(problem.source)
            )
            > 0
        )
        return np.flatnonzero(read | free[problem.source])

    @cached_property
    def _reader_count(self) -> Ints:
        return np.diff(self.problem.readers.ptr)

    def _single_terms(self, cut: _Cut, label: Ints, device: int, tensors: Ints) -> None:
        """Adds the transfers of tensors with a single reader: what `_tensor_terms` adds, for many at once."""
        source = self.problem.source[tensors]
        reader = self.problem.readers.values[self.problem.readers.ptr[tensors]]
        made, read = label[source], label[reader]
        rows = np.arange(len(tensors))
        leave, enter = self.leave[tensors], self.enter[tensors]
        out, into = leave[rows, made], enter[:, device]  # from where it is made; into the device
        away, back = leave[:, device], enter[rows, read]  # from the device; into where it is read
        here = made == device
        stays = np.where(
            here, np.where(read == device, 0, away + back), 0
        )  # the reader, of what is made on the device
        third = ~here & (read != device) & (read != made)
        cut.arcs(reader, np.full(len(rows), cut.sink), stays + np.where(third, back, 0))
        cut.arcs(
            source,
            np.full(len(rows), cut.sink),
            np.where(~here & (read == device), out + into, np.where(third, out, 0)),
        )
        same = ~here & (read == made)
        cut.arcs(source, reader, np.where(same, out + into, np.where(third, into, 0)))
        cut.arcs(reader, source, np.where(same, away + back, np.where(third, away, 0)))

    def _uniform_terms(self, cut: _Cut, source_device: int, device: int) -> None:
        """Adds the transfers of all tensors, for a move away from a placement on a single device."""
        readers = self.problem.readers
        out = (
            self.leave[:, source_device] + self.enter[:, device]
        )  # the source stays, some reader switches
        back = (
            self.leave[:, device] + self.enter[:, source_device]
        )  # the source switches, some reader stays
        count = np.diff(readers.ptr)
        one = np.flatnonzero(count == 1)
        reader = readers.values[readers.ptr[one]]
        cut.arcs(self.problem.source[one], reader, out[one])
        cut.arcs(reader, self.problem.source[one], back[one])
        many = np.flatnonzero(count > 1)
        helper = numbers_at(len(count), many, cut.helpers(len(many)))
        inside = helper[readers.row_of_value] >= 0
        each, values = helper[readers.row_of_value[inside]], readers.values[inside]
        never = np.full(len(each), _NEVER, np.int64)
        cut.arcs(self.problem.source[many], helper[many], out[many])
        cut.arcs(each, values, never)
        second = numbers_at(len(count), many, cut.helpers(len(many)))
        cut.arcs(values, second[readers.row_of_value[inside]], never)
        cut.arcs(second[many], self.problem.source[many], back[many])


def _tensor_terms(
    cut: _Cut,
    of: list[int],
    device: int,
    source: int,
    readers: list[int],
    leave: list[int],
    enter: list[int],
) -> None:
    """Adds the transfers of one tensor, as functions of which ops switch (x = 1) to the device."""
    source_device = of[source]
    others = [r for r in readers if of[r] != device]
    if (
        source_device == device
    ):  # the source is on the device already: each other device that keeps a reader costs a transfer
        if others:
            cut.any_stays(others, leave[device])
            for d in {of[r] for r in others}:
                cut.any_stays([r for r in others if of[r] == d], enter[d])
        return
    device_has_reader = len(others) < len(readers)
    third_party = [r for r in others if of[r] != source_device]
    same_device = [r for r in others if of[r] == source_device]
    # The source stays: it costs a transfer out if any reader is elsewhere, and one in if any reader is on the device.
    if device_has_reader or third_party:
        cut.stays(source, leave[source_device])
    else:
        cut.stays_while_any_switches(source, same_device, leave[source_device])
    if device_has_reader:
        cut.stays(source, enter[device])
    else:
        cut.stays_while_any_switches(source, others, enter[device])
    # The source switches: it costs a transfer out of the device if any reader stays elsewhere.
    if others:
        cut.switches_while_any_stays(source, others, leave[device])
    if same_device:
        cut.switches_while_any_stays(source, same_device, enter[source_device])
    for d in {of[r] for r in third_party}:  # other devices need the tensor in either case
        cut.any_stays([r for r in third_party if of[r] == d], enter[d])


class _Cut:
    """A flow network: ops on the source side of the cut stay (x = 0), those on the sink side switch (x = 1)."""

    def __init__(self, count: int) -> None:
        self.count, self.nodes = count, count + 2
        self.source, self.sink = count, count + 1
        self.tails: list[int] = []
        self.heads: list[int] = []
        self.caps: list[int] = []
        self.blocks: list[tuple[Ints, Ints, Ints]] = []

    def terminals(self, stay: Ints, switch: Ints) -> None:
        """Adds the cost of each op that stays and of each that switches."""
        ops = np.arange(self.count)
        self.blocks.append((ops, np.full(self.count, self.sink), stay))
        self.blocks.append((np.full(self.count, self.source), ops, switch))

    def arcs(self, tails: Ints, heads: Ints, costs: Ints) -> None:
        """Adds many arcs."""
        self.blocks.append((tails, heads, costs))

    def helpers(self, count: int) -> Ints:
        """Adds auxiliary nodes; returns their numbers."""
        first = self.nodes
        self.nodes += count
        return np.arange(first, first + count)

    def stays(self, op: int, cost: int) -> None:
        """Charges the cost when the op stays."""
        self._arc(op, self.sink, cost)

    def any_stays(self, ops: list[int], cost: int) -> None:
        """Charges the cost once when any of the ops stays."""
        self.switches_while_any_stays(self.sink, ops, cost)

    def stays_while_any_switches(self, op: int, others: list[int], cost: int) -> None:
        """Charges the cost once when the op stays and any of the others switches."""
        if len(others) == 1:
            self._arc(op, others[0], cost)
        elif others and cost:
            helper = self._node()
            self._arc(op, helper, cost)
            for other in others:
                self._arc(helper, other, _NEVER)

    def switches_while_any_stays(self, op: int, others: list[int], cost: int) -> None:
        """Charges the cost once when the op switches and any of the others stays."""
        if len(others) == 1:
            self._arc(others[0], op, cost)
        elif others and cost:
            helper = self._node()
            for other in others:
                self._arc(other, helper, _NEVER)
            self._arc(helper, op, cost)

    def solve(self) -> Bools:
        """[op] whether it switches in a minimum cut."""
        from ortools.graph.python import (
            max_flow,
        )  # importing takes 0.1 s, and most policies do not need it

        flow = max_flow.SimpleMaxFlow()
        tails = np.concatenate([np.array(self.tails, np.int64), *(b[0] for b in self.blocks)])
        heads = np.concatenate([np.array(self.heads, np.int64), *(b[1] for b in self.blocks)])
        caps = np.concatenate([np.array(self.caps, np.int64), *(b[2] for b in self.blocks)])
        flow.add_arcs_with_capacity(tails.astype(np.int32), heads.astype(np.int32), caps)
        status = flow.solve(self.source, self.sink)
        if status != flow.OPTIMAL:
            raise AssertionError(f"the minimum cut failed: {status}")
        keeps = mask_of(self.nodes, flow.get_source_side_min_cut())
        switched: Bools = ~keeps[: self.count]
        return switched

    def _arc(self, tail: int, head: int, capacity: int) -> None:
        if capacity:
            self.tails.append(tail)
            self.heads.append(head)
            self.caps.append(capacity)

    def _node(self) -> int:
        self.nodes += 1
        return self.nodes - 1
