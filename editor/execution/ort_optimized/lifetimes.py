"""Lifetimes of a plan's tensors, and their interference graph: tensors that interfere may not share memory.

Steps run one after another. Within a step of an optimized graph, a kernel runs after those that it depends on, and no
other order is guaranteed: two tensors do not interfere if every kernel that produces or reads the one must run before
the kernel that produces the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from editor.execution.compile.step import Step
from editor.execution.ort_optimized.in_place_kernels import may_alias
from editor.graph.bodies import op_reads
from editor.graph.graph import Bools
from editor.runtimes.base import SubModel

MAX_KERNELS = 2048
"""Larger steps count as one kernel, because the order of n kernels takes n² bits."""


class Lifetimes:
    """The steps and kernels that produce and read each tensor of a plan."""

    def __init__(self, steps: Sequence[Step]) -> None:
        """Indexes the kernels of every step.

        Args:
            steps: in order of execution.
        """
        self._touches: dict[str, dict[int, int]] = {}
        """tensor -> step -> bit set of the kernels that produce or read it"""
        self._producer: dict[str, tuple[int, int]] = {}
        """tensor -> step that produces it, and bit set of the kernels that must run before its producer"""
        self._counts = [self._add(number, step.submodel) for number, step in enumerate(steps)]

    def _add(self, step: int, submodel: SubModel) -> int:
        done: dict[str, int] = {}
        kernels = _kernels(submodel)
        for i, (reads, writes) in enumerate(kernels):
            before = 0
            for name in reads:
                before |= done.get(name, 0)
            for name in (*reads, *writes):
                touches = self._touches.setdefault(name, {})
                touches[step] = touches.get(step, 0) | 1 << i
            for name in writes:
                self._producer[name] = step, before
                done[name] = before | 1 << i
        return len(kernels)

    def interference(self, groups: Sequence[Sequence[str]]) -> Bools:
        """[group, group] True where the lifetimes of two groups may overlap.

        Args:
            groups: tensors that share a buffer.
        """
        steps = [{step for name in names for step in self._touches[name]} for names in groups]
        first, last = np.array(list(map(min, steps)), np.int64), np.array(list(map(max, steps)), np.int64)
        interferes = (first[:, None] <= last) & (first <= last[:, None])
        for step in np.intersect1d(first, last).tolist():
            ends, begins = np.flatnonzero(last == step), np.flatnonzero(first == step)
            touches = self._rows(step, [self._touched(groups[i], step) for i in ends.tolist()])
            before = self._rows(step, [self._before(groups[i], step) for i in begins.tolist()])
            for row, i in zip(before, begins.tolist(), strict=True):
                disjoint = ends[~(touches & ~row).any(axis=1)]
                interferes[i, disjoint] = interferes[disjoint, i] = False
        return interferes

    def _touched(self, names: Sequence[str], step: int) -> int:
        """Bit set of the kernels of a step that produce or read any of these tensors."""
        kernels = 0
        for name in names:
            kernels |= self._touches[name].get(step, 0)
        return kernels

    def _before(self, names: Sequence[str], step: int) -> int:
        """Bit set of the kernels of a step that must run before the producers of all these tensors."""
        kernels = -1
        for at, before in (self._producer[name] for name in names):
            if at == step:
                kernels &= before
        return kernels

    def _rows(self, step: int, bits: Sequence[int]) -> NDArray[np.uint64]:
        """Bit sets as an array, [row, word]."""
        words = self._counts[step] // 64 + 1
        mask = (1 << 64 * words) - 1
        raw = b"".join((row & mask).to_bytes(8 * words, "little") for row in bits)
        return np.frombuffer(raw, np.uint64).reshape(len(bits), words)


def _kernels(submodel: SubModel) -> list[tuple[Sequence[str], Sequence[str]]]:
    """The tensors that each kernel reads and writes, in topological order.

    The result is a single entry where the runtime may change the graph. A kernel that reads an internal tensor also
    reads every tensor of which that one may be an alias (Reshape).
    """
    nodes = submodel.model.graph.node
    if not submodel.optimized or len(nodes) > MAX_KERNELS:
        return [(submodel.inputs, submodel.outputs)]
    external = {*submodel.inputs, *submodel.outputs}
    aliased: dict[str, list[str]] = {}
    kernels: list[tuple[Sequence[str], Sequence[str]]] = []
    for node in nodes:
        reads = dict.fromkeys(source for name in op_reads(node) for source in (name, *aliased.get(name, ())))
        if may_alias(node.op_type):
            aliases = [name for name in reads if name in external]
            aliased.update((name, aliases) for name in node.output if name not in external)
        kernels.append((list(reads), node.output))
    return kernels
