"""Reads the constants of a model for people: values of small ones, and figures of weights.

The graph holds no weights: what is asked for is read from the model file, and from files of external data part by part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TensorProto, numpy_helper

from editor.errors import ModelError
from editor.files import file_state
from editor.graph.external_data import entry_of, is_external
from editor.graph.graph import Graph, Ints, bits_of, byte_size, cached_per_graph, element_name
from editor.graph.model_file import read_again
from editor.graph.plain_models import PLAIN_BYTES
from editor.graph.static_values import MAX_ELEMENTS, StaticValues, is_static
from editor.sandbox.watch import READING
from editor.sandbox.worker import run
from editor.text import human_bytes

T = TypeVar("T")

MOST_VALUES = 16
"""Most values of one constant that are all written out; of more, the first few are."""
_FIRST_VALUES = 3
_KINDS = frozenset(
    {"bool", "float16", "bfloat16", "float32", "float64"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)}
)
MOST_BYTES = 1 << 30
"""Largest constant whose figures are computed."""
_CHUNK = 1 << 16
"""Elements that are looked at together."""
BINS = 20

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.float64]


def values_of(graph: Graph, tensors: Iterable[int]) -> dict[int, str]:
    """Tensor -> its values as a line of text, for those of few elements that are constant, or made by constant ops.

    Raises:
        ModelError: the model file is gone, or has changed.
        LimitError: reading it needs more time or memory than the limits allow.
    """
    few = [
        t
        for t in tensors
        if graph.tensor_is_constant[t] and 0 <= _elements(graph, t) <= MAX_ELEMENTS
    ]
    return {t: text for t in few if (text := _small_values(graph).get(t))}


def _read(function: Callable[..., T], graph: Graph, *arguments: Any, weights: int = 0) -> T:
    """Calls what parses the model file and reads some bytes of weights: in a worker under limits, unless there is little."""
    size = (file_state(graph.path) or (0, 0))[1]
    small = size + weights <= PLAIN_BYTES
    return run(function, graph, *arguments, what=READING, path=graph.path, harmless=small)


def _elements(graph: Graph, tensor: int) -> int:
    """Number of elements of a tensor; -1 where it is not known."""
    shape = graph.tensor_shapes[tensor]
    known = is_static((graph.tensor_types[tensor], shape))
    return prod(int(d) for d in shape or ()) if known else -1


@cached_per_graph
def _small_values(graph: Graph) -> Mapping[int, str]:
    """Of all small constants at once: the file is read for the first of them."""
    return _read(_read_small, graph)


def _read_small(graph: Graph) -> dict[int, str]:
    model = read_again(graph)
    types = dict(
        zip(
            graph.tensor_names,
            zip(graph.tensor_types, graph.tensor_shapes, strict=True),
            strict=True,
        )
    )
    static = StaticValues(model, types, _small_initializers(model, graph.folder), _KINDS)
    for op in graph.order[graph.op_is_constant[graph.order]].tolist():
        static.compute(model.graph.node[op])
    values = {}
    for tensor in np.flatnonzero(graph.tensor_is_constant).tolist():
        array = static.value(graph.tensor_names[tensor])
        if array is not None:
            values[tensor] = _text_of(array)
    return values


def _small_initializers(model: ModelProto, folder: Path) -> dict[str, TensorProto]:
    found = {}
    for tensor in model.graph.initializer:
        if prod(tensor.dims) > MAX_ELEMENTS:
            continue
        if is_external(tensor):
            try:
                tensor.raw_data = _outside(tensor, folder, 0, _size_of(tensor)).tobytes()
            except (OSError, ValueError):  # the file is not there, or cut short
                continue
            tensor.data_location = TensorProto.DEFAULT
        found[tensor.name] = tensor
    return found


def _text_of(array: npt.NDArray[np.generic]) -> str:
    shown = array.size if array.size <= MOST_VALUES else _FIRST_VALUES
    items = array.ravel()[:shown].tolist()
    words = [f"{item:.6g}" if isinstance(item, float) else str(item) for item in items]
    if not array.ndim:
        return words[0]
    more = f", … {array.size:,} in all" if shown < array.size else ""
    return f"[{', '.join(words)}{more}]"


@dataclass(frozen=True)
class Figures:
    """What the elements of a constant are like. Those that are not finite count in ``not_finite`` only."""

    name: str
    type: str
    shape: tuple[int, ...]
    count: int
    least: float
    largest: float
    mean: float
    deviation: float
    zeros: int
    not_finite: int
    bins: tuple[int, ...]
    """How many elements are in each of ``BINS`` equal parts of the range"""


def weights_of(graph: Graph, op: int) -> list[int]:
    """The constants of the file that an op reads, also through constant ops, without those whose values are written out."""
    found: dict[int, None] = {}
    waiting = [t for t in reversed(graph.op_reads[op].tolist()) if graph.tensor_is_constant[t]]
    seen = set(waiting)
    while waiting:
        tensor = waiting.pop()
        producer = int(graph.tensor_producer[tensor])
        if producer < 0 or graph.op_types[producer] == "Constant":
            if _elements(graph, tensor) > MOST_VALUES:
                found[tensor] = None
            continue
        before = [t for t in reversed(graph.op_reads[producer].tolist()) if t not in seen]
        seen.update(before)
        waiting += before
    return list(found)


@cached_per_graph
def figures(graph: Graph, tensors: tuple[int, ...]) -> tuple[Figures | str, ...]:
    """Figures of constants of the file, or for each why there are none.

    Raises:
        ModelError: the model file is gone, or has changed.
        LimitError: reading it needs more time or memory than the limits allow.
    """
    weights = int(graph.tensor_bytes[list(tensors)].sum())
    return _read(_read_figures, graph, tensors, weights=weights)


def _read_figures(graph: Graph, tensors: tuple[int, ...]) -> tuple[Figures | str, ...]:
    model = read_again(graph)
    protos = {t.name: t for t in model.graph.initializer}
    for tensor in tensors:
        producer = int(graph.tensor_producer[tensor])
        if producer >= 0:
            for attribute in model.graph.node[producer].attribute:
                if attribute.name == "value":
                    protos[graph.tensor_names[tensor]] = attribute.t
    return tuple(
        _figures_or_reason(name, protos.get(name), graph.folder)
        for name in (graph.tensor_names[t] for t in tensors)
    )


def _figures_or_reason(name: str, tensor: TensorProto | None, folder: Path) -> Figures | str:
    if tensor is None:
        return "stored as a sparse tensor, or as a list in an attribute"
    kind, size = element_name(tensor.data_type), _size_of(tensor)
    if not bits_of(kind) or kind.startswith("complex"):
        return f"{kind or 'elements of an unknown type'}: no numbers"
    if size > MOST_BYTES:
        return f"{human_bytes(size)}: figures are made of at most {human_bytes(MOST_BYTES)}"
    try:
        return _figures(name, tensor, folder, kind)
    except (ModelError, OSError, ValueError, TypeError) as error:
        return f"cannot be read: {error}"


def _figures(name: str, tensor: TensorProto, folder: Path, kind: str) -> Figures:
    parts = _parts(tensor, folder)
    count = not_finite = zeros = 0
    total, least, largest = 0.0, np.inf, -np.inf
    for part in parts():
        finite = _finite(part)
        count += part.size
        not_finite += part.size - finite.size
        zeros += int(finite.size - np.count_nonzero(finite))
        total += float(finite.sum())
        if finite.size:
            least, largest = min(least, float(finite.min())), max(largest, float(finite.max()))
    known = count - not_finite
    if not known:
        raise ValueError("no element is a finite number")
    mean, squares, bins = total / known, 0.0, np.zeros(BINS, np.int64)
    for part in parts():
        finite = _finite(part)
        squares += float(np.square(finite - mean).sum())
        bins += _histogram(finite, least, largest)
    return Figures(
        name,
        kind,
        tuple(tensor.dims),
        count,
        least,
        largest,
        mean,
        float(np.sqrt(squares / known)),
        zeros,
        not_finite,
        tuple(bins.tolist()),
    )


def _finite(part: Numbers) -> Numbers:
    known = np.isfinite(part)
    return part if known.all() else part[known]


def _histogram(values: Numbers, least: float, largest: float) -> Ints:
    """Like ``np.histogram``, which takes ten times as long."""
    width = (largest - least) / BINS or 1.0
    places = np.minimum(((values - least) / width).astype(np.int32), BINS - 1)
    return np.bincount(places, minlength=BINS).astype(np.int64)


def _parts(tensor: TensorProto, folder: Path) -> Callable[[], Iterator[Numbers]]:
    """Returns what goes over the elements of a tensor, part by part."""
    size, bits = _size_of(tensor), bits_of(element_name(tensor.data_type))
    if is_external(tensor):
        part_of: Callable[[int, int], Bytes] = partial(_outside, tensor, folder)
    elif tensor.HasField("raw_data"):
        raw = np.frombuffer(tensor.raw_data, np.uint8)
        if len(raw) < size:
            raise ValueError("its data is cut short")
        part_of = lambda start, length: raw[start : start + length]  # noqa: E731
    else:
        whole = numpy_helper.to_array(tensor).ravel()
        return lambda: (
            whole[i : i + _CHUNK].astype(np.float64) for i in range(0, whole.size, _CHUNK)
        )

    def read() -> Iterator[Numbers]:
        most = _CHUNK * bits // 8
        for start in range(0, size, most):
            data = part_of(start, min(most, size - start)).tobytes()
            dims = [min(_CHUNK, prod(tensor.dims) - start * 8 // bits)]
            part = TensorProto(data_type=tensor.data_type, dims=dims, raw_data=data)
            yield numpy_helper.to_array(part).astype(np.float64)

    return read


def _outside(tensor: TensorProto, folder: Path, start: int, length: int) -> Bytes:
    """Bytes of a tensor in a file beside the model. They are copied: a mapped file that is cut short ends the process."""
    offset = int(entry_of(tensor, "offset") or 0) + start
    data = np.fromfile(
        folder / entry_of(tensor, "location"), np.uint8, max(length, 0), offset=offset
    )
    if len(data) < length:
        raise ValueError(f"{entry_of(tensor, 'location')} is cut short")
    return data


def _size_of(tensor: TensorProto) -> int:
    return byte_size(element_name(tensor.data_type), tuple(tensor.dims))
