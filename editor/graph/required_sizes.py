"""Finds the sizes of open dimensions that ops leave no choice in, and ops that cannot read the sizes they are given."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import inf, prod
from typing import Any

from onnx import NodeProto

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


_WINDOWED = {
    "AveragePool": 0,
    "Conv": 1,
    "ConvInteger": 1,
    "LpPool": 0,
    "MaxPool": 0,
    "QLinearConv": 3,
}
"""Op type -> position of the weight, whose shape is that of the window; 0 where there is none."""
_ELEMENTWISE = frozenset(
    {
        "Add",
        "And",
        "Div",
        "Equal",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Max",
        "Mean",
        "Min",
        "Mod",
        "Mul",
        "Or",
        "Pow",
        "Sub",
        "Sum",
        "Where",
        "Xor",
    }
)
"""Ops whose operands have equal sizes, or 1, which is repeated."""
Operands = Sequence[Shape | None]


def impossible_sizes(nodes: Iterable[NodeProto], shapes: Mapping[str, Shape | None]) -> str:
    """Says which op cannot read what it is given, first; "" where none is found.

    A model does not run at every size that its inputs declare. ONNX shape inference does not say so: it rounds the number of
    steps of a window towards zero, believes the target of a Reshape, and leaves the results of other such ops unknown.
    """
    for node in nodes:
        if node.domain not in ("", "ai.onnx"):
            continue
        read = [shapes.get(name) for name in node.input]
        shown, reason = read[:1], ""
        if node.op_type in _WINDOWED and read:
            reason = _window(node, read)
        elif node.op_type == "Reshape" and read:
            reason = _reshape(read[0], shapes.get(node.output[0]))
        elif node.op_type in _ELEMENTWISE or node.op_type in ("Concat", "MatMul"):
            shown, reason = read, _joined(node, read)
        if reason:
            what = " and ".join("x".join(map(str, s)) or "a scalar" for s in shown if s is not None)
            return f"{node.op_type} {node.name or node.output[0]} cannot read {what}: {reason}"
    return ""


def _window(node: NodeProto, read: Operands) -> str:
    settings = {a.name: list(a.ints) for a in node.attribute}
    padded = next((a.s for a in node.attribute if a.name == "auto_pad"), b"NOTSET")
    sizes = (read[0] or ())[2:]
    place = _WINDOWED[node.op_type]
    weight = read[place] if 0 < place < len(read) else None
    window = settings.get("kernel_shape") or list((weight or ())[2:])
    pads = settings.get("pads", [0] * 2 * len(sizes))
    steps = settings.get("dilations", [1] * len(sizes))
    if padded.startswith(b"SAME") or not len(sizes) == len(window) == len(steps) == len(pads) / 2:
        return ""
    around = [a + b for a, b in zip(pads[: len(sizes)], pads[len(sizes) :], strict=True)]
    too_small = any(
        isinstance(size, int)
        and isinstance(extent, int)
        and 0 < size + more < (extent - 1) * step + 1
        for size, extent, step, more in zip(sizes, window, steps, around, strict=True)
    )
    return "these sizes are too small for the model" if too_small else ""


def _reshape(before: Shape | None, after: Shape | None) -> str:
    if not _is_fixed(before) or not _is_fixed(after) or _elements(before) == _elements(after):
        return ""
    return f"the model makes {'x'.join(map(str, after or ()))} of it, whatever it is given"


def _joined(node: NodeProto, read: Operands) -> str:
    """Of operands whose sizes must be equal, or 1 where they are repeated."""
    if not read or any(shape is None for shape in read):
        return ""
    shapes = [shape for shape in read if shape is not None]
    settings = {a.name: a.i for a in node.attribute}
    pairs: Iterable[Sequence[int | str]]
    repeats = node.op_type in _ELEMENTWISE
    if node.op_type == "MatMul":
        if min(map(len, shapes)) < 2 or len(shapes) != 2:
            return ""
        pairs = [(shapes[0][-1], shapes[1][-2])]
    elif repeats:
        if settings.keys() & {"axis", "broadcast"}:  # before opset 7
            return ""
        rank = max(map(len, shapes))
        pairs = zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True)
    else:
        rank = len(shapes[0])
        if any(len(s) != rank for s in shapes) or not rank or (0,) in shapes:
            return ""
        axis = settings.get("axis", 1) % rank
        pairs = (each for i, each in enumerate(zip(*shapes, strict=True)) if i != axis)
    for pair in pairs:
        sizes = {d for d in pair if isinstance(d, int) and d >= 0 and not (repeats and d == 1)}
        if len(sizes) > 1:
            return f"{' and '.join(map(str, sorted(sizes)))} must be equal"
    return ""


def _is_fixed(shape: Shape | None) -> bool:
    return shape is not None and all(isinstance(d, int) and d >= 0 for d in shape)


def _elements(shape: Shape | None) -> int:
    return prod(d for d in shape or () if isinstance(d, int))
