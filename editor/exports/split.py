"""One model per subgraph, a manifest, and a runner that needs no more than numpy and the runtimes.

Parts of an ONNX model are ONNX: ONNX Runtime runs them, and OpenVINO those of its devices. Parts of an OpenVINO IR are IRs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from editor.devices.device import Device
from editor.errors import ExecutionError, ExportError
from editor.execution.cut import Cutter, cut, open_submodels
from editor.execution.invented_values import MANNERS, Inventor
from editor.exports.kept_off import shortfall
from editor.exports.model_copy import check_weights, script_of, write_submodel
from editor.exports.onnxruntime import custom_ops_of, provider_notes, providers_of, runs_on
from editor.exports.openvino import openvino_name, properties_of
from editor.files import json_text, replace, write_atomic, writing
from editor.graph.graph import Graph
from editor.graph.static_values import is_static
from editor.placement.placement import Placement
from editor.runtimes.base import SubModel
from editor.runtimes.onnxruntime.providers import CPU, SELECTS_BY_UNIT, index_of, provider_of
from editor.runtimes.openvino.runtime import openvino_device
from editor.sandbox.worker import run

_MOST_VALUES, _MOST_INVENTED = 64, 1 << 20
"""Integers of an example that are written where they differ, and that are looked at; more are 0, which is valid as an index."""
_ARRAYS = frozenset(
    {
        *("float16", "float32", "float64", "bool", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64"),
    }
)
"""Element types that pass between OpenVINO and ONNX Runtime as arrays of numpy."""


def notes(used: Sequence[Device]) -> list[str]:
    """What the runner does not keep of a plan."""
    return provider_notes([device for device in used if not openvino_device(device)])


def left_out(placement: Placement) -> str:
    """What the runner does not keep of a plan, in a line."""
    return shortfall(
        placement, runs_on, lambda d: bool(provider_of(d) or openvino_device(d)), parts=True
    )


def write_split(
    placement: Placement, out_dir: Path, stamp: str = "", sizes: str = "fixed"
) -> list[Path]:
    """Writes ``subgraph_<n>.onnx``, ``manifest.json`` and ``run.py``.

    Args:
        placement: the plan.
        out_dir: the folder.
        stamp: origin of the export.
        sizes: ``open`` keeps the dimensions of the file, so that the parts run at other sizes than those of the plan.

    Raises:
        ExportError: the model cannot be cut at this boundary.
    """
    graph = placement.graph
    cutter = Cutter.open(graph)
    check_weights(cutter.source, graph)
    submodels = _open_parts(placement) if sizes == "open" else cut(placement, cutter)
    written: list[Path] = []
    steps: list[dict[str, Any]] = []
    provider = {d.name: provider_of(d) or CPU for d in placement.devices}
    numbered = [d for d in placement.devices if provider[d.name] in SELECTS_BY_UNIT]
    device_id = {d.name: {"device_id": index_of(d)} for d in numbered}
    for subgraph, submodel in zip(placement.subgraphs, submodels, strict=True):
        if submodel is None:
            continue
        name = f"subgraph_{subgraph.id}.onnx"
        written += write_submodel(submodel.model, submodel.folder, out_dir / name, stamp)
        steps.append(
            {
                "id": subgraph.id,
                "model": name,
                "device": subgraph.device,
                "provider": provider[subgraph.device],
                **device_id.get(subgraph.device, {}),
                **_for_openvino(graph, submodel, placement.by_name[subgraph.device]),
                "inputs": list(submodel.inputs),
                "outputs": list(submodel.outputs),
                "ops": subgraph.size,
            }
        )
    session = {
        "providers": providers_of(placement),
        "custom_ops": custom_ops_of(placement, cutter.source),
        "notes": [*notes(placement.used_devices), *_left_to_onnxruntime(steps, placement.by_name)],
    }
    return [*written, *_manifest_and_runner(graph, out_dir, stamp, "split", steps, session)]


def left_out_of_ir(placement: Placement) -> str:
    """What the runner of an IR does not keep of a plan, in a line."""
    return shortfall(
        placement,
        lambda device: f"OpenVINO's {openvino_name(device)}",
        lambda device: bool(openvino_device(device)),
        parts=True,
    )


def write_split_ir(placement: Placement, out_dir: Path, stamp: str = "") -> list[Path]:
    """Writes ``subgraph_<n>.xml`` and ``.bin``, ``manifest.json`` and ``run.py``.

    Raises:
        ExportError: the model cannot be cut at this boundary.
    """
    graph = placement.graph
    cutter = Cutter.open(graph)
    check_weights(cutter.source, graph)
    written: list[Path] = []
    steps: list[dict[str, Any]] = []
    for subgraph, part in zip(placement.subgraphs, cut(placement, cutter), strict=True):
        if part is None:
            continue
        xml, device = out_dir / f"subgraph_{subgraph.id}.xml", placement.by_name[subgraph.device]
        read = _write_ir(part, xml, stamp)
        written += [xml, xml.with_suffix(".bin")]
        steps.append(
            {
                "id": subgraph.id,
                "model": xml.name,
                "device": subgraph.device,
                "target": openvino_name(device),
                "properties": properties_of(device),
                "inputs": read,
                "outputs": list(part.outputs),
                "ops": subgraph.size,
            }
        )
    return [*written, *_manifest_and_runner(graph, out_dir, stamp, "split-ir", steps, {})]


def _write_ir(part: SubModel, xml: Path, stamp: str) -> list[str]:
    """Writes a part of an IR; returns its inputs that are left."""
    from editor.runtimes.openvino.request import save_part  # which loads OpenVINO

    with (
        writing(xml),
        tempfile.TemporaryDirectory(dir=xml.parent, prefix=".writing.") as temporary,
    ):
        made = Path(temporary) / xml.name
        inputs: list[str] = run(save_part, part, made, stamp, what="writing", path=xml)
        for suffix in (".bin", ".xml"):
            replace(made.with_suffix(suffix), xml.with_suffix(suffix))
    return inputs


def _manifest_and_runner(
    graph: Graph,
    out_dir: Path,
    stamp: str,
    form: str,
    steps: Sequence[Mapping[str, Any]],
    session: Mapping[str, Any],
) -> list[Path]:
    """Writes what the parts have in common: how they follow each other, and what runs them.

    Raises:
        ExportError: no part makes an output, which is a constant then.
    """
    inputs, outputs = list(graph.input_names), list(graph.output_names)
    made = {*inputs, *(name for step in steps for name in step["outputs"])}
    if lost := next((name for name in outputs if name not in made), None):
        raise ExportError(
            f"output {lost!r} is a constant that no subgraph produces, so the model cannot be split into files"
        )
    manifest = {
        "format": f"hetero-editor/{form}",
        "version": 1,
        "made_by": stamp,
        "model": graph.name,
        **session,
        "inputs": inputs,
        "outputs": outputs,
        "examples": _examples(graph),
        "subgraphs": steps,
    }
    runner = script_of(f"{form.replace('-', '_')}_runner", stamp, graph.name)
    return [
        write_atomic(out_dir / "manifest.json", json_text(manifest)),
        write_atomic(out_dir / "run.py", runner),
    ]


def _examples(graph: Graph) -> dict[str, dict[str, Any]]:
    """Name of an input -> what a script makes an example of it from: type, shape, and values of integers that it may have.

    Inputs that are no arrays of numpy, or have no known shape, have none.
    """
    inventor, found = Inventor(graph, MANNERS[0], np.random.default_rng(0)), {}
    for tensor in graph.inputs.tolist():
        kind, shape = graph.tensor_types[tensor], graph.tensor_shapes[tensor]
        if kind not in _ARRAYS or not is_static((kind, shape)):
            continue
        form: dict[str, Any] = {"dtype": kind, "shape": list(shape or ())}
        if not kind.startswith("float"):
            form["values"] = 0
            if 0 < prod(form["shape"]) <= _MOST_INVENTED:
                values = np.asarray(inventor.value(tensor)[0])
                if (values == values.flat[0]).all():
                    form["values"] = values.flat[0].item()
                elif values.size <= _MOST_VALUES:
                    form["values"] = values.tolist()
        found[graph.tensor_names[tensor]] = form
    return found


def _open_parts(placement: Placement) -> list[SubModel | None]:
    """[subgraph] its part with open sizes; None for one without results."""
    try:
        found = open_submodels(placement.graph, placement.ops_of_subgraphs())
    except ExecutionError as error:
        raise ExportError(f"sizes=open: {error}") from error
    by_label = {part.label: part for part in found}
    return [by_label.get(f"subgraph {s.id}") for s in placement.subgraphs]


def _for_openvino(graph: Graph, part: SubModel, device: Device) -> dict[str, Any]:
    """How OpenVINO compiles a subgraph of one of its devices; nothing where the script must not.

    That is where values other than arrays would pass, and where caches of a fixed size are read, in which OpenVINO
    2026.4 is wrong; plans that run here open them.
    """
    names = (*part.inputs, *part.outputs)
    if not openvino_device(device) or not all(
        graph.tensor_types[graph.tensor_index[name]] in _ARRAYS for name in names
    ):
        return {}
    if any(node.op_type == "GroupQueryAttention" for node in part.model.graph.node):
        return {}
    return {"openvino": {"target": device.provider, "properties": properties_of(device)}}


def _left_to_onnxruntime(
    steps: Sequence[dict[str, Any]], devices: Mapping[str, Device]
) -> list[str]:
    """A note for each subgraph of OpenVINO that the script runs by ONNX Runtime."""
    odd = [s for s in steps if openvino_device(devices[s["device"]]) and not s.get("openvino")]
    return [
        f"ONNX Runtime runs subgraph {s['id']} on the CPU instead of OpenVINO, as it passes values that are no arrays of "
        "numpy, or has GroupQueryAttention"
        for s in odd
    ]
