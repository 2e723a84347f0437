"""Reads affinities that other tools wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np

from editor.devices.device import Device
from editor.devices.keys import listed
from editor.devices.vocabulary import op_name
from editor.errors import ModelError, PlanError
from editor.files import file_state, read_json
from editor.graph.graph import Bools, Graph
from editor.graph.model_file import read_model
from editor.graph.plain_models import PLAIN_BYTES
from editor.imports.formats import FORMATS, read, words
from editor.imports.matching import Layer
from editor.imports.profile_files import DEVICE_COLUMNS, table_rows
from editor.placement.constraints import allowed_by_lists
from editor.runtimes.base import Capability
from editor.sandbox.watch import READING
from editor.sandbox.worker import run
from editor.text import shortened
from editor.yaml_text import YamlError, load_yaml

_LISTS = ("supportedNodes", "nonSupportedNodes")


def first_come(
    graph: Graph,
    devices: Sequence[Device],
    capabilities: Sequence[Capability],
    imported: ImportedAffinities,
) -> ImportedAffinities:
    """Returns the affinities that follow from a table.

    Args:
        graph: the model of the plan.
        devices: its device table; an entry refers to the device of its name (case-insensitive), else to the only one of
            its backend (names are free in Glow: ``Device1``, ``Device2``).
        capabilities: [device] the ops that it can run. The lists of the imported table apply, not those of the plan.
        imported: the file with the entries of the table.

    Returns:
        the imported file with affinities, and a problem for each entry without a device, each unknown op name in
        a list, and each op that no device of the table may run.
    """
    problems = list(imported.problems)
    free = ~graph.op_is_constant
    affinities: dict[str, str] = {}
    used: list[str] = []
    for entry, device in zip(
        imported.table, _devices_of_entries(imported.table, devices), strict=True
    ):
        name = _name(entry)
        if device is None:
            problems.append(
                f"{name!r}: unknown device {name!r} (choose one of: {', '.join(d.name for d in devices)}), nor "
                f"exactly one of its backend; its ops go to the next device of the table"
            )
            continue
        if devices[device].name in used:
            problems.append(
                f"{name!r}: an entry before it is {devices[device].name} too; the first holds"
            )
            continue
        used.append(devices[device].name)
        taken = (
            free
            & capabilities[device].mask
            & _allowed_by_entry(graph, devices[device], entry, name, problems)
        )
        affinities.update(
            {graph.op_keys[op]: devices[device].name for op in np.flatnonzero(taken).tolist()}
        )
        free &= ~taken
    problems += [
        f"{graph.op_keys[op]!r}: no device of the table may run it ({graph.type_label(op)}; "
        f"asked: {', '.join(used)})"
        for op in (np.flatnonzero(free).tolist() if used else ())
    ]
    return replace(imported, affinities=affinities, problems=tuple(problems))


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("name") or entry["backendName"])


def _devices_of_entries(
    table: Sequence[Mapping[str, Any]], devices: Sequence[Device]
) -> list[int | None]:
    """[entry] index of its device, by name first, then by backend among the remaining devices; None when unknown."""
    index = {d.name.lower(): i for i, d in enumerate(devices)}
    result = [index.get(_name(entry).lower()) for entry in table]
    for position, entry in enumerate(table):
        if result[position] is None:
            backend = str(entry.get("backendName")).lower()
            matches = [
                i
                for i, d in enumerate(devices)
                if i not in result and backend in (d.name.lower(), d.backend.lower())
            ]
            result[position] = matches[0] if len(matches) == 1 else None
    return result


def _allowed_by_entry(
    graph: Graph, device: Device, entry: Mapping[str, Any], name: str, problems: list[str]
) -> Bools:
    """[op] whether the lists of an entry allow it. An unknown op name matches no op and is a problem."""
    parameters: Any = entry.get("parameters") or {}
    if isinstance(parameters, str):
        try:
            parameters = load_yaml(parameters)[1] or {}
        except YamlError:
            parameters = None
    if not isinstance(parameters, Mapping):
        problems.append(
            f'{name!r}: its parameters are no `"key" : "value"` lines; no restriction is taken from them'
        )
        parameters = {}
    types = frozenset(graph.op_types)
    lists: dict[str, tuple[str, ...]] = {}
    for key in _LISTS:
        lists[key] = listed(entry.get(key, parameters.get(key)))
        problems += [
            f"{name!r}: {key}: unknown op {op!r}"
            for op in lists[key]
            if op_name(op, types) is None and "::" not in op
        ]
    return allowed_by_lists(
        graph,
        replace(
            device, supported=lists["supportedNodes"], non_supported=lists["nonSupportedNodes"]
        ),
    )


_EDITOR_NODE = re.compile(r"^\s*op\d+ \[(?P<body>.*)\]\s*$")
_OPENVINO_NODE = re.compile(r'label="(?P<label>(?:[^"\\]|\\.)*)"')
_ATTRIBUTE = re.compile(
    r'(?P<name>device|tooltip)=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s\]]+))'
)
_RESULT = re.compile(r"/sink_port_\d+$")
_DEEPEST = 64
"""Modules inside each other in a name."""
_HELPER = re.compile(r"/(sink_port_\d+|WithoutBiases|[a-z_]+)$")


@dataclass(frozen=True)
class ImportedAffinities:
    """The affinities in a file."""

    kind: str
    """Name of the detected format."""
    affinities: Mapping[str, str]
    problems: tuple[str, ...] = ()
    """Unusable entries, one message each."""
    model: str | None = None
    """Path of the model of the entries, where the file states one."""
    helpers: frozenset[str] = field(default_factory=frozenset)
    """Names of ops that only the other tool has; they need no match."""
    layers: tuple[Layer, ...] = ()
    """Layers with the provider of each, of which ops follow for a given model; see ``placements.of_layers``."""
    joined: frozenset[str] = frozenset()
    """Keys of the ops in ``affinities`` that no layer names, and that joined the layer beside them."""
    table: tuple[Mapping[str, Any], ...] = ()
    """Entries of a device table, which determines affinities for a given model; see ``first_come``."""


def read_affinities(path: Path) -> ImportedAffinities:
    """Reads a file of affinities in any format of the registry.

    Raises:
        PlanError: the file cannot be read, or has another format.
    """
    imported: ImportedAffinities | None = read(path, times=False)
    if imported is None:
        known = sorted(
            {end for form in FORMATS.values() if not form.times for end in form.suffixes}
        )
        ending = path.suffix.lower()
        if ending not in known:
            raise PlanError(
                f"{path}: affinities can come from files of the kinds {', '.join(known)}"
            )
        raise PlanError(f"{path}: affinities can come from {words(times=False, suffix=ending)}")
    return imported


def read_plan(path: Path, data: Mapping[str, Any]) -> ImportedAffinities:
    """The affinities of a plan, with the path of its model where that is there."""
    about = data.get("model")
    model = about.get("path") if isinstance(about, dict) else None
    there = isinstance(model, str) and file_state(path.parent / model) is not None
    where = str((path.parent / str(model)).resolve()) if there else None
    return _checked("plan", data.get("affinities"), path, where)


def read_sidecar(path: Path, data: Mapping[str, Any]) -> ImportedAffinities:
    """``plan_affinities`` has the plan's device names; OpenVINO may have one name for two devices."""
    return _checked("OpenVINO sidecar", data.get("plan_affinities") or data["affinities"], path)


