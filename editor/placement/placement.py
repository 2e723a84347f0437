"""A model divided over devices: constraints, affinities and subgraphs in one frozen value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from editor.devices.device import Device
from editor.errors import EditorError, PinError, UnboundSymbolError
from editor.graph.graph import Graph, Ints
from editor.placement.choices import CODEGEN_CHOICES
from editor.placement.codegen import choose_codegens
from editor.placement.constraints import Constraints, constrain
from editor.placement.costs import Costs, Price, price
from editor.placement.device_profile import costs_of
from editor.placement.policies.registry import check_options, policy_of
from editor.placement.policies.task import Assignment, Task
from editor.placement.rules import Rule
from editor.placement.subgraphs.division import Boundary, Division, Subgraph, divide
from editor.placement.subgraphs.registry import grouping_of
from editor.runtimes.base import Capability
from editor.runtimes.registry import capability


@dataclass(frozen=True)
class DeviceVerdict:
    """What one device says to one op."""

    device: str
    allowed: bool
    reason: str
    """Why not; "" when allowed"""


@dataclass(frozen=True)
class Explanation:
    """Why an op is where it is."""

    key: str
    name: str
    type: str
    device: str
    because: str
    pinned: str | None
    forced: bool
    subgraph: int | None
    verdicts: tuple[DeviceVerdict, ...]

    def __str__(self) -> str:
        lines = [f"{self.name} ({self.type}) is on {self.device}: {self.because}"]
        if self.name != self.key:
            lines[0] = f"{self.name} [{self.key}] ({self.type}) is on {self.device}: {self.because}"
        if self.subgraph is not None:
            lines.append(f"  subgraph {self.subgraph}")
        width = max(len(v.device) for v in self.verdicts)
        for verdict in self.verdicts:
            answer = "allowed" if verdict.allowed else f"no: {verdict.reason}"
            lines.append(f"  {verdict.device:<{width}}  {answer}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Settings:
    """Everything a person or a script decides; the rest follows."""

    policy: str = "priority"
    policy_options: Mapping[str, Any] = field(default_factory=dict)
    pins: Mapping[str, str] = field(default_factory=dict)
    forced: frozenset[str] = frozenset()
    subgraphs: str = "minimal"
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, eq=False)
class Placement:
    """The outcome for one graph, one device table and one set of decisions."""

    graph: Graph
    devices: tuple[Device, ...]
    settings: Settings
    constraints: Constraints
    assignment: Assignment
    division: Division

    @property
    def device_of_op(self) -> Ints:
        """[op] index of the device; a constant has that of its first consumer."""
        return self._device_with_constants

    @cached_property
    def _device_with_constants(self) -> Ints:
        device = self.assignment.device.copy()
        part = self.division.part
        home = {i: next(d for d, entry in enumerate(self.devices) if entry.name == s.device)
                for i, s in enumerate(self.division.subgraphs)}
        first: dict[str, int] = {}
        for subgraph in reversed(self.division.subgraphs):
            for key in subgraph.ops:
                first[key] = subgraph.id
        for op in np.flatnonzero(part < 0).tolist():
            key = self.graph.op_keys[op]
            if key in first:
                device[op] = home[first[key]]
        return device

    @cached_property
    def affinity(self) -> dict[str, str]:
        """Op key -> device name."""
        names = [d.name for d in self.devices]
        return {key: names[d] for key, d in zip(self.graph.op_keys, self.device_of_op.tolist(), strict=True)}

    @property
    def subgraphs(self) -> tuple[Subgraph, ...]:
        """Ids are an order of execution, from 0."""
        return self.division.subgraphs

    @property
    def boundaries(self) -> tuple[Boundary, ...]:
        """Tensors that cross subgraphs."""
        return self.division.boundaries

    @cached_property
    def placed_ops(self) -> Ints:
        """Ops with a place of their own, by number: all but the constants that follow their consumers."""
        return np.flatnonzero(self.constraints.placed)

    @cached_property
    def op_counts(self) -> dict[str, int]:
        """Ops per device, without constants."""
        counts = np.bincount(self.assignment.device[self.placed_ops], minlength=len(self.devices))
        return {d.name: int(c) for d, c in zip(self.devices, counts.tolist(), strict=True)}

    @property
    def used_devices(self) -> tuple[Device, ...]:
        """Devices that run some subgraph, in the order of the table."""
        used = {s.device for s in self.subgraphs}
        return tuple(d for d in self.devices if d.name in used)

    def device_number(self, name: str) -> int:
        """Index of a device of the table by its name."""
        return [d.name for d in self.devices].index(name)

    def ops_on(self, name: str) -> list[int]:
        """Ops that a device runs, without constants."""
        placed = self.placed_ops
        found: list[int] = placed[self.assignment.device[placed] == self.device_number(name)].tolist()
        return found

    def ops_of(self, subgraphs: Sequence[int]) -> list[int]:
        """Ops of some subgraphs, without constants."""
        return np.flatnonzero(np.isin(self.division.part, subgraphs)).tolist()

    def price(self, costs: Costs) -> Price:
        """What one run costs, in seconds."""
        return price(self.graph, costs, self.assignment.device, self.placed_ops)

    def _because(self, op: int) -> str:
        pin = self.constraints.pins.get(self.graph.op_keys[op])
        if pin is not None:
            return f"pinned to {pin}"
        rule = self.constraints.ruled.get(op)
        why = self.assignment.because(op)
        return f"{rule}; {why}" if rule else why

    def why(self, key: str) -> Explanation:
        """Why an op is on its device.

        Raises:
            PinError: there is no op with this key.
        """
        graph, table = self.graph, self.constraints
        op = graph.key_index.get(key)
        if op is None:
            named = [i for i, name in enumerate(graph.op_names) if name and name == key]
            if len(named) != 1:
                raise PinError(f"no op with the key {key!r} (a key is the name of an op's first output)")
            op = named[0]
        part = int(self.division.part[op])
        if part < 0:
            verdicts = tuple(DeviceVerdict(d.name, True, "") for d in self.devices)
            where = self.devices[self.device_of_op[op]].name
            homes = [s.id for s in self.subgraphs if graph.op_keys[op] in s.ops]
            because = (f"a constant: it follows its consumers (subgraph {', '.join(map(str, homes))})" if homes
                       else "a constant that nothing reads")
            return Explanation(graph.op_keys[op], graph.display_name(op), graph.type_label(op), where, because, None,
                               False, None, verdicts)
        verdicts = tuple(DeviceVerdict(d.name, bool(table.allowed[op, i]), table.reason(op, i))
                         for i, d in enumerate(self.devices))
        pinned = table.pins.get(graph.op_keys[op])
        chosen = int(self.assignment.device[op])
        forced = pinned is not None and not table.able[op, chosen]
        because = self._because(op)
        if forced:
            because += f" by force, although it cannot run there ({table.inability(op, chosen)})"
        return Explanation(graph.op_keys[op], graph.display_name(op), graph.type_label(op), self.devices[chosen].name,
                           because, pinned, forced, part, verdicts)


def placement_of_groups(graph: Graph, devices: Sequence[Device], device: Ints, group: Ints) -> Placement:
    """A placement whose subgraphs are given, for measurements and tests; nothing is asked of the runtimes.

    Args:
        graph: the model.
        devices: the device table.
        device: [op] index of the device.
        group: [op] number of the subgraph in an order of execution; -1 for constants that follow their consumers.
    """
    allowed = np.zeros((len(graph), len(devices)), bool)
    allowed[np.arange(len(graph)), device] = True
    answers = tuple(Capability.everything(graph) for _ in devices)
    constraints = Constraints(graph, tuple(devices), np.ones_like(allowed), allowed, group >= 0, {}, frozenset(), answers, {})
    return Placement(graph, tuple(devices), Settings(), constraints, Assignment(device, lambda _op: "given"),
                     divide(graph, devices, device, group))


def solve(graph: Graph, devices: Sequence[Device], settings: Settings,
          capabilities: Sequence[Capability] | None = None) -> Placement:
    """Chooses a device for every op and forms the subgraphs.

    Args:
        graph: the model, with every symbol of its inputs bound.
        devices: the device table, in order of priority.
        settings: policy, pins, way to form subgraphs.
        capabilities: what each device can run; asked of the runtimes when left out.

    Raises:
        UnboundSymbolError, PinError, UnsupportedOpError, EditorError (unknown policy).
    """
    if graph.unbound:
        example = " ".join(f"--define {name}=1" for name in graph.unbound)
        raise UnboundSymbolError(
            f"{graph.path}: the size of {', '.join(map(repr, graph.unbound))} is not known; "
            f"give it a value (command line: {example}; Python: load_model(path, define={{...}}))", graph.unbound)
    policy, grouping = policy_of(settings.policy), grouping_of(settings.subgraphs)
    check_options(settings.policy_options)
    answers = capabilities if capabilities is not None else [capability(graph, d) for d in devices]
    table = constrain(graph, devices, answers, settings.pins, settings.forced, settings.rules)
    task = Task(table, lambda: costs_of(graph, devices, settings.policy_options.get("costs", "estimate")),
                settings.policy_options)
    assignment = policy(task)
    codegen = settings.policy_options.get("codegen", "op")
    if codegen not in CODEGEN_CHOICES:
        raise EditorError(f"unknown policy option codegen: {codegen!r}; choose one of: {', '.join(CODEGEN_CHOICES)}")
    if codegen == "subgraph":
        assignment = choose_codegens(task, grouping, assignment)
    part = grouping(graph, assignment.device, np.flatnonzero(table.placed))
    return Placement(graph, tuple(devices), settings, table, assignment,
                     divide(graph, devices, assignment.device, part))
