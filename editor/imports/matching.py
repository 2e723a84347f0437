"""Matches names in a file with the ops and devices of a plan: by key, then by name, then by structure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from editor.devices.device import Device
from editor.errors import PinError
from editor.graph.graph import Graph
from editor.placement.labels import label_mask

_ROUNDS = 4


@dataclass(frozen=True)
class Matched:
    """The pins that follow from a file, and the entries without a match."""

    pins: Mapping[str, str]
    """op key -> label"""
    how: Mapping[str, int]
    """``key``, ``name`` and ``structure`` -> number of entries matched that way"""
    problems: tuple[str, ...]
    """Unknown or ambiguous entries, one message each."""


def match(graph: Graph, devices: Sequence[Device], affinities: Mapping[str, str],
          source: Graph | None = None, ignore: frozenset[str] = frozenset()) -> Matched:
    """Matches entries with ops and devices.

    Args:
        graph: the model of the plan.
        devices: its device table; entries may use names or labels of a level, case-insensitively.
        affinities: op -> device, with the names of the file.
        source: the model of the entries, for matching by structure.
        ignore: names that need no match.
    """
    names: dict[str, list[int]] = {}
    for op, name in enumerate(graph.op_names):
        names.setdefault(name, []).append(op)
    by_structure = _by_structure(source, graph) if source is not None else {}
    labels: dict[str, str | None] = {}
    pins: dict[str, str] = {}
    how = {"key": 0, "name": 0, "structure": 0}
    problems = []
    for name, device in affinities.items():
        entry = name if name in graph.key_index or name in names else name.strip()  # tables have blanks around cells
        if device not in labels:
            labels[device] = _label(device, devices)
        label = labels[device]
        if entry in graph.key_index:
            op, kind = graph.key_index[entry], "key"
        elif len(names.get(entry, ())) == 1 and entry:
            op, kind = names[entry][0], "name"
        elif entry in by_structure:
            op, kind = by_structure[entry], "structure"
        else:
            if entry not in ignore:
                count = len(names.get(entry, ()))
                problems.append(f"{entry!r}: {f'{count} ops have this name' if count > 1 else 'no such op'}")
            continue
        if label is None:
            problems.append(f"{entry!r}: unknown device {device!r} (choose one of: {', '.join(d.name for d in devices)})")
            continue
        if not graph.op_is_constant[op]:
            pins[graph.op_keys[op]] = label
        how[kind] += 1
    return Matched(pins, how, tuple(problems))


def _label(name: str, devices: Sequence[Device]) -> str | None:
    for device in devices:
        if device.name.lower() == name.lower():
            return device.name
    for candidate in (name, name.upper(), name.lower()):
        try:
            label_mask(candidate, devices)
        except PinError:
            continue
        return candidate
    provider = [d.name for d in devices if d.provider.lower() in (name.lower(), f"{name}executionprovider".lower())]
    return provider[0] if len(provider) == 1 else None


def _by_structure(source: Graph, target: Graph) -> dict[str, int]:
    """Key in the source -> op of the target with the same neighbourhood.

    Ops with equal neighbourhoods are paired in topological order when both models have the same number of them.
    """
    groups: list[dict[str, list[int]]] = []
    for graph in (source, target):
        groups_of_graph: dict[str, list[int]] = {}
        for op, key in zip(graph.order.tolist(), _neighbourhood_hashes(graph), strict=True):
            groups_of_graph.setdefault(key, []).append(op)
        groups.append(groups_of_graph)
    pairs = {}
    for key, ops in groups[0].items():
        others = groups[1].get(key, [])
        if len(others) == len(ops):
            pairs.update({source.op_keys[a]: b for a, b in zip(ops, others, strict=True)})
    return pairs


def _neighbourhood_hashes(graph: Graph) -> list[str]:
    """A hash per op, in topological order, of the types and edges around it (Weisfeiler and Leman, 1968)."""
    hashes = [f"{domain}::{kind}" for domain, kind in zip(graph.op_domains, graph.op_types, strict=True)]
    for _ in range(_ROUNDS):
        joined = [repr((hashes[op], [hashes[p] for p in graph.predecessors[op].tolist()],
                        sorted(hashes[s] for s in graph.successors[op].tolist()))) for op in range(len(graph))]
        hashes = [hashlib.blake2b(text.encode(), digest_size=8).hexdigest() for text in joined]
    return [hashes[op] for op in graph.order.tolist()]
