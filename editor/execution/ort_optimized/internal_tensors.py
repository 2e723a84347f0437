"""Internal tensors of optimized sub-models, exposed as outputs so that the executor chooses their buffers.

A session allocates its internal tensors from an arena, separate from the boundary tensors: a plan then touches more
memory than the unsplit model and has more cache misses. Exposed as outputs, internal tensors can be packed into one
block with the boundary tensors.

ONNX Runtime's memory planner cannot reuse the memory of an exposed tensor, as it does where a kernel may overwrite or
return its operand. So tensors are exposed only in sub-models in which all large tensors belong to kernels of known
in-place behaviour (``in_place_kernels``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from onnx import NodeProto, ValueInfoProto, helper

from editor.execution.ort_optimized.in_place_kernels import in_place_operands, is_known, may_alias
from editor.execution.ort_optimized.lifetimes import MAX_KERNELS
from editor.runtimes.onnxruntime.lineage import Kernel

MIN_BYTES = 1 << 16
"""The runtime allocates smaller tensors."""


class InternalTensors:
    """Which tensors of an optimized graph to expose, and which may share memory with an operand."""

    def __init__(self, kernels: Sequence[Kernel], subgraph_of_kernel: Sequence[int], nodes: Mapping[str, NodeProto],
                 results: Collection[str]) -> None:
        """Indexes producers and readers of all tensors.

        Args:
            kernels: in topological order.
            subgraph_of_kernel: [kernel] number of the subgraph.
            nodes: tensor name -> the node that produces it.
            results: outputs of the model; they share no buffer.
        """
        self._kernels, self._subgraph, self._nodes, self._results = kernels, subgraph_of_kernel, nodes, set(results)
        self._producer = {name: i for i, kernel in enumerate(kernels) for name in kernel.writes}
        self._readers: dict[str, set[int]] = {}
        for i, kernel in enumerate(kernels):
            for name in kernel.reads:
                self._readers.setdefault(name, set()).add(i)

    def overwritten(self, types: Mapping[str, ValueInfoProto]) -> list[tuple[str, str]]:
        """(operand, result) of kernels that may overwrite a large operand without later readers."""
        pairs = []
        for i, kernel in enumerate(self._kernels):
            for operand in self._operands(kernel):
                result = kernel.writes[0]
                size = byte_size(types.get(operand))
                if operand in self._producer and not {operand, result} & self._results and not 0 < size < MIN_BYTES \
                        and size == byte_size(types.get(result)) \
                        and self._other_readers(operand, i) <= self._dependencies(i, self._producer[operand]):
                    pairs.append((operand, result))
                    break
        return pairs

    def exposable(self, types: Mapping[str, ValueInfoProto], outputs: Sequence[Collection[str]]) -> list[str]:
        """Large internal tensors of the sub-models in which all large tensors can be exposed.

        Args:
            types: types of all tensors.
            outputs: [subgraph] its outputs so far.
        """
        if not all(byte_size(types.get(name)) for names in outputs for name in names if name not in self._results):
            return []  # buffers are allocated after the first run, in which exposed tensors would not share memory
        candidates: dict[int, list[str]] = {}
        refused = set()
        for name, producer in self._producer.items():
            subgraph = self._subgraph[producer]
            if name in outputs[subgraph]:
                continue
            size = byte_size(types.get(name))
            if not size or (size >= MIN_BYTES and not self._is_known(name)):
                refused.add(subgraph)
            elif size >= MIN_BYTES:
                candidates.setdefault(subgraph, []).append(name)
        refused.update(subgraph for subgraph, kernels in Counter(self._subgraph).items() if kernels > MAX_KERNELS)
        return [name for subgraph, names in candidates.items() if subgraph not in refused for name in names]

    def _is_known(self, name: str) -> bool:
        return all(is_known(self._kernels[i].type) for i in (self._producer[name], *self._readers.get(name, ())))

    def _operands(self, kernel: Kernel) -> Iterable[str]:
        inputs = self._nodes[kernel.writes[0]].input
        return [inputs[at] for at in in_place_operands(kernel.type) if at < len(inputs)]

    def _other_readers(self, name: str, excluded: int) -> set[int]:
        """Kernels other than ``excluded`` that read a tensor, or a result that may share its memory."""
        readers, todo = set[int](), [name]
        while todo:
            new = self._readers.get(todo.pop(), set()) - readers - {excluded}
            readers |= new
            todo += [output for i in new if may_alias(self._kernels[i].type) for output in self._kernels[i].writes]
        return readers

    def _dependencies(self, last: int, first: int) -> set[int]:
        """Kernels on which kernel ``last`` depends, back to kernel ``first``."""
        seen, todo = set[int](), [last]
        while todo:
            for name in self._kernels[todo.pop()].reads:
                producer = self._producer.get(name, -1)
                if producer >= first and producer not in seen:
                    seen.add(producer)
                    todo.append(producer)
        return seen


def connected_pairs(pairs: Sequence[tuple[str, str]], names: Collection[str]) -> list[tuple[str, str]]:
    """Pairs that shared names connect, directly or not, with one of the given names."""
    neighbours: dict[str, list[str]] = {}
    for operand, result in pairs:
        neighbours.setdefault(operand, []).append(result)
        neighbours.setdefault(result, []).append(operand)
    reached, todo = set(names), [name for name in names if name in neighbours]
    while todo:
        new = set(neighbours[todo.pop()]) - reached
        reached |= new
        todo += new
    return [pair for pair in pairs if pair[0] in reached]


def byte_size(info: ValueInfoProto | None) -> int:
    """Bytes of a numeric tensor; 0 where type or shape is unknown."""
    if info is None or not info.type.HasField("tensor_type"):
        return 0
    kind = info.type.tensor_type
    if not kind.HasField("shape") or not all(d.dim_value > 0 for d in kind.shape.dim):
        return 0
    try:
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    except KeyError:
        return 0
    return math.prod(d.dim_value for d in kind.shape.dim) * dtype.itemsize if dtype.kind in "fiub" else 0
