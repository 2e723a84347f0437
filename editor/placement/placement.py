"""A model divided over devices: constraints, affinities and subgraphs in one frozen value.

Policies choose device and unit op by op. Entries of the device table that differ only in codegen (the third level of an
assignment) are one unit with a choice of compilers, and a compiler pays off on whole subgraphs: it is chosen once per subgraph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from editor.arguments import as_text
from editor.devices.device import Device
from editor.devices.published import assumed_bytes
from editor.errors import PinError, UnboundSymbolError
from editor.graph.flops import Floats
from editor.graph.graph import Graph, Ints
from editor.placement.choices import Grouping, check_options, grouping_of, policy_of
from editor.placement.constraints import Constraints, constrain
from editor.placement.costs import (
    Costs,
    Price,
    price,
    processors,
    stated_watts,
    subgraph_overheads,
)
from editor.placement.device_profile import costs_of
from editor.placement.policies.problem import Problem, busiest_load, busy_seconds
from editor.placement.policies.task import Assignment, Task, assign
from editor.placement.rules import Rule
from editor.placement.run_memory import RunMemory, run_memory
from editor.placement.subgraphs.division import Boundary, Division, Subgraph, divide
from editor.runtimes.base import Capability
from editor.runtimes.registry import capability, for_model
from editor.text import human_seconds


def choose_codegens(task: Task, grouping: Grouping, assignment: Assignment) -> Assignment:
    """Assigns every subgraph to the codegen of its device and unit that runs all of its ops fastest.

    Subgraphs are formed as if the codegens of a unit were one device. Where no codegen may run every op
    of a subgraph (a pin, a rule or a capability forbids it), the ops keep the choice of the policy.

    Returns:
        the changed assignment; the same object where no two entries share a device and a unit.
    """
    constraints, placed = task.constraints, task.placed
    units = [(d.device, d.unit) for d in constraints.devices]
    merged = np.array([units.index(u) for u in units], np.int64)
    if len(set(units)) == len(units) or not len(placed):
        return assignment
    costs = task.costs()
    subgraph_of_op = grouping(constraints.graph, merged[assignment.device], placed)
    device, chosen = assignment.device.copy(), {}
    for number in range(int(subgraph_of_op.max()) + 1):
        ops = np.flatnonzero(subgraph_of_op == number)
        usable = [
            d
            for d in np.flatnonzero(merged == merged[assignment.device[ops[0]]]).tolist()
            if constraints.allowed[ops, d].all()
        ]
        if usable:
            seconds = {d: float(costs.op[ops, d].sum() + costs.launch[d]) for d in usable}
            device[ops] = min(usable, key=lambda d: seconds[d])
            chosen[number] = seconds
    word = "estimated" if costs.estimated else "measured"

    def because(op: int) -> str:
        why, seconds = assignment.because(op), chosen.get(int(subgraph_of_op[op]), {})
        if len(seconds) < 2:
            return why
        times = ", ".join(
            f"{human_seconds(s)} with {constraints.devices[d].codegen}" for d, s in seconds.items()
        )
        return f"{constraints.devices[device[op]].codegen} is the fastest codegen of its subgraph: {times} ({word}); {why}"

    changed = replace(assignment, device=device, because=because)
    if assignment.objective is None or np.array_equal(device, assignment.device):
        return changed
    return replace(
        changed,
        objective=price(constraints.graph, costs, device, placed).total,
        bound=None,
        objective_name="latency, codegen per subgraph",
    )


@dataclass(frozen=True)
class DeviceVerdict:
    """Whether one device may run one op."""

    device: str
    allowed: bool
    reason: str
    """Why the device may not run it; "" when allowed"""
    condition: str = ""
    """The conditions of the device table that the op does not meet, as they are written"""


@dataclass(frozen=True)
class Explanation:
    """Why an op is on its device."""

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
    """The decisions of the user; everything else in a placement is derived."""

    policy: str = "priority"
    policy_options: Mapping[str, Any] = field(default_factory=dict)
    pins: Mapping[str, str] = field(default_factory=dict)
    forced: frozenset[str] = frozenset()
    subgraphs: str = "minimal"
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, eq=False)
class Placement:
    """The result for one graph, one device table and one set of decisions."""

    graph: Graph
    devices: tuple[Device, ...]
    settings: Settings
    constraints: Constraints
    assignment: Assignment
    division: Division

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what runs: model, sizes, the devices that are used, the device of each op and the subgraphs.

        Decisions have no part in it, nor have devices without a subgraph: a measurement stays one when they change.
        """
        used = sorted(self.used_devices, key=lambda device: device.name)
        said = (
            self.graph.sha256,
            sorted(self.graph.define.items()),
            [d.own_entry for d in used],
        )
        digest = hashlib.sha256(repr(said).encode())
        rank = np.full(len(self.devices), -1)
        rank[[self.device_number(d.name) for d in used]] = np.arange(len(used))
        placed = self.division.subgraph_of_op >= 0
        digest.update(np.where(placed, rank[self.device_of_op], -1).astype("<i8").tobytes())
        digest.update(self.division.subgraph_of_op.astype("<i8").tobytes())
        return digest.hexdigest()

    def beside(self, taken: Mapping[str, int]) -> Placement:
        """The same placement where other models of a set take so many bytes of devices, by name."""
        devices = tuple(d.beside(taken.get(d.name, d.taken)) for d in self.devices)
        if devices == self.devices:
            return self
        return replace(
            self, devices=devices, constraints=replace(self.constraints, devices=devices)
        )

    @cached_property
    def by_name(self) -> Mapping[str, Device]:
        """Name -> device."""
        return {device.name: device for device in self.devices}

    @cached_property
    def device_of_op(self) -> Ints:
        """[op] index of the device; a constant has the device of its first consumer."""
        device = self.assignment.device.copy()
        device_of_subgraph = [self.device_number(s.device) for s in self.division.subgraphs]
        first = {
            key: subgraph.id
            for subgraph in reversed(self.division.subgraphs)
            for key in subgraph.ops
        }
        for op in np.flatnonzero(self.division.subgraph_of_op < 0).tolist():
            key = self.graph.op_keys[op]
            if key in first:
                device[op] = device_of_subgraph[first[key]]
        for op in reversed(
            self.graph.order.tolist()
        ):  # what only ops of fixed sizes read, which read nothing in a run
            if (
                self.division.subgraph_of_op[op] < 0
                and self.graph.op_keys[op] not in first
                and op in self._size_readers
            ):
                device[op] = device[self._size_readers[op]]
        return device

    @cached_property
    def _size_readers(self) -> dict[int, int]:
        """Op -> an op that reads only the size of its result, where that is fixed."""
        operands = {
            op: int(self.graph.op_inputs[op][0])
            for op in np.flatnonzero(self.graph.op_is_size).tolist()
        }
        return {
            int(self.graph.tensor_producer[tensor]): op
            for op, tensor in operands.items()
            if self.graph.tensor_producer[tensor] >= 0
        }

    @cached_property
    def affinity(self) -> dict[str, str]:
        """Op key -> device name."""
        names = [d.name for d in self.devices]
        return {
            key: names[d]
            for key, d in zip(self.graph.op_keys, self.device_of_op.tolist(), strict=True)
        }

    @property
    def used_numbers(self) -> list[int]:
        """Numbers of the devices that have a subgraph."""
        return sorted({self.device_number(s.device) for s in self.subgraphs})

    @property
    def subgraphs(self) -> tuple[Subgraph, ...]:
        """The subgraphs; ids are a topological order, from 0."""
        return self.division.subgraphs

    @property
    def boundaries(self) -> tuple[Boundary, ...]:
        """Tensors that cross subgraphs."""
        return self.division.boundaries

    @cached_property
    def _boundary_of(self) -> dict[str, Boundary]:
        return {b.tensor: b for b in self.boundaries}

    def size_of(self, tensor: int, device: int) -> tuple[int, str]:
        """Bytes of a tensor as it travels, or as its device plans it; and the type they are of where that is not its own."""
        boundary = self._boundary_of.get(self.graph.tensor_names[tensor])
        if boundary is not None:
            return boundary.bytes, boundary.counted_as
        form = self.devices[device].published.assumes
        size = int(assumed_bytes(self.graph, form)[tensor])
        return size, form if size != self.graph.tensor_bytes[tensor] else ""

    @cached_property
    def placed_ops(self) -> Ints:
        """Ops with a device of their own: all but the constants that follow their consumers."""
        return np.flatnonzero(self.constraints.placed)

    @cached_property
    def forced_ops(self) -> list[int]:
        """Ops that were pinned by force to a device that cannot run them."""
        able = self.constraints.able[np.arange(len(self.graph)), self.assignment.device]
        return np.flatnonzero(self.constraints.placed & ~able).tolist()

    @cached_property
    def run_memory(self) -> RunMemory:
        """The memory that a run holds on each device, op by op."""
        return run_memory(
            self.graph, self.devices, self.assignment.device, self.division.subgraph_of_op
        )

    @cached_property
    def op_counts(self) -> dict[str, int]:
        """Ops per device, without constants."""
        counts = np.bincount(self.assignment.device[self.placed_ops], minlength=len(self.devices))
        return {d.name: int(c) for d, c in zip(self.devices, counts.tolist(), strict=True)}

    @property
    def used_devices(self) -> tuple[Device, ...]:
        """Devices that run at least one subgraph, in table order."""
        used = {s.device for s in self.subgraphs}
        return tuple(d for d in self.devices if d.name in used)

    def device_number(self, name: str) -> int:
        """Index of a device in the device table."""
        return [d.name for d in self.devices].index(name)

    def ops_on(self, name: str) -> list[int]:
        """Ops that a device runs, without constants."""
        there = self.assignment.device == self.device_number(name)
        return np.flatnonzero(self.constraints.placed & there).tolist()

    def ops_of(self, subgraphs: Sequence[int]) -> list[int]:
        """Ops of the given subgraphs, without constants."""
        return np.flatnonzero(np.isin(self.division.subgraph_of_op, subgraphs)).tolist()

    def price(self, costs: Costs) -> Price:
        """Cost of one run, in seconds."""
        return price(
            self.graph, costs, self.assignment.device, self.placed_ops, self.division.subgraph_of_op
        )

    def starts(self, costs: Costs) -> Floats:
        """[subgraph] seconds of its launch and cold start; 0 where the profile of the unsplit model has them in its time."""
        device, parts = self.assignment.device, self.division.subgraph_of_op
        _, seconds = subgraph_overheads(self.graph, costs, device, self.placed_ops, parts)
        return seconds if self.price(costs).launches else np.zeros_like(seconds)

    def busiest_seconds(self, costs: Costs) -> float:
        """Load of the busiest processor in one run, with transfers and launches: the least time between two requests.

        No processor is busy for longer than a whole run, which a profile may have measured to be faster than the sum of its
        ops.
        """
        placed = self.placed_ops
        problem = Problem.of(
            self.graph, costs, self.constraints.allowed, placed, processor=processors(self.devices)
        )
        busiest = busiest_load(
            self.graph, costs, problem, self.assignment.device, placed, self.division.subgraph_of_op
        )
        return min(busiest, self.price(costs).total)

    def busy_seconds(self, costs: Costs) -> Floats:
        """[device] seconds that it works in one run, with transfers and launches."""
        return busy_seconds(
            self.graph,
            costs,
            self.assignment.device,
            self.placed_ops,
            self.division.subgraph_of_op,
        )

    def _because(self, op: int) -> str:
        pin = self.constraints.pins.get(self.graph.op_keys[op])
        if pin is not None:
            return f"pinned to {pin}"
        rule = self.constraints.ruled.get(op)
        if rule and self.constraints.allowed[op].sum() == 1 < self.constraints.able[op].sum():
            return rule  # it leaves no other device
        why = self.assignment.because(op)
        return f"{rule}; {why}" if rule else why

    def ops_of_subgraphs(self) -> list[list[int]]:
        """[subgraph] its ops, constants among them."""
        return [[self.graph.key_index[key] for key in s.ops] for s in self.subgraphs]

    @property
    def uses_planned(self) -> bool:
        """Whether ops are on devices that are not here, for which stand-ins run."""
        return any(d.planned and self.op_counts[d.name] for d in self.devices)

    def why(self, key: str) -> Explanation:
        """Why an op is on its device.

        Raises:
            PinError: no op has this key.
        """
        graph, constraints = self.graph, self.constraints
        op = graph.key_index.get(as_text(key, "the key of an op", PinError))
        inner = graph.inner_op(key) if op is None else None
        if inner is not None:
            around = self.why(graph.op_keys[inner.owner])
            return replace(around, because=f"{key} is {inner.place(graph)}; {around.because}")
        if op is None:
            named = [i for i, name in enumerate(graph.op_names) if name and name == key]
            if len(named) != 1:
                raise PinError(
                    f"no op with the key {key!r} (a key is the name of an op's first output)"
                )
            op = named[0]
        subgraph = int(self.division.subgraph_of_op[op])
        if subgraph < 0:
            verdicts = tuple(DeviceVerdict(d.name, True, "") for d in self.devices)
            device = self.devices[self.device_of_op[op]].name
            readers = [s.id for s in self.subgraphs if graph.op_keys[op] in s.ops]
            what = (
                "a constant, because the size that it reads is fixed"
                if graph.op_is_size[op]
                else "a constant"
            )
            because = (
                f"{what}: it follows its consumers (subgraph {', '.join(map(str, readers))})"
                if readers
                else f"{what}: nothing reads it in a run"
                if graph.op_is_size[op]
                else "a constant that nothing reads"
            )
            return Explanation(
                graph.op_keys[op],
                graph.display_name(op),
                graph.type_label(op),
                device,
                because,
                None,
                False,
                None,
                verdicts,
            )
        verdicts = tuple(
            DeviceVerdict(
                d.name,
                bool(constraints.allowed[op, i]),
                constraints.reason(op, i),
                constraints.condition(op, i),
            )
            for i, d in enumerate(self.devices)
        )
        pinned = constraints.pins.get(graph.op_keys[op])
        chosen = int(self.assignment.device[op])
        forced = pinned is not None and not constraints.able[op, chosen]
        because = self._because(op)
        if remark := constraints.remark(op, chosen):
            because += f"; {remark}"
        if forced:
            because += (
                f" by force, although it cannot run there ({constraints.inability(op, chosen)})"
            )
        return Explanation(
            graph.op_keys[op],
            graph.display_name(op),
            graph.type_label(op),
            self.devices[chosen].name,
            because,
            pinned,
            forced,
            subgraph,
            verdicts,
        )


