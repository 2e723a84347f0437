"""Proposes sizes for the dimensions that a model leaves open: such as the model was made for, and can have together."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations, islice, product

import numpy as np
from onnx import helper

from editor.errors import EditorError
from editor.graph.dimension_meanings import Meaning, meanings
from editor.graph.dimensions import Dimensions
from editor.graph.flops import op_flops
from editor.graph.graph import Graph, element_type
from editor.graph.loading import load_model
from editor.graph.required_sizes import most_positions, required_sizes
from editor.graph.static_values import is_static
from editor.sandbox.worker import run

SIZES: Mapping[Meaning, tuple[int, ...]] = {
    Meaning.BATCH: (1, 2, 4),
    Meaning.SEQUENCE: (128, 64, 32, 16, 256, 512, 8, 1),
    Meaning.SOURCE: (128, 64, 32, 16, 256, 512, 8, 1),
    Meaning.PAST: (127, 63, 31, 15, 7, 1, 0),
    Meaning.TOTAL: (128, 64, 32, 16, 256, 512),
    Meaning.SAMPLES: (16000, 512, 576, 8000, 32000, 48000, 160000, 4096, 1024, 256),
    Meaning.IMAGE: (224, 640, 320, 48, 32, 64, 256, 512, 1024),
    Meaning.CHANNELS: (3, 1, 4),
    Meaning.UNKNOWN: (1, 2, 3, 4, 16, 64, 128),
}
"""What a dimension stands for -> its size, and those to try where a model cannot have that one."""
IMAGES = ((224, 224), (48, 320), (48, 192), (32, 320), (640, 640), (256, 256), (512, 512), (64, 64))
"""Heights and widths of an image: a photograph, a line of text, what a detector reads."""
_MOST_TRIES = 40
_SECONDS = 8.0
_MOST_BYTES = 256 << 20
"""Of weights and results of a model that is tried: it is to take a second."""
_MOST_FLOPS = 20e9
_RUN_SECONDS = 3.0
_SILENT = 4
Feeds = Mapping[str, tuple[str, tuple[int, ...]]]
"""Input -> its numpy type and shape."""


@dataclass(frozen=True)
class _Choice:
    """Dimensions whose sizes are chosen together, and the sizes, most likely ones first."""

    names: tuple[str, ...]
    sizes: tuple[tuple[int, ...], ...]


def proposed_sizes(graph: Graph) -> dict[str, int]:
    """A size for each symbol without one: 1 for batches, 128 for sequences, 127 for what a decoder has seen, 224 for images.

    A decoder with a past reads one new token. Where an op of the model cannot read what that gives, or ONNX Runtime
    cannot run it, other sizes are tried for a few seconds.
    """
    best: dict[str, int] = {}
    end = time.monotonic() + _SECONDS
    for sizes in islice(_candidates(graph), _MOST_TRIES):
        if time.monotonic() > end:
            break
        with suppress(EditorError):
            bound = load_model(graph.path, {**graph.define, **sizes})
            if not bound.impossible and not bound.unbound:
                if _runs(bound):
                    return sizes
                best = best if best else sizes
    return best or next(_candidates(graph), dict.fromkeys(graph.unbound, 1))


def with_all_sizes(graph: Graph) -> tuple[Graph, dict[str, int]]:
    """A model with the proposed size of each open dimension, and these sizes; the model as it is where none is open."""
    if not graph.unbound:
        return graph, {}
    sizes = proposed_sizes(graph)
    return load_model(graph.path, {**graph.define, **sizes}), sizes


def sizes_text(sizes: Mapping[str, int]) -> str:
    """E.g. "batch=1, sequence=128"."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _candidates(graph: Graph) -> Iterator[dict[str, int]]:
    """Sets of sizes without contradictions: the likely ones, then those that differ from them in one choice, then in two."""
    dimensions = Dimensions(graph.input_dims)
    known = meanings(graph)
    choices = _choices(graph, dimensions, known)
    most = most_positions(graph)
    for count in range(3):
        for others in combinations(choices, count):
            for values in product(*(c.sizes[1:] for c in others)):
                chosen = dict(zip(others, values, strict=True))
                with suppress(EditorError):
                    sizes = _solved(graph, dimensions, known, choices, chosen)
                    of = {known[name]: size for name, size in sizes.items() if name in known}
                    length = of.get(Meaning.PAST, 0) + of.get(Meaning.SEQUENCE, 0)
                    if max(length, of.get(Meaning.TOTAL, 0)) <= most:
                        yield {name: sizes[name] for name in graph.unbound}


