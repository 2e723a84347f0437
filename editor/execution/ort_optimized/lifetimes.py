"""Lifetimes of a plan's tensors, and their interference graph: which of them may not share memory.

Steps run one after another. Within a step whose graph the runtime takes as it is, a kernel runs after those that it
depends on, and no other order is promised: two tensors of such a step do not interfere if every kernel that makes or
reads the one runs before the kernel that makes the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from editor.execution.compile.step import Step
from editor.execution.ort_optimized.in_place_kernels import may_pass_on
from editor.graph.bodies import op_reads
from editor.graph.graph import Bools
from editor.runtimes.base import SubModel

MAX_KERNELS = 2048
"""Larger steps count as one kernel: the order of kernels takes the square of their number in bits."""


class Lifetimes:
    """When the tensors of a plan are made and read."""

    def __init__(self, steps: Sequence[Step]) -> None:
        """Looks at every step.

        Args:
            steps: in the order in which they run.
        """
        self._touches: dict[str, dict[int, int]] = {}
        """Per tensor and step: bits of the kernels that make or read it."""
        self._maker: dict[str, tuple[int, int]] = {}
        """Per tensor: the step that makes it, and bits of the kernels that surely run before the one that does."""
        self._counts = [self._add(number, step.part) for number, step in enumerate(steps)]

    def _add(self, step: int, part: SubModel) -> int:
        done: dict[str, int] = {}
        kernels = _kernels(part)
        for i, (reads, makes) in enumerate(kernels):
            before = 0
            for name in reads:
                before |= done.get(name, 0)
            for name in (*reads, *makes):
                touches = self._touches.setdefault(name, {})
                touches[step] = touches.get(step, 0) | 1 << i
            for name in makes:
                self._maker[name] = step, before
                done[name] = before | 1 << i
        return len(kernels)

    def interference(self, groups: Sequence[Sequence[str]]) -> Bools:
        """[group, group] True where tensors of two groups may hold values at the same time.

        Args:
            groups: tensors that share memory.
        """
        steps = [{step for name in names for step in self._touches[name]} for names in groups]
        first, last = np.array(list(map(min, steps)), np.int64), np.array(list(map(max, steps)), np.int64)
        interferes = (first[:, None] <= last) & (first <= last[:, None])
        for step in np.intersect1d(first, last).tolist():
            ends, begins = np.flatnonzero(last == step), np.flatnonzero(first == step)
            touches = self._rows(step, [self._touched(groups[i], step) for i in ends.tolist()])
            before = self._rows(step, [self._before(groups[i], step) for i in begins.tolist()])
            for row, i in zip(before, begins.tolist(), strict=True):
                apart = ends[~(touches & ~row).any(axis=1)]
                interferes[i, apart] = interferes[apart, i] = False
        return interferes

    def _touched(self, names: Sequence[str], step: int) -> int:
        """Kernels of a step that make or read some of these."""
        found = 0
        for name in names:
            found |= self._touches[name].get(step, 0)
        return found

    def _before(self, names: Sequence[str], step: int) -> int:
        """Kernels of a step that surely run before all that make these."""
        found = -1
        for at, before in (self._maker[name] for name in names):
            if at == step:
                found &= before
        return found

    def _rows(self, step: int, bits: Sequence[int]) -> NDArray[np.uint64]:
        """[row, word] bits of the kernels of a step."""
        words = self._counts[step] // 64 + 1
        mask = (1 << 64 * words) - 1
        raw = b"".join((row & mask).to_bytes(8 * words, "little") for row in bits)
        return np.frombuffer(raw, np.uint64).reshape(len(bits), words)


def _kernels(part: SubModel) -> list[tuple[Sequence[str], Sequence[str]]]:
    """What each kernel reads and makes, in an order of execution; one for all where the runtime may change the graph.

    A kernel that reads an inner tensor also reads the tensors whose memory that one may be: Reshape passes it on.
    """
    nodes = part.model.graph.node
    if not part.optimized or len(nodes) > MAX_KERNELS:
        return [(part.inputs, part.outputs)]
    given = {*part.inputs, *part.outputs}
    behind: dict[str, list[str]] = {}
    found: list[tuple[Sequence[str], Sequence[str]]] = []
    for node in nodes:
        reads = dict.fromkeys(lower for name in op_reads(node) for lower in (name, *behind.get(name, ())))
        if may_pass_on(node.op_type):
            passed = [name for name in reads if name in given]
            behind.update((name, passed) for name in node.output if name not in given)
        found.append((list(reads), node.output))
    return found
