"""Inputs of a model that somebody gives: as values, or in a file, which may be an image or a sound."""

from __future__ import annotations

import io
import re
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from editor import limits
from editor.arguments import as_mapping, shown
from editor.errors import ExecutionError
from editor.execution.invented_values import numpy_dtype
from editor.files import meant
from editor.graph.graph import Graph
from editor.runtimes.base import Value
from editor.runtimes.values import CODES, EXTENSIONS, is_value

UNREADABLE = (
    *(OSError, ValueError, EOFError, TypeError, zipfile.BadZipFile, zlib.error, MemoryError),
    *(NotImplementedError, RuntimeError, KeyError, SyntaxError, tokenize.TokenError),
)
"""What numpy and zipfile raise for files that are damaged."""


def read_inputs(graph: Graph, path: Path, some: bool = False) -> dict[str, Value]:
    """Reads inputs from an ``.npz`` file, a folder of ``.npy`` files, an image or a sound, and checks them against the graph.

    Args:
        graph: the model.
        path: of the file or folder.
        some: whether values of some inputs are enough.

    Raises:
        ExecutionError: the file is damaged, or an input is missing, unknown or of the wrong shape or type.
    """
    if path.suffix.lower() in _IMAGES | _SOUNDS:
        return _read_media(graph, path)
    try:
        values = _read_arrays(graph, path)
    except FileNotFoundError as error:
        raise ExecutionError(f"{str(path)[:300]}: no such file{meant(path)}") from error
    except UNREADABLE as error:
        raise ExecutionError(
            f"{str(path)[:300]}: not an .npz file of inputs, or a folder of .npy files "
            f"({error or type(error).__name__})"
        ) from error
    if some:
        return values
    values = with_absent(graph, values)
    check_inputs(graph, values)
    return values


Open = Callable[[], IO[bytes]]


def _read_arrays(graph: Graph, path: Path) -> dict[str, Value]:
    """The values of a file or folder; the sizes that their headers state are checked before anything is read."""
    known = [
        graph.tensor_names[t]
        for t in (*graph.inputs.tolist(), *np.flatnonzero(graph.tensor_overridable).tolist())
    ]
    if path.is_dir():
        files = sorted(path.rglob("*.npy"))
        if not files:
            raise ValueError("a folder without .npy files")
        arrays: dict[str, Open] = {
            file.relative_to(path).as_posix(): partial(_opened, file) for file in files
        }
        room = limits.current().bytes_for(sum(file.stat().st_size for file in files))
        return _values_of(graph, known, arrays, path, room)
    if path.exists() and not path.is_file():
        raise ValueError("not a regular file")
    room = limits.current().bytes_for(path.stat().st_size)
    with zipfile.ZipFile(path) as archive:
        listed = archive.infolist()
        sequences = any("(" in kind for kind in graph.tensor_types)
        if len(listed) > 2 * len(known) + 100 + sequences * _LONGEST_SEQUENCE:
            raise ValueError(f"{len(listed)} arrays, and the model has {len(known)} inputs")
        arrays = {entry.filename: partial(archive.open, entry) for entry in listed}
        return _values_of(graph, known, arrays, path, room)


def _values_of(
    graph: Graph, known: Sequence[str], arrays: Mapping[str, Open], path: Path, room: int
) -> dict[str, Value]:
    values: dict[str, Value] = {}
    items: dict[str, dict[int, Value]] = {}
    left = room
    for file_name, opened in arrays.items():
        name, index = _place(graph, known, file_name.removesuffix(".npy"))
        with opened() as file:
            found, shape = _header(file)
        dtype = numpy_dtype(_element(graph.tensor_types[graph.tensor_index[name]]))
        read_as = found if dtype is None or not _holds(found, dtype) else dtype
        if index is None:
            _check_array(graph, name, read_as, shape)
        elif dtype is not None and index >= 0:
            _check_type(f"{name}[{index}]", read_as, dtype)
        left -= prod(shape) * found.itemsize
        if left < 0:
            raise limits.out_of_memory(f"{path}: its arrays", room)
        with opened() as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
        value = array if read_as == found or dtype is None else _restored(name, array, dtype)
        if index is None:
            values[name] = value
        else:
            items.setdefault(name, {})[index] = value
    for name, numbered in items.items():
        numbered.pop(_EMPTY, None)
        if sorted(numbered) != list(range(len(numbered))):
            raise ExecutionError(
                f"{path}: {name}[{len(numbered) - 1}] is there, but not all of those before it"
            )
        values[name] = [numbered[i] for i in range(len(numbered))]
    return values


_LONGEST_SEQUENCE = 10_000
_EMPTY = -1
"""The index of ``name[]``, which says that there is a sequence, and adds nothing to it."""
_ITEM = re.compile(r"(?P<name>.*)\[(?P<index>\d{0,9})\]", re.DOTALL)


