"""Reads where ONNX Runtime and TensorRT ran the ops of a model: profiles, logs, records and lists of layers; pins by these.

A layer may be of several ops that were fused. Its names say of which, as far as a tool keeps them. A profile of ONNX Runtime is
a trace of events, times in microseconds: one of category ``Node`` is one kernel of a run, ``<node>_kernel_time``;
``model_run`` is a whole run. What runs inside a body of If, Loop or Scan is inside the time of that op, and left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from editor.arguments import as_path
from editor.devices.device import Device
from editor.errors import EditorError, PlanError
from editor.graph.graph import Graph
from editor.graph.loading import load_model
from editor.imports.affinity_files import ImportedAffinities, first_come, read_affinities
from editor.imports.matching import (
    Layer,
    LayerTimes,
    check_layers,
    label_of,
    layer_name,
    match,
    mean_layers,
    quiet_runs,
    seconds_of,
    times_of_ops,
)
from editor.placement.placement import Placement, solve
from editor.placement.rules import label_mask
from editor.text import human_seconds, pluralize, shortened

_PLACED = re.compile(r"(All nodes|Node\(s\)) placed on \[([^\]]*)\]\. Number of nodes: \d+")
_NODE = re.compile(r"VerifyEachNodeIsAssignedToAnEp\w*\]\s+(\S+) \((.*)\)$")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ONNX_LAYER = re.compile(r"\[ONNX Layer: ([^\]]*)\]")
_COPIES = ("Memcpy",)
"""Beginnings of types of nodes that ONNX Runtime adds between providers."""
_MOST_NAMED, _MAX_NAME = 5, 80


def read_profile(path: Path, data: list[Any]) -> ImportedAffinities:
    """The providers of the kernels in ONNX Runtime's profile."""
    return _found("profile of ONNX Runtime", path, read_trace(path, data).layers)


def is_log(_path: Path, text: str) -> bool:
    """Whether a text is a verbose log of ONNX Runtime that says where nodes were placed."""
    return _PLACED.search(text) is not None


def read_log(path: Path, text: str) -> ImportedAffinities:
    """The providers of the nodes in a verbose log; a log of one provider names no nodes, for it has all of them."""
    layers: list[Layer] = []
    provider = ""
    for line in _COLOUR.sub("", text).splitlines():
        placed, node = _PLACED.search(line), _NODE.search(line.rstrip())
        if placed is not None:
            provider = placed[2]
            if placed[1] == "All nodes":
                layers.append(Layer("", 1.0, provider=provider))
        elif node is not None and provider:
            layers.append(Layer(node[2] or node[1], 1.0, node[1], provider))
    return _found("verbose log of ONNX Runtime", path, layers)


def is_assignment(_path: Path, data: Any) -> bool:
    """Whether parsed JSON is a recorded assignment: parts of the graph, each with its provider."""
    return isinstance(data, list) and any(isinstance(p, dict) and "ep_name" in p for p in data[:8])


def read_assignment(path: Path, data: list[Any]) -> ImportedAffinities:
    """The providers of the nodes in what ``get_provider_graph_assignment_info`` returned, as JSON."""
    layers = []
    for number, part in enumerate(data, 1):
        where = f"{path}: entry {number}"
        nodes = part.get("nodes") if isinstance(part, dict) else None
        if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
            raise PlanError(f"{where}: it needs an ep_name and a list of nodes")
        for node in nodes:
            kind = str(node.get("op_type", ""))
            name = layer_name(node.get("name") or kind, where)
            layers.append(Layer(name, 1.0, kind, str(part.get("ep_name", ""))))
    return _found("assignment recorded by ONNX Runtime", path, layers)


def read_layers(path: Path, data: Mapping[str, Any]) -> ImportedAffinities:
    """The layers of an engine of TensorRT, as ``trtexec --exportLayerInfo`` lists them: on the DLA, or on the GPU."""
    listed = data["Layers"]
    if not isinstance(listed, list):
        raise PlanError(f"{path}: Layers must be a list")
    layers = []
    for number, entry in enumerate(listed, 1):
        layer = {"Name": entry} if isinstance(entry, str) else entry
        where = f"{path}: layer {number}"
        if not isinstance(layer, dict):
            raise PlanError(f"{where}: a layer is a name or a mapping")
        name, kind = layer_name(layer.get("Name"), where), str(layer.get("LayerType", ""))
        ops = tuple(_ONNX_LAYER.findall(str(layer.get("Metadata", ""))))
        layers.append(Layer(name, 1.0, kind, "DLA" if kind == "DLA" else "TensorRT", ops))
    return _found("layers of TensorRT", path, layers)