def read_tvm(path: Path, data: Mapping[str, Any]) -> ImportedAffinities:
    """The devices of ops in an export for TVM."""
    return _checked("TVM annotation", data.get("ops"), path)


def read_mapping(path: Path, data: Any) -> ImportedAffinities:
    """Op -> device, where no other format has the file."""
    if not isinstance(data, dict):
        raise PlanError(
            f"{path}: affinities must be a mapping of ops to devices, or a device table"
        )
    if str(data.get("format", "")).startswith("hetero-editor/"):
        raise PlanError(
            f"{path}: this file ({data['format']}) has no devices of ops; import the plan or the CSV of ops"
        )
    checked = _checked("op: device", data, path)
    if any(_RESULT.search(name) for name in checked.affinities):
        return replace(
            of_openvino("query_model of OpenVINO", checked.affinities), problems=checked.problems
        )
    return checked


def read_partitions(path: Path, data: Mapping[str, Any]) -> ImportedAffinities:
    """The backends of the partitions of ops."""
    backends, numbers = data.get("backendNames") or [], data["nodeToPartition"] or {}
    if not isinstance(backends, list) or not isinstance(numbers, dict):
        raise PlanError(
            f"{path}: backendNames must be a list and nodeToPartition a mapping of ops to partitions"
        )
    nodes, problems = {}, []
    for name, number in numbers.items():
        if isinstance(number, int) and 0 <= number < len(backends):
            nodes[str(name)] = str(backends[number])
        else:
            problems.append(f"{name!r}: partition {number!r} has no backend")
    return ImportedAffinities("Glow partition config", nodes, tuple(problems))


def read_session(path: Path, data: Mapping[str, Any]) -> ImportedAffinities:
    """The devices of ops by their names in an export for ONNX Runtime."""
    nodes, devices = data.get("nodes"), data.get("devices")
    if not isinstance(nodes, dict) or not isinstance(devices, dict):
        raise PlanError(
            f"{path}: its ops are annotated in the model beside it; import {data.get('model', 'that')}"
        )
    names = {mark: d.get("name") for mark, d in devices.items() if isinstance(d, dict)}
    affinities = {k: names.get(v, v) if isinstance(v, str) else v for k, v in nodes.items()}
    return _checked("ONNX Runtime assignment by names", affinities, path)


