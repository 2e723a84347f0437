"""Buffers for the tensors of a GGUF file, by which llama.cpp places a model: ``--override-tensor REGEX=BUFFER,...``.

Names of tensors are those of `gguf-py/gguf/tensor_mapping.py` and `constants.py` of llama.cpp, for modules that are named as in
Llama of Transformers or by onnxruntime-genai's model builder. llama.cpp takes the first pattern that is found in a name
(`src/llama-model-loader.cpp`), and divides the list at commas (`common/arg.cpp`). Of a GGUF file, only the header is read
(`docs/gguf.md` of ggml, versions 2 and 3, little-endian), never the weights.
"""

from __future__ import annotations

import re
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from editor.arguments import check_one_of
from editor.devices.device import Device
from editor.errors import ExportError
from editor.exports.model_copy import write_sidecar
from editor.files import safe_stem, write_atomic
from editor.graph.graph import Graph, cached_per_graph
from editor.groups import grouped
from editor.placement.placement import Placement
from editor.runtimes.onnxruntime.providers import CUDA, TENSORRT, index_of, provider_of
from editor.text import pluralize

_MODULES = {
    "token_embd": ("embed_tokens",),
    "output_norm": ("norm",),
    "output": ("lm_head",),
    "attn_norm": ("input_layernorm",),
    "attn_q": ("attn.q_proj", "attn.qkv_proj"),
    "attn_k": ("attn.k_proj", "attn.qkv_proj"),
    "attn_v": ("attn.v_proj", "attn.qkv_proj"),
    "attn_qkv": ("attn.qkv_proj",),
    "attn_output": ("attn.o_proj",),
    "attn_q_norm": ("attn.q_norm",),
    "attn_k_norm": ("attn.k_norm",),
    "post_attention_norm": ("post_attention_layernorm",),
    "ffn_norm": ("pre_feedforward_layernorm", "post_attention_layernorm"),
    "ffn_gate": ("mlp.gate_proj", "mlp.gate_up_proj"),
    "ffn_up": ("mlp.up_proj", "mlp.gate_up_proj"),
    "ffn_down": ("mlp.down_proj",),
    "post_ffw_norm": ("post_feedforward_layernorm",),
}
"""Tensor of GGUF, without the layer -> the modules that may have it, of which the first that the model has does."""
_OF_MODEL = ("token_embd", "output_norm", "output")
_KNOWN = {module for modules in _MODULES.values() for module in modules}
_LAYER = re.compile(r"(?:^|\.)layers\.(0|[1-9]\d{0,5})\.(?:self_)?(.+)", re.ASCII)
_HEAD = re.compile(r"(?:model\.)?(embed_tokens|norm|lm_head)(?:\.|$)")
_TENSOR = re.compile(r"(?:blk\.(0|[1-9]\d{0,5})\.)?(\w+)\.(?:weight|bias)", re.ASCII)
_BUFFER = re.compile(r"[\w.-]+", re.ASCII)
_MOST_CONSTANTS = 16
"""Ops between a weight and the op that reads it, such as a transposition and what makes float of integers."""
_FINAL = "final_norm_layernorm"
"""How the model builder calls ``norm``, in a layer after the last."""
_BUFFERS = {
    CUDA: "CUDA",
    TENSORRT: "CUDA",
    "ROCMExecutionProvider": "ROCm",
    "MIGraphXExecutionProvider": "ROCm",
}
Module = tuple[int, str]
"""Number of the layer, -1 for none, and path in it."""


def unfit(graph: Graph) -> str:
    """Why llama.cpp has no names for the weights of a model; "" where it has."""
    if _ops_of_modules(graph):
        return ""
    return (
        f"{graph.path}: no op is of a module whose weights llama.cpp has names for, such as model.layers.0.self_attn.q_proj; "
        "export a language model of Transformers with the names of its modules"
    )


