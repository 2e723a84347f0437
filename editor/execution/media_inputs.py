"""Reads an image or a sound as the input of a model that has one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from editor.errors import ExecutionError
from editor.execution.invented_values import numpy_dtype
from editor.graph.graph import Graph
from editor.runtimes.base import Value

_IMAGES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp"})
_SOUNDS = frozenset({".flac", ".mp3", ".ogg", ".wav"})
_CHANNELS = {1: "L", 3: "RGB", 4: "RGBA"}
_MOST_PIXELS = 1 << 26


def is_media(path: Path) -> bool:
    """Whether a file is an image or a sound, by its name."""
    return path.suffix.lower() in _IMAGES | _SOUNDS


def read_media(graph: Graph, path: Path) -> dict[str, Value]:
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
