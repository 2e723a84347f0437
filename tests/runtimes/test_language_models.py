"""Ops of language models that ONNX Runtime adds: what is allowed on OpenVINO is right, and a split model computes the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.execution.invented_inputs import random_inputs
from editor.graph.graph import Graph

pytest.importorskip("openvino")

DEVICES = "HETERO:OpenVINO.CPU,CPU"
_HIDDEN, _HEADS, _MOST = 64, 4, 32
_MS = "com.microsoft"


def decoder(path: Path, past: int, new: int) -> Graph:
    """One layer as onnxruntime-genai writes it: weights of 4 bits, attention with a cache, norms with skipped outputs."""
    info, rng, head = helper.make_tensor_value_info, np.random.default_rng(1), _HIDDEN // _HEADS
    angles = np.arange(_MOST * head // 2).reshape(_MOST, head // 2) * 0.1
    weights: dict[str, Any] = {
        "emb": rng.standard_normal((32, _HIDDEN)),
        "g": np.ones(_HIDDEN),
        "cos": np.cos(angles),
        "sin": np.sin(angles),
    }
    initializers = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()]
    initializers += [
        numpy_helper.from_array(np.array([1]), "one"),
        numpy_helper.from_array(np.int64(1), "second"),
    ]

    def product(source: str, name: str, result: str) -> onnx.NodeProto:
        packed = rng.integers(0, 255, (_HIDDEN, _HIDDEN // 32, 16), dtype=np.uint8)
        scales = (rng.random(_HIDDEN * _HIDDEN // 32) * 0.02).astype(np.float32)
        initializers.extend(
            [
                numpy_helper.from_array(packed, f"{name}_q"),
                numpy_helper.from_array(scales, f"{name}_s"),
            ]
        )
        return helper.make_node(
            "MatMulNBits",
            [source, f"{name}_q", f"{name}_s"],
            [result],
            domain=_MS,
            K=_HIDDEN,
            N=_HIDDEN,
            bits=4,
            block_size=32,
        )

    node = helper.make_node
    nodes = [
        node("Gather", ["emb", "input_ids"], ["e"]),
        node("SimplifiedLayerNormalization", ["e", "g"], ["n"], epsilon=1e-5, axis=-1),
        *(product("n", name, name) for name in ("query", "key", "value")),
        node("ReduceSum", ["attention_mask", "one"], ["seen"]),
        node("Sub", ["seen", "one"], ["last"]),
        node("Cast", ["last"], ["seqlens"], to=TensorProto.INT32),
        node("Shape", ["attention_mask"], ["sizes"]),
        node("Gather", ["sizes", "second"], ["all"], axis=0),
        node("Cast", ["all"], ["total"], to=TensorProto.INT32),
        node(
            "GroupQueryAttention",
            ["query", "key", "value", "past.key", "past.value", "seqlens", "total", "cos", "sin"],
            ["att", "present.key", "present.value"],
            domain=_MS,
            num_heads=_HEADS,
            kv_num_heads=_HEADS,
            do_rotary=1,
        ),
        product("att", "out", "o"),
        node(
            "SkipSimplifiedLayerNormalization",
            ["e", "o", "g"],
            ["n2", "", "", "sum"],
            domain=_MS,
            epsilon=1e-5,
        ),
        node("QuickGelu", ["n2"], ["gelu"], domain=_MS),
        node("Add", ["gelu", "sum"], ["logits"]),
    ]
    cache, grown = [1, _HEADS, past, head], [1, _HEADS, past + new, head]
    inputs = [
        info("input_ids", TensorProto.INT64, [1, new]),
        info("attention_mask", TensorProto.INT64, [1, past + new]),
        *(info(f"past.{what}", TensorProto.FLOAT, cache) for what in ("key", "value")),
    ]
    outputs = [
        info("logits", TensorProto.FLOAT, [1, new, _HIDDEN]),
        *(info(f"present.{what}", TensorProto.FLOAT, grown) for what in ("key", "value")),
    ]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(_MS, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return editor.load_model(path)


@pytest.mark.parametrize("attention", ["CPU", "OpenVINO.CPU"])
@pytest.mark.parametrize(("past", "new"), [(0, 7), (5, 1), (31, 1), (4, 3)])
def test_a_decoder_of_4_bits_computes_the_same_when_it_is_split(
    tmp_path: Path, past: int, new: int, attention: str
) -> None:
    """OpenVINO fails on attention with a cache of a fixed size, or writes past its tensors: it gets an open one."""
    graph = decoder(tmp_path / "m.onnx", past, new)
    plan = editor.partition(graph, DEVICES, pins={"att": attention, "gelu": "CPU"})
    inputs = random_inputs(graph)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    expected = dict(
        zip([o.name for o in session.get_outputs()], session.run(None, dict(inputs)), strict=True)
    )
    found = plan.run(inputs)
    assert len(plan.subgraphs) > 1
    for name, value in expected.items():
        assert found[name].shape == value.shape
        assert np.allclose(found[name], value, rtol=1e-4, atol=1e-5)


def test_sizes_that_no_runtime_takes_are_no_reason_to_believe_a_device(tmp_path: Path) -> None:
    plan = editor.partition(decoder(tmp_path / "m.onnx", 127, 1), DEVICES)
    assert plan.affinity["att"] == "CPU"
    assert "refuses these sizes: cos_cache dimension 0" in str(plan.why("att"))
