"""Which ops of the model each kernel of an optimised graph computes.

ONNX Runtime fuses, renames, reorders and removes nodes, and keeps no record of it. What survives are
names: of output tensors, and of nodes with a suffix. Sub-models name their nodes ``op<index>``, so a
kernel is anchored at the last op that it finishes, and takes the ops before it that nobody else claims.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto

from editor.graph.bodies import captured_names
from editor.graph.graph import Graph

_OWN_NAME = re.compile(r"(?<![A-Za-z0-9])op(\d+)(?!\d)")


@dataclass(frozen=True)
class Kernel:
    """One node of the optimised graph."""

    name: str
    type: str
    ops: tuple[int, ...]
    """Ops of the model that it computes, in an order of execution; none for what the optimiser added."""
    reads: tuple[str, ...]
    makes: tuple[str, ...]


def lineage(graph: Graph, optimised: ModelProto) -> list[Kernel]:
    """Kernels of an optimised graph, in a topological order, each with the ops that it computes.

    Every op is claimed at most once; an op that no kernel claims was folded away and costs nothing.
    """
    nodes = _ordered(optimised)
    rank = np.empty(len(graph), np.int64)
    rank[graph.order] = np.arange(len(graph))
    anchors = [_anchors(graph, node, rank) for node in nodes]
    claimed = {op for found in anchors for op in found}
    kernels = []
    for node, found in zip(nodes, anchors, strict=True):
        reads = _reads(node)
        given = {graph.tensor_producer[graph.tensor_index[name]] for name in reads if name in graph.tensor_index}
        region = set(found)
        stack = list(found)
        while stack:
            for op in graph.predecessors[stack.pop()].tolist():
                if op not in claimed and op not in given and not graph.op_is_constant[op]:
                    claimed.add(op)
                    region.add(op)
                    stack.append(op)
        kernels.append(Kernel(node.name, node.op_type, tuple(sorted(region, key=lambda op: int(rank[op]))), tuple(reads),
                              tuple(name for name in node.output if name)))
    return kernels


def _anchors(graph: Graph, node: NodeProto, rank: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int]:
    made = {int(graph.tensor_producer[graph.tensor_index[name]]) for name in node.output if name in graph.tensor_index}
    made.discard(-1)
    if made:
        return sorted(made)
    blocked = node.name.removesuffix("_nchwc")  # blocked kernels are named after the tensor that they used to make
    if blocked != node.name and blocked in graph.tensor_index:
        return [int(graph.tensor_producer[graph.tensor_index[blocked]])]
    named = [int(text) for text in _OWN_NAME.findall(node.name) if int(text) < len(graph)]
    return [max(named, key=lambda op: int(rank[op]))] if named else []


def _ordered(model: ModelProto) -> list[NodeProto]:
    """Nodes in an order of execution; ONNX Runtime writes them so, but nothing promises it."""
    made_by = {name: i for i, node in enumerate(model.graph.node) for name in node.output if name}
    done: set[int] = set()
    found: list[NodeProto] = []
    for root in range(len(model.graph.node)):
        stack = [root]
        while stack:
            node = stack[-1]
            waiting = [made_by[n] for n in _reads(model.graph.node[node]) if n in made_by and made_by[n] not in done]
            if node in done or not waiting:
                stack.pop()
                if node not in done:
                    done.add(node)
                    found.append(model.graph.node[node])
            else:
                stack.extend(waiting)
    return found


def _reads(node: NodeProto) -> list[str]:
    return [*(name for name in node.input if name), *captured_names(node)]


def names_of(graph: Graph, ops: Sequence[int], limit: int = 4) -> str:
    """What people call a group of ops."""
    shown = [graph.display_name(op) for op in ops[:limit]]
    return " + ".join(shown) + (f" + {len(ops) - limit} more" if len(ops) > limit else "")
