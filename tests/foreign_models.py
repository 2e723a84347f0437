"""A frozen graph of TensorFlow and a program of PaddlePaddle, written as their protobuf messages say, without either."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Field = tuple[int, "int | float | str | bytes | list[Field]"]
"""A number of a field and its value; a list is a message."""


def message(fields: Iterable[Any]) -> bytes:
    """A protobuf message in wire format; floats are of 32 bits."""
    data = b""
    for number, value in fields:
        if isinstance(value, float):
            data += _varint(number << 3 | 5) + struct.pack("<f", value)
        elif isinstance(value, int):
            data += _varint(number << 3) + _varint(value % (1 << 64))
        else:
            text = value.encode() if isinstance(value, str) else value
            content = text if isinstance(text, bytes) else message(text)
            data += _varint(number << 3 | 2) + _varint(len(content)) + content
    return data


def _varint(value: int) -> bytes:
    data = b""
    while value >= 128:
        data += bytes([value % 128 + 128])
        value //= 128
    return data + bytes([value])


FLOAT, INT32 = 1, 3
"""TensorFlow's ``DataType``."""


def _shape(dims: Iterable[int]) -> list[Any]:
    return [(2, [(1, dim)]) for dim in dims]


def _node(name: str, op: str, inputs: Iterable[str] = (), **attributes: list[Any]) -> list[Any]:
    """A ``NodeDef``; an attribute is the one field of its ``AttrValue``."""
    attrs = [(5, [(1, key), (2, value)]) for key, value in attributes.items()]
    return [(1, name), (2, op), *((3, each) for each in inputs), *attrs]


def _const(name: str, value: Any) -> list[Any]:
    kind = FLOAT if value.dtype == np.float32 else INT32
    tensor = [(1, kind), (2, _shape(value.shape)), (4, value.tobytes())]
    return _node(name, "Const", dtype=[(6, kind)], value=[(8, tensor)])


