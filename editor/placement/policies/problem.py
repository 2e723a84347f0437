"""Poses the placement of ops as a problem, and bounds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from editor.graph.flops import Floats
from editor.graph.graph import Bools, Graph, Ints, Rows, numbers_at
from editor.placement.costs import Costs, price, subgraph_overheads, without_wires
from editor.placement.subgraphs.minimal import minimal

if TYPE_CHECKING:
    from ortools.linear_solver import pywraplp


@dataclass(frozen=True)
class Tensor:
    """A value that one node produces and others read."""

    source: int
    readers: tuple[int, ...]
    leave: tuple[float, ...]
    """[device] seconds to host memory"""
    enter: tuple[float, ...]
    """[device] seconds from host memory"""


@dataclass(frozen=True, eq=False)
class Problem:
    """Nodes in a topological order, devices, and the cost of each choice."""

    time: Floats
    """[node, device] seconds"""
    allowed: Bools
    """[node, device]"""
    size: Floats
    """[node] bytes of weights that the node needs on its device"""
    capacity: Floats
    """[device] bytes; infinite where there is no limit"""
    source: Ints
    """[tensor] node that produces it"""
    readers: Rows
    """[tensor] nodes that read it"""
    leave: Floats
    """[tensor, device] seconds from the device to host memory"""
    enter: Floats
    """[tensor, device] seconds from host memory to the device"""
    processor: Ints | None = None
    """[device] number of its processor, from 0: runtimes of one CPU take turns on it. None: each device has its own."""

    def __len__(self) -> int:
        return len(self.size)

    @classmethod
    def of(
        cls,
        graph: Graph,
        costs: Costs,
        allowed: Bools,
        placed: Ints,
        capacity: Sequence[float] | Floats | None = None,
        size: Floats | None = None,
        processor: Ints | None = None,
    ) -> Problem:
        """Builds the problem of a graph; nodes are the placed ops in topological order.

        Args:
            graph: the model.
            costs: times.
            allowed: [op, device].
            placed: ops with a device of their own, in topological order.
            capacity: [device] bytes.
            size: [op] bytes of weights.
            processor: [device] number of its processor.
        """
        node = numbers_at(len(graph), placed, np.arange(len(placed)))
        producer, consumer, tensor = graph.edges
        inside = (node[producer] >= 0) & (node[consumer] >= 0)
        order = np.argsort(tensor[inside], kind="stable")
        ids, starts = np.unique(tensor[inside][order], return_index=True)
        readers = Rows(
            np.append(starts, int(inside.sum())).astype(np.int64), node[consumer[inside][order]]
        )
        devices = costs.op.shape[1]
        time, enter = costs.op, costs.enter
        if costs.ends is not None:
            time = time + costs.ends
        if costs.wires is not None:
            time, enter = time + costs.wires.ends_on(), enter + costs.wires.entering()
        return cls(
            time[placed],
            allowed[placed],
            np.zeros(len(placed)) if size is None else size[placed],
            np.full(devices, np.inf) if capacity is None else np.asarray(capacity, np.float64),
            node[producer[inside][order][starts]],
            readers,
            costs.leave[ids],
            enter[ids],
            processor,
        )

    @classmethod
    def build(
        cls, time: Floats, allowed: Bools, size: Floats, capacity: Floats, tensors: Sequence[Tensor]
    ) -> Problem:
        """Builds a problem from a list of tensors."""
        devices = time.shape[1]
        return cls(
            time,
            allowed,
            size,
            capacity,
            np.array([t.source for t in tensors], np.int64),
            Rows.of([t.readers for t in tensors]),
            np.array([t.leave for t in tensors], np.float64).reshape(-1, devices),
            np.array([t.enter for t in tensors], np.float64).reshape(-1, devices),
        )

    @property
    def times(self) -> Floats:
        """[node, device] seconds, infinite where a node may not be."""
        return np.where(self.allowed, self.time, np.inf)

    @cached_property
    def fastest(self) -> Ints:
        """[node] device where it takes the least time by itself."""
        fastest: Ints = self.times.argmin(axis=1).astype(np.int64)
        return fastest

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors as objects, for solvers that iterate over them."""
        return tuple(
            Tensor(s, tuple(self.readers[i].tolist()), tuple(out), tuple(into))
            for i, (s, out, into) in enumerate(
                zip(self.source.tolist(), self.leave.tolist(), self.enter.tolist(), strict=True)
            )
        )

    def crossings(self, label: Ints) -> tuple[Ints, Ints, Ints]:
        """Transfers of a placement: the tensors that leave their device, and tensor and device of every arrival."""
        devices = self.time.shape[1]
        tensor = self.readers.row_of_value
        away = label[self.readers.values] != label[self.source[tensor]]
        arrivals = np.unique(tensor[away] * devices + label[self.readers.values[away]])
        return np.unique(tensor[away]), arrivals // devices, arrivals % devices

    def loads(self, label: Ints) -> Floats:
        """[device] busy seconds of one run: its nodes, and each tensor that it sends or receives once."""
        devices = self.time.shape[1]
        leaving, tensor, device = self.crossings(label)
        source_device = label[self.source[leaving]]
        load = (
            np.bincount(label, self.time[np.arange(len(label)), label], devices)
            + np.bincount(source_device, self.leave[leaving, source_device], devices)
            + np.bincount(device, self.enter[tensor, device], devices)
        )
        return np.asarray(load, np.float64)

    @cached_property
    def processors(self) -> Ints:
        """[device] number of its processor, from 0."""
        return np.arange(self.time.shape[1]) if self.processor is None else self.processor

    def busy(self, label: Ints) -> Floats:
        """[processor] busy seconds of one run: the loads of all its devices."""
        return np.bincount(self.processors, self.loads(label)).astype(np.float64)

    def used(self, label: Ints) -> Floats:
        """[device] bytes of weights."""
        return np.bincount(label, self.size, self.time.shape[1]).astype(np.float64)

    def fits(self, label: Ints) -> bool:
        """Whether every node is on an allowed device and all weights fit."""
        return bool(
            self.allowed[np.arange(len(label)), label].all()
            and (self.used(label) <= self.capacity + 1e-6).all()
        )


