"""The kit: a folder that measures the ops of a device on a machine without the editor.

Every group of ops is an ONNX model, and every subgraph that the device could run at once is one; all share one file of
weights. ``run.py`` measures them with Python, numpy and the runtime of the target, and writes ``profile.json``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from onnx import ModelProto

from editor.devices.device import Device
from editor.errors import ExecutionError, ExportError
from editor.execution.compile.cut import Cutter, cut, missing_types
from editor.exports.formats import KIT_RUNTIMES
from editor.exports.kit_groups import groups_of, names_of, pieces_of, signature
from editor.exports.kit_links import link_models
from editor.exports.kit_weights import WeightsFile
from editor.exports.model_copy import check_weights
from editor.exports.stamp import script_of, stamp_model
from editor.files import json_text, write_atomic
from editor.graph.graph import Graph
from editor.placement.placement import Placement, Settings, solve
from editor.runtimes.base import SubModel


def kit_device(devices: Sequence[Device], name: str = "") -> Device:
    """The device that a kit is for.

    Args:
        devices: the device table.
        name: of the device; "" for the only planned one.

    Raises:
        ExportError: there is no such device, or no name and not exactly one planned device.
    """
    planned = [d for d in devices if d.planned]
    chosen = [d for d in devices if d.name.lower() == name.lower()] if name else planned
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(d.name for d in devices)
    if name:
        raise ExportError(f"unknown device {name!r} (choose one of: {names})")
    count = "no planned device" if not planned else f"{len(planned)} planned devices"
    raise ExportError(f"the plan has {count}; say which device the kit is for, in the page with its “Kit” in the tab Devices, "
                      f"or with `python -m editor kit PLAN --device NAME --out DIR`; it has: {names}")


def write_kit(placement: Placement, out_dir: Path, stamp: str = "", device: str = "", runtime: str = "") -> list[Path]:
    """Writes the kit of a device; returns the paths.

    Args:
        placement: of the model. The kit measures every op that the device can run, not only those that it has now.
        out_dir: the folder.
        stamp: origin of the kit.
        device: name of the device; "" for the only planned one.
        runtime: the runtime that the target has; "" leaves it to ``run.py``.

    Raises:
        ExportError: it is not clear which device is meant, the device can run no op, or the folder cannot be written.
    """
    if runtime and runtime not in KIT_RUNTIMES:
        raise ExportError(f"unknown runtime {runtime!r}; a kit measures with one of: {', '.join(KIT_RUNTIMES)}")
    graph, target = placement.graph, kit_device(placement.devices, device)
    whole = _all_on(placement, target)
    groups, pieces = groups_of(whole, target), pieces_of(whole, target)
    cutter = Cutter.open(graph)
    check_weights(cutter.source, graph)
    unknown = sorted({name for one in (whole, groups, pieces) for name in missing_types(one)})
    if unknown:
        with suppress(ExecutionError):  # an op that only the target knows: what reads its results cannot be measured alone
            cutter.infer_types(unknown)
    with WeightsFile(out_dir / "weights.bin", graph.folder) as weights:
        models = _Models(graph, out_dir, stamp, weights)
        wholes = models.keep_wholes(_submodels(whole, target, cutter), _submodels(pieces, target, cutter))
        measured, unmeasurable = models.keep_groups(_submodels(groups, target, cutter))
    if not measured:
        why = _most_refused(placement, target)
        raise ExportError(f"{target.name} can run no op of {graph.name} whose shapes are known{why}")
    links = models.keep_links()
    document = {"format": "hetero-editor/kit", "version": 1, "made_by": stamp, "model": graph.name,
                "model_sha256": graph.sha256, "define": dict(graph.define), "device": target.name, "runtime": runtime,
                "properties": {key: str(value) for key, value in target.properties.items()}, "properties_of": target.runtime,
                "models": models.entries, "wholes": wholes, "groups": measured, "unmeasurable": unmeasurable, "links": links}
    return [weights.path, *models.written, write_atomic(out_dir / "kit.json", json_text(document)),
            write_atomic(out_dir / "run.py", script_of("kit_runner", stamp, graph.name)),
            write_atomic(out_dir / "README.md", _readme(graph.name, target.name, runtime, stamp))]


def _most_refused(placement: Placement, target: Device) -> str:
    """The reason that most ops are refused for, as the end of a sentence; "" where none is."""
    number = placement.device_number(target.name)
    reasons = [placement.constraints.inability(op, number) for op in placement.placed_ops.tolist()]
    if not any(reasons):
        return ""
    (reason, count), = Counter(filter(None, reasons)).most_common(1)
    return f": it refuses {count} of {len(reasons)} ops because: {reason}"


_README = """# Measures {model} for {device}

This folder measures what each op of the model takes on the machine that it is copied to. That machine needs Python 3.8
or newer, numpy, and {runtime}; nothing else.

    python run.py
    python run.py --help     # another execution provider or device, more time, threads

It may be stopped and started again: what is measured is kept. In the end it writes `profile.json`. Take that back to the
plan, and figures for {device} are predictions instead of estimates:

    python -m editor import PLAN profile.json

or open the plan in the editor and choose it in the tab *Rules*, *Import affinities or times*.

