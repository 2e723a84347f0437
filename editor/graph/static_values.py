"""Values that follow from static shapes and small constants, though ops compute them.

Exporters write shapes as chains of small ops (Shape, Gather, Concat, Where, ...). Once the sizes of the inputs are
given, such chains have one value. Shape inference follows them (``shape_folding``), and so does the cut of sub-models
(``execution.compile.shape_values``).
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
"""Element type and shape by tensor name."""

MOST_ELEMENTS = 1024
"""Of one value; larger ones are data rather than shapes."""
EXACT_TYPES = frozenset({"int32", "int64", "bool"})
"""It cannot matter who computes these."""
ROOTS = frozenset({"Shape", "Size"})
"""Ops that look at no element of their operand."""
FOLLOW = frozenset({
    "Abs", "Add", "And", "Cast", "Ceil", "Concat", "Constant", "ConstantOfShape", "Div", "Equal", "Expand", "Flatten", "Floor",
    "Gather", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or",
    "Range", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Slice", "Squeeze", "Sub", "Tile", "Transpose",
    "Unsqueeze", "Where",
})
"""Ops whose result is computed where their operands are known."""


class StaticValues:
    """Computes values op by op, with ONNX's reference implementation. Ask in an order of execution."""

    def __init__(self, model: ModelProto, types: Types, constants: Mapping[str, TensorProto], kinds: frozenset[str]) -> None:
        """Begins with the constants.

        Args:
            model: for its opset versions.
            types: of all tensors; looked at when a value is asked for, so it may grow meanwhile.
            constants: initializers and values of constant ops that no run replaces, by name.
            kinds: element types that may be computed.
        """
        self._types, self._constants, self._kinds = types, constants, kinds
        self._versions = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
        self._setting = {"log": _ignore, "opsets": self._versions, "verbose": 0, "new_ops": None}
        self._known: dict[str, Array | None] = {}

    def value(self, name: str) -> Array | None:
        """The value of a small constant or of what was computed; None where it is not known."""
        if name not in self._known:
            tensor = self._constants.get(name)
            self._known[name] = self._array(tensor) if tensor is not None else None
        return self._known[name]

    def compute(self, node: NodeProto) -> Array | None:
        """The value of a node's result, where all that it depends on is known and small."""
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
                from onnx.reference.ops import load_op  # a tenth of a second, and few models need it

                kernel = load_op("", node.op_type, self._versions[""])(node, self._setting)
                value = np.asarray(kernel.run(*operands)[0])
        except Exception:  # noqa: BLE001  # whatever is odd about this op, it computes its value in each run
            return None
        if (value.dtype.name, value.shape) != self._types[name]:
            return None
        self._known[name] = value
        return value

    def _operands(self, node: NodeProto) -> list[Array | None] | None:
        """Values of a node's inputs, None for omitted ones; nothing where one is not known."""
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
        """An array of a tensor's shape without memory of its own, for ops that look at no element."""
        found = self._types.get(name)
        if found is None or not is_static(found) or "(" in found[0]:
            return None
        shape = [d for d in found[1] or () if isinstance(d, int)]
        return np.broadcast_to(np.float32(0), shape) if prod(shape) < 1 << 60 else None

    def _is_small(self, name: str) -> bool:
        found = self._types.get(name)
        if found is None or found[0] not in self._kinds or not is_static(found):
            return False
        return prod(d for d in found[1] or () if isinstance(d, int)) <= MOST_ELEMENTS

    def _array(self, tensor: TensorProto) -> Array | None:
        if tensor.data_location == TensorProto.EXTERNAL or prod(tensor.dims) > MOST_ELEMENTS:
            return None
        try:
            array: Array = numpy_helper.to_array(tensor)
        except Exception:  # noqa: BLE001  # data that does not fit the dims, or was dropped
            return None
        return array if array.dtype.name in self._kinds else None


def is_static(found: tuple[str, Shape | None] | None) -> bool:
    """Type and shape of a tensor are known, without symbols."""
    return found is not None and found[1] is not None and all(isinstance(d, int) for d in found[1])


def _stays_small(kind: str, operands: list[Array]) -> bool:
    """Whether a result is as small as its inferred shape says, which in part is what a file claims."""
    if kind == "Range":
        start, limit, delta = (float(operand.item()) for operand in operands)
        return (limit - start) / delta <= MOST_ELEMENTS
    if kind in ("ConstantOfShape", "Expand", "Tile"):
        sizes = [int(size) for size in operands[-1].astype(np.int64).ravel()]
        return prod(sizes) * (operands[0].size if len(operands) > 1 else 1) <= MOST_ELEMENTS ** 2
    return True


def _ignore(*_: object) -> None:
    """Takes the messages of the reference implementation."""
