"""Bytes of weights, by the ops that read them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from editor.devices.device import Device
from editor.devices.published import assumed_bytes
from editor.graph.graph import Bools, Graph, Ints
from editor.placement.policies.problem import Floats
from editor.text import human_bytes


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


def weight_shrinkage(graph: Graph, devices: Sequence[Device], size: Floats) -> Floats:
    """[device] bytes of the model's weights per byte that they take there: 1, or more where float counts as int8.

    Args:
        size: [op] bytes as ``weight_bytes`` returns them.
    """
    constant = graph.tensor_is_constant & (graph.tensor_bytes > 0)
    there = [float(assumed_bytes(graph, d.published.assumes)[constant].sum()) for d in devices]
    total = float(graph.tensor_bytes[constant].sum())
    return np.array([total / t if t and size.any() else 1.0 for t in there])


def heaviest(graph: Graph, ops: Bools, size: Floats, count: int = 5) -> list[str]:
    """Names of the ops with the largest constants, with their bytes."""
    order = np.argsort(-np.where(ops, size, -1.0), kind="stable")[:count]
    return [f"{graph.display_name(op)} ({human_bytes(int(size[op]))})" for op in order.tolist() if ops[op] and size[op] > 0]
