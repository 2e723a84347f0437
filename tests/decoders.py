"""Tiny decoders of language models, as exporters write them: with plain ops, and with those of onnxruntime-genai's builder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, VOCABULARY, HIDDEN, HEADS, KV_HEADS = 2, 300, 64, 4, 2
SIZE = HIDDEN // HEADS


class _Net:
    """Collects nodes and weights."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._rng = np.random.default_rng(seed)
        self._count = 0

    def weight(self, name: str, *shape: int) -> str:
        scale = 1 / np.sqrt(shape[0] if len(shape) > 1 else 1)
        values = (self._rng.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def value(self, array: Any) -> str:
        self._count += 1
        name = f"const_{self._count}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(
        self, kind: str, *inputs: str, out: str = "", domain: str = "", **attributes: Any
    ) -> str:
        self._count += 1
        name = out or f"{kind.lower()}_{self._count}"
        self.nodes.append(
            helper.make_node(
                kind, list(inputs), [name], f"node_{name}", domain=domain, **attributes
            )
        )
        return name


def _caches(heads: int, total: str) -> tuple[list[Any], list[Any]]:
    """Declared inputs and outputs of the cache."""
    info = helper.make_tensor_value_info
    names = [(layer, kind) for layer in range(LAYERS) for kind in ("key", "value")]
    past = ["batch", heads, "past_sequence_length", SIZE]
    return (
        [info(f"past_key_values.{i}.{kind}", TensorProto.FLOAT, past) for i, kind in names],
        [
            info(f"present.{i}.{kind}", TensorProto.FLOAT, ["batch", heads, total, SIZE])
            for i, kind in names
        ],
    )


