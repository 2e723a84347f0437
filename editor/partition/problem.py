"""The placement problem in plain arrays: what solvers see, whatever it was made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from editor.graph.graph import Bools, Graph, Ints
from editor.partition.costs import Costs

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Tensor:
    """A value made by one node and read by others."""

    source: int
    readers: tuple[int, ...]
    leave: tuple[float, ...]
    """[device] seconds to host memory"""
    enter: tuple[float, ...]
    """[device] seconds from host memory"""


@dataclass(frozen=True, eq=False)
class Problem:
    """Nodes in a topological order, devices, and what each choice costs."""

    time: Floats
    """[node, device] seconds"""
    allowed: Bools
    """[node, device]"""
    size: Floats
    """[node] bytes that the node brings to its device (weights)"""
    capacity: Floats
    """[device] bytes; infinite where there is no limit"""
    tensors: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.size)

    @classmethod
    def of(cls, graph: Graph, costs: Costs, allowed: Bools, placed: Ints, capacity: Sequence[float] | Floats | None = None,
           size: Floats | None = None) -> Problem:
        """From a graph; nodes are the placed ops in the graph's topological order.

        Args:
            graph: the model.
            costs: times.
            allowed: [op, device].
            placed: ops that have a place, in topological order.
            capacity: [device] bytes.
            size: [op] bytes of weights.
        """
        node = np.full(len(graph), -1, np.int64)
        node[placed] = np.arange(len(placed))
        producer, consumer, tensor = graph.edges
        real = (node[producer] >= 0) & (node[consumer] >= 0)
        order = np.argsort(tensor[real], kind="stable")
        ids, starts = np.unique(tensor[real][order], return_index=True)
        sources = node[producer[real][order][starts]].tolist()
        readers = np.split(node[consumer[real][order]], starts[1:]) if len(starts) else []
        leave, enter = costs.leave[ids].tolist(), costs.enter[ids].tolist()
        tensors = tuple(Tensor(s, tuple(r.tolist()), tuple(out), tuple(into))
                        for s, r, out, into in zip(sources, readers, leave, enter, strict=True))
        devices = costs.op.shape[1]
        return cls(costs.op[placed], allowed[placed], np.zeros(len(placed)) if size is None else size[placed],
                   np.full(devices, np.inf) if capacity is None else np.asarray(capacity, np.float64), tensors)

    def loads(self, label: Ints) -> Floats:
        """[device] busy seconds of one run: its nodes, what it sends and what it receives, once per tensor."""
        load = np.bincount(label, self.time[np.arange(len(label)), label], self.time.shape[1]).astype(np.float64)
        of = label.tolist()
        for t in self.tensors:
            home = of[t.source]
            away = {of[r] for r in t.readers} - {home}
            if away:
                load[home] += t.leave[home]
                for device in away:
                    load[device] += t.enter[device]
        return load

    def used(self, label: Ints) -> Floats:
        """[device] bytes of weights."""
        return np.bincount(label, self.size, self.time.shape[1]).astype(np.float64)

    def fits(self, label: Ints) -> bool:
        """Whether every node may be where it is and no device holds too much."""
        return bool(self.allowed[np.arange(len(label)), label].all() and (self.used(label) <= self.capacity + 1e-6).all())
