"""Makes small language models with random weights, as exporters write them: no network, a few seconds.

    python make.py OUT --kind llama --layers 8 --hidden 512

`plain` has plain ops and a cache that grows by Concat, as `torch.onnx` exports; `llama`, `qwen` (with biases) and `int4`
(weights of four bits) have the ops of onnxruntime-genai's model builder, with its `genai_config.json` and a tokenizer of words.
`encoder` has no cache: what runs once before a decoder.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KINDS = ("plain", "llama", "qwen", "int4", "encoder")
_BLOCK = 32
"""Weights of four bits that share a scale."""
_RANDOM = 4_000_037
"""Random values of a weight; a larger one repeats them, no two rows alike."""
_LARGEST = 1_900_000_000
"""Bytes of weights that a file of ONNX holds itself; more are in a file beside it."""


@dataclass(frozen=True)
class Shape:
    """The size of a model."""

    layers: int = 8
    hidden: int = 512
    heads: int = 8
    kv_heads: int = 4
    vocabulary: int = 4096
    half: bool = False
    """Whether weights and caches are float16, which CUDA's GroupQueryAttention needs"""

    @property
    def head(self) -> int:
        """Size of a head."""
        return self.hidden // self.heads


class _Net:
    """Collects nodes and weights."""

    def __init__(self, shape: Shape, seed: int, int4: bool = False, bias: bool = False) -> None:
        self.shape, self.int4, self.bias = shape, int4, bias
        self.scope = "/model"
        """Where the next ops are, as exporters name them"""
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._rng = np.random.default_rng(seed)
        self._count = 0

    def weight(self, name: str, *shape: int) -> str:
        scale = 1 / np.sqrt(shape[0] if len(shape) > 1 else 1)
        values = self._rng.standard_normal(min(int(np.prod(shape)), _RANDOM), np.float32)
        values = (values * scale).astype(np.float16 if self.shape.half else np.float32)
        self.weights.append(numpy_helper.from_array(np.resize(values, shape), name))
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
        node = helper.make_node(
            kind,
            list(inputs),
            [name],
            f"{self.scope}/{kind}_{self._count}",
            domain=domain,
            **attributes,
        )
        self.nodes.append(node)
        return name

    def linear(self, x: str, name: str, columns: int, out: str = "") -> str:
        """A product with a weight; in four bits and with a bias where the net has that."""
        rows = self.shape.hidden
        biased = self.bias and not out
        if not self.int4:
            y = self.op("MatMul", x, self.weight(name, rows, columns), out="" if biased else out)
        else:
            blocks = rows // _BLOCK
            packed = self._rng.integers(0, 256, (columns, blocks, _BLOCK // 2)).astype(np.uint8)
            scales = np.full(columns * blocks, 1 / (4.6 * np.sqrt(rows)), np.float32)
            self.weights += [
                numpy_helper.from_array(packed, f"{name}_q4"),
                numpy_helper.from_array(scales, f"{name}_scales"),
            ]
            y = self.op(
                "MatMulNBits",
                *(x, f"{name}_q4", f"{name}_scales"),
                out="" if biased else out,
                domain="com.microsoft",
                K=rows,
                N=columns,
                bits=4,
                block_size=_BLOCK,
            )
        return self.op("Add", y, self.weight(f"{name}_bias", columns)) if biased else y


def make(path: Path, kind: str = "llama", shape: Shape = Shape(), seed: int = 0) -> Path:
    """Writes a model.

    Args:
        path: the file of ``plain`` and ``encoder``; the folder of the others.
        kind: one of ``KINDS``.
        shape: its size.
        seed: of its weights.

    Returns:
        the file.
    """
    if kind == "encoder":
        return _encoder(path, shape, seed)
    if kind == "plain":
        return _plain(path, shape, seed)
    return _of_builder(path, shape, seed, kind)


def _info(name: str, kind: int, shape: list[Any]) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def _save(net: _Net, path: Path, inputs: list[Any], outputs: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    graph = helper.make_graph(net.nodes, path.stem, inputs, outputs, net.weights)
    if net.shape.half:
        _halve(graph)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    beside = sum(tensor.ByteSize() for tensor in net.weights) > _LARGEST
    onnx.save(model, path, save_as_external_data=beside, location=f"{path.name}.data")
    return path


def _halve(graph: Any) -> None:
    """Makes float16 of all that is float32."""
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            values = np.clip(numpy_helper.to_array(tensor), -6e4, 6e4).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16


def _save_decoder(net: _Net, path: Path, heads: int, total: str) -> Path:
    grown, shape = "past_sequence_length + sequence_length", net.shape
    names = [(layer, kind) for layer in range(shape.layers) for kind in ("key", "value")]

    def caches(prefix: str, length: str) -> list[Any]:
        size = ["batch", heads, length, shape.head]
        return [_info(f"{prefix}.{i}.{kind}", TensorProto.FLOAT, size) for i, kind in names]

    inputs = [
        _info("input_ids", TensorProto.INT64, ["batch", "sequence_length"]),
        _info("attention_mask", TensorProto.INT64, ["batch", total]),
        *caches("past_key_values", "past_sequence_length"),
    ]
    logits = _info("logits", TensorProto.FLOAT, ["batch", "sequence_length", shape.vocabulary])
    return _save(net, path, inputs, [logits, *caches("present", grown)])


def _heads(net: _Net, x: str, name: str) -> str:
    shape = net.shape
    y = net.linear(x, name, shape.hidden)
    y = net.op("Reshape", y, net.value(np.array([0, 0, shape.heads, shape.head])))
    return net.op("Transpose", y, perm=[0, 2, 1, 3])


def _attention(net: _Net, query: str, key: str, value: str, mask: str, name: str) -> str:
    shape = net.shape
    scores = net.op("MatMul", query, net.op("Transpose", key, perm=[0, 1, 3, 2]))
    scores = net.op("Mul", scores, net.value(np.float32(shape.head**-0.5)))
    scores = net.op("Add", scores, mask) if mask else scores
    found = net.op("MatMul", net.op("Softmax", scores, axis=-1), value)
    found = net.op("Transpose", found, perm=[0, 2, 1, 3])
    found = net.op("Reshape", found, net.value(np.array([0, 0, shape.hidden])))
    return net.linear(found, name, shape.hidden)


def _encoder(path: Path, shape: Shape, seed: int) -> Path:
    net, x = _Net(shape, seed), "features"
    for layer in range(shape.layers):
        net.scope = f"/model/layers.{layer}"
        names = [f"layers.{layer}.{part}" for part in ("query", "key", "value")]
        found = _attention(net, *(_heads(net, x, n) for n in names), "", f"layers.{layer}.out")
        x = net.op("Tanh", net.op("Add", x, found))
    net.op("Identity", x, out="encoder_hidden_states")
    size = ["batch", "frames", shape.hidden]
    ends = [_info(name, TensorProto.FLOAT, size) for name in ("features", "encoder_hidden_states")]
    return _save(net, path, ends[:1], ends[1:])


def _plain(path: Path, shape: Shape, seed: int) -> Path:
    net = _Net(shape, seed)
    x = net.op("Gather", net.weight("embedding", shape.vocabulary, shape.hidden), "input_ids")
    one, zero = net.value(np.int64(1)), net.value(np.int64(0))
    total = net.op("Gather", net.op("Shape", "attention_mask"), net.value(np.int64(1)))
    new = net.op("Gather", net.op("Shape", "input_ids"), net.value(np.int64(1)))
    seen = net.op("Range", zero, total, one)
    own = net.op("Range", net.op("Sub", total, new), total, one)
    own = net.op("Unsqueeze", own, net.value(np.array([1])))
    allowed, hidden = net.value(np.float32(0)), net.value(np.float32(-1e9))
    mask = net.op("Where", net.op("LessOrEqual", seen, own), allowed, hidden)
    for layer in range(shape.layers):
        net.scope = f"/model/layers.{layer}"
        query = _heads(net, x, f"layers.{layer}.query")
        key, value = (
            net.op(
                "Concat",
                f"past_key_values.{layer}.{what}",
                _heads(net, x, f"layers.{layer}.{what}"),
                out=f"present.{layer}.{what}",
                axis=2,
            )
            for what in ("key", "value")
        )
        found = _attention(net, query, key, value, mask, f"layers.{layer}.out")
        x = net.op("Tanh", net.op("Add", x, found))
    net.scope = "/lm_head"
    net.linear(x, "lm_head", shape.vocabulary, out="logits")
    return _save_decoder(net, path, shape.heads, "past_sequence_length + sequence_length")


def _of_builder(folder: Path, shape: Shape, seed: int, kind: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    net = _Net(shape, seed, int4=kind == "int4", bias=kind == "qwen")
    x = net.op("Gather", net.weight("embedding", shape.vocabulary, shape.hidden), "input_ids")
    counts = net.op("ReduceSum", "attention_mask", net.value(np.array([1])), keepdims=0)
    lengths = net.op("Cast", net.op("Sub", counts, net.value(np.array([1]))), to=TensorProto.INT32)
    total = net.op("Gather", net.op("Shape", "attention_mask"), net.value(np.int64(1)))
    total = net.op("Cast", total, to=TensorProto.INT32)
    angles = np.arange(4096)[:, None] / 10_000 ** (np.arange(shape.head // 2) / (shape.head // 2))
    cosines, sines = (net.value(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
    for layer in range(shape.layers):
        net.scope = f"/model/layers.{layer}"
        x = _block(net, layer, x, (lengths, total, cosines, sines))
    net.scope = "/lm_head"
    net.linear(x, "lm_head", shape.vocabulary, out="logits")
    (folder / "genai_config.json").write_text(json.dumps(_config(shape, kind), indent=1))
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer(shape)))
    return _save_decoder(net, folder / "model.onnx", shape.kv_heads, "total_sequence_length")


def _block(net: _Net, layer: int, x: str, common: tuple[str, ...]) -> str:
    """Attention and a gated product, each after a normalization."""
    shape, name = net.shape, f"layers.{layer}"

    def normed(x: str, what: str) -> str:
        weight = net.weight(f"{name}.{what}", shape.hidden)
        return net.op("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=1e-5)

    before = normed(x, "norm")
    widths = {"query": shape.heads, "key": shape.kv_heads, "value": shape.kv_heads}
    parts = [net.linear(before, f"{name}.{p}", n * shape.head) for p, n in widths.items()]
    past = [f"past_key_values.{layer}.{what}" for what in ("key", "value")]
    found = f"attention_{layer}"
    net.nodes.append(
        helper.make_node(
            "GroupQueryAttention",
            [*parts, *past, *common],
            [found, f"present.{layer}.key", f"present.{layer}.value"],
            f"{net.scope}/attn/GroupQueryAttention",
            domain="com.microsoft",
            num_heads=shape.heads,
            kv_num_heads=shape.kv_heads,
            do_rotary=1,
        )
    )
    x = net.op("Add", x, net.linear(found, f"{name}.out", shape.hidden))
    after = normed(x, "norm2")
    gate = net.op("Sigmoid", net.linear(after, f"{name}.gate", shape.hidden))
    gated = net.op("Mul", gate, net.linear(after, f"{name}.up", shape.hidden))
    return net.op("Add", x, net.linear(gated, f"{name}.down", shape.hidden))


def _config(shape: Shape, kind: str) -> dict[str, Any]:
    """What onnxruntime-genai's model builder writes beside a model."""
    return {
        "model": {
            "type": "qwen2" if kind == "qwen" else "llama",
            "context_length": 4096,
            "vocab_size": shape.vocabulary,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": 0,
            "decoder": {
                "filename": "model.onnx",
                "head_size": shape.head,
                "hidden_size": shape.hidden,
                "num_attention_heads": shape.heads,
                "num_key_value_heads": shape.kv_heads,
                "num_hidden_layers": shape.layers,
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
        "search": {"max_length": 4096, "past_present_share_buffer": False, "do_sample": False},
    }


def _tokenizer(shape: Shape) -> dict[str, Any]:
    """A word for each token."""
    words = {f"w{number}": number for number in range(shape.vocabulary)}
    model = {"type": "WordLevel", "vocab": words, "unk_token": "w0"}
    return {"version": "1.0", "pre_tokenizer": {"type": "Whitespace"}, "model": model}


def main() -> None:
    """Makes what the command line says."""
    parser = argparse.ArgumentParser(description="makes a small language model, random weights")
    parser.add_argument("out", type=Path, help="a folder; a file for plain and encoder")
    parser.add_argument("--kind", choices=KINDS, default="llama")
    for name in ("layers", "hidden", "heads", "kv_heads", "vocabulary"):
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=int, default=getattr(Shape(), name))
    parser.add_argument("--half", action="store_true", help="float16")
    options = parser.parse_args()
    shape = Shape(
        options.layers,
        options.hidden,
        options.heads,
        options.kv_heads,
        options.vocabulary,
        options.half,
    )
    path = make(options.out, options.kind, shape)
    print(f"wrote {path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
