"""Shapes that ONNX's own inference leaves open because it does not follow the values they are computed from.

Exporters compute shapes by chains of Shape, Gather, Concat, Where and the like. Once the sizes of the inputs are given,
such chains have one value, and the shapes of what is reshaped, sliced or expanded by them follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper
from onnx.reference.ops import load_op

from editor.graph.bodies import bodies_of
from editor.graph.types import Shape, element_name, element_type, shape_of, type_name

Values = dict[str, tuple[str, Shape | None]]
Array = npt.NDArray[np.generic]

_MOST_ELEMENTS = 1024
"""Of one value; larger ones are data rather than shapes."""
_MOST_STEPS = 50_000
"""Shapes inferred and values computed for one model; each takes about 30 microseconds."""
_EXACT = frozenset({"int32", "int64", "bool", "float32", "float64"})
_ROOTS = frozenset({"Shape", "Size"})
_FOLLOW = frozenset({
    "Abs", "Add", "And", "Cast", "Ceil", "Concat", "Constant", "ConstantOfShape", "Div", "Equal", "Expand", "Flatten", "Floor",
    "Gather", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or",
    "Range", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Slice", "Squeeze", "Sub", "Tile", "Transpose",
    "Unsqueeze", "Where",
})
_SHAPING: Mapping[str, tuple[int, ...]] = {
    "AffineGrid": (1,), "CenterCropPad": (1,), "ConstantOfShape": (0,), "Expand": (1,), "OneHot": (1,), "Pad": (1, 3),
    "Range": (0, 1, 2), "ReduceL2": (1,), "ReduceMax": (1,), "ReduceMean": (1,), "ReduceMin": (1,), "ReduceProd": (1,),
    "ReduceSum": (1,), "Reshape": (1,), "Resize": (1, 2, 3), "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,),
    "Tile": (1,), "TopK": (1,), "Unsqueeze": (1,), "Upsample": (1,),
}
"""Operands whose values decide the shape of the result."""


def fold_shapes(model: ModelProto, values: Values) -> Values:
    """Types and shapes of the main graph's values, with those filled in that follow from computed values.

    Args:
        model: nodes in an order of execution; data of large initializers may be missing.
        values: what ONNX's shape inference found.
    """
    needed = _needed(model, values)
    return _Folding(model, values, needed).run() if needed else values


def _needed(model: ModelProto, values: Values) -> set[str]:
    """Tensors whose values an open shape depends on."""
    needed: set[str] = set()
    for node in reversed(model.graph.node):
        if any(not _is_static(values.get(name)) for name in node.output if name):
            needed.update(node.input[i] for i in _SHAPING.get(node.op_type, ()) if i < len(node.input) and node.input[i])
        if node.op_type in _FOLLOW and any(name in needed for name in node.output):
            needed.update(name for name in node.input if name)
    return needed


class _Folding:
    """One walk through the nodes: shapes from values, values from shapes."""

    def __init__(self, model: ModelProto, values: Values, needed: set[str]) -> None:
        self.model, self.values, self.needed = model, dict(values), needed
        self.versions = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
        self.setting = {"log": _silent, "opsets": self.versions, "verbose": 0, "new_ops": None}
        replaceable = {value.name for value in model.graph.input}
        self.constants = {t.name: t for t in model.graph.initializer if t.name in needed and t.name not in replaceable}
        for tensor in model.graph.initializer:
            self.values[tensor.name] = (element_name(tensor.data_type), tuple(tensor.dims))
        self.known: dict[str, Array | None] = {}
        self.computed: set[str] = set()
        self.improved: set[str] = set()
        self.steps = 0

    def run(self) -> Values:
        """The improved values."""
        for node in self.model.graph.node:
            if self.steps >= _MOST_STEPS:
                break
            if node.domain not in ("", "ai.onnx") or bodies_of(node):
                continue
            if self._is_worth_it(node):
                self._infer(node)
            if node.op_type in _FOLLOW | _ROOTS and len(node.output) == 1 and node.output[0] in self.needed:
                self._compute(node)
        return self.values

    def _is_worth_it(self, node: NodeProto) -> bool:
        """Its shape is open, and there is something that ONNX's inference did not know."""
        if all(_is_static(self.values.get(name)) for name in node.output if name):
            return False
        return (any(name in self.improved for name in node.input)
                or any(node.input[i] in self.computed for i in _SHAPING.get(node.op_type, ()) if i < len(node.input)))

    def _infer(self, node: NodeProto) -> None:
        types = {}
        for name in node.input:
            kind, shape = self.values.get(name, ("", None))
            if name and not (code := _code(kind)):
                return
            if name:
                types[name] = _type(code, shape)
        data = {name: numpy_helper.from_array(array, name) for name in node.input if (array := self._value(name)) is not None}
        self.steps += 1
        try:
            schema = onnx.defs.get_schema(node.op_type, self.versions[""], "")
            found = onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=list(self.model.opset_import), ir_version=self.model.ir_version)
        except Exception:  # the C++ library raises several unrelated types; the shape stays open
            return
        for name, proto in found.items():
            self._improve(name, (type_name(proto), shape_of(proto)))

    def _improve(self, name: str, found: tuple[str, Shape | None]) -> None:
        kind, old = self.values.get(name, ("", None))
        new = found[1]
        if new is None or (kind and kind != found[0]) or (old is not None and len(old) != len(new)):
            return
        if old is not None:
            if any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(old, new, strict=True)):
                return
            new = tuple(b if isinstance(b, int) and not isinstance(a, int) else a for a, b in zip(old, new, strict=True))
        if new != old:
            self.values[name] = (found[0], new)
            self.improved.add(name)

    def _compute(self, node: NodeProto) -> None:
        """The value of a node's result where all that it depends on is known and small."""
        name = node.output[0]
        if not _is_small(self.values.get(name)):
            return
        arrays: list[Array | None] = []
        for operand in node.input:
            array = self._extent(operand) if node.op_type in _ROOTS else self._value(operand)
            if operand and array is None:
                return
            arrays.append(array)
        while arrays and arrays[-1] is None:
            arrays.pop()
        self.steps += 1
        try:
            with np.errstate(all="ignore"):
                if not _stays_small(node.op_type, [array for array in arrays if array is not None]):
                    return
                kernel = load_op("", node.op_type, self.versions[""])(node, self.setting)
                value = np.asarray(kernel.run(*arrays)[0])
        except Exception:  # whatever is odd about this op, it computes its value in each run
            return
        if (value.dtype.name, value.shape) == self.values[name]:
            self.known[name] = value
            self.computed.add(name)

    def _extent(self, name: str) -> Array | None:
        """An array of a tensor's shape without memory of its own: Shape and Size look at no element."""
        value = self.values.get(name)
        if value is None or not _is_static(value) or "(" in value[0]:
            return None
        shape = [d for d in value[1] or () if isinstance(d, int)]
        return np.broadcast_to(np.float32(0), shape) if prod(shape) < 1 << 60 else None

    def _value(self, name: str) -> Array | None:
        if name not in self.known:
            tensor = self.constants.get(name)
            self.known[name] = _array(tensor) if tensor is not None else None
        return self.known[name]


