"""What OpenVINO's layers mean: the ONNX ops that they are, and their attributes.

Rules, filters, presets and estimates know ONNX's ops. Operation sets: https://docs.openvino.ai, "Available operation sets".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from onnx import AttributeProto, helper

DOMAIN = "openvino"
SOURCE, WEIGHTS_FOLDER = "hetero_editor.source", "hetero_editor.weights_folder"
"""Keys of a model's metadata, which only the reader of files writes: the format of a file that was converted, and where the
result is."""

_SAME_NAME = re.split(
    r"\s+",
    """Abs Acos Acosh Asin Asinh Atan Atanh BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Concat Cos Cosh CumSum DepthToSpace
Einsum Elu Equal Erf Exp Floor Gather GatherElements GatherND Gelu Greater GridSample GroupNormalization HardSigmoid
Identity If IsInf IsNaN Less Log LogSoftmax Loop LRN MatMul MaxPool Mish Mod Multinomial NonMaxSuppression NonZero OneHot Pad
RandomUniform Range ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Reshape ReverseSequence Round
Selu Sigmoid Sign Sin Sinh Slice SpaceToDepth Split Sqrt Squeeze Swish Tan Tanh Tile TopK Transpose Unique Unsqueeze""",
)
_ONNX_TYPES = {name: name for name in _SAME_NAME} | {
    "AvgPool": "AveragePool",
    "BatchNormInference": "BatchNormalization",
    "Broadcast": "Expand",
    "Ceiling": "Ceil",
    "Clamp": "Clip",
    "Convert": "Cast",
    "ConvertLike": "CastLike",
    "Convolution": "Conv",
    "ConvolutionBackpropData": "ConvTranspose",
    "DeformableConvolution": "DeformConv",
    "Divide": "Div",
    "Eye": "EyeLike",
    "FloorMod": "Mod",
    "GreaterEqual": "GreaterOrEqual",
    "GroupConvolution": "Conv",
    "GroupConvolutionBackpropData": "ConvTranspose",
    "GRUCell": "GRU",
    "GRUSequence": "GRU",
    "HSigmoid": "HardSigmoid",
    "HSwish": "HardSwish",
    "Interpolate": "Resize",
    "LessEqual": "LessOrEqual",
    "LogicalAnd": "And",
    "LogicalNot": "Not",
    "LogicalOr": "Or",
    "LogicalXor": "Xor",
    "LSTMCell": "LSTM",
    "LSTMSequence": "LSTM",
    "Maximum": "Max",
    "Minimum": "Min",
    "Multiply": "Mul",
    "MVN": "MeanVarianceNormalization",
    "Negative": "Neg",
    "NormalizeL2": "LpNormalization",
    "Power": "Pow",
    "PReLU": "PRelu",
    "ReLU": "Relu",
    "RMS": "RMSNormalization",
    "RNNCell": "RNN",
    "RNNSequence": "RNN",
    "ROIAlign": "RoiAlign",
    "ROIPooling": "MaxRoiPool",
    "ScaledDotProductAttention": "Attention",
    "ScatterElementsUpdate": "ScatterElements",
    "ScatterNDUpdate": "ScatterND",
    "ScatterUpdate": "ScatterElements",
    "Select": "Where",
    "ShapeOf": "Shape",
    "SoftMax": "Softmax",
    "Softmax": "Softmax",
    "SoftPlus": "Softplus",
    "SoftSign": "Softsign",
    "StridedSlice": "Slice",
    "Subtract": "Sub",
    "TensorIterator": "Loop",
    "VariadicSplit": "Split",
}
_LISTS = frozenset(
    {"dilations", "kernel", "kernel_shape", "output_padding", "pads_begin", "pads_end", "strides"}
)
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def onnx_type(layer_type: str) -> str:
    """The ONNX op that does what a layer does; "" where there is none."""
    return _ONNX_TYPES.get(layer_type, "")


def attribute(name: str, text: str) -> AttributeProto:
    """An attribute of a layer, which is text, as what it means: a number, a list of numbers, or a word."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if all(_INTEGER.fullmatch(part) for part in parts) and (len(parts) > 1 or name in _LISTS):
        return helper.make_attribute(
            name, [int(part) for part in parts], attr_type=AttributeProto.INTS
        )
    if _INTEGER.fullmatch(text):
        return helper.make_attribute(name, int(text))
    if _NUMBER.fullmatch(text):
        return helper.make_attribute(name, float(text))
    return helper.make_attribute(name, text)


def added_attributes(
    layer_type: str, data: Mapping[str, str], shapes: Sequence[Sequence[int]]
) -> Iterator[AttributeProto]:
    """Attributes that ONNX has and OpenVINO calls by another name, or shows in a shape.

    Args:
        layer_type: of the layer.
        data: its attributes.
        shapes: of its inputs.
    """
    if "kernel" in data:
        yield attribute("kernel_shape", data["kernel"])
    if "pads_begin" in data and "pads_end" in data:
        pads = [*data["pads_begin"].split(","), *data["pads_end"].split(",")]
        if all(_INTEGER.fullmatch(pad.strip()) for pad in pads):
            yield helper.make_attribute("pads", [int(pad) for pad in pads])
    for mine, theirs in (("transpose_a", "transA"), ("transpose_b", "transB")):
        if mine in data:
            yield helper.make_attribute(theirs, int(data[mine].strip().lower() == "true"))
    if layer_type.startswith("Group") and "Convolution" in layer_type and len(shapes) > 1:
        yield helper.make_attribute("group", shapes[1][0] if shapes[1] else 1)