def _solved(
    graph: Graph,
    dimensions: Dimensions,
    known: Mapping[str, Meaning],
    choices: Sequence[_Choice],
    chosen: Mapping[_Choice, tuple[int, ...]],
) -> dict[str, int]:
    sizes = dict(graph.define)
    for choice in choices:
        for name, size in zip(choice.names, chosen.get(choice, choice.sizes[0]), strict=True):
            sizes = dimensions.sizes(sizes)
            if name not in sizes:
                sizes[name] = _beside(sizes, known, known[name], size)
    return dimensions.sizes(sizes)


def _beside(
    sizes: Mapping[str, int], known: Mapping[str, Meaning], what: Meaning, size: int
) -> int:
    """A total length is the past and what is new, as far as these have sizes."""
    of = {known[name]: size for name, size in sizes.items() if name in known}
    past, new, total = (of.get(m) for m in (Meaning.PAST, Meaning.SEQUENCE, Meaning.TOTAL))
    if what is Meaning.TOTAL and past is not None and new is not None:
        return past + new
    if what is Meaning.PAST and total is not None and new is not None:
        return max(total - new, 0)
    return size


def _choices(graph: Graph, dimensions: Dimensions, known: Mapping[str, Meaning]) -> list[_Choice]:
    """What is to be chosen, in an order in which the past follows from what is new and the total."""
    fixed = {dimensions.axes[axis]: size for axis, size in required_sizes(graph).items()}
    is_decoder = Meaning.PAST in known.values()
    images = {
        tuple(dim for dim in dims if known.get(str(dim)) is Meaning.IMAGE and dim in graph.unbound)
        for dims in graph.input_dims.values()
    }
    found = [_Choice((name,), ((fixed[name],),)) for name in graph.unbound if name in fixed]
    done = set(fixed)
    for pair in sorted(images):
        if len(set(pair)) == 2 and done.isdisjoint(pair):
            found.append(_Choice(tuple(map(str, pair)), IMAGES))
            done.update(map(str, pair))
    left = [name for name in graph.unbound if name not in done]
    for what in Meaning:
        names = tuple(name for name in left if known[name] is what)
        given = [size for name, size in graph.define.items() if known.get(name) is what]
        values = (1,) if what is Meaning.SEQUENCE and is_decoder else SIZES[what]
        if what in (Meaning.UNKNOWN, Meaning.IMAGE):
            found += [_Choice((name,), tuple((v,) for v in values)) for name in names]
        elif names:
            values = tuple(dict.fromkeys([*given, *values]))
            found.append(_Choice(names, tuple((v,) * len(names) for v in values)))
    return found


def _runs(graph: Graph) -> bool:
    """Whether a model without open dimensions runs, as far as that is known: shapes that inference knows are believed."""
    feeds = _feeds(graph)
    if feeds is None or not _is_in_doubt(graph) or _is_large(graph):
        return True
    try:
        return run(_ends_well, str(graph.path), feeds, what="trying sizes on", path=graph.path)
    except EditorError:
        return False


def _is_in_doubt(graph: Graph) -> bool:
    values = zip(graph.tensor_types, graph.tensor_shapes, strict=True)
    return bool(graph.op_is_atomic.any()) or not all(map(is_static, values))


def _is_large(graph: Graph) -> bool:
    known = graph.tensor_bytes[graph.tensor_bytes > 0]
    return int(known.sum()) > _MOST_BYTES or float(op_flops(graph).sum()) > _MOST_FLOPS


def _feeds(graph: Graph) -> dict[str, tuple[str, tuple[int, ...]]] | None:
    found = {}
    for tensor in graph.inputs.tolist():
        kind, shape = graph.tensor_types[tensor], graph.tensor_shapes[tensor]
        code = element_type(kind)
        if not code or shape is None or not all(isinstance(d, int) for d in shape):
            return None
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(code))
        if dtype.kind not in "biuf":
            return None
        found[graph.tensor_names[tensor]] = (dtype.str, tuple(int(d) for d in shape))
    return found


def _ends_well(path: str, feeds: Feeds) -> bool:
    """Runs a model with ones: valid indices, lengths and masks. One that is not loaded, or takes long, says nothing."""
    import onnxruntime  # most models need no trial

    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SILENT
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001  # ONNX Runtime's errors have no base class of their own
        return True
    values = {name: np.ones(shape, dtype) for name, (dtype, shape) in feeds.items()}
    chosen = onnxruntime.RunOptions()
    clock = threading.Timer(_RUN_SECONDS, setattr, (chosen, "terminate", True))
    clock.daemon = True
    clock.start()
    try:
        session.run([], values, chosen)
    except Exception:  # noqa: BLE001  # as above
        return bool(chosen.terminate)
    finally:
        clock.cancel()
    return True
