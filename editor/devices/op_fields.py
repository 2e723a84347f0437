"""What expressions can say about an op: its type, element types, shapes, and attributes with the defaults of ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from editor.devices.expressions import UnknownValueError
from editor.graph.attribute_values import all_attribute_names, attribute_default, attribute_names, attribute_value
from editor.graph.graph import Graph
from editor.graph.types import Shape

FIELDS = ("op", "name", "key", "domain", "inputs", "outputs", "dtype", "rank", "shape", "dtype_b", "rank_b", "shape_b",
          "out_dtype", "out_rank", "out_shape", "computed", "opset")
_ONES, _ZEROS = frozenset({"strides", "dilations"}), frozenset({"pads", "output_padding"})
_WINDOW = _ONES | _ZEROS | {"kernel_shape"}


class OpFields:
    """Values of one op. ``dtype``, ``rank`` and ``shape`` are those of its first input, ``_b`` those of its second one.

    An op without inputs has the element type and shape of its output. ``computed`` are the positions of inputs that are
    not constant: ``1 not in computed`` for constant weights. ``opset`` is the version of the op's domain.
    """

    fields: tuple[str, ...] = FIELDS

    def __init__(self, graph: Graph, op: int, types: Sequence[str] | None = None) -> None:
        """``types`` are the element types of the tensors; those of the model by default."""
        self.graph, self.op = graph, op
        self.types = graph.tensor_types if types is None else types

    def field(self, name: str) -> Any:
        """The value of a field; raises ``UnknownValueError`` where it is not known."""
        graph, op = self.graph, self.op
        plain = {"op": graph.op_types, "name": graph.op_names, "key": graph.op_keys, "domain": graph.op_domains}
        if name in plain:
            return plain[name][op]
        if name == "inputs":
            return len(graph.op_reads[op])
        if name == "outputs":
            return len(graph.op_outputs[op])
        if name == "computed":
            return tuple(i for i, t in enumerate(graph.op_inputs[op].tolist()) if t >= 0 and not graph.tensor_is_constant[t])
        if name == "opset":
            return self._opset
        tensor = self._tensor(name)
        what = name.removeprefix("out_").partition("_")[0]
        if what == "dtype":
            return _known(self.types[tensor] or None, name)
        shape: Shape = _known(graph.tensor_shapes[tensor], name)
        return len(shape) if what == "rank" else tuple(shape)

    def attribute(self, name: str) -> Any:
        """The value of an attribute, or its default; see ``Names.attribute``."""
        graph, op = self.graph, self.op
        text = next((text for key, text in graph.op_attributes[op] if key == name), None)
        if text is not None:
            return attribute_value(text)
        op_type, domain = graph.op_types[op], graph.op_domains[op]
        default = attribute_default(op_type, domain, self._opset, name)
        if default is None and name in _WINDOW and name in attribute_names(op_type, domain):
            default = self._window(name)
        if default is None and name in all_attribute_names():
            raise UnknownValueError(f"{graph.op_types[op]} has no {name}")
        return default

    @property
    def _opset(self) -> int:
        return self.graph.opsets.get(self.graph.op_domains[self.op] or "ai.onnx", 1)

    def _tensor(self, name: str) -> int:
        inputs, outputs = (t[self.op].tolist() for t in (self.graph.op_inputs, self.graph.op_outputs))
        tensors = outputs if name.startswith("out_") or not inputs else inputs
        position = 1 if name.endswith("_b") else 0
        if position >= len(tensors) or tensors[position] < 0:
            raise UnknownValueError(f"{self.graph.op_types[self.op]} has no {name}")
        return int(tensors[position])

    def _window(self, name: str) -> tuple[int, ...] | None:
        """Defaults that ONNX states in words: one value per spatial axis."""
        if name == "kernel_shape":
            shape: Shape = self.field("shape_b")
            return tuple(d for d in shape[2:] if isinstance(d, int)) if all(isinstance(d, int) for d in shape) else None
        axes = int(self.field("rank")) - 2
        return (1,) * axes if name in _ONES else (0,) * (axes if name == "output_padding" else 2 * axes)


def _known(value: Any, name: str) -> Any:
    if value is None:
        raise UnknownValueError(f"{name} is not known")
    return value
