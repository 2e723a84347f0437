"""Applies a device table of Glow to a model: each op goes to the first device that may run it.

Glow's first-come rule (Glow ``docs/Partitioner.md``, heterogeneous partition): backends have priority in table
order, and ``nonSupportedNodes`` and ``supportedNodes`` restrict the ops of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from editor.devices.device import Device
from editor.devices.vocabulary import op_name
from editor.graph.graph import Bools, Graph
from editor.imports.affinity_files import ImportedAffinities
from editor.placement.constraints import allowed_by_lists
from editor.runtimes.base import Capability
from editor.yaml_text import YamlError, load_yaml

_LISTS = ("supportedNodes", "nonSupportedNodes")


def first_come(graph: Graph, devices: Sequence[Device], capabilities: Sequence[Capability],
               imported: ImportedAffinities) -> ImportedAffinities:
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
    for entry, device in zip(imported.table, _devices_of_entries(imported.table, devices), strict=True):
        name = _name(entry)
        if device is None:
            problems.append(f"{name!r}: unknown device {name!r} (choose one of: {', '.join(d.name for d in devices)}), nor "
                            f"exactly one of its backend; its ops go to the next device of the table")
            continue
        if devices[device].name in used:
            problems.append(f"{name!r}: an entry before it is {devices[device].name} too; the first holds")
            continue
        used.append(devices[device].name)
        taken = free & capabilities[device].mask & _allowed_by_entry(graph, devices[device], entry, name, problems)
        affinities.update({graph.op_keys[op]: devices[device].name for op in np.flatnonzero(taken).tolist()})
        free &= ~taken
    for op in np.flatnonzero(free).tolist() if used else ():
        problems.append(f"{graph.op_keys[op]!r}: no device of the table may run it ({graph.type_label(op)}; "
                        f"asked: {', '.join(used)})")
    return replace(imported, affinities=affinities, problems=tuple(problems))


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("name") or entry["backendName"])


def _devices_of_entries(table: Sequence[Mapping[str, Any]], devices: Sequence[Device]) -> list[int | None]:
    """[entry] index of its device, by name first, then by backend among the remaining devices; None when unknown."""
    index = {d.name.lower(): i for i, d in enumerate(devices)}
    result = [index.get(_name(entry).lower()) for entry in table]
    for position, entry in enumerate(table):
        if result[position] is None:
            backend = str(entry.get("backendName")).lower()
            matches = [i for i, d in enumerate(devices) if i not in result and backend in (d.name.lower(), d.backend.lower())]
            result[position] = matches[0] if len(matches) == 1 else None
    return result


def _allowed_by_entry(graph: Graph, device: Device, entry: Mapping[str, Any], name: str, problems: list[str]) -> Bools:
    """[op] whether the lists of an entry allow it. An unknown op name matches no op and is a problem."""
    parameters: Any = entry.get("parameters") or {}
    if isinstance(parameters, str):
        try:
            parameters = load_yaml(parameters)[1] or {}
        except YamlError:
            parameters = None
    if not isinstance(parameters, Mapping):
        problems.append(f"{name!r}: its parameters are no `\"key\" : \"value\"` lines; no restriction is taken from them")
        parameters = {}
    types = frozenset(graph.op_types)
    lists: dict[str, tuple[str, ...]] = {}
    for key in _LISTS:
        value = entry.get(key, parameters.get(key)) or ""
        parts = value if isinstance(value, list) else str(value).split(",")
        lists[key] = tuple(str(part).strip() for part in parts if str(part).strip())
        problems += [f"{name!r}: {key}: unknown op {op!r}" for op in lists[key]
                     if op_name(op, types) is None and "::" not in op]
    return allowed_by_lists(graph, replace(device, supported=lists["supportedNodes"], non_supported=lists["nonSupportedNodes"]))