def _found(kind: str, path: Path, layers: Sequence[Layer]) -> ImportedAffinities:
    check_layers(path, len(layers))
    known = [layer for layer in layers if layer.provider]
    if not known:
        raise PlanError(f"{path}: it does not say which provider ran a layer")
    return ImportedAffinities(kind, {}, layers=tuple(known))


def of_layers(
    graph: Graph, devices: Sequence[Device], imported: ImportedAffinities
) -> ImportedAffinities:
    """The affinities that follow from layers; a problem for each provider that is not a device, and for layers without ops."""
    named: dict[int, str] = {}
    joined: dict[int, str] = {}
    problems: list[str] = []
    lost: list[str] = []
    for provider in dict.fromkeys(layer.provider for layer in imported.layers):
        own = [
            layer
            for layer in imported.layers
            if layer.provider == provider and not layer.type.startswith(_COPIES)
        ]
        label = label_of(provider, devices)
        if label is None:
            problems.append(
                f"{provider}: no device of the plan is this one, or several are "
                f"({', '.join(d.name for d in devices)}); it ran {pluralize(len(own), 'layer')}"
            )
            continue
        if any(not layer.name for layer in own):
            named.update(dict.fromkeys(range(len(graph)), label))
            continue
        found = times_of_ops(graph, LayerTimes(imported.kind, tuple(own), 0, ordered=False))
        named.update(dict.fromkeys(set(found.seconds) - found.joined, label))
        joined.update(dict.fromkeys(found.joined, label))
        lost += [layer.name for layer in found.unmatched]
    if lost:
        problems.append(_without_ops(lost))
    placed = {**joined, **named}
    affinities = {
        graph.op_keys[op]: placed[op]
        for op in np.flatnonzero(~graph.op_is_constant).tolist()
        if op in placed
    }
    return replace(
        imported,
        affinities=affinities,
        problems=tuple(problems),
        joined=frozenset(graph.op_keys[op] for op in joined.keys() - named.keys()),
    )


def _without_ops(names: Iterable[str]) -> str:
    """Says which layers have no op of the model."""
    listed = list(dict.fromkeys(names))
    shown = ", ".join(repr(shortened(name, _MAX_NAME)) for name in listed[:_MOST_NAMED])
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return f"{pluralize(len(listed), 'layer')} without an op of this model: {shown}{more}"


_SUFFIX = "_kernel_time"
_BODIES = frozenset({"If", "Loop", "Scan"})
_LEAST_RUNS = 4
_NOISY = 1.25
"""Times the quickest run that the median takes where the machine was busy."""
_LEAST_SHARE = 0.5
"""Of a run that its layers must add up to, before the rest counts as overhead of the run."""


def is_trace(_path: Path, data: Any) -> bool:
    """Whether parsed JSON looks like such a profile."""
    return isinstance(data, list) and any(
        isinstance(e, dict) and e.get("cat") in ("Session", "Node") for e in data[:64]
    )


def read_trace(path: Path, data: list[Any]) -> LayerTimes:
    """The mean time of each kernel over the quietest runs of a trace, without the first run where there are several.

    Raises:
        PlanError: an event is damaged, or there is none of a kernel; the message has the number of the entry.
    """
    runs: list[list[Layer]] = []
    totals: list[float] = []
    current: list[Layer] = []
    inside = -1.0
    for number, event in sorted(_events(path, data), key=lambda item: _position(item[1])):
        where = f"{path}: entry {number}"
        if event.get("name") == "model_run":
            if current:
                runs.append(current)
                totals.append(seconds_of(event.get("dur"), 1e-6, where))
            current, inside = [], -1.0
            continue
        found = event.get("args")
        arguments: Mapping[str, Any] = found if isinstance(found, dict) else {}
        if event["ts"] < inside:  # part of the body of an op that has begun
            continue
        kind = str(arguments.get("op_name", ""))
        layer = _layer(event, arguments, kind, where)
        if kind in _BODIES:
            inside = event["ts"] + layer.seconds * 1e6
        current.append(layer)
    if current and not runs:  # the session was not closed, so that the run is missing
        runs, totals = [current], [0.0]
    check_layers(path, max(map(len, runs), default=0))
    if len(runs) > 1:  # the first one warmed up
        runs, totals = runs[1:], totals[1:]
    quiet = quiet_runs(runs, totals)
    layers, total = mean_layers([runs[i] for i in quiet]), mean(totals[i] for i in quiet)
    inside = sum(layer.seconds for layer in layers)
    if inside < _LEAST_SHARE * total:
        note = (
            f"the layers add up to {inside / total * 100:.0f} % of a run: on devices that work on their own, ONNX Runtime "
            "times the start of a kernel, not the kernel"
        )
        return LayerTimes("ONNX Runtime", layers, len(runs), notes=(note,))
    noise = _spread(totals)
    if not total:
        return LayerTimes("ONNX Runtime", layers, len(runs), disturbances=noise)
    # What is in no kernel passes before and after each of them, the profiler's own work among it, and not once a run.
    gap = max(total - inside, 0.0) / (len(layers) + 1)
    return LayerTimes(
        "ONNX Runtime",
        tuple(replace(layer, seconds=layer.seconds + gap) for layer in layers),
        len(runs),
        overhead=gap,
        disturbances=noise,
    )


