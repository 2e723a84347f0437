"""Writes a small int8 model of TensorFlow Lite, by the classes of its format that Vela brings: no TensorFlow is needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ethosu.vela.tflite import (
    AddOptions,
    Buffer,
    Conv2DOptions,
    Model,
    Operator,
    OperatorCode,
    Pool2DOptions,
    QuantizationParameters,
    SubGraph,
    Tensor,
)
from ethosu.vela.tflite.BuiltinOperator import BuiltinOperator
from ethosu.vela.tflite.BuiltinOptions import BuiltinOptions
from ethosu.vela.tflite.TensorType import TensorType

_SHAPE = (1, 16, 16, 8)
_VERSION = 3
_CODES = {
    BuiltinOperator.CONV_2D: 3,
    BuiltinOperator.SQRT: 1,
    BuiltinOperator.ADD: 2,
    BuiltinOperator.MAX_POOL_2D: 2,
}
"""Operators and their versions, in the order of the model"""


def _vector(builder: Any, start: Callable[[Any, int], Any], items: list[int], add: str) -> int:
    start(builder, len(items))
    for item in reversed(items):
        getattr(builder, add)(item)
    return int(builder.EndVector())


def write_int8_net(path: Path) -> Path:
    """Conv, its Sqrt, which Vela leaves to the CPU, the sum of both, and MaxPool; two and two tensors have the same range."""
    builder = flatbuffers.Builder(4096)
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (8, 3, 3, 8), np.int8)
    bias = np.zeros(8, np.int32)
    contents = [b"", weights.tobytes(), bias.tobytes()]
    buffers = []
    for content in contents:
        data = builder.CreateByteVector(content) if content else None
        Buffer.BufferStart(builder)
        if data is not None:
            Buffer.BufferAddData(builder, data)
        buffers.append(Buffer.BufferEnd(builder))

    def tensor(name: str, shape: tuple[int, ...], kind: int, buffer: int, scale: float) -> int:
        text = builder.CreateString(name)
        sizes = _vector(builder, Tensor.TensorStartShapeVector, list(shape), "PrependInt32")
        QuantizationParameters.QuantizationParametersStartScaleVector(builder, 1)
        builder.PrependFloat32(scale)
        scales = builder.EndVector()
        QuantizationParameters.QuantizationParametersStartZeroPointVector(builder, 1)
        builder.PrependInt64(0)
        points = builder.EndVector()
        QuantizationParameters.QuantizationParametersStart(builder)
        QuantizationParameters.QuantizationParametersAddScale(builder, scales)
        QuantizationParameters.QuantizationParametersAddZeroPoint(builder, points)
        quantization = QuantizationParameters.QuantizationParametersEnd(builder)
        Tensor.TensorStart(builder)
        Tensor.TensorAddShape(builder, sizes)
        Tensor.TensorAddType(builder, kind)
        Tensor.TensorAddBuffer(builder, buffer)
        Tensor.TensorAddName(builder, text)
        Tensor.TensorAddQuantization(builder, quantization)
        return int(Tensor.TensorEnd(builder))

    half = (1, 8, 8, 8)
    tensors = [
        tensor("image", _SHAPE, TensorType.INT8, 0, 0.02),
        tensor("weights", (8, 3, 3, 8), TensorType.INT8, 1, 0.01),
        tensor("bias", (8,), TensorType.INT32, 2, 0.0002),
        tensor("net/conv", _SHAPE, TensorType.INT8, 0, 0.1),
        tensor("net/sqrt", _SHAPE, TensorType.INT8, 0, 0.1),
        tensor("net/sum", _SHAPE, TensorType.INT8, 0, 0.2),
        tensor("net/pool", half, TensorType.INT8, 0, 0.2),
    ]
    Conv2DOptions.Conv2DOptionsStart(builder)
    Conv2DOptions.Conv2DOptionsAddStrideH(builder, 1)
    Conv2DOptions.Conv2DOptionsAddStrideW(builder, 1)
    conv = Conv2DOptions.Conv2DOptionsEnd(builder)
    Pool2DOptions.Pool2DOptionsStart(builder)
    for add in ("StrideH", "StrideW", "FilterHeight", "FilterWidth"):
        getattr(Pool2DOptions, f"Pool2DOptionsAdd{add}")(builder, 2)
    pool = Pool2DOptions.Pool2DOptionsEnd(builder)
    AddOptions.AddOptionsStart(builder)
    total = AddOptions.AddOptionsEnd(builder)

    def operator(code: int, inputs: list[int], output: int, kind: int = 0, options: int = 0) -> int:
        reads = _vector(builder, Operator.OperatorStartInputsVector, inputs, "PrependInt32")
        makes = _vector(builder, Operator.OperatorStartOutputsVector, [output], "PrependInt32")
        Operator.OperatorStart(builder)
        Operator.OperatorAddOpcodeIndex(builder, code)
        Operator.OperatorAddInputs(builder, reads)
        Operator.OperatorAddOutputs(builder, makes)
        if options:
            Operator.OperatorAddBuiltinOptionsType(builder, kind)
            Operator.OperatorAddBuiltinOptions(builder, options)
        return int(Operator.OperatorEnd(builder))

    operators = [
        operator(0, [0, 1, 2], 3, BuiltinOptions.Conv2DOptions, conv),
        operator(1, [3], 4),
        operator(2, [3, 4], 5, BuiltinOptions.AddOptions, total),
        operator(3, [5], 6, BuiltinOptions.Pool2DOptions, pool),
    ]
    name = builder.CreateString("main")
    offset = "PrependUOffsetTRelative"
    parts = [
        _vector(builder, SubGraph.SubGraphStartTensorsVector, tensors, offset),
        _vector(builder, SubGraph.SubGraphStartInputsVector, [0], "PrependInt32"),
        _vector(builder, SubGraph.SubGraphStartOutputsVector, [6], "PrependInt32"),
        _vector(builder, SubGraph.SubGraphStartOperatorsVector, operators, offset),
    ]
    SubGraph.SubGraphStart(builder)
    for add, part in zip(("Tensors", "Inputs", "Outputs", "Operators"), parts, strict=True):
        getattr(SubGraph, f"SubGraphAdd{add}")(builder, part)
    SubGraph.SubGraphAddName(builder, name)
    graph = SubGraph.SubGraphEnd(builder)
    codes = []
    for code, version in _CODES.items():
        OperatorCode.OperatorCodeStart(builder)
        OperatorCode.OperatorCodeAddDeprecatedBuiltinCode(builder, code)
        OperatorCode.OperatorCodeAddBuiltinCode(builder, code)
        OperatorCode.OperatorCodeAddVersion(builder, version)
        codes.append(OperatorCode.OperatorCodeEnd(builder))
    graphs = _vector(builder, Model.ModelStartSubgraphsVector, [graph], offset)
    kinds = _vector(builder, Model.ModelStartOperatorCodesVector, codes, offset)
    held = _vector(builder, Model.ModelStartBuffersVector, buffers, offset)
    Model.ModelStart(builder)
    Model.ModelAddVersion(builder, _VERSION)
    Model.ModelAddOperatorCodes(builder, kinds)
    Model.ModelAddSubgraphs(builder, graphs)
    Model.ModelAddBuffers(builder, held)
    builder.Finish(Model.ModelEnd(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path
