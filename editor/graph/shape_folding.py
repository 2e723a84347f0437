"""Infers shapes that depend on computed values, which ONNX shape inference leaves unknown.

Exporters compute shapes with chains of ops such as Shape, Gather, Concat and Where. Once the input sizes are bound,
such a chain has a constant value, which determines the output shape of a Reshape, Slice or Expand.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, NodeProto, TypeProto, helper, numpy_helper

from editor.graph.bodies import bodies_of
from editor.graph.static_values import EXACT_TYPES, FOLLOW, ROOTS, StaticValues, is_static
from editor.graph.types import Shape, element_name, element_type, shape_of, type_name

Values = dict[str, tuple[str, Shape | None]]
Array = npt.NDArray[np.generic]

_MAX_STEPS = 50_000
"""Shapes inferred and values computed for one model; each takes about 30 microseconds."""
_KINDS = EXACT_TYPES | {"float32", "float64"}
"""Element types of values to compute; scales of a Resize are floating-point."""
_SHAPING: Mapping[str, tuple[int, ...]] = {
    "AffineGrid": (1,), "CenterCropPad": (1,), "ConstantOfShape": (0,), "Expand": (1,), "OneHot": (1,), "Pad": (1, 3),
    "Range": (0, 1, 2), "ReduceL2": (1,), "ReduceMax": (1,), "ReduceMean": (1,), "ReduceMin": (1,), "ReduceProd": (1,),
    "ReduceSum": (1,), "Reshape": (1,), "Resize": (1, 2, 3), "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,),
    "Tile": (1,), "TopK": (1,), "Unsqueeze": (1,), "Upsample": (1,),
}
"""Op type -> positions of the operands whose values determine the output shape"""


def fold_shapes(model: ModelProto, values: Values) -> Values:
    """Types and shapes of the main graph's values, completed by those that computed values determine.

    Args:
        model: nodes in topological order; data of large initializers may be missing.
        values: result of ONNX shape inference.
    """
    needed = _needed(model, values)
    return _Folding(model, values, needed).run() if needed else values


def _needed(model: ModelProto, values: Values) -> set[str]:
    """Tensors on whose values an unknown shape depends."""
    needed: set[str] = set()
    for node in reversed(model.graph.node):
        if any(not is_static(values.get(name)) for name in node.output if name):
            needed.update(node.input[i] for i in _SHAPING.get(node.op_type, ()) if i < len(node.input) and node.input[i])
        if node.op_type in FOLLOW and any(name in needed for name in node.output):
            needed.update(name for name in node.input if name)
    return needed


class _Folding:
    """One pass over the nodes that infers shapes from values and values from shapes."""

    def __init__(self, model: ModelProto, values: Values, needed: set[str]) -> None:
        self.model, self.values, self.needed = model, dict(values), needed
        self.versions = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
        replaceable = {value.name for value in model.graph.input}
        constants = {t.name: t for t in model.graph.initializer if t.name in needed and t.name not in replaceable}
        self.static = StaticValues(model, self.values, constants, _KINDS)
        for tensor in model.graph.initializer:
            self.values[tensor.name] = (element_name(tensor.data_type), tuple(tensor.dims))
        self.computed: set[str] = set()
        self.improved: set[str] = set()
        self.steps = 0

    def run(self) -> Values:
        """The completed types and shapes."""
        for node in self.model.graph.node:
            if self.steps >= _MAX_STEPS:
                break
            if node.domain not in ("", "ai.onnx") or bodies_of(node):
                continue
            if self._is_worth_it(node):
                self._infer(node)
            wanted = node.op_type in FOLLOW | ROOTS and node.output[0] in self.needed
            if wanted and self.static.compute(node) is not None:
                self.steps += 1
                self.computed.add(node.output[0])
        return self.values

    def _is_worth_it(self, node: NodeProto) -> bool:
        """Whether the output shape is unknown and an input has improved since ONNX shape inference."""
        if all(is_static(self.values.get(name)) for name in node.output if name):
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
        data = {name: numpy_helper.from_array(array, name) for name in node.input
                if (array := self.static.value(name)) is not None}
        self.steps += 1
        try:
            schema = onnx.defs.get_schema(node.op_type, self.versions[""], "")
            outputs = onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=list(self.model.opset_import), ir_version=self.model.ir_version)
        except Exception:  # noqa: BLE001  # the C++ library raises several unrelated types; the shape stays unknown
            return
        for name, proto in outputs.items():
            self._improve(name, (type_name(proto), shape_of(proto)))

    def _improve(self, name: str, inferred: tuple[str, Shape | None]) -> None:
        kind, old = self.values.get(name, ("", None))
        new = inferred[1]
        if new is None or (kind and kind != inferred[0]) or (old is not None and len(old) != len(new)):
            return
        if old is not None:
            if any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(old, new, strict=True)):
                return
            new = tuple(b if isinstance(b, int) and not isinstance(a, int) else a for a, b in zip(old, new, strict=True))
        if new != old:
            self.values[name] = (inferred[0], new)
            self.improved.add(name)


def _type(code: int, shape: Shape | None) -> TypeProto:
    return helper.make_tensor_type_proto(code, None if shape is None else [None if d == "?" else d for d in shape])


@lru_cache(maxsize=64)
def _code(kind: str) -> int:
    return element_type(kind)
