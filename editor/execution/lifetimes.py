"""When the tensors of a plan live, so that those that never meet can share memory.

Steps run one after another. Within a step whose graph the runtime takes as it is, a kernel surely runs after those that
it depends on, and nothing else is promised: two tensors of such a step never meet if all that touches the one lies
before what makes the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from editor.execution.step import Step
from editor.graph.bodies import captured_names
from editor.graph.graph import Bools
from editor.runtimes.base import SubModel


class Lifetimes:
    """The kernels of a plan, numbered step by step, and which of them surely run before which."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._before: list[int] = []
        """Per kernel: bits of those that surely run before it."""
        self._touches: dict[str, int] = {}
        """Per tensor: bits of the kernels that make or read it."""
        self._maker: dict[str, int] = {}
        self._steps: dict[str, list[int]] = {}
        for i, step in enumerate(steps):
            self._add(i, _kernels(step.part))

    def _add(self, step: int, kernels: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
        done = (1 << len(self._before)) - 1
        here: dict[str, int] = {}
        for reads, makes in kernels:
            bit, before = 1 << len(self._before), done
            for name in reads:
                before |= here.get(name, 0)
            for name in (*reads, *makes):
                self._touches[name] = self._touches.get(name, 0) | bit
                span = self._steps.setdefault(name, [step, step])
                span[1] = step
            for name in makes:
                self._maker[name] = len(self._before)
                here[name] = before | bit
            self._before.append(before)

    def meetings(self, groups: Sequence[Sequence[str]]) -> Bools:
        """[group, group] True where tensors of two groups may hold values at the same time.

        Args:
            groups: tensors that lie in the same memory.
        """
        first = np.array([min(self._steps[name][0] for name in names) for names in groups], np.int64)
        last = np.array([max(self._steps[name][1] for name in names) for names in groups], np.int64)
        meet = (first[:, None] <= last) & (first <= last[:, None])
        touches = [_union(self._touches[name] for name in names) for names in groups]
        makers = [[self._maker[name] for name in names] for names in groups]
        for a, b in np.argwhere(meet & (last[:, None] == first)).tolist():
            if a != b and all(touches[a] & ~self._before[maker] == 0 for maker in makers[b]):
                meet[a, b] = meet[b, a] = False
        return meet


def _kernels(part: SubModel) -> list[tuple[Sequence[str], Sequence[str]]]:
    """What each kernel reads and makes, in an order of execution; one for all where the runtime may change the graph."""
    if not part.optimised:
        return [(part.inputs, part.outputs)]
    return [([*node.input, *captured_names(node)], node.output) for node in part.model.graph.node]


def _union(bits: Iterable[int]) -> int:
    found = 0
    for some in bits:
        found |= some
    return found
