"""Divides the ops of a device into the small groups that a kit measures one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import prod

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto

from editor.devices.device import Device
from editor.graph.bodies import op_reads
from editor.graph.fusible import FUSIBLE_TYPES
from editor.graph.graph import Bools, Graph, Ints
from editor.placement.placement import Placement, placement_of_groups

MOST_OPS = 16
"""Ops of a group."""
MOST_PIECES = 8
"""Pieces of a subgraph that is cut to measure what a cut costs."""
_OPS_OF_PIECE = 4
_WIDEST = 8
_SMALL = 4096
"""Bytes up to which integers decide what an op does (shapes, axes), so that equal ops must have equal values."""


def groups_of(placement: Placement, device: Device) -> Placement:
    """A placement in which every subgraph of a device is one group.

    An op that runtimes fuse joins the op before it where nothing else reads that: it would take no time of its own in a run
    of the whole. Such a chain has one way out, so that a group never waits for itself.

    Args:
        placement: its subgraphs of the device are divided; no group crosses two of them.
        device: one of its devices. Ops of the others are groups of one.
    """
    graph = placement.graph
    subgraph, number = placement.division.subgraph_of_op, placement.device_number(device.name)
    mine = (placement.assignment.device == number) & (subgraph >= 0)
    last: dict[int, int] = {}
    """first op of a group -> its last"""
    first = np.full(len(graph), -1, np.int64)
    size: dict[int, int] = {}
    outputs = set(graph.outputs.tolist())
    for op in graph.order[subgraph[graph.order] >= 0].tolist():
        begin = op
        if mine[op] and graph.op_types[op] in FUSIBLE_TYPES:
            begin = _group_before(graph, op, first, last, size, subgraph, mine, outputs)
        first[op], last[begin] = begin, op
        size[begin] = size.get(begin, 0) + 1
    order = sorted(last, key=lambda begin: int(graph.rank[last[begin]]))
    numbers = {begin: i for i, begin in enumerate(order)}
    return _divided(placement, device, mine, np.array([numbers[int(b)] if b >= 0 else -1 for b in first], np.int64))


def pieces_of(placement: Placement, device: Device) -> Placement:
    """A placement in which each subgraph of a device is cut into a few pieces, to measure what a cut costs.

    A subgraph of few ops stays whole.
    """
    graph = placement.graph
    subgraph, number = placement.division.subgraph_of_op, placement.device_number(device.name)
    mine = (placement.assignment.device == number) & (subgraph >= 0)
    begun = subgraph * (MOST_PIECES + 1)
    for one in placement.subgraphs:
        ops = graph.order[(subgraph[graph.order] == one.id) & mine[graph.order]]
        count = min(MOST_PIECES, len(ops) // _OPS_OF_PIECE)
        if count > 1:
            begun[ops] += np.arange(len(ops)) * count // len(ops)
    numbers = {value: i for i, value in enumerate(sorted({int(v) for v in begun[subgraph >= 0]}))}
    return _divided(placement, device, mine, np.array([numbers.get(int(v), -1) for v in begun], np.int64))


def _divided(placement: Placement, device: Device, mine: Bools, group: Ints) -> Placement:
    """A placement of groups in which the device of a kit is the first, and one other has the rest."""
    others = [d for d in placement.devices if d.name != device.name]
    number = np.where(mine, 0, 1).astype(np.int64) if others else np.zeros(len(mine), np.int64)
    return placement_of_groups(placement.graph, [device, *others], number, group)


def _group_before(graph: Graph, op: int, first: Ints, last: dict[int, int], size: dict[int, int], subgraph: Ints,
                  mine: Bools, outputs: set[int]) -> int:
    """First op of the group that an op joins; the op itself where it joins none."""
    before = [p for p in graph.predecessors[op].tolist() if mine[p] and subgraph[p] == subgraph[op]
              and graph.successors[p].tolist() == [op] and last.get(int(first[p])) == p and size[int(first[p])] < MOST_OPS
              and outputs.isdisjoint(graph.op_outputs[p].tolist())]
    return int(first[max(before, key=lambda p: int(graph.rank[p]))]) if before else op


def signature(model: ModelProto) -> str:
    """A hash that is equal for sub-models that do the same work: types, attributes, shapes and element types.

    Names and values do not count, except the values of small integers, which are shapes and axes.
    """
    numbers: dict[str, int] = {}
    tensors = {t.name: t for t in model.graph.initializer}
    types = {v.name: v.type.SerializeToString(deterministic=True) for v in model.graph.input}
    text = hashlib.sha256()

    def note(*parts: object) -> None:
        text.update(repr(parts).encode())

    note(sorted((o.domain, o.version) for o in model.opset_import))
    for function in model.functions:
        note(function.SerializeToString(deterministic=True))
    for tensor in model.graph.sparse_initializer:
        note(tensor.SerializeToString(deterministic=True))
    for node in model.graph.node:
        note(node.op_type, node.domain, [_attribute(a) for a in sorted(node.attribute, key=lambda a: a.name)])
        for name in (*node.input, *(n for n in op_reads(node) if n not in node.input), *node.output):
            known = name in numbers
            note(numbers.setdefault(name, len(numbers)) if name else -1)
            if not known and name in tensors:
                note(_tensor(tensors[name]))
            elif not known and name in types:
                note(types[name])
    note([numbers.get(v.name) for v in model.graph.output])
    return text.hexdigest()


def _attribute(attribute: AttributeProto) -> bytes:
    return bytes(attribute.SerializeToString(deterministic=True))


def _tensor(tensor: TensorProto) -> tuple[object, ...]:
    counts = tensor.data_type in (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL)
    if tensor.data_location == TensorProto.EXTERNAL:  # its place tells its values apart from others
        place = repr([(e.key, e.value) for e in tensor.external_data]).encode()
        return tuple(tensor.dims), tensor.data_type, place if counts and prod(tensor.dims) * _WIDEST <= _SMALL else b""
    small = counts and tensor.ByteSize() <= _SMALL
    return tuple(tensor.dims), tensor.data_type, _values(tensor) if small else b""


def _values(tensor: TensorProto) -> bytes:
    """The values of a tensor, in the file's own form."""
    if tensor.raw_data:
        return bytes(tensor.raw_data)
    plain = TensorProto()
    plain.CopyFrom(tensor)
    plain.name = plain.doc_string = ""
    return bytes(plain.SerializeToString(deterministic=True))


def names_of(nodes: Sequence[NodeProto]) -> list[int]:
    """Ops of the model that a sub-model has; its nodes are named after them."""
    return [int(node.name.removeprefix("op")) for node in nodes]
