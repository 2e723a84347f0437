"""Values of any runtime, looked at from outside.

Values stay in the memory of the runtime that made them. A sequence is a list, an empty optional is None.
Each runtime with values of its own registers how they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from editor.errors import ExecutionError
from editor.runtimes.base import Value


@dataclass(frozen=True)
class ValueReader:
    """How values of one type are read."""

    to_numpy: Callable[[Any], Value]
    """A view where the memory can be shared, else a copy; lists stay lists."""
    nbytes: Callable[[Any], int]
    """0 where that is not defined."""
    is_array: Callable[[Any], bool]
    """A tensor of an element type that numpy has."""
    host_view: Callable[[Any], npt.NDArray[Any] | None]
    """An array in the same memory; None where it cannot be seen from the host."""


_readers: dict[type, ValueReader] = {}


def register_value_type(kind: type, reader: ValueReader) -> None:
    """Registers the functions that read the values of a runtime."""
    _readers[kind] = reader


def to_numpy(value: Value) -> Value:
    """A numpy view (or copy, where the memory cannot be shared); lists stay lists.

    Raises:
        ExecutionError: a string tensor holds bytes that are no text.
    """
    reader = _readers.get(type(value))
    try:
        return reader.to_numpy(value) if reader else value
    except UnicodeDecodeError as error:
        raise ExecutionError(f"a string of the model is not UTF-8 and cannot be read: byte 0x{error.object[error.start]:02x} "
                             f"at position {error.start}") from error
    except ValueError as error:  # 0 x 2^62 elements, which a runtime takes and numpy does not
        raise ExecutionError(f"a value of the model cannot be read: {error}") from error


def is_value(value: object) -> bool:
    """Whether a runtime registered how values of this type are read."""
    return type(value) in _readers


def nbytes(value: Value) -> int:
    """Bytes that a value takes, 0 where that is not defined."""
    reader = _readers.get(type(value))
    return reader.nbytes(value) if reader else int(getattr(value, "nbytes", 0))


def is_array(value: Value) -> bool:
    """A tensor whose element type numpy has."""
    reader = _readers.get(type(value))
    return reader.is_array(value) if reader else isinstance(value, np.ndarray) and value.dtype.kind not in "OUSV"


def host_view(value: Value) -> npt.NDArray[Any] | None:
    """An array in the memory of a value; None where its memory cannot be seen from the host."""
    reader = _readers.get(type(value))
    return reader.host_view(value) if reader else value if isinstance(value, np.ndarray) else None
