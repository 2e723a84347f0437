"""Expansion moves find what costs least among what they may reach."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from editor.placement.policies.expansion import Expansion
from editor.placement.policies.problem import Problem, Tensor


@given(st.integers(0, 2**32 - 1), st.integers(2, 4))
@settings(max_examples=40, deadline=None)
def test_tensors_with_one_reader_are_priced_as_all_others_are(seed: int, devices: int) -> None:
    """An expansion move adds them all at once; the placement that it finds is the one that costs least by its own value."""
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 7))
    tensors = [
        Tensor(
            i,
            tuple(
                sorted(
                    random.choice(
                        np.arange(i + 1, count),
                        min(int(random.integers(1, 3)), count - 1 - i),
                        replace=False,
                    ).tolist()
                )
            ),
            random.random(devices),
            random.random(devices),
        )
        for i in range(count - 1)
    ]
    problem = Problem.build(
        random.random((count, devices)),
        np.ones((count, devices), bool),
        np.zeros(count),
        np.full(devices, np.inf),
        tensors,
    )
    expansion, label = Expansion(problem), random.integers(0, devices, count)
    for device in range(devices):
        moved = expansion.move(label, device)
        reachable = itertools.product(*((int(of), device) for of in label))
        assert expansion.value(moved) == min(expansion.value(np.array(each)) for each in reachable)
