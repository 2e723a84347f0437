"""Internal tensors of optimized parts that are exposed as outputs, so that the executor chooses their buffers.

A session allocates its internal tensors from the arena and knows nothing of the boundary tensors, which live elsewhere:
a plan then touches more memory than the unsplit model, and finds less of it in the caches. Exposed as outputs, internal
tensors can be packed into one block with the boundary tensors.

The runtime's own memory planner cannot reuse the memory of an exposed tensor, which it does where a kernel may write
over its operand or pass it on as its result. So tensors are exposed only in parts whose large tensors belong to kernels
whose memory behaviour is known (``in_place_kernels``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from onnx import NodeProto, ValueInfoProto, helper

from editor.execution.ort_optimized.in_place_kernels import is_known, may_pass_on, operands_in_place
from editor.execution.ort_optimized.lifetimes import MAX_KERNELS
from editor.runtimes.onnxruntime.lineage import Kernel

WORTH_BYTES = 1 << 16
"""Smaller tensors stay where the runtime puts them."""


class InternalTensors:
    """Which tensors of an optimized graph to expose, and which may share memory with an operand."""

    def __init__(self, kernels: Sequence[Kernel], part_of_kernel: Sequence[int], nodes: Mapping[str, NodeProto],
                 results: Collection[str]) -> None:
        """Indexes makers and readers of all tensors.

        Args:
            kernels: in an order of execution.
            part_of_kernel: subgraph of each kernel.
            nodes: the node that makes each tensor.
            results: outputs of the model; they keep memory of their own.
        """
        self._kernels, self._part, self._nodes, self._results = kernels, part_of_kernel, nodes, set(results)
        self._maker = {name: i for i, kernel in enumerate(kernels) for name in kernel.makes}
        self._readers: dict[str, set[int]] = {}
        for i, kernel in enumerate(kernels):
            for name in kernel.reads:
                self._readers.setdefault(name, set()).add(i)

    def written_over(self, types: Mapping[str, ValueInfoProto]) -> list[tuple[str, str]]:
        """(operand, result) of kernels that may write over a large operand that nobody reads afterwards."""
        found = []
        for i, kernel in enumerate(self._kernels):
            for operand in self._operands(kernel):
                result = kernel.makes[0]
                size = byte_size(types.get(operand))
                if operand in self._maker and not {operand, result} & self._results and not 0 < size < WORTH_BYTES \
                        and size == byte_size(types.get(result)) \
                        and self._other_readers(operand, i) <= self._before(i, self._maker[operand]):
                    found.append((operand, result))
                    break
        return found

    def exposable(self, types: Mapping[str, ValueInfoProto], outputs: Sequence[Collection[str]]) -> list[str]:
        """Large tensors of the parts in which all large tensors can be exposed.

        Args:
            types: of all tensors.
            outputs: outputs of each part without them.
        """
        if not all(byte_size(types.get(name)) for names in outputs for name in names if name not in self._results):
            return []  # buffers are then allocated after a first run, in which exposed tensors would share no memory
        found: dict[int, list[str]] = {}
        refused = set()
        for name, maker in self._maker.items():
            part = self._part[maker]
            if name in outputs[part]:
                continue
            size = byte_size(types.get(name))
            if not size or (size >= WORTH_BYTES and not self._is_known(name)):
                refused.add(part)
            elif size >= WORTH_BYTES:
                found.setdefault(part, []).append(name)
        refused.update(part for part, kernels in Counter(self._part).items() if kernels > MAX_KERNELS)
        return [name for part, names in found.items() if part not in refused for name in names]

    def _is_known(self, name: str) -> bool:
        return all(is_known(self._kernels[i].type) for i in (self._maker[name], *self._readers.get(name, ())))

    def _operands(self, kernel: Kernel) -> Iterable[str]:
        inputs = self._nodes[kernel.makes[0]].input
        return [inputs[at] for at in operands_in_place(kernel.type) if at < len(inputs)]

    def _other_readers(self, name: str, but: int) -> set[int]:
        """Kernels other than ``but`` that read a tensor, or a result that may share its memory."""
        found, todo = set[int](), [name]
        while todo:
            new = self._readers.get(todo.pop(), set()) - found - {but}
            found |= new
            todo += [made for i in new if may_pass_on(self._kernels[i].type) for made in self._kernels[i].makes]
        return found

    def _before(self, last: int, first: int) -> set[int]:
        """Kernels on which kernel ``last`` depends, as far back as kernel ``first``."""
        seen, todo = set[int](), [last]
        while todo:
            for name in self._kernels[todo.pop()].reads:
                maker = self._maker.get(name, -1)
                if maker >= first and maker not in seen:
                    seen.add(maker)
                    todo.append(maker)
        return seen


def connected_pairs(pairs: Sequence[tuple[str, str]], names: Collection[str]) -> list[tuple[str, str]]:
    """Pairs with one of these names, and all pairs connected with them by a shared name."""
    next_to: dict[str, list[str]] = {}
    for operand, result in pairs:
        next_to.setdefault(operand, []).append(result)
        next_to.setdefault(result, []).append(operand)
    near, todo = set(names), [name for name in names if name in next_to]
    while todo:
        new = set(next_to[todo.pop()]) - near
        near |= new
        todo += new
    return [pair for pair in pairs if pair[0] in near]


def byte_size(info: ValueInfoProto | None) -> int:
    """Bytes of a tensor of numbers; 0 where type or shape is not known."""
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
