"""Writes options by which providers of ONNX Runtime (QNN, WebGPU, TensorRT) keep ops off their device.

Each takes what it can, unless it is told otherwise. Each writer names where its form is from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from editor.errors import ExportError
from editor.exports.kept_off import device_of, ops_off, tell_of_mixed, types_off, with_names
from editor.exports.model_copy import write_document
from editor.placement.placement import Placement
from editor.runtimes.onnxruntime.providers import QNN, TENSORRT, TENSORRT_RTX, WEBGPU

_CPU = "cpu"


def write_qnn(placement: Placement, out_dir: Path, stamp: str = "", device: str = "") -> list[Path]:
    """Writes ``<model>.op_affinity.json``, whose path is the provider option ``op_affinity`` of QNN.

    The form is that of ``OpAffinityMap::FromConfigFile`` (`onnxruntime/core/providers/qnn/qnn_op_affinity_map.cc` of
    onnxruntime-qnn 2.7, pull request 599): a backend for each type of op. A backend for each name is from pull request 785,
    which no release has yet; 2.7 ignores it.
    """
    graph = placement.graph
    kept, mixed = types_off(placement, device_of(placement, device, QNN))
    named, model, written = with_names(placement, out_dir, stamp) if mixed else ([], "", [])
    document: dict[str, Any] = {
        "made_by": stamp,
        "op_type": dict.fromkeys(sorted(kept), _CPU),
    }
    if mixed:
        document |= {
            "op_name": {named[op]: _CPU for ops in mixed.values() for op in ops},
            **({"model": model} if model else {}),
        }
        tell_of_mixed(mixed, "`op_name` keeps them off it, which onnxruntime-qnn 2.7 ignores")
    return [write_document(graph, out_dir, ".op_affinity.json", document), *written]


def write_webgpu(
    placement: Placement, out_dir: Path, stamp: str = "", device: str = ""
) -> list[Path]:
    """Writes ``<model>_webgpu.json``, and a copy of the model with names where ops have none of their own.

    ``forceCpuNodeNames`` is a list in JavaScript (`InferenceSession.WebGpuExecutionProviderOption` of onnxruntime-web) and
    lines of a text elsewhere (`core/providers/webgpu/webgpu_provider_factory.cc`).
    """
    graph = placement.graph
    names, model, written = with_names(placement, out_dir, stamp)
    off = [names[op] for op in ops_off(placement, device_of(placement, device, WEBGPU))]
    if broken := next((name for name in off if len(name.splitlines()) != 1), None):
        raise ExportError(
            f"the name {broken!r} has more than one line, which forceCpuNodeNames cannot have"
        )
    document = {
        "made_by": stamp,
        "model": model or graph.path.name,
        "executionProviders": [{"name": "webgpu", "forceCpuNodeNames": off}],
        "provider_options": {"forceCpuNodeNames": "\n".join(off)},
    }
    return [write_document(graph, out_dir, "_webgpu.json", document), *written]


def write_tensorrt(
    placement: Placement, out_dir: Path, stamp: str = "", device: str = ""
) -> list[Path]:
    """Writes ``<model>_tensorrt.json`` with the provider options of TensorRT and of TensorRT-RTX.

    They are lists of types with commas (pull request 23705 of ONNX Runtime, and its provider `nv_tensorrt_rtx`), so that a type
    of which some ops are on the device stays there.
    """
    graph = placement.graph
    kept, mixed = types_off(placement, device_of(placement, device, TENSORRT, TENSORRT_RTX))
    if mixed:
        tell_of_mixed(mixed, "TensorRT is told types only, so it may run them")
    types = ",".join(sorted(kept))
    document = {
        "made_by": stamp,
        "provider_options": {
            TENSORRT: {"trt_op_types_to_exclude": types},
            TENSORRT_RTX: {"nv_op_types_to_exclude": types},
        },
        "not_kept_off": sorted(graph.op_keys[op] for ops in mixed.values() for op in ops),
    }
    return [write_document(graph, out_dir, "_tensorrt.json", document)]
