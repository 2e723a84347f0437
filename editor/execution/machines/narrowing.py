"""Tensors that travel as float16 or int8 and are what they were, nearly, when they arrive.

int8 is symmetric, with one scale per tensor that is taken from its values. A tensor travels unchanged where the narrow type
cannot hold it: values beyond the range of float16, and for int8 infinities, NaN, and a scale that float32 cannot hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from editor.devices.wire_types import travels_as
from editor.runtimes.values import nbytes

_LEVELS = 127
"""Steps of int8 on each side of zero."""
_LEAST, _MOST = 1e-30, 3.4e38
"""Largest magnitudes of a tensor for int8: below, its scale would lose precision; above, rounding could give infinity."""


@dataclass(frozen=True)
class Narrow:
    """A tensor as it travels."""

    data: Any
    dtype: str = ""
    """Of the tensor; "" where it travels unchanged."""
    scale: float = 1.0
    """Its values are those of ``data`` times this."""

    @property
    def travels_as(self) -> str:
        """``float16`` or ``int8``; "" where it travels unchanged."""
        return str(self.data.dtype) if self.dtype else ""

    @property
    def bytes(self) -> int:
        """On the wire."""
        return nbytes(self.data)


def narrow(value: Any, wire_type: str) -> Narrow:
    """A value as it travels.

    Args:
        value: an array, or what else a runtime returns; only arrays of float32, and of float16 for int8, are changed.
        wire_type: ``float16``, ``int8`` or "".
    """
    if not isinstance(value, np.ndarray) or travels_as(str(value.dtype), wire_type) == str(value.dtype):
        return Narrow(value)
    if wire_type == "float16":
        with np.errstate(over="ignore"):
            half = value.astype(np.float16)
        same = np.isfinite(half) == np.isfinite(value)
        return Narrow(half, str(value.dtype)) if same.all() else Narrow(value)
    return _as_int8(value)


def _as_int8(value: npt.NDArray[Any]) -> Narrow:
    largest = float(np.max(np.abs(value), initial=0.0))
    if not (largest == 0.0 or _LEAST <= largest <= _MOST):  # the largest magnitude of a tensor with NaN is NaN
        return Narrow(value)
    scale = largest / _LEVELS if largest else 1.0
    steps = np.multiply(value, np.float32(1.0 / scale), dtype=np.float32)
    return Narrow(np.clip(np.rint(steps), -_LEVELS, _LEVELS).astype(np.int8), str(value.dtype), scale)


def widened(arrived: Narrow) -> Any:
    """The tensor, in its own type."""
    if not arrived.dtype:
        return arrived.data
    data = np.asarray(arrived.data)
    if data.dtype == np.float16:
        return data.astype(arrived.dtype)
    return np.multiply(data, np.float32(arrived.scale), dtype=np.float32).astype(arrived.dtype, copy=False)
