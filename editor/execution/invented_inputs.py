"""Inputs for a model where nobody gives any, confirmed by a run of the unsplit model."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from editor import limits
from editor.errors import ExecutionError
from editor.execution.executor import compile_whole
from editor.execution.invented_values import (
    MANNERS,
    InventedInputs,
    Inventor,
    Manner,
    numpy_dtype,
)
from editor.graph.graph import Graph, cached_per_graph
from editor.graph.static_values import is_static
from editor.runtimes.base import Value
from editor.runtimes.registry import stand_in
from editor.runtimes.values import nbytes
from editor.sandbox.worker import IsolatedProcess, ProcessEndedError

_CONFIRM_SECONDS = 30.0
_CONFIRM_BYTES = 1 << 28
"""Of all values that are tried; of larger inputs the first are believed."""


_SEQUENCE = ", where name[0], name[1] and so on are the values of a sequence"


def random_inputs(graph: Graph, seed: int = 0) -> InventedInputs:
    """Seeded values for every graph input, by names, types and readers; where they are guesses, a run has confirmed them.

    Raises:
        ExecutionError: the type or shape of an input is unknown or not supported.
    """
    return _invented(graph, MANNERS[_manner(graph)], seed)[0]


@cached_per_graph
def _manner(graph: Graph) -> int:
    """The number of the first manner whose inputs the unsplit model accepts; 0 where it accepts none."""
    inputs, sure = _invented(graph, MANNERS[0], 0)
    if sure or sum(nbytes(value) for value in inputs.values()) * len(MANNERS) > _CONFIRM_BYTES:
        return 0
    tried = [inputs, *(_invented(graph, manner, 0)[0] for manner in MANNERS[1:])]
    process = IsolatedProcess(limits.half_of_machine())
    try:
        return process.call(_CONFIRM_SECONDS, _first_accepted, graph, [dict(v) for v in tried])
    except (ExecutionError, ProcessEndedError):  # it runs on other devices only, or not in time
        return 0
    finally:
        process.close()


def _first_accepted(graph: Graph, tried: Sequence[Mapping[str, Value]]) -> int:
    """The number of the first inputs with which the unsplit model runs on ONNX Runtime's CPU; else 0."""
    compiled = compile_whole(graph, stand_in(graph.format))
    for i, values in enumerate(tried):
        if any(
            all(np.array_equal(value, before[name]) for name, value in values.items())
            for before in tried[:i]
        ):
            continue
        with contextlib.suppress(ExecutionError):
            compiled.run(values)
            return i
    return 0


def _invented(graph: Graph, manner: Manner, seed: int) -> tuple[InventedInputs, bool]:
    """Inputs, and whether nothing about them is a guess."""
    inventor = Inventor(graph, manner, np.random.default_rng(seed))
    left, values, sure = limits.half_of_machine(), InventedInputs(), True
    for tensor in graph.inputs.tolist():
        # numpy counts dimensions of size 0 as 1, and makes numbers of 8 bytes first.
        left -= 8 * prod(d or 1 for d in graph.tensor_shapes[tensor] or () if isinstance(d, int))
        if left < 0:
            raise _too_large(graph, tensor)
        kind = graph.tensor_types[tensor]
        if kind.startswith("optional("):
            values[graph.tensor_names[tensor]] = None
            continue
        if kind.startswith("sequence("):
            with contextlib.suppress(ValueError):
                values[graph.tensor_names[tensor]] = inventor.sequence(tensor)
                sure = False
                continue
        if numpy_dtype(kind) is None or not is_static((kind, graph.tensor_shapes[tensor])):
            raise ExecutionError(
                f"{graph.path}: cannot generate a value for input {graph.tensor_names[tensor]!r} "
                f"({kind or 'unknown type'}, shape {graph.shape_label(tensor)}); "
                f"give inputs with --inputs FILE.npz{_SEQUENCE if 'sequence(' in kind else ''}"
            )
        try:
            values[graph.tensor_names[tensor]], known = inventor.value(tensor)
        except (MemoryError, ValueError) as error:  # numpy refuses 0 x 2^62, too
            raise _too_large(graph, tensor) from error
        sure = sure and known
    return values, sure


def _too_large(graph: Graph, tensor: int) -> ExecutionError:
    return ExecutionError(
        f"{graph.path}: input {graph.tensor_names[tensor]!r} of the shape {graph.shape_label(tensor)} "
        f"({graph.tensor_types[tensor]}) needs more memory than there is; use a model with smaller inputs"
    )
