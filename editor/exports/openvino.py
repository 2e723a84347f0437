"""Exports for OpenVINO: the model, a file of affinities, and a script that applies them and compiles HETERO or for its NPU.

OpenVINO drops ``rt_info["affinity"]`` when it saves an IR, so the affinities are in a separate file.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from editor.devices.device import Device
from editor.errors import EditorError, ExportError
from editor.exports.kept_off import shortfall
from editor.exports.model_copy import fold, open_copy, script_of, write_model
from editor.files import copy_atomic, json_text, safe_stem, write_atomic
from editor.graph.external_data import locations_of
from editor.graph.flops import op_flops
from editor.graph.graph import Graph
from editor.graph.model_file import ir_of
from editor.groups import grouped
from editor.placement.placement import Placement
from editor.runtimes.openvino.runtime import openvino_device, read_problem
from editor.runtimes.registry import runtime_of
from editor.sandbox.worker import run

GENERIC = frozenset({"CPU", "GPU", "NPU", "OPENCL"})
"""Backends that stand for whatever device of the kind a tool finds."""


def openvino_name(device: Device) -> str:
    """OpenVINO's name of a device of the table."""
    if own := openvino_device(device):
        return own
    return (
        f"GPU.{device.unit}"
        if device.device == "GPU" and device.unit not in ("", "0")
        else device.device
    )


def knows_all(devices: Sequence[Device]) -> bool:
    """Whether OpenVINO has a name for each device: elsewhere the script stops."""
    return all(map(_is_known, devices))


def _is_known(device: Device) -> bool:
    return bool(device.runtime) or device.backend.upper() in GENERIC


def notes(used: Sequence[Device]) -> list[str]:
    """What the script does not keep of a plan: devices that OpenVINO does not know or has as one, and a precision."""
    texts = [
        f"OpenVINO knows no device {d.backend} ({d.name}): the script stops there until another device is named for its ops"
        for d in used
        if not _is_known(d)
    ]
    names = grouped((openvino_name(device), device.name) for device in used)
    texts += [
        f"OpenVINO runs {' and '.join(same)} both as its {name}: between them, the script does not split"
        for name, same in names.items()
        if len(same) > 1
    ]
    here = [d for d in used if d.present and not d.machine]
    precisions = [note for d in here if (note := runtime_of(d.runtime).precision_note(d))]
    return texts + [f"the script leaves the precision to the tool. {n}" for n in precisions[:1]]


def properties_of(device: Device) -> dict[str, Any]:
    """The properties that OpenVINO compiles for a device with, as the editor does."""
    from editor.runtimes.openvino.request import default_properties

    return {**default_properties(device), **device.properties}


def left_out(placement: Placement) -> str:
    """What the script does not keep of a plan, in a line."""
    return shortfall(
        placement,
        lambda device: f"OpenVINO's {openvino_name(device)}" if _is_known(device) else "",
        lambda device: bool(openvino_device(device)) or device.backend.upper() in GENERIC,
    )


def write_openvino(placement: Placement, out_dir: Path, stamp: str = "") -> list[Path]:
    """Writes ``<model>.onnx`` (or ``.xml`` and ``.bin``), ``<model>.affinities.json`` and ``<model>_openvino.py``.

    A model that OpenVINO cannot read is written all the same, for another version may; a warning and the affinities say so.
    """
    graph, stem = placement.graph, safe_stem(placement.graph.name)
    names = {d.name: openvino_name(d) for d in placement.devices}
    used = list(dict.fromkeys(names[d.name] for d in placement.devices))
    document = {
        "format": "hetero-editor/openvino",
        "version": 1,
        "made_by": stamp,
        "model": f"{stem}{'.onnx' if graph.is_onnx else '.xml'}",
        "device": f"HETERO:{','.join(used)}",
        "define": dict(sorted(graph.define.items())),
        "inputs": {
            graph.tensor_names[t]: list(graph.tensor_shapes[t] or ()) for t in graph.inputs.tolist()
        },
        "properties": {
            names[d.name]: dict(sorted(d.properties.items()))
            for d in placement.devices
            if openvino_device(d) and d.properties
        },
        "affinities": {key: names[device] for key, device in placement.affinity.items()},
    }
    if not graph.is_onnx:  # whose layers keep their names, which OpenVINO's own tools show
        document["by"] = "name"
        document["affinities"] = {
            graph.op_names[graph.key_index[key]] or key: names[device]
            for key, device in placement.affinity.items()
        }
    if len(used) < len(names):  # for `import`: OpenVINO has one name for two devices of the plan
        document["plan_affinities"] = placement.affinity
    written = _write_model(graph, out_dir, stem, stamp)
    if problem := _problem_of(written[0]):
        said = f"the script cannot load this model: {problem}"
        document["problem"] = said
        warnings.warn(said, stacklevel=2)
    return [
        *written,
        write_atomic(out_dir / f"{stem}.affinities.json", json_text(document)),
        write_atomic(out_dir / f"{stem}_openvino.py", script_of("openvino_runner", stamp, stem)),
    ]