def write_llama_cpp(
    placement: Placement, out_dir: Path, stamp: str = "", gguf: str = "", buffers: str = ""
) -> list[Path]:
    """Writes ``<model>.override-tensor.txt``, one line of arguments, with a file beside it that says where it is from.

    Args:
        placement: the plan.
        out_dir: the folder.
        stamp: origin of the export.
        gguf: a GGUF file of the model, of whose tensors those that belong to a module are named; "" names all that may be.
        buffers: ``DEVICE=BUFFER,...``, for devices whose buffer is not known.

    Raises:
        ExportError: the file is not a GGUF file or lacks a tensor of the model, or llama.cpp has no buffer for a device.
    """
    graph, found = placement.graph, _ops_of_modules(placement.graph)
    on = {
        module: {placement.devices[int(placement.assignment.device[op])].name for op in ops}
        for module, ops in found.items()
    }
    names = tensors_of(Path(gguf)) if gguf else _possible(on)
    buffer_of = _buffers(placement, buffers)
    rules: dict[str, dict[int, list[str]]] = {}
    apart, unknown = [], 0
    for name in names:
        module = _module_of(name, on)
        if module is None:
            unknown += 1
        elif len(on[module]) > 1:
            apart.append(name)
        else:
            (device,) = on[module]
            if not (buffer := buffer_of[device]):
                raise ExportError(
                    f"what llama.cpp calls the memory of {device} is not known; give the option buffers={device}=NAME, such "
                    "as Vulkan0 (`llama-cli --list-devices`)"
                )
            rules.setdefault(buffer, {}).setdefault(module[0], []).append(name)
    if not rules:
        raise ExportError(
            f"{gguf or graph.path}: no tensor is of a module of {graph.name} that is on one device"
        )
    if apart:
        warnings.warn(
            f"{pluralize(len(apart), 'tensor')} of modules on several devices ({', '.join(apart[:3])}): left to llama.cpp",
            stacklevel=2,
        )
    if gguf and unknown:
        warnings.warn(
            f"{pluralize(unknown, 'tensor')} of {gguf} of no module that is known here: left to llama.cpp",
            stacklevel=2,
        )
    value = ",".join(
        f"{pattern}={buffer}"
        for buffer, layers in sorted(rules.items())
        for pattern in _patterns(layers)
    )
    path = out_dir / f"{safe_stem(graph.name)}.override-tensor.txt"
    write_atomic(path, f"--override-tensor {value}\n")
    return [path, *([write_sidecar(path, stamp)] if stamp else [])]


@cached_per_graph
def _ops_of_modules(graph: Graph) -> dict[Module, list[int]]:
    """The ops of the modules that are known, by the paths that exporters recorded and the names of ops and weights."""
    return grouped(
        (module, op)
        for op in graph.order.tolist()
        if not graph.op_is_constant[op]
        for module in set(filter(None, map(_known, _texts(graph, op))))
    )


def _texts(graph: Graph, op: int) -> Iterator[str]:
    """What may be the path of an op's module, with a dot after it."""
    yield graph.op_modules[op]
    yield graph.op_names[op].strip("/").replace("/", ".")
    waiting, seen = [op], {op}
    while waiting and len(seen) < _MOST_CONSTANTS:
        for tensor in graph.op_reads[waiting.pop()].tolist():
            maker = int(graph.tensor_producer[tensor])
            if maker < 0:
                yield graph.tensor_names[tensor]
            elif graph.op_is_constant[maker] and maker not in seen:
                seen.add(maker)
                waiting.append(maker)


def _known(text: str) -> Module | None:
    if layer := _LAYER.search(text):
        parts = layer[2].split(".")[:2]
        if parts[0] == _FINAL:
            return -1, "norm"
        path = next((p for p in (parts[0], ".".join(parts)) if p in _KNOWN), "")
        return (int(layer[1]), path) if path else None
    head = _HEAD.match(text)
    return (-1, head[1]) if head else None


def _module_of(name: str, on: dict[Module, set[str]]) -> Module | None:
    """The module that has a tensor; None where it is not known, or not in the model."""
    if not (tensor := _TENSOR.fullmatch(name)) or (tensor[2] in _OF_MODEL) != (tensor[1] is None):
        return None
    layer = -1 if tensor[1] is None else int(tensor[1])
    return next(((layer, m) for m in _MODULES.get(tensor[2], ()) if (layer, m) in on), None)


def _possible(on: dict[Module, set[str]]) -> list[str]:
    """Names of the tensors that a GGUF file of a model may have."""
    layers = sorted({layer for layer, _ in on if layer >= 0})
    bases = [*_OF_MODEL]
    bases += [
        f"blk.{layer}.{name}" for layer in layers for name in _MODULES if name not in _OF_MODEL
    ]
    names = [f"{base}.{kind}" for base in bases for kind in ("weight", "bias")]
    return [name for name in names if _module_of(name, on) is not None]