def _place(graph: Graph, known: Sequence[str], name: str) -> tuple[str, int | None]:
    """The input that an array is for, and its index where that is a sequence."""
    item = _ITEM.fullmatch(name)
    if item and name not in known and item["name"] in known:
        if not _is_sequence(graph.tensor_types[graph.tensor_index[item["name"]]]):
            raise ExecutionError(
                f"input {item['name']!r} is not a sequence, and {name[:200]!r} one of its values"
            )
        return item["name"], int(item["index"]) if item["index"] else _EMPTY
    if name not in known:
        raise _unknown(name, known)
    if _is_sequence(graph.tensor_types[graph.tensor_index[name]]):
        raise _no_sequence(name)
    return name, None


def _is_sequence(kind: str) -> bool:
    return "sequence(" in kind


def _element(kind: str) -> str:
    """The type of the tensors in a sequence or optional; of a tensor its own."""
    return kind.rpartition("(")[2].rstrip(")")


def _no_sequence(name: str) -> ExecutionError:
    return ExecutionError(
        f"input {name!r} is a sequence: give a list, or in a file one array for each value, named "
        f"{name}[0], {name}[1] and so on ({name}[] where it is empty)"
    )


def _bits_type(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The whole numbers of a file that are taken as bits of a type which numpy lacks; None where that could be values."""
    bits = EXTENSIONS[CODES[dtype]][1]
    return np.dtype(f"uint{bits}") if bits == 8 * dtype.itemsize else None


def _values_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of numpy in which a file may hold values of one that numpy lacks."""
    if "float" in dtype.name:
        return np.dtype(np.float32)
    return np.dtype(np.uint8 if dtype.name.startswith("u") else np.int8)


def _holds(found: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Whether arrays of a file can be read as a type that numpy lacks; it stores these as bytes without a type."""
    if dtype not in CODES:
        return False
    untyped = found.kind == "V" and found.names is None and found.subdtype is None
    return (untyped and found.itemsize == dtype.itemsize) or found in (
        _bits_type(dtype),
        _values_type(dtype),
    )


def _restored(name: str, array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """An array of a file as the type that numpy lacks; see ``_holds``."""
    if array.dtype.kind == "V" or array.dtype == _bits_type(dtype):
        return np.ascontiguousarray(array).view(dtype).reshape(array.shape)
    if array.dtype.kind in "iu":
        ends = ml_dtypes.iinfo(dtype)
        if array.size and not ends.min <= array.min() <= array.max() <= ends.max:
            raise ExecutionError(f"input {name!r} must be {dtype}: from {ends.min} to {ends.max}")
    return array.astype(dtype)


def packed(values: Mapping[str, Any]) -> tuple[bytes, list[str]]:
    """An ``.npz`` file that ``read_inputs`` reads, and the names of the values that no such file can hold."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    odd: list[str] = []
    for name, value in values.items():
        named = {name: value}
        if isinstance(value, list):
            named = {f"{name}[{i}]": item for i, item in enumerate(value)}
            named = named or {f"{name}[]": np.empty(0, np.float32)}
        found = {key: _plain(item) for key, item in named.items() if item is not None}
        if any(array is None for array in found.values()):
            odd.append(name)
        else:
            arrays |= {key: array for key, array in found.items() if array is not None}
    content = io.BytesIO()
    with zipfile.ZipFile(
        content, "w"
    ) as archive:  # numpy's function takes no array that is called "file"
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return content.getvalue(), odd


def _plain(value: Any) -> npt.NDArray[Any] | None:
    """An array that needs no pickle; None where there is none."""
    if not isinstance(value, np.ndarray):
        return None
    if value.dtype.kind != "O":
        return value
    is_text = all(isinstance(item, str) for item in value.reshape(-1))
    return value.astype(np.str_) if is_text else None


def _opened(file: Path) -> IO[bytes]:
    return file.open("rb")


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
    given = with_absent(graph, as_mapping(values, "inputs", ExecutionError))
    expected = {graph.tensor_names[t]: t for t in graph.inputs.tolist()}
    missing = [name for name in expected if name not in given]
    if missing:
        if _is_sequence(graph.tensor_types[expected[missing[0]]]):
            raise _no_sequence(missing[0])
        raise ExecutionError(f"inputs are missing: {', '.join(missing)}")
    defaults = {graph.tensor_names[t]: t for t in np.flatnonzero(graph.tensor_overridable).tolist()}
    expected |= defaults
    for name, value in given.items():
        if name not in expected:
            raise _unknown(name, expected)
        if _is_sequence(graph.tensor_types[expected[name]]) and isinstance(value, np.ndarray):
            raise _no_sequence(name)
        if hasattr(value, "dtype"):
            _check_array(graph, name, value.dtype, value.shape)
        elif not is_value(value) and numpy_dtype(graph.tensor_types[expected[name]]) is not None:
            raise ExecutionError(f"input {name!r} must be a numpy array, not {shown(value)}")


def with_absent(graph: Graph, values: Mapping[str, Value]) -> dict[str, Value]:
    """The values, with None for each optional input that has none."""
    absent = [
        graph.tensor_names[t]
        for t in graph.inputs.tolist()
        if graph.tensor_types[t].startswith("optional(")
    ]
    return {**dict.fromkeys(absent), **values}


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
    _check_type(name, found, dtype)
    if len(shape) != len(size) or any(
        isinstance(d, int) and d != n for d, n in zip(shape, size, strict=False)
    ):
        raise ExecutionError(
            f"input {name!r} must have the shape {graph.shape_label(tensor)}, "
            f"not {'x'.join(map(str, size)) or 'scalar'}{_other_sizes(graph, name, size)}"
        )


def _check_type(name: str, found: np.dtype[Any], dtype: np.dtype[Any]) -> None:
    if found == dtype or (dtype.kind == "O" and found.kind in "US"):
        return
    ways = ""
    if dtype in CODES:
        bits = _bits_type(dtype)
        ways = (
            f"; a file holds it as numpy writes ml_dtypes.{dtype}{f', as its bits in {bits}' if bits else ''}, "
            f"or as {_values_type(dtype)}"
        )
    raise ExecutionError(f"input {name!r} must be {dtype}, not {found}{ways}")


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


_IMAGES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp"})
_SOUNDS = frozenset({".flac", ".mp3", ".ogg", ".wav"})
_CHANNELS = {1: "L", 3: "RGB", 4: "RGBA"}
_MOST_PIXELS = 1 << 26


def _read_media(graph: Graph, path: Path) -> dict[str, Value]:
    """The one input of a model: an image in its size with values of 0 to 1 (bytes for uint8), or the samples of a sound.

    Raises:
        ExecutionError: the model has other inputs, a package is missing, or the file is damaged.
    """
    inputs = graph.inputs.tolist()
    tensor = inputs[0] if len(inputs) == 1 else -1
    shape = [d for d in graph.tensor_shapes[tensor] or () if isinstance(d, int)] if inputs else []
    dtype = numpy_dtype(graph.tensor_types[tensor]) if inputs else None
    is_image = path.suffix.lower() in _IMAGES
    fits = (
        len(shape) == 4 and (shape[1] in _CHANNELS or shape[3] in _CHANNELS)
        if is_image
        else bool(shape)
    )
    if (
        tensor < 0
        or dtype is None
        or not fits
        or len(shape) != len(graph.tensor_shapes[tensor] or ())
    ):
        what = (
            "an image is for a model with one input of four axes"
            if is_image
            else "a sound is for a model with one input"
        )
        raise ExecutionError(
            f"{path}: {what}; give an .npz file with {', '.join(graph.tensor_names[t] for t in inputs)}"
        )
    try:
        values = _pixels(path, shape, dtype) if is_image else _samples(path, shape)
    except ImportError as error:
        package = "Pillow" if is_image else "soundfile"
        raise ExecutionError(
            f"{path}: reading it needs the package {package}: pip install {package}"
        ) from error
    except Exception as error:  # decoders raise what they like
        raise ExecutionError(f"{path}: cannot be read ({str(error)[:200]})") from error
    return {graph.tensor_names[tensor]: values.astype(dtype)}


def _pixels(path: Path, shape: list[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    from PIL import Image  # optional

    is_first = shape[1] in _CHANNELS
    channels, height, width = (shape[1], *shape[2:]) if is_first else (shape[3], *shape[1:3])
    with Image.open(path) as image:
        if image.width * image.height > _MOST_PIXELS:
            raise ValueError(f"{image.width}x{image.height} pixels")
        pixels = np.asarray(image.convert(_CHANNELS[channels]).resize((width, height)))
    pixels = pixels.reshape(height, width, channels)
    if dtype.kind not in "iu":
        pixels = pixels / np.float32(255)
    return np.broadcast_to(pixels.transpose(2, 0, 1) if is_first else pixels, shape)


def _samples(path: Path, shape: list[int]) -> npt.NDArray[Any]:
    """The first channel, cut or filled with silence to the size of the input."""
    import soundfile  # optional

    with soundfile.SoundFile(path) as sound:
        found = sound.read(shape[-1], dtype="float32", always_2d=True)[:, 0]
    return np.broadcast_to(np.pad(found, (0, shape[-1] - len(found))), shape)
