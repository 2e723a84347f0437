"""What a device table of Glow's means for a model: each op goes to the first device that may run it.

Glow's first-come rule (Glow ``docs/Partitioner.md``, heterogeneous partition): the backends are asked in the
order of the table, ``nonSupportedNodes`` and ``supportedNodes`` narrow what each takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import yaml

from editor.devices.device import Device
from editor.devices.vocabulary import op_name
from editor.graph.graph import Bools, Graph
from editor.imports.affinity_files import Found
from editor.placement.constraints import allowed_by_lists
from editor.runtimes.base import Capability

_LISTS = ("supportedNodes", "nonSupportedNodes")


def first_come(graph: Graph, devices: Sequence[Device], capabilities: Sequence[Capability], found: Found) -> Found:
    """The affinities that a table leads to.

    Args:
        graph: the model of the plan.
        devices: its table; an entry means the device of its name, in any case, else the only one on its backend
            (names are free in Glow: ``Device1``, ``Device2``).
        capabilities: what each of them can run. The lists of the imported table count, not those of the plan's.
        found: with the entries of the table.

    Returns:
        The same with affinities, and a problem for each entry without a device, each list that names an unknown
        op, and each op that no entry takes.
    """
    problems = list(found.problems)
    free = ~graph.op_is_constant
    affinities: dict[str, str] = {}
    asked: list[str] = []
    for entry, place in zip(found.table, _places(found.table, devices), strict=True):
        name = _name(entry)
        if place is None:
            problems.append(f"{name!r}: unknown device {name!r} (choose one of: {', '.join(d.name for d in devices)}), nor "
                            f"exactly one of its backend; its ops go to the next device of the table")
            continue
        if devices[place].name in asked:
            problems.append(f"{name!r}: an entry before it is {devices[place].name} too; the first holds")
            continue
        asked.append(devices[place].name)
        takes = free & capabilities[place].mask & _listed(graph, devices[place], entry, name, problems)
        affinities.update({graph.op_keys[op]: devices[place].name for op in np.flatnonzero(takes).tolist()})
        free &= ~takes
    for op in np.flatnonzero(free).tolist() if asked else ():
        problems.append(f"{graph.op_keys[op]!r}: no device of the table may run it ({graph.type_label(op)}; "
                        f"asked: {', '.join(asked)})")
    return replace(found, affinities=affinities, problems=tuple(problems))


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("name") or entry["backendName"])


def _places(table: Sequence[Mapping[str, Any]], devices: Sequence[Device]) -> list[int | None]:
    """Each entry's device, by name first; what is left of the table goes by backend."""
    index = {d.name.lower(): i for i, d in enumerate(devices)}
    places = [index.get(_name(entry).lower()) for entry in table]
    for position, entry in enumerate(table):
        if places[position] is None:
            backend = str(entry.get("backendName")).lower()
            found = [i for i, d in enumerate(devices) if i not in places and backend in (d.name.lower(), d.backend.lower())]
            places[position] = found[0] if len(found) == 1 else None
    return places


def _listed(graph: Graph, device: Device, entry: Mapping[str, Any], name: str, problems: list[str]) -> Bools:
    """Which ops the lists of an entry leave it. An unknown op name matches nothing and is a problem."""
    parameters: Any = entry.get("parameters") or {}
    if isinstance(parameters, str):
        try:
            parameters = yaml.safe_load(parameters) or {}
        except yaml.YAMLError:
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