def placement_of_groups(
    graph: Graph, devices: Sequence[Device], device: Ints, group: Ints
) -> Placement:
    """A placement with given subgraphs, for measurements and tests; no runtime is queried.

    Args:
        graph: the model.
        devices: the device table.
        device: [op] index of the device.
        group: [op] number of the subgraph in topological order; -1 for constants that follow their consumers.
    """
    allowed = np.zeros((len(graph), len(devices)), bool)
    allowed[np.arange(len(graph)), device] = True
    answers = tuple(Capability.everything(graph) for _ in devices)
    constraints = Constraints(
        graph,
        tuple(devices),
        np.ones_like(allowed),
        allowed,
        group >= 0,
        {},
        frozenset(),
        answers,
        {},
    )
    return Placement(
        graph,
        tuple(devices),
        Settings(),
        constraints,
        Assignment(device, lambda _op: "given"),
        divide(graph, devices, device, group),
    )


def solve(
    graph: Graph,
    devices: Sequence[Device],
    settings: Settings,
    capabilities: Sequence[Capability] | None = None,
    should_stop: Callable[[], bool] = bool,
) -> Placement:
    """Chooses a device for every op and forms the subgraphs.

    Args:
        graph: the model, with every symbol of its inputs bound.
        devices: the device table, in order of priority.
        settings: policy, pins, rules, subgraph rule.
        capabilities: the ops that each device can run; queried from the runtimes by default.
        should_stop: asked during a long search, which then ends with the best placement so far.

    Raises:
        UnboundSymbolError, PinError, UnsupportedOpError, EditorError (unknown policy).
    """
    devices = tuple(for_model(graph, device) for device in devices)
    if graph.unbound:
        example = " ".join(f"--define {name}=1" for name in graph.unbound)
        raise UnboundSymbolError(
            f"{graph.path}: the size of {', '.join(map(repr, graph.unbound))} is unknown; "
            f"give it a value (command line: {example}; Python: load_model(path, define={{...}}))",
            graph.unbound,
        )
    policy_of(settings.policy)  # before devices are asked
    grouping = grouping_of(settings.subgraphs)
    check_options(settings.policy_options)
    answers = capabilities if capabilities is not None else [capability(graph, d) for d in devices]
    constraints = constrain(graph, devices, answers, settings.pins, settings.forced, settings.rules)
    task = Task(
        constraints,
        lambda: costs_of(graph, devices, settings.policy_options.get("costs", "estimate")),
        settings.policy_options,
        should_stop,
    )
    assignment = assign(settings.policy, task)
    if (graph.tensor_bytes[~graph.tensor_is_constant] < 0).any():
        assignment = replace(assignment, bound=None)  # unknown sizes cost nothing in it
    if settings.policy_options.get("codegen") == "subgraph":
        assignment = choose_codegens(task, grouping, assignment)
    groups = grouping(graph, assignment.device, np.flatnonzero(constraints.placed))
    placement = Placement(
        graph,
        tuple(devices),
        settings,
        constraints,
        assignment,
        divide(graph, devices, assignment.device, groups),
    )
    return (
        placement
        if assignment.objective is None or settings.subgraphs == "minimal"
        else _with_own_objective(placement, task.costs())
    )


def _with_own_objective(placement: Placement, costs: Costs) -> Placement:
    """Recompute the objective for the grouping in use: policies optimise for the minimal one."""
    if placement.assignment.objective_name.startswith("busiest"):
        reached = placement.busiest_seconds(costs)
    elif placement.assignment.in_joules:
        watts = stated_watts(placement.devices)
        reached = float(np.nansum(placement.busy_seconds(costs) * watts))
    else:
        reached = placement.price(costs).total
    return replace(placement, assignment=replace(placement.assignment, objective=reached))
