"""Infers shapes; see also ``static_values``."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import ModelProto, NodeProto

from editor.errors import ModelError
from editor.graph.graph import Shape, make_value_info, shape_of, type_name
from editor.graph.static_values import fold_shapes

_LONGEST_LIST = 1 << 20
LARGEST_RANK = 1 << 10
_LENGTH_IS_RANK = {"Reshape": 1, "Expand": 1, "Unsqueeze": 1, "ConstantOfShape": 0}
"""Ops whose result has as many dimensions as this operand has numbers."""
_FAILED = "shape inference failed"


def infer_shapes(
    model: ModelProto, known: Mapping[str, tuple[str, Shape | None]] | None = None
) -> tuple[dict[str, tuple[str, Shape | None]], str]:
    """Type and shape of every value of the main graph, and a note that describes faults ("" when none).

    Declared shapes of internal tensors are used where inference from the inputs gives no result; where the two
    contradict each other, inference is right. Both give way to what is ``known`` of inner values.

    Raises:
        ModelError: an op would have a result of more dimensions than any tensor.
    """
    _check_ranks(model)
    known = known or {}
    declared = [v for v in model.graph.value_info if v.name not in known]
    model.graph.ClearField("value_info")
    model.graph.value_info.extend(make_value_info(name, *value) for name, value in known.items())
    values, note = _infer(model, known)
    if declared:
        wrong = {
            v.name
            for v in declared
            if _contradict(values.get(v.name), (type_name(v.type), shape_of(v.type)))
        }
        model.graph.value_info.extend(v for v in declared if v.name not in wrong)
        values, note = _infer(model, known)
        if wrong:
            note = (
                note
                or f"the file declares wrong shapes for {len(wrong)} tensors ({', '.join(sorted(wrong)[:3])}); ignored"
            )
    return (values, note) if note.startswith(_FAILED) else (fold_shapes(model, values), note)


def _infer(
    model: ModelProto, known: Mapping[str, tuple[str, Shape | None]]
) -> tuple[dict[str, tuple[str, Shape | None]], str]:
    note = ""
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
        if not _has_long_lists(inferred):
            inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:  # noqa: BLE001  # the C++ library raises several unrelated types
        inferred, note = model, f"{_FAILED}: {str(error).strip().splitlines()[0][:200]}"
    values: dict[str, tuple[str, Shape | None]] = {}
    for value in (*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output):
        have = values.get(value.name)
        if have is None or have[1] is None or "?" in have[1]:
            values[value.name] = (type_name(value.type), shape_of(value.type))
    for name, right in known.items():
        have = values.get(name)
        if have is None or not have[0] or have[1] is None or _contradict(have, right):
            values[name] = right
    return values, note


def _check_ranks(model: ModelProto) -> None:
    """Refuses shapes of very many dimensions before ONNX makes each of them."""
    lengths = {
        v.name: v.type.tensor_type.shape.dim[0].dim_value
        for v in (*model.graph.input, *model.graph.value_info)
        if len(v.type.tensor_type.shape.dim) == 1
    }
    lengths |= {t.name: t.dims[0] for t in model.graph.initializer if len(t.dims) == 1}
    for node in model.graph.node:
        operand = list_of_sizes(node)
        if lengths.get(operand, 0) > LARGEST_RANK:
            name = node.name or ", ".join(node.output)
            raise ModelError(
                f"op {name!r} ({node.op_type}) takes a shape from {operand!r}, which is "
                f"{lengths[operand]} numbers long: no tensor has so many dimensions"
            )


def list_of_sizes(node: NodeProto) -> str:
    """The operand of a node that has as many numbers as the result has dimensions, or ""."""
    place = _LENGTH_IS_RANK.get(node.op_type)
    return node.input[place] if place is not None and place < len(node.input) else ""


def _has_long_lists(model: ModelProto) -> bool:
    """Whether a tensor of one dimension is longer than any shape: ONNX would make a symbol for each of its elements."""
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    return any(
        len(dims := v.type.tensor_type.shape.dim) == 1 and dims[0].dim_value > _LONGEST_LIST
        for v in values
    )


def _contradict(
    inferred: tuple[str, Shape | None] | None, declared: tuple[str, Shape | None]
) -> bool:
    if inferred is None or not inferred[0] or inferred[1] is None or declared[1] is None:
        return False
    if inferred[0] != declared[0] or len(inferred[1]) != len(declared[1]):
        return True
    return any(
        isinstance(a, int) and isinstance(b, int) and a != b
        for a, b in zip(inferred[1], declared[1], strict=True)
    )