def is_table(_path: Path, data: Any) -> bool:
    """Whether it is a list, as of devices."""
    return isinstance(data, list)


def read_table(path: Path, entries: list[Any]) -> ImportedAffinities:
    """The entries of a device table; which ops they get follows from a model."""
    if not entries:
        raise PlanError(
            f"{path}: the device table has no devices; Glow's partition config says more than a table can"
        )
    if not any(
        isinstance(entry, dict) and ("name" in entry or "backendName" in entry) for entry in entries
    ):
        raise PlanError(
            f"{path}: a device table is a list of devices (lines starting with `- name: ...`)"
        )
    good, problems = [], []
    for number, entry in enumerate(entries, 1):
        if isinstance(entry, dict) and (entry.get("name") or entry.get("backendName")):
            good.append({str(k): v for k, v in entry.items()})
        else:
            problems.append(f"device {number}: needs a name and a backendName")
    return ImportedAffinities("Glow device table", {}, tuple(problems), table=tuple(good))


def _checked(kind: str, data: Any, path: Path, model: str | None = None) -> ImportedAffinities:
    if not isinstance(data, Mapping):
        raise PlanError(f"{path}: {kind} without a mapping of ops to devices")
    good = {str(k): v for k, v in data.items() if isinstance(v, str) and v}
    problems = tuple(
        f"{k!r}: {shortened(repr(v), 80)} is not a device name"
        for k, v in data.items()
        if not (isinstance(v, str) and v)
    )
    if not good and problems:
        raise PlanError(f"{path}: none of its {len(problems)} entries maps an op to a device name")
    return ImportedAffinities(kind, good, problems, model)


def read_csv(path: Path, text: str) -> ImportedAffinities:
    """A table of op and device."""
    rows = table_rows(path, text)
    if not rows:
        raise PlanError(f"{path}: the file is empty")
    header = [cell.strip().lower() for cell in rows[0][1]]
    named = set(header) >= DEVICE_COLUMNS
    op, device = (header.index("op"), header.index("device")) if named else (0, 1)
    affinities: dict[str, str] = {}
    problems = []
    for number, row in rows[1:] if named else rows:
        if len(row) <= max(op, device) or not row[op].strip() or not row[device].strip():
            problems.append(f"line {number}: needs an op and a device")
        elif row[op] in affinities and affinities[row[op]] != row[device].strip():
            problems.append(
                f"line {number}: {row[op]!r} has a device already ({affinities[row[op]]})"
            )
        else:
            affinities[row[op]] = row[device].strip()
    return ImportedAffinities("CSV", affinities, tuple(problems))


def read_dot(path: Path, text: str) -> ImportedAffinities:
    """The devices of nodes in a DOT file of the editor or of OpenVINO."""
    own_nodes = {}
    for line in text.splitlines():
        match = _EDITOR_NODE.match(line)
        if match:
            values = {
                m["name"]: _plain(m["quoted"] if m["quoted"] is not None else m["bare"])
                for m in _ATTRIBUTE.finditer(match["body"])
            }
            if "tooltip" in values and "device" in values:
                own_nodes[unescape(values["tooltip"])] = values["device"]
    if own_nodes:
        return ImportedAffinities("DOT of Hetero Editor", own_nodes)
    if re.search(r'^digraph "?DAG_', text, re.MULTILINE):
        raise PlanError(
            f"{path}: this file has subgraphs, not ops; import hetero_affinity_*.dot beside it"
        )
    openvino_nodes: dict[str, str] = {}
    for match in _OPENVINO_NODE.finditer(text):
        parts = re.split(r"\\n|\n", match["label"])
        device = next((p[7:] for p in parts if p.startswith("device=")), None)
        if device is not None:
            openvino_nodes[parts[0]] = device
    if not openvino_nodes:
        raise PlanError(f"{path}: no op with a device in this DOT file")
    return of_openvino("DOT of OpenVINO", openvino_nodes)


def of_openvino(kind: str, nodes: Mapping[str, str]) -> ImportedAffinities:
    """Affinities of OpenVINO's nodes; one ONNX op may be several nodes, some named after it with a suffix.

    Names that look generated by OpenVINO may be names of ops (``Conv_12``), so they are kept.
    """
    affinities, helpers = dict(nodes), set()
    for name, device in nodes.items():
        plain = _HELPER.sub("", name)
        if plain != name or re.fullmatch(r"[A-Z]\w*_\d+", name):
            helpers.add(name)
        if plain not in affinities:
            helpers.add(plain)
            affinities[plain] = device
    return ImportedAffinities(kind, affinities, (), None, frozenset(helpers))


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def read_npuw(path: Path, text: str) -> ImportedAffinities:
    """Layer -> device of its group, by the JSON file that the export wrote beside the plan.

    A plan itself names no devices: without that file each group is an entry of its own, ``group 3``, for a device table with
    such names.
    """
    groups = _npuw_groups(path, text)
    devices = _npuw_devices(path)
    affinities = {layer: devices.get(number, f"group {number}") for number, layer in groups}
    return ImportedAffinities("NPUW plan", affinities)