def _spread(totals: Sequence[float]) -> tuple[str, ...]:
    """Says so where runs differ so much that the machine was busy."""
    if len(totals) < _LEAST_RUNS or median(totals) < _NOISY * min(totals):
        return ()
    least, middle, most = (human_seconds(t) for t in (min(totals), median(totals), max(totals)))
    return (
        f"noisy: its {len(totals)} runs took {least} to {most}, {middle} in the median; the quickest are taken",
    )


def _events(path: Path, data: list[Any]) -> Iterable[tuple[int, Mapping[str, Any]]]:
    """Kernels and runs with their number in the file, from 1."""
    for number, event in enumerate(data, 1):
        if not isinstance(event, dict):
            raise PlanError(
                f"{path}: entry {number}: an event is a mapping, not {type(event).__name__}"
            )
        name = event.get("name")
        is_kernel = event.get("cat") == "Node" and isinstance(name, str) and name.endswith(_SUFFIX)
        if not is_kernel and name != "model_run":
            continue
        if isinstance(event.get("ts"), bool) or not isinstance(event.get("ts"), int | float):
            raise PlanError(f"{path}: entry {number}: the event {name!r} has no time stamp `ts`")
        yield number, event


def _position(event: Mapping[str, Any]) -> float:
    """Where an event stands in the trace: a run behind its kernels, an op before what is in its body."""
    duration = event.get("dur")
    length = (
        float(duration)
        if isinstance(duration, int | float) and event.get("name") == "model_run"
        else 0.0
    )
    return float(event["ts"]) + length


def _layer(event: Mapping[str, Any], arguments: Mapping[str, Any], kind: str, where: str) -> Layer:
    name = event["name"].removesuffix(_SUFFIX)
    seconds = seconds_of(event.get("dur"), 1e-6, where)
    number = re.fullmatch(
        re.escape(kind) + r"_(\d{1,9})", name
    )  # a node without a name: its type and number
    index = (
        int(number[1])
        if number is not None and str(arguments.get("node_index")) == number[1]
        else -1
    )
    return Layer(
        layer_name(name or kind, where),
        seconds,
        kind,
        str(arguments.get("provider", "")),
        index=index,
    )


@dataclass(frozen=True)
class ImportReport:
    """The used and unused entries of an imported file."""

    kind: str
    """The format."""
    pinned: int
    how: dict[str, int]
    """Entries matched by ``key``, ``name`` and ``structure``."""
    problems: tuple[str, ...]
    """Unused entries with their reasons."""


def with_affinities(placement: Placement, path: str | Path) -> tuple[Placement, ImportReport]:
    """A placement solved again with the affinities of a file as pins; what the devices refuse is reported.

    Raises:
        PlanError: the file cannot be read.
    """
    graph, devices = placement.graph, placement.devices
    imported = read_affinities(as_path(path, "a file of affinities", PlanError))
    if imported.table:
        imported = first_come(graph, devices, placement.constraints.capabilities, imported)
    if imported.layers:
        imported = of_layers(graph, devices, imported)
    source = None
    has_all_keys = set(imported.affinities) <= set(graph.key_index)
    if imported.model is not None and Path(imported.model).is_file() and not has_all_keys:
        try:
            source = load_model(imported.model, None)
        except EditorError:
            source = None  # then only names can match
    # OpenVINO's nodes for inputs and weights are not ops.
    ignore = (
        imported.helpers | frozenset(graph.tensor_names) if imported.helpers else imported.helpers
    )
    matched = match(graph, devices, imported.affinities, source, ignore)
    constraints, pins, refused = placement.constraints, {}, []
    for key, label in matched.pins.items():
        op, allowed = graph.key_index[key], label_mask(label, devices)
        if (constraints.able[op] & allowed).any():
            pins[key] = label
        else:
            refused.append(
                f"{key!r}: {label} cannot run it ({constraints.inability(op, int(allowed.argmax()))})"
            )
    settings = replace(placement.settings, pins={**placement.settings.pins, **pins})
    solved = solve(graph, devices, settings, constraints.capabilities)
    problems = (*imported.problems, *matched.problems, *refused)
    return solved, ImportReport(imported.kind, len(pins), dict(matched.how), problems)
