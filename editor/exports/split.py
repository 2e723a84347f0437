"""One ONNX model per subgraph, a manifest, and a runner that needs only numpy, ONNX Runtime, and OpenVINO for its devices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from editor.devices.device import Device
from editor.errors import ExecutionError, ExportError
from editor.execution.cut import Cutter, cut
from editor.execution.invented_values import MANNERS, Inventor
from editor.execution.open_sizes import open_submodels
from editor.exports.model_copy import check_weights, script_of, write_submodel
from editor.exports.onnxruntime import custom_ops_of, provider_notes, providers_of, runs_on
from editor.exports.openvino import properties_of
from editor.exports.shortfall import shortfall
from editor.files import json_text, write_atomic
from editor.graph.graph import Graph
from editor.graph.static_values import is_static
from editor.placement.placement import Placement
from editor.runtimes.base import SubModel
from editor.runtimes.onnxruntime.providers import CPU, SELECTS_BY_UNIT, index_of, provider_of
from editor.runtimes.openvino.runtime import openvino_device

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
    written, steps = [], []
    devices = {d.name: d for d in placement.devices}
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
                **_for_openvino(graph, submodel, devices[subgraph.device]),
                "inputs": list(submodel.inputs),
                "outputs": list(submodel.outputs),
                "ops": subgraph.size,
            }
        )
    constants = [
        graph.tensor_names[t]
        for t in dict.fromkeys(graph.outputs.tolist())
        if graph.tensor_producer[t] < 0 and t not in set(graph.inputs.tolist())
    ]
    if constants:
        raise ExportError(
            f"graph output {constants[0]!r} is an initializer that no subgraph produces, so the model cannot be "
            "split into files"
        )
    manifest = {
        "format": "hetero-editor/split",
        "version": 1,
        "made_by": stamp,
        "model": graph.name,
        "providers": providers_of(placement),
        "custom_ops": custom_ops_of(placement, cutter.source),
        "notes": [*notes(placement.used_devices), *_left_to_onnxruntime(steps, devices)],
        "inputs": [graph.tensor_names[t] for t in graph.inputs.tolist()],
        "outputs": [graph.tensor_names[t] for t in graph.outputs.tolist()],
        "examples": examples_of(graph),
        "subgraphs": steps,
    }
    return [
        *written,
        write_atomic(out_dir / "manifest.json", json_text(manifest)),
        write_atomic(out_dir / "run.py", script_of("split_runner", stamp, graph.name)),
    ]


def examples_of(graph: Graph) -> dict[str, dict[str, Any]]:
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


def _left_to_onnxruntime(steps: Sequence[dict[str, Any]], devices: dict[str, Device]) -> list[str]:
    """A note for each subgraph of OpenVINO that the script runs by ONNX Runtime."""
    odd = [s for s in steps if openvino_device(devices[s["device"]]) and not s.get("openvino")]
    return [
        f"ONNX Runtime runs subgraph {s['id']} on the CPU instead of OpenVINO, as it passes values that are no arrays of "
        "numpy, or has GroupQueryAttention"
        for s in odd
    ]
