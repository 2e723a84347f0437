"""Evaluates what a model determines without its inputs: constants, and shapes that ops compute."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

from editor.graph.attributes import bodies_of
from editor.graph.graph import (
    Bools,
    Ints,
    Rows,
    Shape,
    element_name,
    element_type,
    mask_of,
    shape_of,
    type_name,
)
from editor.graph.openvino_layers import DOMAIN as OPENVINO

# Too expensive to repeat, or not deterministic.
_NEVER_CONSTANT = frozenset(
    {
        "Conv",
        "ConvInteger",
        "ConvTranspose",
        "DeformConv",
        "MatMul",
        "MatMulInteger",
        "Gemm",
        "QLinearConv",
        "QLinearMatMul",
        "Einsum",
        "Attention",
        "RNN",
        "LSTM",
        "GRU",
        "Det",
        "DFT",
        "STFT",
        "If",
        "Loop",
        "Scan",
        "SequenceMap",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
        "Dropout",
        "BatchNormalization",
        "ReadValue",
        "Assign",
    }
)


_FOLDED_DOMAINS = ("", "ai.onnx", OPENVINO)
"""Of ops that compute the same from the same constants."""


def constant_ops(
    op_types: tuple[str, ...],
    op_domains: tuple[str, ...],
    reads: Rows,
    results: Rows,
    order: Ints,
    tensor_producer: Ints,
    constant_tensor: Bools,
    outputs: Ints,
) -> Bools:
    """[op] whether it is constant; ``constant_tensor`` marks the initializers.

    An op that produces a graph output is not constant: it has no consumer to follow.
    """
    constant_tensor = constant_tensor.copy()
    is_output = mask_of(len(constant_tensor), outputs)
    constant = np.zeros(len(op_types), bool)
    for op in order:
        if op_types[op] in _NEVER_CONSTANT or op_domains[op] not in _FOLDED_DOMAINS:
            continue
        outputs_of_op = results[op]
        outputs_of_op = outputs_of_op[outputs_of_op >= 0]
        if (
            constant_tensor[reads[op]].all()
            and len(outputs_of_op)
            and not is_output[outputs_of_op].any()
        ):
            constant[op] = True
            constant_tensor[outputs_of_op] = True
    return constant


def read_by(
    readers: Bools, constant: Bools, reads: Rows, order: Ints, tensor_producer: Ints
) -> Bools:
    """[op] whether it is constant and one of the readers needs its result, directly or through constant ops."""
    needed = np.zeros(len(constant), bool)
    for op in order[::-1]:
        if readers[op] or needed[op]:
            before = tensor_producer[reads[op]]
            before = before[before >= 0]
            needed[before[constant[before]]] = True
    return needed


Array = npt.NDArray[np.generic]
Types = Mapping[str, tuple[str, Shape | None]]
"""Tensor name -> element type and shape."""

MAX_ELEMENTS = 1024
"""Most elements of one value; larger values are data, not shapes."""
EXACT_TYPES = frozenset({"int32", "int64", "bool"})
"""Element types whose results are exact in every runtime."""
ROOTS = frozenset({"Shape", "Size"})
"""Ops that need only the shape of their operand."""
FOLLOW = frozenset(
    {
        "Abs",
        "Add",
        "And",
        "Cast",
        "Ceil",
        "Concat",
        "Constant",
        "ConstantOfShape",
        "Div",
        "Equal",
        "Expand",
        "Flatten",
        "Floor",
        "Gather",
        "Greater",
        "GreaterOrEqual",
        "Identity",
        "Less",
        "LessOrEqual",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "Range",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "Reshape",
        "Slice",
        "Squeeze",
        "Sub",
        "Tile",
        "Transpose",
        "Unsqueeze",
        "Where",
    }
)
"""Ops that are evaluated where their operands are known."""


class StaticValues:
    """Evaluates ops with ONNX's reference implementation; nodes must come in topological order."""

    def __init__(
        self,
        model: ModelProto,
        types: Types,
        constants: Mapping[str, TensorProto],
        kinds: frozenset[str],
    ) -> None:
        """Prepares the evaluation.

        Args:
            model: the model that states the opset versions.
            types: types of all tensors; read on demand, so the caller may add entries later.
            constants: initializers and values of constant ops that no run replaces, by name.
            kinds: element types that may be computed.
        """
        self._types, self._constants, self._kinds = types, constants, kinds
        self._versions = {
            "" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import
        }
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
        if (
            node.op_type not in FOLLOW | ROOTS
            or node.domain not in ("", "ai.onnx")
            or len(node.output) != 1
        ):
            return None
        name = node.output[0]
        operands = self._operands(node) if self._is_small(name) else None
        if operands is None:
            return None
        try:
            with np.errstate(all="ignore"):
                if not _stays_small(
                    node.op_type, [array for array in operands if array is not None]
                ):
                    return None
                from onnx.reference.ops import (
                    load_op,
                )  # importing takes 0.1 s, and few models need it

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
        return prod(sizes) * (operands[0].size if len(operands) > 1 else 1) <= MAX_ELEMENTS**2
    return True


