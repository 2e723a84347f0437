"""Reads the names of the tensors of a GGUF file from its header; the weights are not read.

The form: `docs/gguf.md` of ggml, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

from editor.errors import ExportError

_VERSIONS = (2, 3)
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Type of a value -> its bytes."""
_STRING, _ARRAY = 8, 9
_MOST_TENSORS = _MOST_KEYS = 1 << 20
_MOST_ITEMS = 1 << 23
"""Texts in an array; vocabularies have fewer."""
_LONGEST = 1 << 24
"""Bytes of a text."""
_MOST_DIMENSIONS = 8


def tensors_of(path: Path) -> list[str]:
    """The names of a file's tensors, in its order.

    Raises:
        ExportError: it cannot be read, or is not a GGUF file.
    """
    try:
        with path.open("rb") as file:
            return _tensors(file)
    except (OSError, ValueError, struct.error) as error:
        raise ExportError(f"{path}: no names of tensors can be read from it ({error})") from error


def _tensors(file: BinaryIO) -> list[str]:
    if file.read(4) != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    if (version := _number(file, "<I")) not in _VERSIONS:
        raise ValueError(f"version {version} of GGUF, and 2 and 3 are known")
    count = _bounded(_number(file, "<Q"), _MOST_TENSORS, "tensors")
    for _ in range(_bounded(_number(file, "<Q"), _MOST_KEYS, "keys")):
        _text(file)
        _skip(file, _number(file, "<I"))
    names = []
    for _ in range(count):
        names.append(_text(file).decode())
        rank = _bounded(_number(file, "<I"), _MOST_DIMENSIONS, "dimensions")
        file.read(8 * rank + 4 + 8)  # sizes, type and offset
    return names


def _skip(file: BinaryIO, kind: int) -> None:
    """Passes over a value; arrays of arrays, which no model has, are refused."""
    if kind in _SIZES:
        file.seek(_SIZES[kind], 1)
    elif kind == _STRING:
        _text(file)
    elif kind == _ARRAY:
        item, count = _number(file, "<I"), _number(file, "<Q")
        if item in _SIZES:
            file.seek(_bounded(_SIZES[item] * count, 1 << 40, "bytes of an array"), 1)
        elif item == _STRING:
            for _ in range(_bounded(count, _MOST_ITEMS, "texts")):
                _text(file)
        else:
            raise ValueError(f"an array of values of type {item}")
    else:
        raise ValueError(f"a value of type {kind}")


def _text(file: BinaryIO) -> bytes:
    length = _bounded(_number(file, "<Q"), _LONGEST, "bytes of a text")
    data = file.read(length)
    if len(data) < length:
        raise ValueError("it is cut short")
    return data


def _number(file: BinaryIO, form: str) -> int:
    number: int = struct.unpack(form, file.read(struct.calcsize(form)))[0]
    return number


def _bounded(number: int, most: int, what: str) -> int:
    if number > most:
        raise ValueError(f"{number:,} {what}, more than {most:,}")
    return number
