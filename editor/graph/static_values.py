"""Evaluates ops whose results are determined by static shapes and small constants.

Exporters write shapes as chains of small ops (Shape, Gather, Concat, Where, ...). Once the input sizes are bound, such
a chain has a constant value. Shape inference (``shape_folding``) and the cut of sub-models
(``execution.compile.shape_values``) use these values.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from editor.graph.types import Shape

Array = npt.NDArray[np.generic]
Types = Mapping[str, tuple[str, Shape | None]]
"""Tensor name -> element type and shape."""

MAX_ELEMENTS = 1024
"""Most elements of one value; larger values are data, not shapes."""
EXACT_TYPES = frozenset({"int32", "int64", "bool"})
"""Element types whose results are exact in every runtime."""
ROOTS = frozenset({"Shape", "Size"})
"""Ops that need only the shape of their operand."""
FOLLOW = frozenset({
    "Abs", "Add", "And", "Cast", "Ceil", "Concat", "Constant", "ConstantOfShape", "Div", "Equal", "Expand", "Flatten", "Floor",
    "Gather", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or",
    "Range", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Slice", "Squeeze", "Sub", "Tile", "Transpose",
    "Unsqueeze", "Where",
})
"""Ops that are evaluated where their operands are known."""


class StaticValues:
    """Evaluates ops with ONNX's reference implementation; nodes must come in topological order."""

    def __init__(self, model: ModelProto, types: Types, constants: Mapping[str, TensorProto], kinds: frozenset[str]) -> None:
        """Prepares the evaluation.

        Args:
            model: the model that states the opset versions.
            types: types of all tensors; read on demand, so the caller may add entries later.
            constants: initializers and values of constant ops that no run replaces, by name.
            kinds: element types that may be computed.
        """
        self._types, self._constants, self._kinds = types, constants, kinds
        self._versions = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
        self._setting = {"log": _ignore, "opsets": self._versions, "verbose": 0, "new_ops": None}
        self._known: dict[str, Array | None] = {}

    def value(self, name: str) -> Array | None:
        """The value of a small constant or of a computed result; None where unknown."""
        if name not in self._known:
            tensor = self._constants.get(name)
            self._known[name] = self._array(tensor) if tensor is not None else None
        return self._known[name]

    def compute(self, node: NodeProto) -> Array | None:
        """Evaluates a node; None where an operand is unknown or a value is too large."""
        if node.op_type not in FOLLOW | ROOTS or node.domain not in ("", "ai.onnx") or len(node.output) != 1:
            return None
        name = node.output[0]
        operands = self._operands(node) if self._is_small(name) else None
        if operands is None:
            return None
        try:
            with np.errstate(all="ignore"):
                if not _stays_small(node.op_type, [array for array in operands if array is not None]):
                    return None
                from onnx.reference.ops import load_op  # importing takes 0.1 s, and few models need it

                kernel = load_op("", node.op_type, self._versions[""])(node, self._setting)
                value = np.asarray(kernel.run(*operands)[0])
        except Exception:  # noqa: BLE001  # the op then runs as usual
            return None
        if (value.dtype.name, value.shape) != self._types[name]:
            return None
        self._known[name] = value
        return value

    def _operands(self, node: NodeProto) -> list[Array | None] | None:
        """Values of a node's inputs, with None for omitted ones; None where one is unknown."""
        arrays: list[Array | None] = []
        for operand in node.input:
            array = self._extent(operand) if node.op_type in ROOTS else self.value(operand)
            if operand and array is None:
                return None
            arrays.append(array)
        while arrays and arrays[-1] is None:
            arrays.pop()
        return arrays

    def _extent(self, name: str) -> Array | None:
        """A broadcast scalar in the shape of a tensor, for ops that need only the shape."""
        known = self._types.get(name)
        if known is None or not is_static(known) or "(" in known[0]:
            return None
        shape = [d for d in known[1] or () if isinstance(d, int)]
        return np.broadcast_to(np.float32(0), shape) if prod(shape) < 1 << 60 else None

    def _is_small(self, name: str) -> bool:
        known = self._types.get(name)
        if known is None or known[0] not in self._kinds or not is_static(known):
            return False
        return prod(d for d in known[1] or () if isinstance(d, int)) <= MAX_ELEMENTS

    def _array(self, tensor: TensorProto) -> Array | None:
        if tensor.data_location == TensorProto.EXTERNAL or prod(tensor.dims) > MAX_ELEMENTS:
            return None
        try:
            array: Array = numpy_helper.to_array(tensor)
        except Exception:  # noqa: BLE001  # data that does not fit the dims, or was dropped
            return None
        return array if array.dtype.name in self._kinds else None


def is_static(known: tuple[str, Shape | None] | None) -> bool:
    """Whether the type and shape of a tensor are known, without symbols."""
    return known is not None and known[1] is not None and all(isinstance(d, int) for d in known[1])


def _stays_small(kind: str, operands: list[Array]) -> bool:
    """Whether a result is small by its operands; the inferred shape may come from a wrong declaration."""
    if kind == "Range":
        start, limit, delta = (float(operand.item()) for operand in operands)
        return (limit - start) / delta <= MAX_ELEMENTS
    if kind in ("ConstantOfShape", "Expand", "Tile"):
        sizes = [int(size) for size in operands[-1].astype(np.int64).ravel()]
        return prod(sizes) * (operands[0].size if len(operands) > 1 else 1) <= MAX_ELEMENTS ** 2
    return True


def _ignore(*_: object) -> None:
    """Discards the messages of the reference implementation."""
