"""Finds the first op that cannot read what it is given: a model does not run at every size that its inputs declare.

ONNX shape inference does not say so: it rounds the number of steps of a window towards zero, believes the target of a Reshape,
and leaves the results of other such ops unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from onnx import NodeProto

from editor.graph.graph import Shape

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
    """Says which op cannot read what it is given; "" where none is found."""
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
