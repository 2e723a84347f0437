"""Exports for TVM: op -> target by output name, and a script that applies it to a Relax module."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from editor.devices.device import Device
from editor.exports.kept_off import shortfall
from editor.exports.model_copy import fold, open_copy, script_of, write_model
from editor.files import json_text, safe_stem, write_atomic
from editor.placement.placement import Placement

_TARGETS = {"GPU": "cuda", "CPU": "llvm"}
_ANY = "llvm"


def tvm_target(device: Device) -> str:
    """TVM's target of a device: that of the device table, else by its kind, by default ``llvm``."""
    return device.properties.get("target") or _TARGETS.get(device.device, _ANY)


def tvm_notes(used: Sequence[Device]) -> list[str]:
    """Returns a note for each device whose target is not in the table."""
    return [
        f"TVM's target for the ops of {d.name} is {_ANY}, which is the processor: give the device a property `target`"
        for d in used
        if not _is_own(d)
    ]


def _is_own(device: Device) -> bool:
    return bool(device.properties.get("target")) or device.device in _TARGETS


def left_out(placement: Placement) -> str:
    """What the script does not keep of a plan, in a line."""
    return shortfall(placement, lambda device: f"TVM's {tvm_target(device)}", _is_own, parts=True)


def write_tvm(placement: Placement, out_dir: Path, stamp: str = "") -> list[Path]:
    """Writes ``<model>.onnx``, ``<model>_tvm.json`` and ``<model>_tvm.py``."""
    graph, stem = placement.graph, safe_stem(placement.graph.name)
    document = {
        "format": "hetero-editor/tvm",
        "version": 1,
        "made_by": stamp,
        "model": f"{stem}.onnx",
        "inputs": {
            graph.tensor_names[t]: list(graph.tensor_shapes[t] or ()) for t in graph.inputs.tolist()
        },
        "devices": {
            d.name: {"target": tvm_target(d), "unit": d.unit, "codegen": d.codegen}
            for d in placement.devices
        },
        "ops": {
            graph.op_keys[op]: placement.devices[placement.assignment.device[op]].name
            for op in placement.placed_ops.tolist()
        },
        "subgraphs": [
            {"id": s.id, "device": s.device, "inputs": list(s.inputs), "outputs": list(s.outputs)}
            for s in placement.subgraphs
        ],
    }
    model = open_copy(graph)
    fold(model, graph)  # TVM knows no shape that the model computes
    return [
        *write_model(model, graph, out_dir / f"{stem}.onnx", stamp),
        write_atomic(out_dir / f"{stem}_tvm.json", json_text(document)),
        write_atomic(out_dir / f"{stem}_tvm.py", script_of("tvm_runner", stamp, stem)),
    ]
