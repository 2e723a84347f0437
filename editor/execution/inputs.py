"""Inputs of a model: from a file, or seeded random values of the declared types and shapes."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from onnx import helper

from editor import limits
from editor.arguments import as_mapping, shown
from editor.errors import ExecutionError
from editor.graph.graph import Graph, element_type
from editor.runtimes.base import Value
from editor.runtimes.values import is_value

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
    left, values = limits.half_of_machine(), {}
    for tensor in graph.inputs.tolist():
        left -= _random_bytes(graph, tensor)
        if left < 0:
            raise _too_large(graph, tensor)
        try:
            values[graph.tensor_names[tensor]] = _random(graph, tensor, rng)
        except (MemoryError, ValueError) as error:  # numpy refuses 0 x 2^62, too
            raise _too_large(graph, tensor) from error
    return values


def _random_bytes(graph: Graph, tensor: int) -> int:
    """Bytes of a random value; numpy counts dimensions of size 0 as 1, and makes numbers of 8 bytes first."""
    return 8 * prod(d or 1 for d in graph.tensor_shapes[tensor] or () if isinstance(d, int))


def _too_large(graph: Graph, tensor: int) -> ExecutionError:
    return ExecutionError(
        f"{graph.path}: input {graph.tensor_names[tensor]!r} of the shape {graph.shape_label(tensor)} "
        f"({graph.tensor_types[tensor]}) needs more memory than there is; use a model with smaller inputs"
    )


def _random(graph: Graph, tensor: int, rng: np.random.Generator) -> Value:
    name, kind, shape = (
        graph.tensor_names[tensor],
        graph.tensor_types[tensor],
        graph.tensor_shapes[tensor],
    )
    dtype = numpy_dtype(kind)
    if dtype is None or shape is None or any(not isinstance(d, int) or d < 0 for d in shape):
        raise ExecutionError(
            f"{graph.path}: cannot generate a value for input {name!r} ({kind or 'unknown type'}, "
            f"shape {graph.shape_label(tensor)}); give inputs in an .npz file"
        )
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
        values = _read_npz(graph, path)
    except FileNotFoundError as error:
        raise ExecutionError(f"{str(path)[:300]}: no such file") from error
    except (
        OSError,
        ValueError,
        EOFError,
        TypeError,
        zipfile.BadZipFile,
        zlib.error,
        MemoryError,
        NotImplementedError,
        RuntimeError,
        KeyError,
        SyntaxError,
        tokenize.TokenError,
    ) as error:
        raise ExecutionError(
            f"{str(path)[:300]}: not an .npz file of inputs ({error or type(error).__name__})"
        ) from error
    check_inputs(graph, values)
    return values


def _read_npz(graph: Graph, path: Path) -> dict[str, Value]:
    """The arrays of a file; the sizes that their headers state are checked before anything is read."""
    if path.exists() and not path.is_file():
        raise ValueError("not a regular file")
    known = [
        graph.tensor_names[t]
        for t in (*graph.inputs.tolist(), *np.flatnonzero(graph.tensor_overridable).tolist())
    ]
    values, left = {}, limits.current().bytes_for(path.stat().st_size)
    with zipfile.ZipFile(path) as archive:
        if len(archive.infolist()) > 2 * len(known) + 100:
            raise ValueError(
                f"{len(archive.infolist())} arrays, and the model has {len(known)} inputs"
            )
        for entry in archive.infolist():
            name = entry.filename.removesuffix(".npy")
            with archive.open(entry) as file:
                dtype, shape = _header(file)
            if name not in known:
                raise _unknown(name, known)
            _check_array(graph, name, dtype, shape)
            left -= prod(shape) * dtype.itemsize
            if left < 0:
                raise limits.out_of_memory(
                    f"{path}: its arrays", limits.current().bytes_for(path.stat().st_size)
                )
            with archive.open(entry) as file:
                values[name] = np.lib.format.read_array(file, allow_pickle=False)
    return values


def _header(file: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    version = np.lib.format.read_magic(file)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, _, dtype = read(file)
    if any(d < 0 for d in shape):
        raise ValueError(f"the shape {shape}")
    return dtype, shape


def expected_arrays(
    graph: Graph, overridden: Iterable[str] = ()
) -> dict[str, tuple[np.dtype[Any] | None, tuple[int | str, ...] | None]]:
    """Type and shape of every graph input and overridden initializer, by name."""
    tensors = [*graph.inputs.tolist(), *(graph.tensor_index[name] for name in overridden)]
    return {
        graph.tensor_names[t]: (numpy_dtype(graph.tensor_types[t]), graph.tensor_shapes[t])
        for t in tensors
    }


def overridden_initializers(graph: Graph, names: Iterable[str]) -> frozenset[str]:
    """The names that override the default value of an initializer."""
    index = graph.tensor_index
    return frozenset(
        name for name in names if name in index and graph.tensor_overridable[index[name]]
    )


def check_inputs(graph: Graph, values: Mapping[str, Value]) -> None:
    """Raises ``ExecutionError`` naming the input that is missing, unknown, or of the wrong type or shape.

    Every graph input is required; initializers that are declared as inputs are optional. These must have
    the shape of their default, because all shapes of the plan depend on it.
    """
    given = as_mapping(values, "inputs", ExecutionError)
    expected = {graph.tensor_names[t]: t for t in graph.inputs.tolist()}
    missing = [name for name in expected if name not in given]
    if missing:
        raise ExecutionError(f"inputs are missing: {', '.join(missing)}")
    defaults = {graph.tensor_names[t]: t for t in np.flatnonzero(graph.tensor_overridable).tolist()}
    expected |= defaults
    for name, value in given.items():
        if name not in expected:
            raise _unknown(name, expected)
        if hasattr(value, "dtype"):
            _check_array(graph, name, value.dtype, value.shape)
        elif not is_value(value) and numpy_dtype(graph.tensor_types[expected[name]]) is not None:
            raise ExecutionError(f"input {name!r} must be a numpy array, not {shown(value)}")


def _unknown(name: str, expected: Iterable[str]) -> ExecutionError:
    return ExecutionError(
        f"the model has no input {name[:200]!r} (it has {', '.join(expected) or 'none'})"
    )


def _check_array(graph: Graph, name: str, found: np.dtype[Any], size: tuple[int, ...]) -> None:
    """Checks element type and shape of an array for an input or initializer, where both are known."""
    tensor = graph.tensor_index.get(name, -1)
    if tensor < 0:
        return
    dtype, shape = numpy_dtype(graph.tensor_types[tensor]), graph.tensor_shapes[tensor]
    if dtype is None or shape is None:
        return
    if found != dtype and not (dtype.kind == "O" and found.kind in "US"):
        raise ExecutionError(f"input {name!r} must be {dtype}, not {found}")
    if len(shape) != len(size) or any(
        isinstance(d, int) and d != n for d, n in zip(shape, size, strict=False)
    ):
        raise ExecutionError(
            f"input {name!r} must have the shape {graph.shape_label(tensor)}, "
            f"not {'x'.join(map(str, size)) or 'scalar'}{_other_sizes(graph, name, size)}"
        )


def _other_sizes(graph: Graph, name: str, size: tuple[int, ...]) -> str:
    """How to plan for an input of another size, where the model leaves it open."""
    dims = graph.input_dims.get(name, ())
    if len(dims) != len(size) or any(
        isinstance(d, int) and d != n for d, n in zip(dims, size, strict=True)
    ):
        return ""
    have = graph.tensor_shapes[graph.tensor_index[name]] or ()
    axes = [axis for axis, n in enumerate(size) if isinstance(dims[axis], str) and have[axis] != n]
    defines = " ".join(f"--define '{name}[{axis}]={size[axis]}'" for axis in axes)
    return f"; partition the model for it: {defines}"
