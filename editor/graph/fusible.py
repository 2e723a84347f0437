"""Types of ops that runtimes compute within the op beside them."""

from __future__ import annotations

FUSIBLE_TYPES = frozenset({
    "Relu", "LeakyRelu", "PRelu", "Clip", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Elu", "Selu", "Gelu", "Mish", "Swish",
    "Softplus", "Softsign", "Erf", "Exp", "Log", "Sqrt", "Pow", "Neg", "Abs", "Reciprocal", "Floor", "Ceil", "Round",
    "Add", "Sub", "Mul", "Div", "Sum", "Min", "Max", "Where", "BatchNormalization", "Pad", "Dropout", "Identity", "Cast",
    "CastLike", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "QuantizeLinear", "DequantizeLinear", "ReduceMean",
})
"""Element-wise ops, and ops that only describe or move data."""

RENAMING_TYPES = frozenset({"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout"})
"""Ops whose result is what they read, with another name or shape."""
OVERWRITING_TYPES = FUSIBLE_TYPES - RENAMING_TYPES - {"Transpose", "Pad", "ReduceMean"}
"""Ops that runtimes compute in the memory of what they read, where it has the right size and nothing reads it later."""
