"""One IR per subgraph of an IR, a manifest, and a runner that needs only numpy and OpenVINO."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from editor.errors import ExportError
from editor.execution.cut import Cutter, cut
from editor.exports.model_copy import check_weights, script_of
from editor.exports.openvino import openvino_name, properties_of
from editor.exports.shortfall import shortfall
from editor.exports.split import examples_of
from editor.files import json_text, replace, write_atomic
from editor.placement.placement import Placement
from editor.runtimes.base import SubModel
from editor.runtimes.openvino.runtime import openvino_device
from editor.sandbox.worker import run


def left_out(placement: Placement) -> str:
    """What the runner does not keep of a plan, in a line."""
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
    devices = {d.name: d for d in placement.devices}
    written: list[Path] = []
    steps: list[dict[str, Any]] = []
    for subgraph, part in zip(placement.subgraphs, cut(placement, cutter), strict=True):
        if part is None:
            continue
        xml = out_dir / f"subgraph_{subgraph.id}.xml"
        read = _write_part(part, xml, stamp)
        written += [xml, xml.with_suffix(".bin")]
        steps.append(
            {
                "id": subgraph.id,
                "model": xml.name,
                "device": subgraph.device,
                "target": openvino_name(devices[subgraph.device]),
                "properties": properties_of(devices[subgraph.device]),
                "inputs": read,
                "outputs": list(part.outputs),
                "ops": subgraph.size,
            }
        )
    inputs = [graph.tensor_names[t] for t in graph.inputs.tolist()]
    outputs = [graph.tensor_names[t] for t in graph.outputs.tolist()]
    made = {*inputs, *(name for step in steps for name in step["outputs"])}
    if lost := next((name for name in outputs if name not in made), None):
        raise ExportError(
            f"output {lost!r} is a constant that no subgraph produces, so the model cannot be split into files"
        )
    manifest = {
        "format": "hetero-editor/split-ir",
        "version": 1,
        "made_by": stamp,
        "model": graph.name,
        "inputs": inputs,
        "outputs": outputs,
        "examples": examples_of(graph),
        "subgraphs": steps,
    }
    return [
        *written,
        write_atomic(out_dir / "manifest.json", json_text(manifest)),
        write_atomic(out_dir / "run.py", script_of("split_ir_runner", stamp, graph.name)),
    ]


def _write_part(part: SubModel, xml: Path, stamp: str) -> list[str]:
    from editor.runtimes.openvino.request import save_part  # which loads OpenVINO

    try:
        xml.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=xml.parent, prefix=".writing.") as temporary:
            made = Path(temporary) / xml.name
            inputs: list[str] = run(save_part, part, made, stamp, what="writing", path=xml)
            for suffix in (".bin", ".xml"):
                replace(made.with_suffix(suffix), xml.with_suffix(suffix))
    except OSError as error:
        raise ExportError(f"{xml}: cannot be written ({error.strerror or error})") from error
    return inputs
