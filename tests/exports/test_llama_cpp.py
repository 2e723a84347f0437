"""Arguments for llama.cpp: each pattern is found in the tensors that are meant, and in no other."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import save_net
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.exports.llama_cpp import tensors_of

BOX = [{"name": "GPU", "backendName": "CUDA"}, {"name": "CPU", "backendName": "CPU"}]
PARTS = ("self_attn.q_proj", "self_attn.o_proj", "mlp.down_proj")
GGUF = ("attn_q", "attn_output", "ffn_down")


def write_model(path: Path, layers: int = 12, of_names: bool = True) -> Path:
    """A product for each module; its name tells of the module, or its weight does."""
    modules = [f"model.layers.{i}.{part}" for i in range(layers) for part in PARTS] + ["lm_head"]
    nodes, weights, before = [], [], "x"
    for number, module in enumerate(modules):
        weight = f"w{number}" if of_names else f"{module}.weight"
        name = (
            f"/{module.replace('.', '/').replace('layers/', 'layers.')}/MatMul" if of_names else ""
        )
        weights.append(numpy_helper.from_array(np.eye(2, dtype=np.float32), weight))
        nodes.append(helper.make_node("MatMul", [before, weight], [module], name=name))
        before = module
    ends = [helper.make_tensor_value_info(t, TensorProto.FLOAT, [1, 2]) for t in ("x", "lm_head")]
    return save_net(path, nodes, ends[:1], ends[1:], weights, name="lm")


def write_gguf(path: Path, names: list[str]) -> Path:
    """A GGUF file of version 3 without data, with values of each kind."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    keys = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.block_count") + struct.pack("<II", 4, 12),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("ß"),
        text("tokenizer.ggml.scores") + struct.pack("<IIQ2f", 9, 6, 2, 0, 1),
    ]
    infos = [text(n) + struct.pack("<IQQIQ", 2, 2, 2, 0, 16 * i) for i, n in enumerate(names)]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(names), len(keys))
    path.write_bytes(head + b"".join(keys + infos))
    return path


def buffers(line: str, names: list[str]) -> dict[str, str]:
    """Tensor -> its buffer, as llama.cpp finds it: the first pattern that is in its name."""
    flag, _, value = line.strip().partition(" ")
    assert flag == "--override-tensor"
    rules = [rule.partition("=") for rule in value.split(",")]
    found: dict[str, str] = {}
    for name in names:
        matching = [buffer for pattern, _, buffer in rules if re.search(pattern, name)]
        assert len(matching) <= 1, name
        found |= dict.fromkeys([name] if matching else [], *matching)
    return found


TENSORS = [f"blk.{i}.{name}.weight" for i in range(12) for name in GGUF]


@pytest.mark.parametrize("of_names", [True, False])
def test_patterns_are_found_in_the_tensors_that_are_meant(tmp_path: Path, of_names: bool) -> None:
    graph = editor.load_model(write_model(tmp_path / "lm.onnx", of_names=of_names))
    pins = {key: "CPU" for key in graph.op_keys if ".1." in key or "down_proj" in key}
    plan = editor.partition(graph, BOX, pins=pins)
    others = [
        "rope_freqs.weight",
        "blk.0.ffn_gate_exps.weight",
        "blk.01.attn_q.weight",
        "token_embd.weight",
    ]
    file = write_gguf(tmp_path / "lm.gguf", [*TENSORS, "blk.0.attn_q.bias", *others])
    with pytest.warns(UserWarning, match="4 tensors of .*lm.gguf of no module"):
        line = plan.export("llama-cpp", tmp_path / "out", gguf=str(file))[0].read_text()
    found = buffers(line, tensors_of(file))
    for i in range(12):
        for part, name in zip(PARTS, GGUF, strict=True):
            device = plan.affinity[f"model.layers.{i}.{part}"]
            assert found.pop(f"blk.{i}.{name}.weight") == {"GPU": "CUDA0", "CPU": "CPU"}[device]
    assert found == {"blk.0.attn_q.bias": "CUDA0"}
    assert len(line) < 400


def test_without_a_file_all_tensors_that_may_be_are_named(tmp_path: Path) -> None:
    graph = editor.load_model(write_model(tmp_path / "lm.onnx", 2))
    plan = editor.partition(graph, BOX, pins={"lm_head": "CPU"})
    line = plan.export("llama-cpp", tmp_path / "out")[0].read_text()
    names = [*TENSORS, "output.weight", "output_norm.weight"]
    assert buffers(line, names) == dict.fromkeys(TENSORS[:6], "CUDA0") | {"output.weight": "CPU"}


def test_what_llama_cpp_cannot_be_told_is_refused(tmp_path: Path) -> None:
    graph = editor.load_model(write_model(tmp_path / "lm.onnx", 1))
    box = [{"name": "NPU", "backendName": "QNN"}]
    with pytest.raises(editor.ExportError, match="give the option buffers=NPU=NAME"):
        editor.partition(graph, box).export("llama-cpp", tmp_path / "out")
    plan = editor.partition(graph, box)
    (path, _) = plan.export("llama-cpp", tmp_path / "out", buffers="NPU=Vulkan1")
    assert set(buffers(path.read_text(), TENSORS).values()) == {"Vulkan1"}
    for wrong in ("TPU=Vulkan1", "NPU=a b", "Vulkan1"):
        with pytest.raises(editor.ExportError, match="buffers: "):
            plan.export("llama-cpp", tmp_path / "out", buffers=wrong)
    plan = editor.partition(graph, BOX)
    other = write_gguf(tmp_path / "other.gguf", ["a.weight"])
    with pytest.raises(editor.ExportError, match=r"other\.gguf: no tensor is of a module of lm"):
        plan.export("llama-cpp", tmp_path / "out", gguf=str(other))
    write_model(tmp_path / "plain.onnx", 0)
    model = onnx.load(tmp_path / "plain.onnx")
    model.graph.node[0].name = model.graph.node[0].output[0] = model.graph.output[0].name = "y"
    onnx.save(model, tmp_path / "plain.onnx")
    with pytest.raises(editor.ExportError, match=r"plain\.onnx: no op is of a module"):
        editor.partition(tmp_path / "plain.onnx", BOX).export("llama-cpp", tmp_path / "out")


def test_a_gguf_file_is_read_within_bounds(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "lm.gguf", TENSORS).read_bytes()
    assert tensors_of(tmp_path / "lm.gguf") == TENSORS
    huge = struct.pack("<Q", 1 << 60)
    bad = {
        "no gguf": b"GGML" + whole[4:],
        "version": whole[:4] + struct.pack(">I", 3) + whole[8:],
        "tensors": whole[:8] + huge + whole[16:],
        "keys": whole[:16] + huge + whole[24:],
        "a text": whole[:24] + huge + whole[32:],
        **{f"cut at {n}": whole[:n] for n in (0, 6, 20, 40, 90, 150, 400, len(whole) // 2)},
    }
    for what, data in bad.items():
        (tmp_path / "bad.gguf").write_bytes(data)
        with pytest.raises(editor.ExportError, match=r"bad\.gguf: no names of tensors"):
            tensors_of(tmp_path / "bad.gguf")
            raise AssertionError(what)
    with pytest.raises(editor.ExportError, match="no names of tensors"):
        tensors_of(tmp_path / "missing.gguf")