def _npuw_groups(path: Path, text: str) -> list[tuple[str, str]]:
    """(group, layer) of each layer."""
    found: list[tuple[str, str]] = []
    state = {"group": "", "root": ""}

    def begin(tag: str, attributes: dict[str, str]) -> None:
        state["root"] = state["root"] or tag
        if tag == "group":
            state["group"] = attributes.get("id", "")
        elif tag == "layer" and state["group"]:
            found.append((state["group"], attributes.get("name", "")))

    def refuse(*_: Any) -> None:
        raise PlanError(f"{path}: it declares a document type, which a plan of NPUW does not")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.StartDoctypeDeclHandler = begin, refuse
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        raise PlanError(f"{path}: not a plan of NPUW ({error})") from error
    if state["root"] != "ensemble" or not found:
        raise PlanError(f"{path}: not a plan of NPUW (an <ensemble> of groups of layers)")
    return found


def _npuw_devices(path: Path) -> dict[str, str]:
    """Group -> device, where the export's own file says so."""
    beside = path.with_suffix(".json")
    if not beside.is_file():
        return {}
    devices = _devices_in(beside)
    return {str(k): str(v) for k, v in devices.items()} if isinstance(devices, dict) else {}


def read_onnx(path: Path, _content: None) -> ImportedAffinities:
    """The devices that a model states for its ops; a large one is read in a process of its own."""
    small = (file_state(path) or (0, 0))[1] <= PLAIN_BYTES
    return run(_from_onnx, path, what=READING, path=path, harmless=small)


def _from_onnx(path: Path) -> ImportedAffinities:
    try:
        model = read_model(path)
    except ModelError as error:
        raise PlanError(str(error)) from error
    keys = [next((o for o in n.output if o), n.name) for n in model.graph.node]
    configured = {c.name: list(c.device) for c in model.configuration}
    affinities: dict[str, Any] = {}
    for key, node in zip(keys, model.graph.node, strict=True):
        for entry in node.device_configurations:
            devices = configured.get(entry.configuration_id, [])
            index = next((d for s in entry.sharding_spec for d in s.device), None)
            if index is not None and 0 <= index < len(devices):
                affinities[key] = devices[index]
    if affinities:
        return _checked("ONNX device configurations", affinities, path)
    names = _names_of_annotations(path)
    affinities = {
        key: names.get(prop.value, prop.value)
        for key, node in zip(keys, model.graph.node, strict=True)
        for prop in node.metadata_props
        if prop.key == "layer_ann"
    }
    if affinities:
        return _checked("ONNX Runtime annotations", affinities, path)
    found = next((p.value for p in model.metadata_props if p.key == "split_assignments"), "")
    splits = dict(entry.rpartition("=")[::2] for entry in found.split(";") if entry)
    affinities = {
        key: f"split {split}"
        for key, node in zip(keys, model.graph.node, strict=True)
        if (split := _olive_split(node.name, splits))
    }
    if not affinities:
        raise PlanError(
            f"{path}: no op of this model has a layer_ann annotation, a device configuration or a split of Olive"
        )
    return _checked("Olive split assignments", affinities, path)


def _olive_split(name: str, splits: Mapping[str, str]) -> str:
    """The split of an op: that of the longest beginning of its name, with dots, that has one; "" where none has."""
    name = name.replace("/", ".").lstrip(".")
    parts = name.split(".", _DEEPEST)
    beginnings = (".".join(parts[:end]) for end in range(min(len(parts), _DEEPEST), 0, -1))
    return next((splits[each] for each in (name, *beginnings) if each in splits), "")


def _names_of_annotations(path: Path) -> dict[str, Any]:
    """Annotation -> name of its device, by the file that is exported beside an annotated model; empty without one."""
    sidecar = path.with_name(path.name.replace("_annotated.onnx", "_session.json"))
    if sidecar == path or not sidecar.is_file():
        return {}
    devices = _devices_in(sidecar)
    if not isinstance(devices, dict):
        raise PlanError(f"{sidecar}: it has no mapping of annotations to devices")
    return {mark: d["name"] for mark, d in devices.items() if isinstance(d, dict) and "name" in d}


def _devices_in(path: Path) -> Any:
    """The devices that the file of an export names; None where it has none."""
    document = read_json(path, PlanError)
    return document.get("devices") if isinstance(document, dict) else None
