"""Finds the sizes of open dimensions that the weights which the first ops read leave no choice in."""

from __future__ import annotations

import json
from math import inf
from typing import Any

from editor.graph.attributes import attribute_value
from editor.graph.graph import Graph, Shape

_SAME_SHAPE = frozenset(
    {
        "Abs",
        "Cast",
        "Clip",
        "DequantizeLinear",
        "Dropout",
        "Exp",
        "Identity",
        "Log",
        "Neg",
        "QuantizeLinear",
    }
    | {"Relu", "Sigmoid", "Sqrt", "Tanh"}
)
_REPEATS = frozenset({"Add", "Div", "Mul", "Sub"})
_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
_COSINES = {
    ("com.microsoft", "GroupQueryAttention"): 7,
    ("com.microsoft", "RotaryEmbedding"): 2,
    ("", "RotaryEmbedding"): 1,
}
"""Op -> which operand has a row for each position."""
_MOST_OPS = 200
_LARGEST_CONFIG = 1 << 20


def required_sizes(graph: Graph) -> dict[str, int]:
    """``input[axis]`` of an open dimension -> its size, where a weight or ``genai_config.json`` beside the model fixes it."""
    found: dict[str, int] = {}
    for tensor in graph.inputs.tolist():
        name = graph.tensor_names[tensor]
        dims = graph.input_dims.get(name, ())
        if all(isinstance(dim, int) for dim in dims):
            continue
        for axis, size in _by_readers(graph, tensor, len(dims)).items():
            if isinstance(dims[axis], str):
                found[f"{name}[{axis}]"] = size
    return {**found, **_by_config(graph)}


def most_positions(graph: Graph) -> float:
    """The most positions that the tables of cosines of a model have rows for, what a decoder has seen before included."""
    rows = inf
    for op, kind in enumerate(graph.op_types):
        place = _COSINES.get((graph.op_domains[op], kind), -1)
        operands = graph.op_inputs[op].tolist()
        if 0 <= place < len(operands) and operands[place] >= 0:
            shape = graph.tensor_shapes[operands[place]]
            if shape and len(shape) == 2 and isinstance(shape[0], int):
                rows = min(rows, shape[0])
    return rows


def _by_readers(graph: Graph, tensor: int, rank: int) -> dict[int, int]:
    """Axis -> size, by the ops that read an input directly, or after others that keep its axes."""
    found: dict[int, int] = {}
    waiting, seen = [(tensor, tuple(range(rank)))], {tensor}
    for _ in range(_MOST_OPS):
        if not waiting:
            break
        now, axes = waiting.pop(0)
        for op in graph.readers[now].tolist():
            operands = graph.op_inputs[op].tolist()
            place = operands.index(now) if now in operands else -1
            if place < 0:
                continue
            shapes = [graph.tensor_shapes[t] if t >= 0 else None for t in operands]
            settings = {name: attribute_value(text) for name, text in graph.op_attributes[op]}
            for axis, size in _fixed_axes(graph.op_types[op], place, shapes, settings).items():
                if -len(axes) <= axis < len(axes):
                    found.setdefault(axes[axis], size)
            after = _axes_after(graph.op_types[op], axes, settings)
            result = int(graph.op_outputs[op][0])
            if after and result not in seen:
                seen.add(result)
                waiting.append((result, after))
    return found


def _axes_after(kind: str, axes: tuple[int, ...], settings: dict[str, Any]) -> tuple[int, ...]:
    """Which axis of the input each axis of the result is; nothing where that is not known."""
    if kind in _SAME_SHAPE | _REPEATS:
        return axes
    order = settings.get("perm", tuple(reversed(range(len(axes)))))
    if kind == "Transpose" and isinstance(order, tuple) and sorted(order) == list(range(len(axes))):
        return tuple(axes[i] for i in order)
    return ()


def _fixed_axes(
    kind: str, place: int, shapes: list[Shape | None], settings: dict[str, Any]
) -> dict[int, int]:
    """Axis of an operand -> the size that the others fix."""
    other = shapes[1] if place == 0 and len(shapes) > 1 else None
    sizes: dict[int, int | str] = {}
    if other and kind == "MatMul" and len(other) > 1:
        sizes = {-1: other[-2]}
    elif other and kind == "Gemm" and len(other) == 2 and not settings.get("transA"):
        sizes = {1: other[1 if settings.get("transB") else 0]}
    elif other and kind == "Conv" and len(other) > 2 and isinstance(other[1], int):
        sizes = {1: other[1] * int(settings.get("group", 1))}
    elif other and kind == "BatchNormalization":
        sizes = {1: other[0]}
    elif other and kind in ("LayerNormalization", "SimplifiedLayerNormalization"):
        sizes = {-1: other[-1]}
    elif kind == "MatMulNBits" and place == 0:
        sizes = {-1: settings.get("K", "?")}
    elif (
        kind in _RECURRENT and len(shapes) > 2 and len(shapes[1] or ()) == len(shapes[2] or ()) == 3
    ):
        weight, recurrence = shapes[1] or (), shapes[2] or ()
        sizes = (
            {2: weight[2]} if place == 0 else {0: weight[0], 2: recurrence[2]} if place > 4 else {}
        )
    elif kind == "GroupQueryAttention" and place in (3, 4):
        sizes = _cache_of(shapes, settings)
    elif kind in _REPEATS and len(shapes) == 2:
        constant = shapes[1 - place] or ()
        sizes = {i - len(constant): size for i, size in enumerate(constant) if size != 1}
    return {axis: size for axis, size in sizes.items() if isinstance(size, int)}


def _cache_of(shapes: list[Shape | None], settings: dict[str, Any]) -> dict[int, int | str]:
    """Heads and their width in the cache of a GroupQueryAttention; keys and values may be packed behind the query."""
    query, keys = shapes[0] or (), shapes[1] if len(shapes) > 1 else None
    heads, shared = settings.get("num_heads", 0), settings.get("kv_num_heads", 0)
    parts = heads if keys else heads + 2 * shared
    width = query[-1] if query else "?"
    if not isinstance(width, int) or not parts or width % parts:
        return {1: shared}
    return {1: shared, 3: width // parts}


def _by_config(graph: Graph) -> dict[str, int]:
    """Heads of the cache of a decoder, by the file that onnxruntime-genai reads."""
    path = graph.path.parent / "genai_config.json"
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_CONFIG:
            return {}
        decoder = json.loads(path.read_text())["model"]["decoder"]
        names = [decoder["inputs"][which] for which in ("past_key_names", "past_value_names")]
        heads, width = decoder["num_key_value_heads"], decoder["head_size"]
        if decoder.get("filename", graph.path.name) != graph.path.name:
            return {}
        caches = [name % layer for name in names for layer in range(decoder["num_hidden_layers"])]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {
        f"{name}[{axis}]": size
        for name in caches
        for axis, size in ((1, heads), (3, width))
        if isinstance(size, int) and axis < len(dims := graph.input_dims.get(name, ()))
        if isinstance(dims[axis], str)
    }
