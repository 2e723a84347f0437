"""Small models of OpenVINO, and how they are written as IR."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from decoders import plain_decoder
from openvino import opset13 as ops


def save(model: Any, path: Path, version: str = "UNSPECIFIED") -> Path:
    """Writes a model as IR."""
    ov.serialize(model, path, path.with_suffix(".bin"), version=version)
    return path


def named(node: Any, name: str) -> Any:
    node.output(0).set_names({name})
    node.set_friendly_name(name)
    return node


def chain() -> Any:
    """x -> Relu -> MatMul -> Tanh -> y"""
    x = ops.parameter([2, 4], ov.Type.f32, name="x")
    relu = named(ops.relu(x), "relu")
    weight = ops.constant(np.arange(16, dtype=np.float32).reshape(4, 4) / 9)
    product = named(ops.matmul(relu, weight, False, True), "product")
    return ov.Model([named(ops.tanh(product), "y")], [x], "chain")


def with_detections() -> Any:
    boxes = ops.parameter([1, 50, 4], ov.Type.f32, name="boxes")
    scores = ops.parameter([1, 2, 50], ov.Type.f32, name="scores")
    ends = ops.add(boxes, ops.constant(np.array([0, 0, 1, 1], np.float32)))
    few = ops.non_max_suppression(
        ends,
        ops.sigmoid(scores),
        ops.constant(np.int64(5)),
        ops.constant(np.float32(0.5)),
        ops.constant(np.float32(0.1)),
    )
    chosen = ops.convert(few.output(0), "i64")
    twice = ops.multiply(few.output(1), ops.constant(np.float32(2)))
    return ov.Model([named(chosen, "chosen"), named(twice, "twice")], [boxes, scores], "detections")


def with_state() -> Any:
    """A running sum: the state begins as zeros."""
    x = ops.parameter([1, 4], ov.Type.f32, name="x")
    before = ops.read_value(ops.constant(np.zeros((1, 4), np.float32)), "sum", ov.Type.f32, [1, 4])
    total = ops.add(ops.multiply(x, ops.constant(np.float32(3))), before)
    result = named(ops.exp(ops.negative(total)), "y")
    return ov.Model([ops.result(result)], [ops.assign(total, "sum")], [x], "state")


def decoder(folder: Path) -> Any:
    """Two layers with the cache inside, as optimum-intel writes it: begun by the batch, gathered by ``beam_idx``."""
    model = ov.Core().read_model(plain_decoder(folder / "decoder.onnx"))
    caches = {p.get_friendly_name(): p for p in model.get_parameters()}
    ids, mask = caches.pop("input_ids"), caches.pop("attention_mask")
    beams = named(ops.parameter([-1], ov.Type.i32), "beam_idx")
    batch = ops.gather(ops.shape_of(ids, "i64"), ops.constant([0]), ops.constant(np.int64(0)))
    results = {next(iter(r.input_value(0).get_names())): r for r in model.get_results()}
    sinks = []
    for name, cache in caches.items():
        made = results.pop(name.replace("past_key_values", "present"))
        heads, size = cache.get_partial_shape()[1], cache.get_partial_shape()[3]
        sizes = ops.constant(np.array([heads.get_length(), 0, size.get_length()]))
        first = ops.broadcast(ops.constant(np.float32(0)), ops.concat([batch, sizes], 0))
        read = ops.read_value(first, name, ov.Type.f32, cache.get_partial_shape())
        cache.output(0).replace(ops.gather(read, beams, ops.constant(np.int64(0))).output(0))
        sinks.append(ops.assign(made.input_value(0).get_node(), name))
    return ov.Model(list(results.values()), sinks, [ids, mask, beams], "decoder")


def with_branches() -> Any:
    x = ops.parameter([3], ov.Type.f32, name="x")
    flag = ops.parameter([], ov.Type.boolean, name="flag")
    bodies = []
    for make in (ops.exp, ops.negative):
        inner = ops.parameter([3], ov.Type.f32)
        bodies.append(ov.Model([ops.result(make(ops.abs(inner)))], [inner], "body"))
    either = ops.if_op(flag.output(0))
    either.set_then_body(bodies[0])
    either.set_else_body(bodies[1])
    either.set_input(
        ops.relu(x).output(0), bodies[0].get_parameters()[0], bodies[1].get_parameters()[0]
    )
    out = either.set_output(bodies[0].get_results()[0], bodies[1].get_results()[0])
    return ov.Model([named(ops.sqrt(ops.abs(out)), "y")], [x, flag], "branches")


def with_int4_weights() -> Any:
    x = ops.parameter([2, 8], ov.Type.f32, name="x")
    packed = ops.constant(np.arange(64, dtype=np.uint8).reshape(8, 8) % 16, dtype=ov.Type.u4)
    scaled = ops.multiply(
        ops.subtract(ops.convert(packed, "f32"), ops.constant(np.float32(8))),
        ops.constant(np.full((8, 1), 0.1, np.float32)),
    )
    product = ops.matmul(ops.relu(x), scaled, False, True)
    return ov.Model([named(ops.sigmoid(product), "y")], [x], "int4")


def quantised() -> Any:
    """As NNCF writes int8 models: FakeQuantize around a convolution."""
    x = ops.parameter([1, 3, 8, 8], ov.Type.f32, name="x")

    def fake(value: Any, low: float, high: float, levels: int) -> Any:
        ends = [ops.constant(np.float32(v)) for v in (low, high, low, high)]
        return ops.fake_quantize(value, *ends, levels)

    weight = ops.constant(np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32))
    product = ops.convolution(
        fake(x, -1, 1, 256), fake(weight, -3, 3, 255), [1, 1], [1, 1], [1, 1], [1, 1]
    )
    return ov.Model([named(ops.relu(fake(product, -8, 8, 256)), "y")], [x], "quantised")


NETS = [
    chain,
    with_detections,
    with_state,
    with_branches,
    with_int4_weights,
    quantised,
]
