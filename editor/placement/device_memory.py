"""Memory that a placement needs on each device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from editor.devices.device import Device
from editor.graph.graph import Bools, Graph, Ints
from editor.placement.policies.problem import Floats
from editor.placement.subgraphs.division import Subgraph


def weight_bytes(graph: Graph, placed: Ints) -> Floats:
    """[op] bytes of the constants that an op reads; a shared constant counts only for its first reader.

    The sum over a device's ops equals the constants of that device, or is less where two devices share
    a constant.
    """
    is_placed = np.zeros(len(graph), bool)
    is_placed[placed] = True
    size = np.zeros(len(graph))
    constant = graph.tensor_is_constant
    readers = graph.readers
    for tensor in np.flatnonzero(constant & (graph.tensor_bytes > 0)).tolist():
        first = next((op for op in readers[tensor].tolist() if is_placed[op]), None)
        if first is not None:
            size[first] += graph.tensor_bytes[tensor]
    return size


def device_bytes(devices: Sequence[Device], subgraphs: Sequence[Subgraph]) -> dict[str, int]:
    """Device name -> peak bytes: all its constants, and the buffers of its largest subgraph."""
    needed: dict[str, int] = {}
    for device in devices:
        memories = [s.memory for s in subgraphs if s.device == device.name]
        needed[device.name] = sum(m.constants for m in memories) + max((m.input + m.output for m in memories), default=0)
    return needed


def heaviest(graph: Graph, ops: Bools, size: Floats, count: int = 5) -> list[str]:
    """Names of the ops with the largest constants, with their bytes."""
    order = np.argsort(-np.where(ops, size, -1.0), kind="stable")[:count]
    return [f"{graph.display_name(op)} ({int(size[op]):,} bytes)" for op in order.tolist() if ops[op] and size[op] > 0]