def _patterns(layers: dict[int, list[str]]) -> Iterator[str]:
    """Yields patterns that are found in these names only; layers with the same tensors share one."""
    alike = grouped(
        (tuple(name.removeprefix(f"blk.{layer}.") for name in names), layer)
        for layer, names in sorted(layers.items())
    )
    for rest, numbers in alike.items():
        block = rf"blk\.({'|'.join(map(str, numbers))})\." if numbers[0] >= 0 else ""
        yield f"^{block}({'|'.join(map(re.escape, rest))})$"


def _buffers(placement: Placement, given: str) -> dict[str, str]:
    """Device -> what llama.cpp calls its memory, where that is given or known."""
    known = {d.name: _known_buffer(d) for d in placement.devices}
    for pair in filter(None, given.split(",")):
        name, _, buffer = pair.strip().rpartition("=")
        check_one_of(name, placement.by_name, "buffers: the plan has no device", ExportError)
        if not _BUFFER.fullmatch(buffer):
            raise ExportError(f"buffers: {buffer!r} is no name of a buffer, such as Vulkan0 or CPU")
        known[name] = buffer
    return known


def _known_buffer(device: Device) -> str:
    if (provider := provider_of(device)) in _BUFFERS:
        return f"{_BUFFERS[provider]}{index_of(device)}"
    return "CPU" if device.device == "CPU" else ""


_VERSIONS = (2, 3)
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Type of a value -> its bytes."""
_STRING, _ARRAY = 8, 9
_MOST_TENSORS = _MOST_KEYS = 1 << 20
_MOST_ITEMS = 1 << 23
"""Texts in an array; vocabularies have fewer."""
_LONGEST = 1 << 24
"""Bytes of a text."""
_MOST_DIMENSIONS = 8


def tensors_of(path: Path) -> list[str]:
    """The names of a file's tensors, in its order.

    Raises:
        ExportError: it cannot be read, or is not a GGUF file.
    """
    try:
        with path.open("rb") as file:
            return _tensors(file)
    except (OSError, ValueError, struct.error) as error:
        raise ExportError(f"{path}: no names of tensors can be read from it ({error})") from error


def _tensors(file: BinaryIO) -> list[str]:
    if file.read(4) != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    if (version := _number(file, "<I")) not in _VERSIONS:
        raise ValueError(f"version {version} of GGUF, and 2 and 3 are known")
    count = _bounded(_number(file, "<Q"), _MOST_TENSORS, "tensors")
    for _ in range(_bounded(_number(file, "<Q"), _MOST_KEYS, "keys")):
        _text(file)
        _skip(file, _number(file, "<I"))
    names = []
    for _ in range(count):
        names.append(_text(file).decode())
        rank = _bounded(_number(file, "<I"), _MOST_DIMENSIONS, "dimensions")
        file.read(8 * rank + 4 + 8)  # sizes, type and offset
    return names


def _skip(file: BinaryIO, kind: int) -> None:
    """Passes over a value; arrays of arrays, which no model has, are refused."""
    if kind in _SIZES:
        file.seek(_SIZES[kind], 1)
    elif kind == _STRING:
        _text(file)
    elif kind == _ARRAY:
        item, count = _number(file, "<I"), _number(file, "<Q")
        if item in _SIZES:
            file.seek(_bounded(_SIZES[item] * count, 1 << 40, "bytes of an array"), 1)
        elif item == _STRING:
            for _ in range(_bounded(count, _MOST_ITEMS, "texts")):
                _text(file)
        else:
            raise ValueError(f"an array of values of type {item}")
    else:
        raise ValueError(f"a value of type {kind}")


def _text(file: BinaryIO) -> bytes:
    length = _bounded(_number(file, "<Q"), _LONGEST, "bytes of a text")
    data = file.read(length)
    if len(data) < length:
        raise ValueError("it is cut short")
    return data


def _number(file: BinaryIO, form: str) -> int:
    number: int = struct.unpack(form, file.read(struct.calcsize(form)))[0]
    return number


def _bounded(number: int, most: int, what: str) -> int:
    if number > most:
        raise ValueError(f"{number:,} {what}, more than {most:,}")
    return number