def busiest_name(problem: Problem) -> str:
    """What the least load of ``busiest_load`` is called: runtimes of one CPU share a processor."""
    return (
        "busiest device"
        if len(set(problem.processors.tolist())) == len(problem.processors)
        else "busiest processor"
    )


def busiest_load(
    graph: Graph,
    costs: Costs,
    problem: Problem,
    device: Ints,
    placed: Ints,
    subgraph_of_op: Ints | None = None,
) -> float:
    """Seconds that the busiest processor works in one run, with the launches of its subgraphs.

    Args:
        graph: the model.
        costs: times.
        problem: made of both and of ``placed``.
        device: [op].
        placed: ops with a device of their own, in topological order.
        subgraph_of_op: [op] number of the subgraph; by default as few as can be.
    """
    busy = problem.busy(device[placed])
    number, launches = subgraph_overheads(graph, costs, device, placed, subgraph_of_op)
    return float(
        (busy + np.bincount(problem.processors[number], launches, len(busy))).max(initial=0.0)
    )


def busy_seconds(
    graph: Graph, costs: Costs, device: Ints, placed: Ints, subgraph_of_op: Ints | None = None
) -> Floats:
    """[device] seconds that it works in one run: its ops, each tensor that it sends or receives, its launches.

    Args:
        graph: the model.
        costs: times.
        device: [op].
        placed: ops with a device of their own, in topological order.
        subgraph_of_op: [op] number of the subgraph; by default as few as can be.
    """
    costs, devices = without_wires(costs), costs.op.shape[1]
    if subgraph_of_op is None:
        subgraph_of_op = minimal(graph, device, placed)
    if costs.whole is not None and len(placed) and not subgraph_of_op[placed].any():
        whole = price(graph, costs, device, placed, subgraph_of_op).total
        return np.bincount(device[placed[:1]], [whole], devices).astype(np.float64)
    problem = Problem.of(graph, costs, np.ones_like(costs.op, bool), placed)
    number, launches = subgraph_overheads(graph, costs, device, placed, subgraph_of_op)
    busy = problem.loads(device[placed]) + np.bincount(number, launches, devices)
    return np.asarray(busy, np.float64)


_MAX_TERMS = 40_000
"""Readers times devices up to which the program is solved: larger ones take seconds."""
_TIME_LIMIT = 2.0
_SAFETY = 1e-6
"""The solver's tolerance, relative to the bound."""


