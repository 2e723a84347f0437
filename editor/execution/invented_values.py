"""Invents values for the inputs of a model: by their names, by their types, and by what reads them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

from editor.errors import EditorError, ExecutionError
from editor.graph.fitting_operands import OpShapes, bounds, index_tuples, lengths, sizes
from editor.graph.graph import (
    Graph,
    Ints,
    Shape,
    cached_per_graph,
    element_type,
    shape_of,
    type_name,
)
from editor.graph.model_file import read_model
from editor.runtimes.base import Value

Array = npt.NDArray[Any]


def numpy_dtype(kind: str) -> np.dtype[Any] | None:
    """The numpy (or ``ml_dtypes``) type of a tensor type; None where there is none."""
    code = element_type(kind)
    return np.dtype(helper.tensor_dtype_to_np_dtype(code)) if code else None


class InventedInputs(dict[str, Value]):
    """Inputs that nobody gave; a run that fails with them says so."""

    def explain(self, error: EditorError) -> None:
        """Adds to the message of a failed run that its inputs may be to blame."""
        if self and isinstance(error, ExecutionError) and _INVENTED not in str(error):
            error.args = (f"{error} ({_INVENTED})",)


_INVENTED = (
    "the inputs were invented, and may not make sense; give real ones with --inputs FILE.npz"
)


@dataclass(frozen=True)
class Manner:
    """One way to invent what neither names nor readers decide."""

    length: int = -1
    """Which of the sizes of the tensor that it counts a length is, from the smallest; of images by how much they grow, too"""
    whole: int | None = None
    """The whole number where any may do; None: random ones below 8"""


MANNERS = (Manner(), Manner(length=0), Manner(length=1), Manner(whole=1), Manner(whole=0))
"""The more usual first."""
_FEW = 8
_MOST_ELEMENTS = 1 << 24
"""Of a value in a sequence."""
_MASK = re.compile(r"mask")
_LENGTH = re.compile(
    r"(^|_)(len|lens|lengths?|seq_?lens?|seqlens_k)$|(len|length)s?$|^total_sequence_length$"
)
_POSITION = re.compile(r"pos(ition)?_?ids?|^(cache_)?positions?$|cache_position")
_SAMPLE_RATE = re.compile(r"^(sr|sample_?rate|sampling_?rate)$")
_IMAGE_SIZE = re.compile(r"(im|image|img|target|orig)\w*_(sizes?|shape|hw)$")
_PAST = re.compile(r"past|cache")
_IMAGE = re.compile(r"image|pixel|img|frame")
_BOXES = re.compile(r"box(es)?|rois?$")
_SCALE = re.compile(r"scale|speed|temperature")
_SAME = frozenset(
    {
        *(
            "Cast",
            "Clip",
            "Expand",
            "Flatten",
            "Gather",
            "Identity",
            "Max",
            "Min",
            "ReduceMax",
            "ReduceMin",
        ),
        *("Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"),
    }
)
"""Ops whose results are values of their first operand."""
_SHIFTS = frozenset({("Add", 0), ("Add", 1), ("Sub", 0)})
_MOST_PLACES = 1000
"""Values that are looked at between an input and what decides about it."""
_POSITIVE = frozenset({("BatchNormalization", 4), ("Log", 0), ("Sqrt", 0)})
_SCALES = frozenset(
    {
        *(
            ("DequantizeLinear", 1),
            ("QuantizeLinear", 1),
            ("DynamicQuantizeLSTM", 8),
            ("DynamicQuantizeLSTM", 10),
        ),
        *(("QLinearConv", i) for i in (1, 4, 6)),
        *(("QLinearMatMul", i) for i in (1, 4, 6)),
        *(("MatMulIntegerToFloat", i) for i in (2, 3)),
        *(("MatMulNBits", 2), ("DequantizeBFP", 1), ("GatherBlockQuantized", 2)),
    }
)
_ZERO_POINTS = frozenset(
    {
        *(
            ("ConvInteger", 2),
            ("ConvInteger", 3),
            ("DequantizeLinear", 2),
            ("MatMulInteger", 2),
            ("MatMulInteger", 3),
        ),
        *(("QuantizeLinear", 2), ("DynamicQuantizeLSTM", 9), ("DynamicQuantizeLSTM", 11)),
        *(("QLinearConv", i) for i in (2, 5, 7)),
        *(("QLinearMatMul", i) for i in (2, 5, 7)),
        *(("MatMulIntegerToFloat", i) for i in (4, 5)),
    }
)
_NUMBERS = {
    ("Clip", 1): -1,
    ("Clip", 2): 1,
    ("Dropout", 1): 0,
    ("Dropout", 2): 0,
    ("NonMaxSuppression", 3): 0.5,
    ("NonMaxSuppression", 4): 0,
}
"""(type, position) of operands that are settings -> a value that any model takes."""
_READ_BOXES = frozenset({("CropAndResize", 1), ("NonMaxSuppression", 0), ("RoiAlign", 1)})


@dataclass(frozen=True)
class _Use:
    """How a value is read, by an op that may decide about it."""

    op: int
    position: int
    shift: int = 0
    """What ops on the way add to it"""
    offset: int = -1
    """Of its first element in the operand, where the operand is a list that begins with others; -1: it is the operand"""


class Inventor:
    """Invents the inputs of one graph in one manner."""

    def __init__(self, graph: Graph, manner: Manner, rng: np.random.Generator) -> None:
        self.graph, self.manner, self.rng = graph, manner, rng
        self.past = next(
            (
                shape[-2]
                for tensor in graph.inputs.tolist()
                if _PAST.search(graph.tensor_names[tensor].lower())
                and len(shape := self._shape(tensor)) in (4, 5)
            ),
            0,
        )

    def value(self, tensor: int) -> tuple[Value, bool]:
        """A value of an input of known type and shape, and whether nothing about it is a guess."""
        name = self.graph.tensor_names[tensor].lower()
        dtype, shape = numpy_dtype(self.graph.tensor_types[tensor]), self._shape(tensor)
        if dtype is None:
            raise ValueError(self.graph.tensor_types[tensor])
        if dtype.kind == "O":
            return np.full(shape, "text", object), True
        if dtype.kind == "c":
            return (self._normal(shape) + 1j * self._normal(shape)).astype(dtype), True
        uses = list(self._uses(tensor))
        known = self._decided(uses, prod(shape))
        if known is not None:
            values, sure = known, False
        elif dtype.kind == "b":
            values, sure = np.ones(shape), True
        elif dtype.kind in "iu":
            values, sure = self._whole_numbers(tensor, name, shape, dtype, uses)
        else:
            values, sure = self._real_numbers(tensor, name, shape)
        return np.asarray(np.reshape(values, shape)).astype(dtype), sure

    def sequence(self, tensor: int) -> list[Array]:
        """Two values for an input that is a sequence; its type is in the model file only.

        Raises:
            ValueError: they would be too large, or are not tensors of numbers.
        """
        name = self.graph.tensor_names[tensor]
        inputs = read_model(self.graph.path).graph.input
        kind = next(v.type.sequence_type.elem_type for v in inputs if v.name == name)
        dtype = numpy_dtype(type_name(kind))
        shape = [d if isinstance(d, int) else 2 for d in shape_of(kind) or ()]
        if dtype is None or dtype.kind not in "biuf" or prod(shape) > _MOST_ELEMENTS:
            raise ValueError(name)
        return [np.abs(4 * self._normal(tuple(shape))).astype(dtype) for _ in range(2)]

    def _normal(self, shape: tuple[int, ...]) -> Array:
        return np.asarray(self.rng.standard_normal(shape))

    def _shape(self, tensor: int) -> tuple[int, ...]:
        return tuple(d for d in self.graph.tensor_shapes[tensor] or () if isinstance(d, int))

    def _uses(self, tensor: int) -> Iterator[_Use]:
        """Yields what reads a value, the nearest first, through ops that only pass it on."""
        graph, waiting = self.graph, deque([(tensor, 0, -1)])
        seen = set(waiting)
        while waiting and len(seen) < _MOST_PLACES:
            value, shift, offset = waiting.popleft()
            for op in graph.readers[value].tolist():
                kind, operands = graph.op_types[op], graph.op_inputs[op].tolist()
                result = next(iter(graph.op_outputs[op].tolist()), -1)
                for position in [i for i, operand in enumerate(operands) if operand == value]:
                    yield _Use(op, position, shift, offset)
                    more, start = shift, offset
                    if kind == "Concat" and len(self._shape(result)) == 1 and offset < 1:
                        start = sum(prod(self._shape(t)) for t in operands[:position])
                    elif len(operands) == 2 and (kind, position) in _SHIFTS:
                        added = _numbers(graph).get(graph.tensor_names[operands[1 - position]])
                        if added is None:
                            continue
                        more += added if kind == "Add" else -added
                    elif kind not in _SAME or position:
                        continue
                    place = (result, more, start)
                    if result >= 0 and place not in seen:
                        seen.add(place)
                        waiting.append(place)

    def _decided(self, uses: list[_Use], count: int) -> Array | None:
        """What the first op that decides about a value wants; None where no op does."""
        factor = 2 if self.manner.length == -1 else 1
        for use in uses:
            op, where = self._op(use.op), (self.graph.op_types[use.op], use.position)
            if where in _NUMBERS:
                return np.full(count, _NUMBERS[where])
            if where in _ZERO_POINTS:
                return np.zeros(count)
            if where in _SCALES:
                return np.full(count, 0.05)
            if where == ("Range", 1) and self._length_of_others(count) is not None:
                continue  # a length, which may have any name
            values = lengths(op, use.position)
            if values is None:
                values = sizes(op, use.position, factor)
            if values is None:
                continue
            values = np.asarray(values).reshape(-1)[max(use.offset, 0) :]
            if len(values) >= count:
                return np.asarray(values[:count] - use.shift)
        return None

    def _op(self, op: int) -> OpShapes:
        graph = self.graph

        def shapes(tensors: Ints) -> list[Shape | None]:
            return [graph.tensor_shapes[t] if t >= 0 else None for t in tensors.tolist()]

        numbers = {n: int(v) for n, v in graph.op_attributes[op] if re.fullmatch(r"-?\d{1,9}", v)}
        return OpShapes(
            graph.op_types[op], shapes(graph.op_inputs[op]), shapes(graph.op_outputs[op]), numbers
        )

    def _whole_numbers(
        self, tensor: int, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], uses: list[_Use]
    ) -> tuple[Array, bool]:
        least, limit = self._bounds(uses)
        count, most = prod(shape), int(np.iinfo(dtype).max)
        if _MASK.search(name):
            return np.ones(shape), False
        if _SAMPLE_RATE.search(name):
            return np.full(shape, 16_000), False
        if _POSITION.search(name):
            places = self.past + np.arange(shape[-1] if shape else 1)
            high = max(min(most, most if limit is None else limit - 1), 0)
            return np.minimum(np.resize(places, count), high), False
        if limit is None and _IMAGE_SIZE.search(name):
            return self._image_size(count), False
        is_end = any((self.graph.op_types[u.op], u.position) == ("Range", 1) for u in uses)
        if limit is None and (_LENGTH.search(name) or is_end):
            length = self._length_of_others(count, tensor)
            if length is not None:
                return np.full(shape, min(length - ("seqlens_k" in name), most)), False
        tuples = next((t for u in uses if (t := index_tuples(self._op(u.op), u.position))), None)
        if tuples and shape and shape[-1] == len(tuples):
            return self.rng.integers(0, np.maximum(tuples, 1), shape), True
        if limit is None and self.manner.whole is not None:
            return np.full(shape, self.manner.whole), False
        if limit is None and dtype.itemsize == 1:
            return self.rng.integers(np.iinfo(dtype).min, most + 1, shape), False
        high = min(_FEW if limit is None else limit, most)
        return self.rng.integers(min(least, high - 1), high, shape), limit is not None

    def _bounds(self, uses: list[_Use]) -> tuple[int, int | None]:
        """The least whole number that all readers take, and the first that is too large for one."""
        least, limit = 0, None
        for use in uses:
            found = bounds(self._op(use.op), use.position)
            if found is not None:
                low, high = found[0] - use.shift, max(found[1] - use.shift, 1)
                least, limit = max(least, low), high if limit is None else min(limit, high)
        return least, limit

    def _length_of_others(self, count: int, tensor: int = -1) -> int | None:
        """A size of the input that a length is about: the one with a name like its own, else the first of some rank."""
        graph, name = self.graph, self.graph.tensor_names[tensor].lower() if tensor >= 0 else ""
        others = [t for t in graph.inputs.tolist() if t != tensor and len(self._shape(t)) > 1]
        others.sort(key=lambda t: not name.startswith(graph.tensor_names[t].lower()))
        if not others:
            return None
        found = sorted(self._shape(others[0])[1:])
        if name in ("total_sequence_length", "seqlens_k"):
            return found[0] + self.past
        return found[max(min(self.manner.length, len(found) - 1), -1)]

    def _image_size(self, count: int) -> Array:
        images = [s for t in self.graph.inputs.tolist() if len(s := self._shape(t)) == 4]
        return np.resize(images[0][-2:] if images else (224, 224), count)

    def _real_numbers(self, tensor: int, name: str, shape: tuple[int, ...]) -> tuple[Array, bool]:
        read_as = {
            (self.graph.op_types[op], position)
            for op in self.graph.readers[tensor].tolist()
            for position, operand in enumerate(self.graph.op_inputs[op].tolist())
            if operand == tensor
        }
        is_image = len(shape) == 4 and (shape[1] in (1, 3, 4) or shape[3] in (1, 3, 4))
        if _MASK.search(name):
            return np.ones(shape), False
        if len(shape) < 2 and _SCALE.search(name):
            return np.ones(shape), False
        if shape[-1:] == (4,) and (read_as & _READ_BOXES or _BOXES.search(name)):
            corners = np.sort(self.rng.random((*shape[:-1], 2, 2)), axis=-2)
            return np.reshape(corners, shape), False
        if not _PAST.search(name) and (_IMAGE.search(name) or is_image):
            return self.rng.random(shape), True
        values = self._normal(shape)
        return (np.abs(values) if read_as & _POSITIVE else values), True


@cached_per_graph
def _numbers(graph: Graph) -> Mapping[str, int]:
    """The constants of a model that are one whole number."""
    source = read_model(graph.path)
    found = {tensor.name: tensor for tensor in source.graph.initializer} | {
        node.output[0]: attribute.t
        for node in source.graph.node
        for attribute in node.attribute
        if attribute.name == "value" and attribute.HasField("t") and node.output
    }
    numbers = {
        name: int(numpy_helper.to_array(tensor).reshape(-1)[0])
        for name, tensor in found.items()
        if tensor.data_type in (TensorProto.INT64, TensorProto.INT32)
        and tensor.data_location != TensorProto.EXTERNAL
        and prod(tensor.dims) == 1
    }
    return {name: number for name, number in numbers.items() if abs(number) < 1 << 31}
