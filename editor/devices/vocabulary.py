"""Op names of other tools, resolved to ONNX op types.

Device tables may name ops as ONNX does (``Resize``), as Glow's node kinds do (``ResizeBilinear``) or
as TVM's Relay does (``nn.conv2d``). Each name is a set of ONNX op types, some with a condition on an
attribute. Sources: Glow ``lib/Importer/ONNXModelLoader.cpp`` node kinds, TVM ``relay.frontend.onnx``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import onnx.defs

from editor.graph.graph import Attributes, Graph

Condition = Callable[[str, Attributes], bool]
"""(op type, attributes) -> whether the name applies"""


@dataclass(frozen=True)
class OpName:
    """The meaning of a name: ONNX op types and a condition on the attributes."""

    types: frozenset[str]
    condition: Condition | None = None

    def matches(self, graph: Graph, op: int) -> bool:
        """Whether the name applies to an op of the graph."""
        op_type = graph.op_types[op]
        return op_type in self.types and (
            self.condition is None or self.condition(op_type, graph.op_attributes[op])
        )


def _attribute(attributes: Attributes, name: str, default: str) -> str:
    return next((text for key, text in attributes if key == name), default)


def _bilinear(op_type: str, attributes: Attributes) -> bool:
    """Resize and Upsample in linear mode; a local function may have Glow's name."""
    return op_type == "ResizeBilinear" or _attribute(attributes, "mode", "nearest") in (
        "linear",
        "bilinear",
    )


def _nearest(op_type: str, attributes: Attributes) -> bool:
    return op_type == "ResizeNearest" or _attribute(attributes, "mode", "nearest") == "nearest"


def _volumetric(op_type: str, attributes: Attributes) -> bool:
    return _attribute(attributes, "kernel_shape", "").count(",") == 2


def _planar(op_type: str, attributes: Attributes) -> bool:
    return not _volumetric(op_type, attributes)


def _name(*types: str, when: Condition | None = None) -> OpName:
    return OpName(frozenset(types), when)


_GLOW = {
    "ResizeBilinear": _name("Resize", "Upsample", "ResizeBilinear", when=_bilinear),
    "ResizeNearest": _name("Resize", "Upsample", "ResizeNearest", when=_nearest),
    "AvgPool": _name("AveragePool", "GlobalAveragePool"),
    "AdaptiveAvgPool": _name("GlobalAveragePool"),
    "FullyConnected": _name("Gemm"),
    "Convolution": _name("Conv", when=_planar),
    "Convolution3D": _name("Conv", when=_volumetric),
    "ChannelwiseQuantizedConvolution": _name("QLinearConv", "ConvInteger"),
    "BatchMatMul": _name("MatMul"),
    "BatchedAdd": _name("Add"),
    "BatchedReduceAdd": _name("ReduceSum"),
    "BatchedReduceMean": _name("ReduceMean"),
    "BatchedReduceMin": _name("ReduceMin"),
    "BatchedReduceMax": _name("ReduceMax"),
    "SoftMax": _name("Softmax"),
    "Logit": _name("Logit"),
    "LocalResponseNormalization": _name("LRN"),
    "BatchNormalization": _name("BatchNormalization"),
    "LayerNormalization": _name("LayerNormalization"),
    "Splat": _name("ConstantOfShape"),
    "InsertTensor": _name("ScatterND"),
    "Rescale": _name("Rescale"),
    "Quantize": _name("QuantizeLinear"),
    "Dequantize": _name("DequantizeLinear"),
    "ConvertTo": _name("Cast"),
    "ChannelShuffle": _name("ChannelShuffle"),
    "SpaceToDepth": _name("SpaceToDepth"),
    "CmpEQ": _name("Equal"),
    "CmpLT": _name("Less"),
    "CmpLTE": _name("LessOrEqual"),
    "CmpNEQ": _name("NotEqual"),
    "Select": _name("Where"),
    "PRelu": _name("PRelu"),
    "LeakyRelu": _name("LeakyRelu"),
    "Swish": _name("Swish"),
    "Gelu": _name("Gelu"),
    "ArgMax": _name("ArgMax"),
    "ArgMin": _name("ArgMin"),
    "TopK": _name("TopK"),
    "Log": _name("Log"),
    "SparseLengthsSum": _name("SparseLengthsSum"),
    "RoiAlign": _name("RoiAlign"),
    "NMS": _name("NonMaxSuppression"),
    "NonMaxSuppression": _name("NonMaxSuppression"),
    "ROIAlign": _name("RoiAlign"),
    "LSTMUnit": _name("LSTM"),
    "ScatterData": _name("ScatterND"),
    "GatherRanges": _name("GatherRanges"),
    "MaxPool": _name("MaxPool"),
}

