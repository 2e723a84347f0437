"""Where kernels of ONNX Runtime's CPU provider write: what its own planner of memory knows of them.

In ONNX Runtime's registrations this is ``MayInplace`` and ``Alias``; no interface tells, so `tests/execution/test_buffers.py`
tries what is listed here on the installed version. Whatever is not listed may do anything: write over an operand, or pass on
its memory as its result.
"""

from __future__ import annotations

_SUM = 3
"""Position of the input that ONNX Runtime's fused convolutions add to; the standard's ``Conv`` has none there."""
WRITES_OVER = {
    **dict.fromkeys(("Conv", "FusedConv"), (_SUM,)),
    **dict.fromkeys(("Abs", "Clip", "Elu", "Erf", "Exp", "HardSigmoid", "LeakyRelu", "Log", "Neg", "Reciprocal", "Relu",
                     "Sigmoid", "Softplus", "Sqrt", "Tanh"), (0,)),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), (0, 1)),
}
"""Kernels that may write over an operand, and its possible positions."""
PASSES_ON = frozenset(("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"))
"""Kernels that pass their first operand on as their result; where they have to lie apart, they copy."""
WRITES_ELSEWHERE = frozenset((
    "AveragePool", "BiasGelu", "Cast", "Concat", "ConvTranspose", "Equal", "Expand", "FusedGemm", "FusedMatMul", "Gather",
    "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "IsNaN", "LayerNormalization", "MatMul", "MaxPool", "Pad", "Pow",
    "QuickGelu", "ReduceMax", "ReduceMean", "ReduceSum", "ReorderInput", "ReorderOutput", "Resize", "RotaryEmbedding",
    "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "Slice", "Softmax", "Split",
    "Transpose", "Upsample", "Where"))
"""Kernels that always write elsewhere, or can do without writing over an operand."""


def operands_in_place(kind: str) -> tuple[int, ...]:
    """Positions of operands whose memory the result may have."""
    return (0,) if kind in PASSES_ON else WRITES_OVER.get(kind, ())


def is_known(kind: str) -> bool:
    """Whether it is known where a kernel writes."""
    return kind in WRITES_ELSEWHERE or kind in WRITES_OVER or kind in PASSES_ON


def may_pass_on(kind: str) -> bool:
    """Whether an operand may live on in the result as it is."""
    return kind in PASSES_ON or not is_known(kind)
