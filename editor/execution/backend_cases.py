"""The node cases of the ONNX package: one model each, with inputs and what it must compute."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from editor.runtimes.trial_values import is_random


@dataclass(frozen=True)
class BackendCase:
    """One case."""

    name: str
    model: bytes
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    rtol: float
    atol: float


def backend_cases(most: int | None = None) -> Iterator[BackendCase]:
    """Cases with tensors of numbers, in the order of their names.

    Args:
        most: how many, spread over all; None for all.
    """
    from onnx.backend.test import loader

    warnings.simplefilter("ignore")  # of the functions that make the cases
    tests: list[Any] = sorted(loader.load_node_model_tests(), key=lambda test: str(test.name))
    step = max(len(tests) // most, 1) if most else 1
    for test in tests[::step]:
        if any(is_random(node.op_type, node.domain) for node in test.model.graph.node):
            continue
        for inputs, outputs in test.data_sets[:1]:
            if all(isinstance(v, np.ndarray) and v.dtype.kind in "biuf" for v in (*inputs, *outputs)):
                graph = test.model.graph
                given = dict(zip((i.name for i in graph.input), inputs, strict=False))
                expected = dict(zip((o.name for o in graph.output), outputs, strict=False))
                yield BackendCase(test.name, test.model.SerializeToString(), given, expected, test.rtol, test.atol)
