"""Inputs of a model: from a file, or seeded random values of the declared types and shapes."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper

from editor.errors import ExecutionError
from editor.graph.graph import Graph
from editor.graph.types import element_type
from editor.runtimes.base import Value

_ROW_LIMIT = 1 << 20


def numpy_dtype(kind: str) -> np.dtype[Any] | None:
    """The numpy (or ``ml_dtypes``) type of a tensor type; None where there is none."""
    code = element_type(kind)
    return np.dtype(helper.tensor_dtype_to_np_dtype(code)) if code else None


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, Value]:
    """Seeded values for every graph input: normally distributed floats, and valid indices for integers.

    Raises:
        ExecutionError: the type or shape of an input is unknown or not supported.
    """
    rng = np.random.default_rng(seed)
    return {graph.tensor_names[t]: _random(graph, t, rng) for t in graph.inputs.tolist()}


def _random(graph: Graph, tensor: int, rng: np.random.Generator) -> Value:
    name, kind, shape = graph.tensor_names[tensor], graph.tensor_types[tensor], graph.tensor_shapes[tensor]
    dtype = numpy_dtype(kind)
    if dtype is None or shape is None or any(not isinstance(d, int) for d in shape):
        raise ExecutionError(f"{graph.path}: cannot generate a value for input {name!r} ({kind or 'unknown type'}, "
                             f"shape {graph.shape_label(tensor)}); give inputs in an .npz file")
    size = tuple(int(d) for d in shape)
    if dtype.kind == "O":
        return np.full(size, "text", object)
    if dtype.kind == "b":
        return np.ones(size, bool)
    if dtype.kind in "iu":
        if "mask" in name.lower():
            return np.ones(size, dtype)
        high = _index_limit(graph, tensor)
        return rng.integers(0, min(high, np.iinfo(dtype).max), size).astype(dtype)
    if dtype.kind == "c":
        return (rng.standard_normal(size) + 1j * rng.standard_normal(size)).astype(dtype)
    return rng.standard_normal(size).astype(dtype)


def _index_limit(graph: Graph, tensor: int) -> int:
    """Rows of the smallest tensor that an integer input indexes, such as an embedding."""
    limit = _ROW_LIMIT
    for op in graph.readers[tensor].tolist():
        data = graph.op_inputs[op][0] if len(graph.op_inputs[op]) else -1
        shape = graph.tensor_shapes[data] if data >= 0 and data != tensor else None
        if graph.op_types[op] == "Gather" and shape and isinstance(shape[0], int):
            limit = min(limit, max(shape[0], 1))
    return limit if limit < _ROW_LIMIT else 8


def read_inputs(graph: Graph, path: Path) -> dict[str, Value]:
    """Reads inputs from an ``.npz`` file and checks them against the graph.

    Raises:
        ExecutionError: the file is damaged, or an input is missing, unknown or of the wrong shape or type.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            values = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error, MemoryError,
            NotImplementedError) as error:
        raise ExecutionError(f"{path}: not an .npz file of inputs ({error or type(error).__name__})") from error
    check_inputs(graph, values)
    return values


def expected_arrays(graph: Graph, overridden: Iterable[str] = ()) -> dict[str, tuple[np.dtype[Any] | None,
                                                                              tuple[int | str, ...] | None]]:
    """Type and shape of every graph input and overridden initializer, by name."""
    tensors = [*graph.inputs.tolist(), *(graph.tensor_index[name] for name in overridden)]
    return {graph.tensor_names[t]: (numpy_dtype(graph.tensor_types[t]), graph.tensor_shapes[t]) for t in tensors}


def overridden_initializers(graph: Graph, names: Iterable[str]) -> frozenset[str]:
    """The names that override the default value of an initializer."""
    index = graph.tensor_index
    return frozenset(name for name in names if name in index and graph.tensor_overridable[index[name]])


def check_inputs(graph: Graph, values: Mapping[str, Value]) -> None:
    """Raises ``ExecutionError`` naming the input that is missing, unknown, or of the wrong type or shape.

    Every graph input is required; initializers that are declared as inputs are optional. These must have
    the shape of their default, because all shapes of the plan depend on it.
    """
    expected = {graph.tensor_names[t]: t for t in graph.inputs.tolist()}
    missing = [name for name in expected if name not in values]
    if missing:
        raise ExecutionError(f"inputs are missing: {', '.join(missing)}")
    defaults = {graph.tensor_names[t]: t for t in np.flatnonzero(graph.tensor_overridable).tolist()}
    expected |= defaults
    for name, value in values.items():
        if name not in expected:
            raise ExecutionError(f"the model has no input {name!r} (it has {', '.join(expected) or 'none'})")
        tensor = expected[name]
        dtype, shape = numpy_dtype(graph.tensor_types[tensor]), graph.tensor_shapes[tensor]
        array = value if hasattr(value, "dtype") else None
        if array is None or dtype is None or shape is None:
            continue
        if array.dtype != dtype and not (dtype.kind == "O" and array.dtype.kind in "US"):
            raise ExecutionError(f"input {name!r} must be {dtype}, not {array.dtype}")
        fits = len(shape) == len(array.shape) and all(not isinstance(d, int) or d == n
                                                      for d, n in zip(shape, array.shape, strict=False))
        if not fits:
            raise ExecutionError(f"input {name!r} must have the shape {graph.shape_label(tensor)}, "
                                 f"not {'x'.join(map(str, array.shape)) or 'scalar'}")