| file | what |
| --- | --- |
| `run.py` | measures; no part of the editor is needed |
| `kit.json` | which ops of the model each file stands for |
| `group_*.onnx` | the ops, one by one or with what runtimes fuse them with |
| `whole_*.onnx`, `piece_*.onnx` | the ops together, and in a few pieces: what a cut costs |
| `link_*.onnx` | launches and copies to and from the device |
| `weights.bin` | the weights of all of them |

Made by {stamp}.
"""


def _readme(model: str, device: str, runtime: str, stamp: str) -> str:
    names = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
    return _README.format(model=model, device=device, stamp=stamp or "Hetero Editor",
                          runtime=names.get(runtime, "ONNX Runtime or OpenVINO"))


class _Models:
    """The models of a kit: writes each, and keeps what the kit says of it."""

    def __init__(self, graph: Graph, out_dir: Path, stamp: str, weights: WeightsFile) -> None:
        self._graph, self._out_dir, self._stamp, self._weights = graph, out_dir, stamp, weights
        self.entries: list[dict[str, Any]] = []
        self.written: list[Path] = []

    def keep(self, submodel: SubModel, name: str) -> int:
        """Writes a sub-model; returns its number."""
        self._write(self._weights.refer(submodel.model), name)
        self.entries.append({"file": f"{name}.onnx", "inputs": _inputs(self._graph, submodel)})
        return len(self.entries) - 1

    def keep_wholes(self, wholes: Sequence[SubModel], pieces: Sequence[SubModel]) -> list[dict[str, Any]]:
        """Writes subgraphs, and the pieces of those that are cut into some; a piece of unknown shapes cannot be measured."""
        entries: list[dict[str, Any]] = []
        for i, whole in enumerate(wholes):
            ops = _ops(self._graph, whole.model)
            parts = [piece for piece in pieces if _ops(self._graph, piece.model).items() <= ops.items()]
            known = all(spec["shape"] is not None for piece in parts for spec in _inputs(self._graph, piece))
            entries.append({"model": self.keep(whole, f"whole_{i}"), "ops": ops, "pieces": [
                self.keep(piece, f"piece_{i}_{k}") for k, piece in enumerate(parts)] if known and len(parts) > 1 else []})
        return entries

    def keep_groups(self, groups: Sequence[SubModel]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Writes groups, those that do the same work once; returns the groups, and those that cannot be measured."""
        measured: list[dict[str, Any]] = []
        unmeasurable: list[dict[str, Any]] = []
        known: dict[str, int] = {}
        for submodel in groups:
            ops = _ops(self._graph, submodel.model)
            unknown = [i["name"] for i in _inputs(self._graph, submodel) if i["shape"] is None]
            if unknown:
                unmeasurable.append({"ops": ops, "reason": f"the shape of {unknown[0]!r} is unknown before a run"})
                continue
            same = signature(submodel.model)
            if same not in known:
                known[same] = self.keep(submodel, f"group_{len(known):04}")
            measured.append({"model": known[same], "ops": ops})
        return measured, unmeasurable

    def keep_links(self) -> dict[str, Any]:
        """Writes the models that measure launches and transfers."""
        found = {}
        for name, (model, values, size) in link_models().items():
            self._write(model, f"link_{name}")
            inputs = [{"name": i.name, "type": "float32", "shape": [d.dim_value for d in i.type.tensor_type.shape.dim]}
                      for i in model.graph.input]
            found[name] = {"file": f"link_{name}.onnx", "inputs": inputs, "values": values, "bytes": size}
        return found

    def _write(self, model: ModelProto, name: str) -> None:
        stamp_model(model, self._stamp)
        data = model.SerializeToString(deterministic=True)
        self.written.append(write_atomic(self._out_dir / f"{name}.onnx", data))


def _all_on(placement: Placement, device: Device) -> Placement:
    """A placement with every op on the device that it can run; the others go where they can."""
    order = [device, *(d for d in placement.devices if d.name != device.name)]
    answers = dict(zip((d.name for d in placement.devices), placement.constraints.capabilities, strict=True))
    return solve(placement.graph, order, Settings(), [answers[d.name] for d in order])


def _submodels(placement: Placement, device: Device, cutter: Cutter) -> list[SubModel]:
    found = cut(placement, cutter, fold_shapes=True)
    return [submodel for subgraph, submodel in zip(placement.subgraphs, found, strict=True)
            if submodel is not None and subgraph.device == device.name]


def _ops(graph: Graph, model: ModelProto) -> dict[str, str]:
    """Name of the node in the kit -> key, without constants."""
    return {f"op{op}": graph.op_keys[op] for op in names_of(model.graph.node) if not graph.op_is_constant[op]}


def _inputs(graph: Graph, submodel: SubModel) -> list[dict[str, Any]]:
    """Inputs of a sub-model: name, type, and shape, None where it is unknown before a run."""
    found: list[dict[str, Any]] = []
    for name in submodel.inputs:
        tensor = graph.tensor_index[name]
        shape = graph.tensor_shapes[tensor]
        known = shape is not None and all(isinstance(d, int) for d in shape)
        found.append({"name": name, "type": graph.tensor_types[tensor], "shape": list(shape or ()) if known else None})
    return found
