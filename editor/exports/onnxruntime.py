"""For ONNX Runtime: the model with an annotation per op, the session settings, and a script that verifies them.

``session.layer_assignment_settings`` matches the metadata entry ``layer_ann`` of nodes; its value may hold
8,192 characters, so there is one annotation per device, not one per op.
"""

from __future__ import annotations

import json
from pathlib import Path

from editor.devices.device import Device
from editor.exports.model_copy import ONNX_RUNTIME_IR, open_copy, write_model
from editor.exports.stamp import script_of
from editor.files import safe_stem, write_atomic
from editor.partition.partition import Partition

ANNOTATION = "layer_ann"


def onnxruntime_target(device: Device) -> str:
    """How the assignment settings call a device."""
    if device.runtime == "onnxruntime" and device.provider not in ("CPUExecutionProvider", "CUDAExecutionProvider"):
        return device.provider
    if device.device == "GPU":
        return f"gpu:{device.unit}" if device.unit not in ("", "0") else "gpu"
    return "npu" if device.device == "NPU" else "cpu"


def providers_of(partition: Partition) -> list[str]:
    """Execution providers that the session needs, in order of priority, the CPU last."""
    found = [d.provider for d in partition.devices if d.runtime == "onnxruntime" and d.provider != "CPUExecutionProvider"]
    return [*dict.fromkeys(found), "CPUExecutionProvider"]


def write_onnxruntime(partition: Partition, out_dir: Path, stamp: str = "") -> list[Path]:
    """Writes ``<model>_annotated.onnx``, ``<model>_session.json`` and ``<model>_onnxruntime.py``."""
    graph, stem = partition.graph, safe_stem(partition.graph.name)
    model = open_copy(graph)
    model.ir_version = min(model.ir_version, ONNX_RUNTIME_IR)
    mark = {d.name: f"device{i}" for i, d in enumerate(partition.devices)}
    affinity = partition.affinity
    for op, node in enumerate(model.graph.node):
        node.name = f"{node.name or node.op_type}#{op}"  # unique: sessions refuse duplicates
        for entry in [e for e in node.metadata_props if e.key == ANNOTATION]:
            node.metadata_props.remove(entry)
        node.metadata_props.add(key=ANNOTATION, value=mark[affinity[graph.op_keys[op]]])
    used = [d for d in partition.devices if d.name in set(affinity.values())]
    rules: dict[str, list[str]] = {}
    for device in used:
        rules.setdefault(onnxruntime_target(device), []).append(f"={mark[device.name]}")
    settings = "; ".join(f"{target}({', '.join(marks)})" for target, marks in rules.items())
    limits = {d.name: d.memory for d in used if d.memory is not None}
    document = {"format": "hetero-editor/onnxruntime", "version": 1, "made_by": stamp, "model": f"{stem}_annotated.onnx",
                "providers": providers_of(partition), "session": {"session.layer_assignment_settings": settings},
                "devices": {mark[d.name]: {"name": d.name, "target": onnxruntime_target(d)} for d in used},
                "memory_budget_bytes": limits}
    return [*write_model(model, graph, out_dir / f"{stem}_annotated.onnx", stamp),
            write_atomic(out_dir / f"{stem}_session.json", json.dumps(document, indent=1) + "\n"),
            write_atomic(out_dir / f"{stem}_onnxruntime.py", script_of("onnxruntime_runner", stamp, stem))]