def _save(net: _Net, path: Path, heads: int, inputs: list[Any], ir_version: int = 9) -> Path:
    total = "past_sequence_length + sequence_length"
    pasts, presents = _caches(heads, total)
    logits = helper.make_tensor_value_info(
        "logits", TensorProto.FLOAT, ["batch", "sequence_length", VOCABULARY]
    )
    graph = helper.make_graph(
        net.nodes, "decoder", [*inputs, *pasts], [logits, *presents], net.weights
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
    onnx.save(model, path)
    return path


def _ids_and_mask(total: str) -> list[Any]:
    info = helper.make_tensor_value_info
    return [
        info("input_ids", TensorProto.INT64, ["batch", "sequence_length"]),
        info("attention_mask", TensorProto.INT64, ["batch", total]),
    ]


def plain_decoder(path: Path, seed: int = 0) -> Path:
    """With plain ops: the cache grows by Concat, the mask is made of lengths."""
    path.parent.mkdir(exist_ok=True)
    net = _Net(seed)
    x = net.op("Gather", net.weight("embedding", VOCABULARY, HIDDEN), "input_ids")
    total = net.op("Gather", net.op("Shape", "attention_mask"), net.value(np.int64(1)))
    new = net.op("Gather", net.op("Shape", "input_ids"), net.value(np.int64(1)))
    one, zero = net.value(np.int64(1)), net.value(np.int64(0))
    seen = net.op("Range", zero, total, one)
    own = net.op("Range", net.op("Sub", total, new), total, one)
    own = net.op("Unsqueeze", own, net.value(np.array([1])))
    mask = net.op(
        "Where",
        net.op("LessOrEqual", seen, own),
        net.value(np.float32(0)),
        net.value(np.float32(-1e9)),
    )
    for layer in range(LAYERS):

        def heads(what: str, x: str = x, layer: int = layer) -> str:
            y = net.op("MatMul", x, net.weight(f"layers.{layer}.{what}", HIDDEN, HIDDEN))
            y = net.op("Reshape", y, net.value(np.array([0, 0, HEADS, SIZE])))
            return net.op("Transpose", y, perm=[0, 2, 1, 3])

        query = heads("query")
        key, value = (
            net.op(
                "Concat",
                f"past_key_values.{layer}.{what}",
                heads(what),
                out=f"present.{layer}.{what}",
                axis=2,
            )
            for what in ("key", "value")
        )
        scores = net.op("MatMul", query, net.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = net.op("Mul", scores, net.value(np.float32(SIZE**-0.5)))
        found = net.op("MatMul", net.op("Softmax", net.op("Add", scores, mask), axis=-1), value)
        found = net.op("Transpose", found, perm=[0, 2, 1, 3])
        found = net.op("Reshape", found, net.value(np.array([0, 0, HIDDEN])))
        found = net.op("MatMul", found, net.weight(f"layers.{layer}.out", HIDDEN, HIDDEN))
        x = net.op("Tanh", net.op("Add", x, found))
    net.op("MatMul", x, net.weight("lm_head", HIDDEN, VOCABULARY), out="logits")
    return _save(net, path, HEADS, _ids_and_mask("past_sequence_length + sequence_length"))


def fused_decoder(folder: Path, seed: int = 0) -> Path:
    """With GroupQueryAttention and RotaryEmbedding, and ``genai_config.json`` beside it."""
    net = _Net(seed)
    x = net.op("Gather", net.weight("embedding", VOCABULARY, HIDDEN), "input_ids")
    counts = net.op("ReduceSum", "attention_mask", net.value(np.array([1])), keepdims=0)
    lengths = net.op("Cast", net.op("Sub", counts, net.value(np.array([1]))), to=TensorProto.INT32)
    total = net.op("Gather", net.op("Shape", "attention_mask"), net.value(np.int64(1)))
    total = net.op("Cast", total, to=TensorProto.INT32)
    angles = np.arange(512)[:, None] / 10 ** (np.arange(SIZE // 2) / 2)
    cosines, sines = (net.value(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
    for layer in range(LAYERS):
        normed = net.op(
            "SimplifiedLayerNormalization",
            x,
            net.weight(f"layers.{layer}.norm", HIDDEN),
            axis=-1,
            epsilon=1e-5,
        )
        query, key, value = (
            net.op("MatMul", normed, net.weight(f"layers.{layer}.{what}", HIDDEN, heads * SIZE))
            for what, heads in (("query", HEADS), ("key", KV_HEADS), ("value", KV_HEADS))
        )
        found = f"attention_{layer}"
        net.nodes.append(
            helper.make_node(
                "GroupQueryAttention",
                [
                    *(query, key, value),
                    *(f"past_key_values.{layer}.{what}" for what in ("key", "value")),
                    *(lengths, total, cosines, sines),
                ],
                [found, f"present.{layer}.key", f"present.{layer}.value"],
                f"/model/layers.{layer}/attn/GroupQueryAttention",
                domain="com.microsoft",
                num_heads=HEADS,
                kv_num_heads=KV_HEADS,
                do_rotary=1,
            )
        )
        found = net.op("MatMul", found, net.weight(f"layers.{layer}.out", HIDDEN, HIDDEN))
        x = net.op("Add", x, found)
    net.op("MatMul", x, net.weight("lm_head", HIDDEN, VOCABULARY), out="logits")
    config = {
        "model": {
            "type": "llama",
            "context_length": 512,
            "vocab_size": VOCABULARY,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": 0,
            "decoder": {
                "filename": "model.onnx",
                "head_size": SIZE,
                "hidden_size": HIDDEN,
                "num_attention_heads": HEADS,
                "num_key_value_heads": KV_HEADS,
                "num_hidden_layers": LAYERS,
                "session_options": {"provider_options": []},
                "inputs": {
                    "input_ids": "input_ids",
                    "attention_mask": "attention_mask",
                    "past_key_names": "past_key_values.%d.key",
                    "past_value_names": "past_key_values.%d.value",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "present.%d.key",
                    "present_value_names": "present.%d.value",
                },
            },
        },
        "search": {"max_length": 512, "past_present_share_buffer": False, "do_sample": False},
    }
    (folder / "genai_config.json").write_text(json.dumps(config))
    return _save(net, folder / "model.onnx", KV_HEADS, _ids_and_mask("total_sequence_length"))
