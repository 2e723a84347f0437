"""What a placement holds in each device's memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from editor.devices.device import Device
from editor.graph.graph import Bools, Graph, Ints
from editor.placement.policies.problem import Floats
from editor.placement.subgraphs.division import Subgraph


def weight_bytes(graph: Graph, placed: Ints) -> Floats:
    """[op] bytes of the constants that an op reads; one that several ops read counts with the first.

    The sum over a device's ops is thus never more than the constants of that device, and less only
    where two devices share one.
    """
    here = np.zeros(len(graph), bool)
    here[placed] = True
    size = np.zeros(len(graph))
    constant = graph.tensor_is_constant
    readers = graph.readers
    for tensor in np.flatnonzero(constant & (graph.tensor_bytes > 0)).tolist():
        first = next((op for op in readers[tensor].tolist() if here[op]), None)
        if first is not None:
            size[first] += graph.tensor_bytes[tensor]
    return size


def device_bytes(devices: Sequence[Device], subgraphs: Sequence[Subgraph]) -> dict[str, int]:
    """Bytes that each device needs at once: all its constants, and the buffers of its largest subgraph."""
    found: dict[str, int] = {}
    for device in devices:
        mine = [s.memory for s in subgraphs if s.device == device.name]
        found[device.name] = sum(m.constants for m in mine) + max((m.input + m.output for m in mine), default=0)
    return found


def heaviest(graph: Graph, ops: Bools, size: Floats, count: int = 5) -> list[str]:
    """Names of the ops with the most constants, with their bytes."""
    order = np.argsort(-np.where(ops, size, -1.0), kind="stable")[:count]
    return [f"{graph.display_name(op)} ({int(size[op]):,} bytes)" for op in order.tolist() if ops[op] and size[op] > 0]
