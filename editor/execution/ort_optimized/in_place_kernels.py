"""In-place behaviour of the kernels of ONNX Runtime's CPU provider.

ONNX Runtime registers it as ``MayInplace`` and ``Alias`` but has no interface to query it, so
`tests/execution/test_buffers.py` checks this list against the installed version. An unlisted kernel may
overwrite an operand or return its memory as the result.
"""

from __future__ import annotations

_SUM = 3
"""Position of the input that ONNX Runtime's fused convolutions add; the standard ``Conv`` does not have it."""
OVERWRITES = {
    **dict.fromkeys(("Conv", "FusedConv"), (_SUM,)),
    **dict.fromkeys(("Abs", "Clip", "Elu", "Erf", "Exp", "HardSigmoid", "LeakyRelu", "Log", "Neg", "Reciprocal", "Relu",
                     "Sigmoid", "Softplus", "Sqrt", "Tanh"), (0,)),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), (0, 1)),
}
"""Kernels that may overwrite an operand -> its possible positions."""
ALIASES = frozenset(("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"))
"""Kernels that return the memory of their first operand as the result; with separate buffers, they copy."""
NEVER_IN_PLACE = frozenset((
    "AveragePool", "BiasGelu", "Cast", "Concat", "ConvTranspose", "Equal", "Expand", "FusedGemm", "FusedMatMul", "Gather",
    "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "IsNaN", "LayerNormalization", "MatMul", "MaxPool", "Pad", "Pow",
    "QuickGelu", "ReduceMax", "ReduceMean", "ReduceSum", "ReorderInput", "ReorderOutput", "Resize", "RotaryEmbedding",
    "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "Slice", "Softmax", "Split",
    "Transpose", "Upsample", "Where"))
"""Kernels that never need to overwrite an operand."""


def in_place_operands(kind: str) -> tuple[int, ...]:
    """Positions of operands with which the result may share memory."""
    return (0,) if kind in ALIASES else OVERWRITES.get(kind, ())


def is_known(kind: str) -> bool:
    """Whether the in-place behaviour of a kernel is known."""
    return kind in NEVER_IN_PLACE or kind in OVERWRITES or kind in ALIASES


def may_alias(kind: str) -> bool:
    """Whether the result may be the memory of an operand, unchanged."""
    return kind in ALIASES or not is_known(kind)
