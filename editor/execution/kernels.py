"""Where kernels of ONNX Runtime's CPU provider write: what its own planner of memory knows of them.

From the kernels' registrations (``MayInplace`` and ``Alias`` in onnxruntime/core/providers/cpu). Whatever is not listed
may do anything: write over an operand, or pass on its memory as its result.
"""

from __future__ import annotations

_SUM = 3
"""Position of the input that ONNX Runtime's fused convolutions add to; the standard's ``Conv`` has none there."""
WRITES_OVER = {
    **dict.fromkeys(("Conv", "FusedConv"), (_SUM,)),
    **dict.fromkeys(("Abs", "Clip", "Elu", "Erf", "Exp", "HardSigmoid", "LeakyRelu", "Log", "Neg", "Reciprocal", "Relu",
                     "Sigmoid", "Softplus", "Sqrt", "Tanh"), (0,)),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), (0, 1)),
    **dict.fromkeys(("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"), (0,)),  # they copy, where the memory differs
}
"""Kernels that may write over an operand, and its possible positions."""
WRITES_ELSEWHERE = frozenset((
    "AveragePool", "BiasGelu", "Cast", "Concat", "ConvTranspose", "Equal", "Expand", "FusedGemm", "FusedMatMul", "Gather",
    "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "IsNaN", "LayerNormalization", "MatMul", "MaxPool", "Pad", "Pow",
    "QuickGelu", "ReduceMax", "ReduceMean", "ReduceSum", "ReorderInput", "ReorderOutput", "Resize", "RotaryEmbedding",
    "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "Slice", "Softmax", "Split",
    "Transpose", "Upsample", "Where"))
"""Kernels that always write elsewhere, or can do without writing over an operand."""