_RELAY = {
    "nn.conv1d": _name("Conv"),
    "nn.conv2d": _name("Conv", when=_planar),
    "nn.conv3d": _name("Conv", when=_volumetric),
    "nn.conv2d_transpose": _name("ConvTranspose"),
    "nn.dense": _name("Gemm", "MatMul"),
    "nn.batch_matmul": _name("MatMul"),
    "nn.matmul": _name("MatMul", "Gemm"),
    "nn.bias_add": _name("Add"),
    "nn.relu": _name("Relu"),
    "nn.leaky_relu": _name("LeakyRelu"),
    "nn.prelu": _name("PRelu"),
    "nn.softmax": _name("Softmax"),
    "nn.log_softmax": _name("LogSoftmax"),
    "nn.max_pool2d": _name("MaxPool"),
    "nn.avg_pool2d": _name("AveragePool"),
    "nn.global_avg_pool2d": _name("GlobalAveragePool"),
    "nn.global_max_pool2d": _name("GlobalMaxPool"),
    "nn.adaptive_avg_pool2d": _name("GlobalAveragePool"),
    "nn.batch_norm": _name("BatchNormalization"),
    "nn.layer_norm": _name("LayerNormalization"),
    "nn.instance_norm": _name("InstanceNormalization"),
    "nn.group_norm": _name("GroupNormalization"),
    "nn.lrn": _name("LRN"),
    "nn.dropout": _name("Dropout"),
    "nn.pad": _name("Pad"),
    "nn.batch_flatten": _name("Flatten"),
    "nn.upsampling": _name("Resize", "Upsample"),
    "nn.depth_to_space": _name("DepthToSpace"),
    "nn.space_to_depth": _name("SpaceToDepth"),
    "image.resize2d": _name("Resize", "Upsample"),
    "add": _name("Add"),
    "subtract": _name("Sub"),
    "multiply": _name("Mul"),
    "divide": _name("Div"),
    "power": _name("Pow"),
    "exp": _name("Exp"),
    "log": _name("Log"),
    "sqrt": _name("Sqrt"),
    "rsqrt": _name("Reciprocal"),
    "tanh": _name("Tanh"),
    "sigmoid": _name("Sigmoid"),
    "erf": _name("Erf"),
    "clip": _name("Clip"),
    "cast": _name("Cast"),
    "reshape": _name("Reshape", "Flatten"),
    "transpose": _name("Transpose"),
    "concatenate": _name("Concat"),
    "split": _name("Split"),
    "strided_slice": _name("Slice"),
    "squeeze": _name("Squeeze"),
    "expand_dims": _name("Unsqueeze"),
    "take": _name("Gather"),
    "gather_nd": _name("GatherND"),
    "scatter_nd": _name("ScatterND"),
    "scatter_elements": _name("ScatterElements"),
    "where": _name("Where"),
    "mean": _name("ReduceMean"),
    "sum": _name("ReduceSum"),
    "max": _name("ReduceMax"),
    "min": _name("ReduceMin"),
    "argmax": _name("ArgMax"),
    "argmin": _name("ArgMin"),
    "maximum": _name("Max"),
    "minimum": _name("Min"),
    "equal": _name("Equal"),
    "less": _name("Less"),
    "greater": _name("Greater"),
    "logical_and": _name("And"),
    "logical_or": _name("Or"),
    "logical_not": _name("Not"),
    "broadcast_to": _name("Expand"),
    "tile": _name("Tile"),
    "topk": _name("TopK"),
    "shape_of": _name("Shape"),
    "one_hot": _name("OneHot"),
    "cumsum": _name("CumSum"),
    "negative": _name("Neg"),
    "abs": _name("Abs"),
    "floor": _name("Floor"),
    "ceil": _name("Ceil"),
    "round": _name("Round"),
    "qnn.quantize": _name("QuantizeLinear"),
    "qnn.dequantize": _name("DequantizeLinear"),
    "qnn.conv2d": _name("QLinearConv", "ConvInteger"),
    "qnn.dense": _name("QLinearMatMul", "MatMulInteger"),
}


@cache
def _onnx_types() -> dict[str, OpName]:
    return {s.name: _name(s.name) for s in onnx.defs.get_all_schemas()}


def onnx_op_types() -> list[str]:
    """Names of the ops of ONNX, in order."""
    return sorted(_onnx_types())


@cache
def _folded() -> dict[str, OpName]:
    """Lower-case name -> meaning; ONNX overrides Glow, and Glow overrides Relay."""
    return {
        name.lower(): meaning
        for table in (_RELAY, _GLOW, _onnx_types())
        for name, meaning in table.items()
    }


def op_name(name: str, extra_types: frozenset[str] = frozenset()) -> OpName | None:
    """The meaning of a name in a device table; None when it is unknown.

    Exact names of ONNX op types, Glow and Relay are looked up in this order, then all of them
    case-insensitively. ``extra_types`` are op types of the model (custom domains, local functions).
    """
    for table in (_onnx_types(), _GLOW, _RELAY):
        if name in table:
            return table[name]
    if name in extra_types:
        return _name(name)
    return _folded().get(name.lower())
