"""The search of `benchmarks/placement.py --objective latency` against trying every placement."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from benchmarks.block_latency import block_latency
from benchmarks.block_search import better_blocks
from editor.placement.policies.problem import Problem, Tensor

HOST = 2


def _problem(seed: int) -> Problem:
    """Six nodes, two accelerators that are alike and the host, whose transfers are free."""
    rng = np.random.default_rng(seed)
    n = 6
    fast, slow = rng.uniform(1, 5, n), rng.uniform(2, 12, n)
    tensors = []
    for v in range(n - 1):
        readers = tuple(r for r in range(v + 1, n) if rng.random() < 0.4) or (v + 1,)
        cost = float(rng.uniform(0, 3))
        tensors.append(Tensor(v, readers, (cost, cost, 0.0), (cost, cost, 0.0)))
    size = rng.integers(1, 4, n).astype(float)
    times, memory = np.stack([fast, fast, slow], axis=1), np.array([7.0, 7.0, np.inf])
    return Problem.build(times, np.ones((n, 3), bool), size, memory, tensors)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("together", [[], [[0, 3]]])
def test_the_search_finds_what_trying_every_placement_finds(
    seed: int, together: list[list[int]]
) -> None:
    problem = _problem(seed)
    labels = [np.array(label) for label in product(range(3), repeat=len(problem))]
    possible = [
        label
        for label in labels
        if problem.fits(label) and all(len({*label[group]}) == 1 for group in together)
    ]
    least = min(block_latency(problem, label, HOST) for label in possible)
    start = np.full(len(problem), HOST)
    found, bound = better_blocks(problem, start, HOST, 20, together)
    value = block_latency(problem, found, HOST)
    assert value == pytest.approx(least, rel=1e-4) and bound == pytest.approx(least, rel=1e-4)
    assert all(len({*found[group]}) == 1 for group in together)