def _ignore(*_: object) -> None:
    """Discards the messages of the reference implementation."""


Values = dict[str, tuple[str, Shape | None]]

_MAX_STEPS = 50_000
"""Shapes inferred and values computed for one model; each takes about 30 microseconds."""
_KINDS = EXACT_TYPES | {"float32", "float64"}
"""Element types of values to compute; scales of a Resize are floating-point."""
_SHAPING: Mapping[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "CenterCropPad": (1,),
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "ReduceL2": (1,),
    "ReduceMax": (1,),
    "ReduceMean": (1,),
    "ReduceMin": (1,),
    "ReduceProd": (1,),
    "ReduceSum": (1,),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
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
            needed.update(
                node.input[i]
                for i in _SHAPING.get(node.op_type, ())
                if i < len(node.input) and node.input[i]
            )
        if node.op_type in FOLLOW and any(name in needed for name in node.output):
            needed.update(name for name in node.input if name)
    return needed


class _Folding:
    """One pass over the nodes that infers shapes from values and values from shapes."""

    def __init__(self, model: ModelProto, values: Values, needed: set[str]) -> None:
        self.model, self.values, self.needed = model, dict(values), needed
        self.versions = {
            "" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import
        }
        replaceable = {value.name for value in model.graph.input}
        constants = {
            t.name: t
            for t in model.graph.initializer
            if t.name in needed and t.name not in replaceable
        }
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
        return any(name in self.improved for name in node.input) or any(
            node.input[i] in self.computed
            for i in _SHAPING.get(node.op_type, ())
            if i < len(node.input)
        )

    def _infer(self, node: NodeProto) -> None:
        types = {}
        for name in node.input:
            kind, shape = self.values.get(name, ("", None))
            if name and not (code := element_type(kind)):
                return
            if name:
                types[name] = _type(code, shape)
        data = {
            name: numpy_helper.from_array(array, name)
            for name in node.input
            if (array := self.static.value(name)) is not None
        }
        self.steps += 1
        try:
            schema = onnx.defs.get_schema(node.op_type, self.versions[""], "")
            outputs = onnx.shape_inference.infer_node_outputs(
                schema,
                node,
                types,
                data,
                opset_imports=list(self.model.opset_import),
                ir_version=self.model.ir_version,
            )
        except Exception:  # noqa: BLE001  # the C++ library raises several unrelated types; the shape stays unknown
            return
        for name, proto in outputs.items():
            self._improve(name, (type_name(proto), shape_of(proto)))

    def _improve(self, name: str, inferred: tuple[str, Shape | None]) -> None:
        kind, old = self.values.get(name, ("", None))
        new = inferred[1]
        if (
            new is None
            or (kind and kind != inferred[0])
            or (old is not None and len(old) != len(new))
        ):
            return
        if old is not None:
            if any(
                isinstance(a, int) and isinstance(b, int) and a != b
                for a, b in zip(old, new, strict=True)
            ):
                return
            new = tuple(
                b if isinstance(b, int) and not isinstance(a, int) else a
                for a, b in zip(old, new, strict=True)
            )
        if new != old:
            self.values[name] = (inferred[0], new)
            self.improved.add(name)


def _type(code: int, shape: Shape | None) -> TypeProto:
    return helper.make_tensor_type_proto(
        code, None if shape is None else [None if d == "?" else d for d in shape]
    )
