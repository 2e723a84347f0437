"""What all ideas have: a pattern of ``onnxscript.rewriter``, the facts that it may look at, and where it applies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import MatchContext, RewriteRuleClassBase

Shape = tuple[int | str, ...]


@dataclass(frozen=True)
class Facts:
    """What is known of the tensors of a model."""

    fallen: frozenset[str]
    """First outputs of the ops that a device refuses; ideas apply to these only."""
    shapes: Mapping[str, Shape]
    types: Mapping[str, str]
    """Such as ``float32``."""


class Idea(RewriteRuleClassBase):
    """One form of an op for another. ``root`` is the last op of the pattern, and ``opset`` that of the model."""

    title: ClassVar[str]
    """Says which form becomes which."""
    types: ClassVar[frozenset[str]]
    """Types of the ops that it is for."""
    least_opset: ClassVar[int] = 1

    def __init__(self, facts: Facts) -> None:
        super().__init__(type(self).__name__)
        self.facts = facts

    def check(self, context: MatchContext, **values: Any) -> bool:  # type: ignore[override]  # onnxscript calls it so
        """Whether the pattern has an op that a device refuses, and the idea fits it."""
        self.opset, self.root = int(context.model.opset_imports.get("", 0)), context.root
        made = {value.name for node in context.nodes for value in node.outputs}
        return (
            self.opset >= self.least_opset
            and not made.isdisjoint(self.facts.fallen)
            and self.fits(self.root, **values)
        )

    def fits(self, root: ir.Node, **values: Any) -> bool:
        """Whether the idea holds for these values."""
        return True

    def shape(self, value: ir.Value | None) -> tuple[int, ...] | None:
        """The shape of a tensor; None where a size of it is not known, or there is none."""
        shape = None if value is None else self.facts.shapes.get(value.name or "")
        if shape is None or not all(isinstance(size, int) for size in shape):
            return None
        return tuple(int(size) for size in shape)

    def is_float(self, value: ir.Value | None) -> bool:
        """Whether a tensor has a type of floating point."""
        kind = "" if value is None else self.facts.types.get(value.name or "", "")
        return kind in ("float32", "float16", "float64")

    def added(self) -> ir.Value | None:
        """The third input of the last op, which products and norms add; None where it has none."""
        return self.root.inputs[2] if len(self.root.inputs) > 2 else None

    def like(self, op: Any, value: ir.Value, number: float) -> Any:
        """A constant of the type of a tensor."""
        return op.Constant(value=ir.tensor(np.array(number, self.facts.types[value.name or ""])))

    def reduce_mean(self, op: Any, value: Any, axes: Sequence[int]) -> Any:
        """A ``ReduceMean`` as the opset of the model has it."""
        if self.opset < 18:
            return op.ReduceMean(value, axes=list(axes), keepdims=1)
        return op.ReduceMean(value, whole_numbers(op, axes), keepdims=1)


class UnaryIdea(Idea):
    """An idea for ops of one type, which have one input."""

    def pattern(self, op: Any, x: Any) -> Any:
        (only,) = self.types
        return getattr(op, only)(x)


def whole_numbers(op: Any, numbers: Sequence[int]) -> Any:
    """A constant list of int64."""
    return op.Constant(value=ir.tensor(np.array(numbers, np.int64)))


def known(value: ir.Value | None) -> np.ndarray[Any, Any] | None:
    """The value of a constant; None where it is none, or is in another file."""
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    if tensor is None or isinstance(tensor, ir.ExternalTensor):
        return None
    return np.asarray(tensor.numpy())
