"""Which ops of the model each kernel of an optimized graph computes.

ONNX Runtime fuses, renames, reorders and removes nodes, and keeps no record of it. What survives are
names: of output tensors, and of nodes with a suffix. Sub-models name their nodes ``op<index>``, so a
kernel is anchored at the last op that it finishes, and takes the ops before it that nobody else claims.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from onnx import ModelProto, NodeProto

from editor.graph.bodies import op_reads
from editor.graph.graph import Graph, Ints
from editor.runtimes.profiling import fused_regions

_OWN_NAME = re.compile(r"(?<![A-Za-z0-9])op(\d+)(?!\d)")


@dataclass(frozen=True)
class Kernel:
    """One node of the optimized graph."""

    name: str
    type: str
    ops: tuple[int, ...]
    """Ops of the model that it computes, in an order of execution; none for what the optimizer added."""
    reads: tuple[str, ...]
    writes: tuple[str, ...]


def lineage(graph: Graph, optimized: ModelProto) -> list[Kernel]:
    """Kernels of an optimized graph, in a topological order, each with the ops that it computes.

    Every op is claimed at most once; an op that no kernel claims was folded away and costs nothing.
    """
    nodes = _ordered(optimized)
    rank = graph.rank
    reads = [op_reads(node) for node in nodes]
    given = [{int(graph.tensor_producer[graph.tensor_index[name]]) for name in names if name in graph.tensor_index}
             for names in reads]
    anchors: list[list[int]] = []
    taken: set[int] = set()
    for node in nodes:  # a reorder that outputs a tensor of the model follows the kernel that computed it
        anchors.append([op for op in _anchors(graph, node, rank) if op not in taken])
        taken.update(anchors[-1])
    regions = fused_regions(graph, anchors, given)
    return [Kernel(node.name, node.op_type, region, tuple(names), tuple(name for name in node.output if name))
            for node, region, names in zip(nodes, regions, reads, strict=True)]


def _anchors(graph: Graph, node: NodeProto, rank: Ints) -> list[int]:
    made = {int(graph.tensor_producer[graph.tensor_index[name]]) for name in node.output if name in graph.tensor_index}
    made.discard(-1)
    if made:
        return sorted(made)
    blocked = node.name.removesuffix("_nchwc")  # blocked kernels are named after the tensor that they used to make
    if blocked != node.name and blocked in graph.tensor_index:
        return [_last_fused(graph, node, int(graph.tensor_producer[graph.tensor_index[blocked]]))]
    named = [int(text) for text in _OWN_NAME.findall(node.name) if int(text) < len(graph)]
    if not named:
        return []
    last = max(named, key=lambda op: int(rank[op]))
    return [_reader(graph, last, ("Add",)) if node.name.endswith("/MatMulAddFusion") else last]


def _last_fused(graph: Graph, node: NodeProto, op: int) -> int:
    """The op that a blocked kernel ends with: a sum and an activation may join it after it was named."""
    if len(node.input) > 3 and node.input[3]:  # what is added
        op = _reader(graph, op, ("Add", "Sum"))
    activation = next((a.s.decode() for a in node.attribute if a.name == "activation"), "")
    return op if graph.op_types[op] in ("", activation) else _reader(graph, op, (activation,))


def _reader(graph: Graph, op: int, types: Sequence[str]) -> int:
    """The only op that reads this one, where it is of one of these types; else the op itself."""
    readers = set(graph.successors[op].tolist())
    return readers.pop() if len(readers) == 1 and graph.op_types[min(readers)] in types else op


def _ordered(model: ModelProto) -> list[NodeProto]:
    """Nodes in an order of execution; ONNX Runtime writes them so, but nothing promises it."""
    made_by = {name: i for i, node in enumerate(model.graph.node) for name in node.output if name}
    done: set[int] = set()
    found: list[NodeProto] = []
    for root in range(len(model.graph.node)):
        stack = [root]
        while stack:
            node = stack[-1]
            waiting = [made_by[n] for n in op_reads(model.graph.node[node]) if n in made_by and made_by[n] not in done]
            if node in done or not waiting:
                stack.pop()
                if node not in done:
                    done.add(node)
                    found.append(model.graph.node[node])
            else:
                stack.extend(waiting)
    return found