def weights() -> dict[str, Any]:
    """Of both models."""
    random = np.random.default_rng(0)
    shapes = {"filter": (3, 3, 2, 4), "bias": (4,), "matrix": (4, 5)}
    return {n: random.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def frozen_graph(path: Path, size: int = 6) -> Path:
    """images [?, size, size, 2] -> convolution, bias, Relu, mean -> matrix -> Softmax "probs"."""
    kind, one = [(6, FLOAT)], [(1, [(3, message_of_ints([1, 1, 1, 1]))])]
    given = weights()
    nodes = [
        _node("images", "Placeholder", dtype=kind, shape=[(7, _shape([-1, size, size, 2]))]),
        _const("features/conv/kernel", given["filter"]),
        _node(
            "features/conv/Conv2D",
            "Conv2D",
            ["images", "features/conv/kernel"],
            T=kind,
            strides=one,
            dilations=one,
            padding=[(2, "SAME")],
            data_format=[(2, "NHWC")],
        ),
        _const("features/conv/bias", given["bias"]),
        _node(
            "features/conv/BiasAdd",
            "BiasAdd",
            ["features/conv/Conv2D", "features/conv/bias"],
            T=kind,
            data_format=[(2, "NHWC")],
        ),
        _node("features/Relu", "Relu", ["features/conv/BiasAdd"], T=kind),
        _const("head/axes", np.array([1, 2], np.int32)),
        _node(
            "head/Mean",
            "Mean",
            ["features/Relu", "head/axes"],
            T=kind,
            Tidx=[(6, INT32)],
            keep_dims=[(5, 0)],
        ),
        _const("head/matrix", given["matrix"]),
        _node(
            "head/MatMul",
            "MatMul",
            ["head/Mean", "head/matrix"],
            T=kind,
            transpose_a=[(5, 0)],
            transpose_b=[(5, 0)],
        ),
        _node("probs", "Softmax", ["head/MatMul"], T=kind),
    ]
    path.write_bytes(message([*((1, node) for node in nodes), (4, [(1, 1000)])]))
    return path


def message_of_ints(values: Iterable[int]) -> bytes:
    """Packed."""
    return b"".join(map(_varint, values))


FP32, DENSE, FEED, FETCH = 5, 7, 9, 10
"""Paddle's ``VarType.Type``."""


def _tensor(dims: Iterable[int]) -> list[Any]:
    """A ``TensorDesc``."""
    return [(1, FP32), *((2, dim) for dim in dims)]


def _variable(name: str, dims: Iterable[int], stored: bool = False) -> list[Any]:
    return [(1, name), (2, [(1, DENSE), (3, [(1, _tensor(dims))])]), (3, int(stored))]


def _op(
    kind: str,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    **attributes: bool | int | float | str | list[int],
) -> list[Any]:
    """An ``OpDesc``."""
    fields: list[Any] = [(1, [(1, key), (2, name)]) for key, name in inputs.items()]
    fields += [(2, [(1, key), (2, name)]) for key, name in outputs.items()]
    fields.append((3, kind))
    for name, value in attributes.items():
        if isinstance(value, bool):
            said: list[Any] = [(2, 6), (10, int(value))]
        elif isinstance(value, int):
            said = [(2, 0), (3, value)]
        elif isinstance(value, float):
            said = [(2, 1), (4, value)]
        elif isinstance(value, str):
            said = [(2, 2), (5, value)]
        else:
            said = [(2, 3), *((6, number) for number in value)]
        fields.append((4, [(1, name), *said]))
    return fields


def paddle_program(path: Path, size: int = 6) -> Path:
    """The same network, with channels first, as ``.pdmodel`` and ``.pdiparams``."""
    given = weights()
    stored = {
        "conv.w": given["filter"].transpose(3, 2, 0, 1).copy(),
        "conv.b": given["bias"],
        "head.w": given["matrix"],
    }
    variables = [_variable(name, value.shape, True) for name, value in stored.items()]
    shapes = {
        "images": [-1, 2, size, size],
        "conv.out": [-1, 4, size, size],
        "bias.out": [-1, 4, size, size],
        "relu.out": [-1, 4, size, size],
        "mean.out": [-1, 4],
        "product": [-1, 5],
        "probs": [-1, 5],
    }
    variables += [_variable(name, dims) for name, dims in shapes.items()]
    variables += [
        [(1, "feed"), (2, [(1, FEED)]), (3, 1)],
        [(1, "fetch"), (2, [(1, FETCH)]), (3, 1)],
    ]
    ops = [
        _op("feed", {"X": "feed"}, {"Out": "images"}, col=0),
        _op(
            "conv2d",
            {"Input": "images", "Filter": "conv.w"},
            {"Output": "conv.out"},
            strides=[1, 1],
            paddings=[1, 1],
            dilations=[1, 1],
            groups=1,
            padding_algorithm="EXPLICIT",
            data_format="NCHW",
        ),
        _op("elementwise_add", {"X": "conv.out", "Y": "conv.b"}, {"Out": "bias.out"}, axis=1),
        _op("relu", {"X": "bias.out"}, {"Out": "relu.out"}),
        _op(
            "reduce_mean",
            {"X": "relu.out"},
            {"Out": "mean.out"},
            dim=[2, 3],
            keep_dim=False,
            reduce_all=False,
        ),
        _op(
            "matmul_v2",
            {"X": "mean.out", "Y": "head.w"},
            {"Out": "product"},
            trans_x=False,
            trans_y=False,
        ),
        _op("softmax", {"X": "product"}, {"Out": "probs"}, axis=-1),
        _op("fetch", {"X": "probs"}, {"Out": "fetch"}, col=0),
    ]
    block = [(1, 0), (2, -1), *((3, each) for each in variables), *((4, each) for each in ops)]
    path.write_bytes(message([(1, block), (4, [(1, 0)])]))
    data = b""
    for name in sorted(stored):
        description = message(_tensor(stored[name].shape))
        data += struct.pack("<IQIi", 0, 0, 0, len(description)) + description
        data += stored[name].tobytes()
    path.with_suffix(".pdiparams").write_bytes(data)
    return path


def computed(images: Any) -> Any:
    """What both compute, by NumPy; ``images`` have their channels last."""
    given = weights()
    padded = np.pad(images.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = images.shape[1:3]
    found = sum(
        padded[:, y : y + height, x : x + width] @ given["filter"][y, x]
        for y in range(3)
        for x in range(3)
    )
    mean = np.maximum(found + given["bias"], 0).mean((1, 2))
    powers = np.exp(mean @ given["matrix"])
    return powers / powers.sum(-1, keepdims=True)