def _stays_small(kind: str, operands: list[Array]) -> bool:
    """Whether a result is as small as its inferred shape says, which in part is what a file claims."""
    if kind == "Range":
        start, limit, delta = (float(operand.item()) for operand in operands)
        return (limit - start) / delta <= _MOST_ELEMENTS
    if kind in ("ConstantOfShape", "Expand", "Tile"):
        sizes = [int(size) for size in operands[-1].astype(np.int64).ravel()]
        return prod(sizes) * (operands[0].size if len(operands) > 1 else 1) <= _MOST_ELEMENTS ** 2
    return True


def _array(tensor: TensorProto) -> Array | None:
    if tensor.data_location == TensorProto.EXTERNAL or prod(tensor.dims) > _MOST_ELEMENTS:
        return None
    try:
        array: Array = numpy_helper.to_array(tensor)
    except Exception:  # data that does not fit the dims, or was dropped
        return None
    return array if array.dtype.name in _EXACT else None


def _is_static(value: tuple[str, Shape | None] | None) -> bool:
    return value is not None and value[1] is not None and all(isinstance(d, int) for d in value[1])


def _is_small(value: tuple[str, Shape | None] | None) -> bool:
    if value is None or value[0] not in _EXACT or not _is_static(value):
        return False
    return prod(d for d in value[1] or () if isinstance(d, int)) <= _MOST_ELEMENTS


def _type(code: int, shape: Shape | None) -> TypeProto:
    return helper.make_tensor_type_proto(code, None if shape is None else [None if d == "?" else d for d in shape])


@lru_cache(maxsize=64)
def _code(kind: str) -> int:
    return element_type(kind)


def _silent(*_: object) -> None:
    """Takes the messages of the reference implementation."""
