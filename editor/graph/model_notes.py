"""What a person should know of a model that opens: weights that are not there, and sizes that are too small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import GraphProto, NodeProto

from editor.graph.types import Shape

_WINDOWED: Mapping[str, int] = {"AveragePool": 0, "Conv": 1, "ConvInteger": 1, "LpPool": 0, "MaxPool": 0, "QLinearConv": 3}
"""Op type -> position of the weight, whose shape is that of the window; 0 where there is none."""


def note_on_missing(files: Sequence[str]) -> str:
    """The note on files of weights that are not there; "" without any."""
    if not files:
        return ""
    others = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return (f"the weights in {files[0]}{others} are not here: the plan can be made, but nothing runs or is exported with its "
            "weights; put the file beside the model, or upload both together")


def note_on_sizes(graph: GraphProto, shapes: Mapping[str, Shape | None]) -> str:
    """The note on the first window that is larger than what it moves over; "" where all sizes are possible.

    ONNX shape inference does not see it: it rounds the number of steps towards zero.
    """
    for node in graph.node:
        if node.op_type in _WINDOWED and node.domain in ("", "ai.onnx") and node.input and _is_too_small(node, shapes):
            read = shapes.get(node.input[0]) or ()
            return (f"{node.op_type} {node.name or node.output[0]} cannot read {'x'.join(map(str, read))}: these sizes are too "
                    "small for the model")
    return ""


def _is_too_small(node: NodeProto, shapes: Mapping[str, Shape | None]) -> bool:
    settings = {a.name: list(a.ints) for a in node.attribute}
    padded = next((a.s for a in node.attribute if a.name == "auto_pad"), b"NOTSET")
    sizes = (shapes.get(node.input[0]) or ())[2:]
    weight = node.input[_WINDOWED[node.op_type]] if 0 < _WINDOWED[node.op_type] < len(node.input) else ""
    window = settings.get("kernel_shape") or list((shapes.get(weight) or ())[2:])
    pads, steps = settings.get("pads", [0] * 2 * len(sizes)), settings.get("dilations", [1] * len(sizes))
    if padded.startswith(b"SAME") or not len(sizes) == len(window) == len(steps) == len(pads) / 2:
        return False
    around = [before + after for before, after in zip(pads[:len(sizes)], pads[len(sizes):], strict=True)]
    return any(isinstance(size, int) and isinstance(extent, int) and 0 < size + more < (extent - 1) * step + 1
               for size, extent, step, more in zip(sizes, window, steps, around, strict=True))