def _write_model(graph: Graph, out_dir: Path, stem: str, stamp: str) -> list[Path]:
    model = open_copy(graph)
    if graph.is_onnx:
        fold(model, graph)
        return write_model(model, graph, out_dir / f"{stem}.onnx", stamp)
    xml = ir_of(graph.path)
    note = (
        f"<hetero_editor><made_by value={quoteattr(stamp or 'Hetero Editor')}/>"
        f'<affinities value="{stem}.affinities.json"/></hetero_editor>'
    )
    text = re.sub(r"<rt_info\s*/>\s*</net>", "</net>", xml.read_text(encoding="utf-8"))
    before, mark, after = text.rpartition("</rt_info>\n</net>")
    if not mark:  # a net without such notes
        before, mark, after = text.rpartition("</net>")
        note = f"<rt_info>{note}</rt_info>"
    path = out_dir / f"{stem}.xml"
    if path.exists() and path.samefile(xml):
        raise ExportError(f"{path}: that is the model itself; choose another folder")
    weights = [graph.folder / name for name in locations_of(model)]
    return [
        write_atomic(path, f"{before}{note}{mark}{after}"),
        *(copy_atomic(source, path.with_suffix(".bin")) for source in weights),
    ]


def _problem_of(model: Path) -> str:
    """Why OpenVINO cannot read an exported model; "" where it can, or is not installed."""
    if not find_spec("openvino"):
        return ""
    try:
        return run(read_problem, model, what="reading with OpenVINO", path=model)
    except EditorError as error:  # a crash, or a limit
        return str(error)


def write_npuw(placement: Placement, out_dir: Path, stamp: str = "") -> list[Path]:
    """Writes ``<model>.npuw.xml``, ``<model>.npuw.json`` and ``<model>_npuw.py``; the model stays where it is.

    They are for NPUW, the partitioner of OpenVINO's NPU: a group of layers for each subgraph, and a script that compiles it.
    NPUW says nothing where its plan is missing, lacks layers or names devices of groups that there are not; the script does.
    The format is that of `NPUW_PLAN` (OpenVINO, `src/plugins/intel_npu/src/plugin/npuw/partitioning`).
    """
    graph, stem = placement.graph, safe_stem(placement.graph.name)
    names = {d.name: openvino_name(d) for d in placement.devices}
    used = list(dict.fromkeys(names[s.device] for s in placement.subgraphs))
    document = {
        "format": "hetero-editor/npuw",
        "version": 1,
        "made_by": stamp,
        "model": str(graph.path.absolute()),
        "plan": f"{stem}.npuw.xml",
        "properties": {
            "NPU_USE_NPUW": "YES",
            "NPUW_DEVICES": ",".join(used),
            "NPUW_SUBMODEL_DEVICE": ",".join(
                f"{s.id}:{names[s.device]}" for s in placement.subgraphs
            ),
        },
        "devices": {s.id: s.device for s in placement.subgraphs},
    }
    return [
        write_atomic(out_dir / f"{stem}.npuw.xml", _plan(placement)),
        write_atomic(out_dir / f"{stem}.npuw.json", json_text(document)),
        write_atomic(out_dir / f"{stem}_npuw.py", script_of("npuw_runner", stamp, stem)),
    ]


def _plan(placement: Placement) -> str:
    graph, work = placement.graph, op_flops(placement.graph)
    taken: set[int] = set()
    lines = [
        '<?xml version="1.0"?>',
        f'<ensemble gflops="{work.sum() / 1e9:.6f}">',
        "<partitioning>",
    ]
    for subgraph in placement.subgraphs:
        ops = [graph.key_index[key] for key in subgraph.ops]
        own = [op for op in ops if op not in taken]  # a constant of several groups is in the first
        taken.update(own)
        flops = sum(float(work[op]) for op in own) / 1e9
        lines.append(f'<group id="{subgraph.id}" gflops="{flops:.6f}">')
        lines += [
            f"<input name={_name(graph, op)}/>" for op in own if _reads_others(graph, op, own)
        ]
        lines += [f"<output name={_name(graph, op)}/>" for op in own if _is_read(graph, op, own)]
        lines += [f"<layer name={_name(graph, op)}/>" for op in own]
        lines.append("</group>")
    return "\n".join([*lines, "</partitioning>", "</ensemble>", ""])


def _name(graph: Graph, op: int) -> str:
    return quoteattr(graph.display_name(op))


def _reads_others(graph: Graph, op: int, own: list[int]) -> bool:
    """Whether an op reads what a run gives it from outside of its group."""
    members = set(own)
    return any(
        not graph.tensor_is_constant[tensor] and int(graph.tensor_producer[tensor]) not in members
        for tensor in graph.op_reads[op].tolist()
    )


def _is_read(graph: Graph, op: int, own: list[int]) -> bool:
    """Whether a result of an op that is computed in a run leaves its group."""
    members, outputs = set(own), set(graph.outputs.tolist())
    return not graph.op_is_constant[op] and any(
        tensor in outputs or not members.issuperset(graph.readers[tensor].tolist())
        for tensor in graph.op_outputs[op].tolist()
        if tensor >= 0
    )
