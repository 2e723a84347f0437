"""Other forms of ops that compute: activations, products (Gemm, ConvTranspose of windows that do not overlap) and means."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import MatchContext

from editor.advice.idea import Idea, UnaryIdea, known, whole_numbers


class ClipByMinMax(Idea):
    """``Clip(x, a, b) = Min(Max(x, a), b)``; a lower limit of 0 is Relu."""

    title = "Clip by Relu or Max, and Min"
    types = frozenset({"Clip"})
    least_opset = 12

    def pattern(self, op: Any, x: Any, low: Any, high: Any) -> Any:
        return op.Clip(x, low, high)

    def fits(self, root: ir.Node, x: ir.Value | None = None, **limits: Any) -> bool:
        return self.is_float(x) and None not in limits.values()

    def rewrite(self, op: Any, x: ir.Value, low: ir.Value, high: ir.Value) -> Any:
        least = known(low)
        is_zero = least is not None and least.size == 1 and float(least.item()) == 0.0
        return op.Min(op.Relu(x) if is_zero else op.Max(x, low), high)


class GeluByParts(UnaryIdea):
    """``Gelu(x) = 0.5 x (1 + Erf(x / sqrt(2)))``, or its form with Tanh where the op has that."""

    title = "Gelu by Erf and arithmetic"
    types = frozenset({"Gelu"})
    least_opset = 20

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        return self.is_float(x)

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        half, one = self.like(op, x, 0.5), self.like(op, x, 1.0)
        if self.root.attributes.get_string("approximate") == "tanh":
            cubic = op.Mul(op.Mul(op.Mul(x, x), x), self.like(op, x, 0.044715))
            inner = op.Tanh(op.Mul(op.Add(x, cubic), self.like(op, x, sqrt(2 / pi))))
        else:
            inner = op.Erf(op.Div(x, self.like(op, x, sqrt(2))))
        return op.Mul(op.Mul(x, half), op.Add(inner, one))


class ErfByTanh(UnaryIdea):
    """``Tanh(2 / sqrt(pi) (x + 11/123 x^3))``, which differs from Erf by at most 0.0004."""

    title = "Erf by Tanh, which is close to it"
    types = frozenset({"Erf"})
    least_opset = 9

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        return self.is_float(x)

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        cubic = op.Mul(op.Mul(op.Mul(x, x), x), self.like(op, x, 11 / 123))
        return op.Tanh(op.Mul(op.Add(x, cubic), self.like(op, x, 2 / sqrt(pi))))


class GeluAsOne(Idea):
    """What exporters write for Gelu, as the op of opset 20."""

    title = "Erf and arithmetic as Gelu"
    types = frozenset({"Erf", "Div", "Add", "Mul"})
    least_opset = 20

    def pattern(self, op: Any, x: Any, root: Any, one: Any, half: Any) -> Any:
        return op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, root)), one)), half)

    def check(self, context: MatchContext, **values: Any) -> bool:  # type: ignore[override]  # onnxscript calls it so
        numbers = {"root": sqrt(2), "one": 1.0, "half": 0.5}
        return super().check(context) and all(
            (value := known(values.get(name))) is not None
            and value.size == 1
            and abs(float(value.item()) - number) < 1e-3
            for name, number in numbers.items()
        )

    def rewrite(self, op: Any, x: ir.Value, **values: Any) -> Any:
        return op.Gelu(x)


class HardSwishByParts(UnaryIdea):
    """``HardSwish(x) = x * HardSigmoid(x)``."""

    title = "HardSwish by HardSigmoid and Mul"
    types = frozenset({"HardSwish"})
    least_opset = 14

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        return op.Mul(x, op.HardSigmoid(x, alpha=1.0 / 6.0, beta=0.5))


class HardSwishAsOne(Idea):
    """The same backwards."""

    title = "HardSigmoid and Mul as HardSwish"
    types = frozenset({"HardSigmoid", "Mul"})
    least_opset = 14

    def pattern(self, op: Any, x: Any) -> Any:
        return op.Mul(x, op.HardSigmoid(x, _outputs=["gate"]))

    def fits(self, root: ir.Node, gate: ir.Value | None = None, **values: Any) -> bool:
        node = None if gate is None else gate.producer()
        if node is None:
            return False
        alpha, beta = (node.attributes.get_float(name) for name in ("alpha", "beta"))
        return alpha is not None and abs(alpha - 1 / 6) < 1e-6 and beta in (None, 0.5)

    def rewrite(self, op: Any, x: ir.Value, **values: Any) -> Any:
        return op.HardSwish(x)


class MishByParts(UnaryIdea):
    """``Mish(x) = x * Tanh(Softplus(x))``."""

    title = "Mish by Softplus, Tanh and Mul"
    types = frozenset({"Mish"})
    least_opset = 18

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        return op.Mul(x, op.Tanh(op.Softplus(x)))


class MishAsOne(Idea):
    """The same backwards."""

    title = "Softplus, Tanh and Mul as Mish"
    types = frozenset({"Softplus", "Tanh", "Mul"})
    least_opset = 18

    def pattern(self, op: Any, x: Any) -> Any:
        return op.Mul(x, op.Tanh(op.Softplus(x)))

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        return op.Mish(x)


class GemmByParts(Idea):
    """``Gemm(a, b, c) = alpha a b + beta c``."""

    title = "Gemm by MatMul and Add"
    types = frozenset({"Gemm"})
    least_opset = 9

    def pattern(self, op: Any, a: Any, b: Any) -> Any:
        return op.Gemm(a, b, _allow_other_inputs=True)

    def fits(self, root: ir.Node, a: ir.Value | None = None, **values: Any) -> bool:
        return self.is_float(a)

    def rewrite(self, op: Any, a: ir.Value, b: ir.Value) -> Any:
        given, added = self.root.attributes, self.added()
        left = op.Transpose(a, perm=[1, 0]) if given.get_int("transA", 0) else a
        right = op.Transpose(b, perm=[1, 0]) if given.get_int("transB", 0) else b
        product = self._scaled(op, op.MatMul(left, right), a, given.get_float("alpha", 1.0))
        if added is None:
            return product
        return op.Add(product, self._scaled(op, added, a, given.get_float("beta", 1.0)))

    def _scaled(self, op: Any, value: Any, like: ir.Value, factor: float) -> Any:
        return value if factor == 1 else op.Mul(value, self.like(op, like, factor))


class MatMulAddAsGemm(Idea):
    """Of matrices, with something to add that repeats along their axes."""

    title = "MatMul and Add as Gemm"
    types = frozenset({"MatMul", "Add"})
    least_opset = 9

    def pattern(self, op: Any, a: Any, b: Any, c: Any) -> Any:
        return op.Add(op.MatMul(a, b), c)

    def fits(self, root: ir.Node, **values: Any) -> bool:
        a, b, c = (self.shape(values[name]) for name in ("a", "b", "c"))
        if a is None or b is None or c is None or not self.is_float(values["a"]):
            return False
        if len(a) != 2 or len(b) != 2 or len(c) > 2:
            return False
        result = (a[0], b[1])
        return all(size in (1, result[-i]) for i, size in enumerate(reversed(c), 1))

    def rewrite(self, op: Any, a: ir.Value, b: ir.Value, c: ir.Value) -> Any:
        return op.Gemm(a, b, c)


class ConvTransposeByConv(Idea):
    """A window as large as its stride writes each output once: a 1x1 convolution computes what DepthToSpace arranges."""

    title = "ConvTranspose by Conv and DepthToSpace"
    types = frozenset({"ConvTranspose"})
    least_opset = 11

    def pattern(self, op: Any, x: Any, w: Any) -> Any:
        return op.ConvTranspose(x, w, _allow_other_inputs=True)

    def fits(
        self, root: ir.Node, x: ir.Value | None = None, w: ir.Value | None = None, **values: Any
    ) -> bool:
        weights = known(w)
        if weights is None or weights.ndim != 4 or weights.shape[2] != weights.shape[3]:
            return False
        plain = {"group": [1], "dilations": [1], "pads": [0], "output_padding": [0]}
        given = _lists(root)
        return (
            set(given.get("strides", [1])) == {weights.shape[2]}
            and all(set(given.get(name, only)) == set(only) for name, only in plain.items())
            and "output_shape" not in given
            and "auto_pad" not in root.attributes
        )

    def rewrite(self, op: Any, x: ir.Value, w: ir.Value) -> Any:
        weights, bias = known(w), self.added()
        if weights is None:
            return None
        into, out, size, _ = weights.shape
        each = np.ascontiguousarray(weights.reshape(into, -1).T).reshape(-1, into, 1, 1)
        depth = op.Conv(x, op.Constant(value=ir.tensor(each)))
        made = op.DepthToSpace(depth, blocksize=size, mode="CRD")
        if bias is None:
            return made
        return op.Add(made, op.Reshape(bias, whole_numbers(op, [1, out, 1, 1])))


def _lists(node: ir.Node) -> dict[str, Sequence[int]]:
    """Attributes that are whole numbers or lists of them."""
    found: dict[str, Sequence[int]] = {}
    for name, value in node.attributes.items():
        if value.type == ir.AttributeType.INTS:
            found[name] = value.as_ints()
        elif value.type == ir.AttributeType.INT:
            found[name] = [value.as_int()]
    return found


_EPSILON = 1e-5


class LayerNormByParts(Idea):
    """The mean is taken off, the rest is divided by its root mean square, scaled and shifted."""

    title = "LayerNormalization by ReduceMean, Sub, Mul, Sqrt and Div"
    types = frozenset({"LayerNormalization"})
    least_opset = 17

    def pattern(self, op: Any, x: Any, scale: Any) -> Any:
        return op.LayerNormalization(x, scale, _allow_other_inputs=True)

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        return (
            self.is_float(x)
            and x is not None
            and self.facts.shapes.get(x.name or "") is not None
            and len([value for value in root.outputs if value.name]) == 1
        )

    def rewrite(self, op: Any, x: ir.Value, scale: ir.Value) -> Any:
        rank, given = len(self.facts.shapes[x.name or ""]), self.root.attributes
        axes = list(range(given.get_int("axis", -1) % rank, rank))
        epsilon = given.get_float("epsilon", _EPSILON)
        centred = op.Sub(x, self.reduce_mean(op, x, axes))
        variance = self.reduce_mean(op, op.Mul(centred, centred), axes)
        spread = op.Sqrt(op.Add(variance, self.like(op, x, epsilon)))
        scaled = op.Mul(op.Div(centred, spread), scale)
        bias = self.added()
        return scaled if bias is None else op.Add(scaled, bias)


class LayerNormAsOne(Idea):
    """What exporters write for LayerNormalization over the last axis, as the op of opset 17."""

    title = "ReduceMean, Sub, Pow, Sqrt and Div as LayerNormalization"
    types = frozenset({"ReduceMean", "Sub", "Pow", "Sqrt", "Div", "Add", "Mul"})
    least_opset = 17

    def pattern(self, op: Any, x: Any, two: Any, epsilon: Any, scale: Any, bias: Any) -> Any:
        centred = op.Sub(x, op.ReduceMean(x, _allow_other_inputs=True, _outputs=["mean"]))
        variance = op.ReduceMean(
            op.Pow(centred, two), _allow_other_inputs=True, _outputs=["variance"]
        )
        spread = op.Sqrt(op.Add(variance, epsilon))
        return op.Add(op.Mul(op.Div(centred, spread), scale), bias)

    def check(self, context: MatchContext, **values: Any) -> bool:  # type: ignore[override]  # onnxscript calls it so
        two, epsilon = known(values.get("two")), known(values.get("epsilon"))
        shape = self.facts.shapes.get(values["x"].name or "", ())
        return (
            super().check(context)
            and len(shape) > 0
            and two is not None
            and (two == 2).all()
            and epsilon is not None
            and epsilon.size == 1
            and all(self.shape(values[name]) == shape[-1:] for name in ("scale", "bias"))
            and all(_is_of_last_axis(values[name], len(shape)) for name in ("mean", "variance"))
        )

    def rewrite(
        self, op: Any, x: ir.Value, epsilon: ir.Value, scale: ir.Value, bias: ir.Value, **_: Any
    ) -> Any:
        least = known(epsilon)
        if least is None:
            return None
        return op.LayerNormalization(x, scale, bias, axis=-1, epsilon=float(least.item()))


def _is_of_last_axis(value: ir.Value, rank: int) -> bool:
    """Whether a mean is that of the last axis, which it keeps."""
    node = value.producer()
    return node is not None and _axes(node, rank) == [rank - 1]


def _axes(mean: ir.Node, rank: int) -> list[int]:
    """The axes of a mean that keeps them, in order; none where they are not known."""
    if mean.attributes.get_int("keepdims", 1) != 1:
        return []
    axes = mean.attributes.get_ints("axes", ())
    if len(mean.inputs) > 1 and (numbers := known(mean.inputs[1])) is not None:
        axes = numbers.reshape(-1).tolist()
    return sorted(axis % rank for axis in axes)


class MeanAsPool(Idea):
    """The mean over all axes behind the channels, which stay as axes of 1."""

    title = "ReduceMean as GlobalAveragePool"
    types = frozenset({"ReduceMean"})

    def pattern(self, op: Any, x: Any) -> Any:
        return op.ReduceMean(x, _allow_other_inputs=True)

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        shape = None if x is None else self.facts.shapes.get(x.name or "")
        if x is None or shape is None or len(shape) < 3 or not self.is_float(x):
            return False
        return _axes(root, len(shape)) == list(range(2, len(shape)))

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        return op.GlobalAveragePool(x)


class PoolAsMean(UnaryIdea):
    """The same backwards."""

    title = "GlobalAveragePool as ReduceMean"
    types = frozenset({"GlobalAveragePool"})

    def fits(self, root: ir.Node, x: ir.Value | None = None, **values: Any) -> bool:
        return x is not None and self.facts.shapes.get(x.name or "") is not None

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        return self.reduce_mean(op, x, range(2, len(self.facts.shapes[x.name or ""])))
