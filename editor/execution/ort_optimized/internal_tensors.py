"""Which tensors of an optimised graph lie where we choose, and which of them in the memory of another.

A session lays its inner tensors into memory that it takes from the arena, and knows nothing of the boundary tensors,
which live elsewhere: a plan so touches more memory than the unsplit model, and finds less of it in the caches. Put out
as outputs, inner tensors can be packed into one block with the boundary tensors.

What is put out is lost to the runtime's own planner, which saves memory where a kernel may write over its operand or
pass it on. So this is done only in parts whose large tensors belong to kernels of which it is known how they work.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from onnx import NodeProto, ValueInfoProto, helper

from editor.execution.ort_optimized.in_place_kernels import is_known, may_pass_on, operands_in_place
from editor.execution.ort_optimized.lifetimes import MAX_KERNELS
from editor.execution.ort_optimized.lineage import Kernel

WORTH_BYTES = 1 << 16
"""Smaller tensors stay where the runtime puts them."""


class InnerTensors:
    """The kernels of an optimised graph, with the part that each belongs to."""

    def __init__(self, kernels: Sequence[Kernel], home: Sequence[int], nodes: Mapping[str, NodeProto],
                 results: Collection[str]) -> None:
        """Looks at who reads what.

        Args:
            kernels: in an order of execution.
            home: part of each kernel.
            nodes: the node that makes each tensor.
            results: outputs of the model; they keep memory of their own.
        """
        self._kernels, self._home, self._nodes, self._results = kernels, home, nodes, set(results)
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
                        and self._others(operand, i) <= self._before(i, self._maker[operand]):
                    found.append((operand, result))
                    break
        return found

    def inner(self, types: Mapping[str, ValueInfoProto], outputs: Sequence[Collection[str]]) -> list[str]:
        """Large tensors of the parts in which all of them can be put out.

        Args:
            types: of all tensors.
            outputs: what each part puts out anyway.
        """
        if not all(byte_size(types.get(name)) for names in outputs for name in names if name not in self._results):
            return []  # then places are given after a first run, in which all that is put out would lie side by side
        found: dict[int, list[str]] = {}
        refused = set()
        for name, maker in self._maker.items():
            part = self._home[maker]
            if name in outputs[part]:
                continue
            size = byte_size(types.get(name))
            if not size or (size >= WORTH_BYTES and not self._is_known(name)):
                refused.add(part)
            elif size >= WORTH_BYTES:
                found.setdefault(part, []).append(name)
        refused.update(part for part, kernels in Counter(self._home).items() if kernels > MAX_KERNELS)
        return [name for part, names in found.items() if part not in refused for name in names]

    def _is_known(self, name: str) -> bool:
        return all(is_known(self._kernels[i].type) for i in (self._maker[name], *self._readers.get(name, ())))

    def _operands(self, kernel: Kernel) -> Iterable[str]:
        inputs = self._nodes[kernel.makes[0]].input
        return [inputs[at] for at in operands_in_place(kernel.type) if at < len(inputs)]

    def _others(self, name: str, but: int) -> set[int]:
        """Kernels other than one that read a tensor, or what may lie in its memory because they passed it on."""
        found, todo = set[int](), [name]
        while todo:
            new = self._readers.get(todo.pop(), set()) - found - {but}
            found |= new
            todo += [made for i in new if may_pass_on(self._kernels[i].type) for made in self._kernels[i].makes]
        return found

    def _before(self, last: int, first: int) -> set[int]:
        """Kernels that surely run before kernel ``last``, as far back as kernel ``first``."""
        seen, todo = set[int](), [last]
        while todo:
            for name in self._kernels[todo.pop()].reads:
                maker = self._maker.get(name, -1)
                if maker >= first and maker not in seen:
                    seen.add(maker)
                    todo.append(maker)
        return seen


def touching(pairs: Sequence[tuple[str, str]], names: Collection[str]) -> list[tuple[str, str]]:
    """Pairs that hold one of these names, and those that hang together with them."""
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