def relaxed_bound(problem: Problem, busiest: bool) -> float:
    """No placement takes fewer seconds; 0 where the problem is too large, or the solver does not end in time.

    Args:
        problem: what to place.
        busiest: bound the load of the busiest processor, instead of the sum of all loads.
    """
    n, devices = problem.time.shape
    if n == 0 or len(problem.readers.values) * devices > _MAX_TERMS:
        return 0.0
    from ortools.linear_solver import (
        pywraplp,
    )  # importing takes 0.04 s, and most commands do not need it

    # Interior points stop at a tolerance; a simplex solver ends at a vertex, whose dual is a proof.
    solver = pywraplp.Solver.CreateSolver("GLOP")
    solver.SetTimeLimit(int(_TIME_LIMIT * 1000))
    unit = float(problem.times.min(axis=1).sum()) or 1.0
    on = _places(solver, problem)
    loads: list[list[tuple[pywraplp.Variable, float]]] = [[] for _ in range(devices)]
    for v, choices in enumerate(on):
        for d, share in choices.items():
            loads[d].append((share, problem.time[v, d] / unit))
    for i, tensor in enumerate(problem.tensors):
        homes = on[tensor.source]
        for d in range(devices):
            arrives = leaves = None
            for reader in tensor.readers:
                there, here = on[reader].get(d), homes.get(d)
                if there is not None and problem.enter[i, d]:
                    arrives = arrives or solver.NumVar(0, 1, "")
                    _at_least(solver, arrives, there, here)
                if here is not None and problem.leave[i, d]:
                    leaves = leaves or solver.NumVar(0, 1, "")
                    _at_least(solver, leaves, here, there)
            if arrives is not None:
                loads[d].append((arrives, problem.enter[i, d] / unit))
            if leaves is not None:
                loads[d].append((leaves, problem.leave[i, d] / unit))
    if busiest:
        devices_of = [
            np.flatnonzero(problem.processors == p).tolist()
            for p in range(int(problem.processors.max()) + 1)
        ]
        loads = [[term for d in mine for term in loads[d]] for mine in devices_of]
    _minimise(solver, loads, busiest)
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return 0.0
    return float(solver.Objective().Value()) * unit * (1 - _SAFETY)


def _places(solver: pywraplp.Solver, problem: Problem) -> list[dict[int, pywraplp.Variable]]:
    """[node] device -> share of the node on it; weights fit."""
    on = []
    for v in range(len(problem)):
        choices = {d: solver.NumVar(0, 1, "") for d in np.flatnonzero(problem.allowed[v]).tolist()}
        row = solver.Constraint(1, 1)
        for share in choices.values():
            row.SetCoefficient(share, 1)
        on.append(choices)
    for d in np.flatnonzero(np.isfinite(problem.capacity)).tolist():
        row = solver.Constraint(-solver.infinity(), 1)
        for v, choices in enumerate(on):
            if d in choices and problem.size[v] and problem.capacity[d]:
                row.SetCoefficient(choices[d], problem.size[v] / problem.capacity[d])
    return on


def _at_least(
    solver: pywraplp.Solver,
    cost: pywraplp.Variable,
    one: pywraplp.Variable,
    other: pywraplp.Variable | None,
) -> None:
    """``cost`` is at least the share of ``one`` that exceeds that of ``other``."""
    row = solver.Constraint(0, solver.infinity())
    row.SetCoefficient(cost, 1)
    row.SetCoefficient(one, -1)
    if other is not None:
        row.SetCoefficient(other, 1)


def _minimise(
    solver: pywraplp.Solver, loads: list[list[tuple[pywraplp.Variable, float]]], busiest: bool
) -> None:
    objective = solver.Objective()
    objective.SetMinimization()
    if not busiest:
        for load in loads:
            for variable, seconds in load:
                objective.SetCoefficient(variable, objective.GetCoefficient(variable) + seconds)
        return
    top = solver.NumVar(0, solver.infinity(), "")
    objective.SetCoefficient(top, 1)
    for load in loads:
        row = solver.Constraint(0, solver.infinity())
        row.SetCoefficient(top, 1)
        for variable, seconds in load:
            row.SetCoefficient(variable, row.GetCoefficient(variable) - seconds)


def column_keys(*columns: npt.NDArray[Any]) -> list[tuple[bytes, ...]]:
    """[device] a key that devices whose columns are equal have in common; all arrays are [.., device]."""
    return [tuple(each[:, d].tobytes() for each in columns) for d in range(columns[0].shape[1])]
