"""From names in a file to ops and devices of a plan: by key, then by name, then by structure."""

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
    """Pins that a file leads to, and everything that it did not."""

    pins: Mapping[str, str]
    """op key -> label"""
    how: Mapping[str, int]
    """entries matched by ``key``, ``name`` and ``structure``"""
    problems: tuple[str, ...]
    """Unknown or ambiguous entries, one message each."""


def match(graph: Graph, devices: Sequence[Device], affinities: Mapping[str, str],
          source: Graph | None = None, ignore: frozenset[str] = frozenset()) -> Matched:
    """Finds the ops and devices that entries mean.

    Args:
        graph: the model of the plan.
        devices: its table; entries may use names or labels of a level, in any case.
        affinities: op -> device, as a file has them.
        source: the model that the entries are of, for matching by structure.
        ignore: names that are nobody's loss.
    """
    names: dict[str, list[int]] = {}
    for op, name in enumerate(graph.op_names):
        names.setdefault(name, []).append(op)
    twins = _by_structure(source, graph) if source is not None else {}
    labels: dict[str, str | None] = {}
    pins: dict[str, str] = {}
    how = {"key": 0, "name": 0, "structure": 0}
    problems = []
    for entry, device in affinities.items():
        if device not in labels:
            labels[device] = _label(device, devices)
        label = labels[device]
        if entry in graph.key_index:
            op, kind = graph.key_index[entry], "key"
        elif len(names.get(entry, ())) == 1 and entry:
            op, kind = names[entry][0], "name"
        elif entry in twins:
            op, kind = twins[entry], "structure"
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
    """Key in the source -> op of the target, where what surrounds an op is the same in both.

    Ops with the same surroundings are paired in order of execution when both models have equally many.
    """
    groups: list[dict[str, list[int]]] = []
    for graph in (source, target):
        found: dict[str, list[int]] = {}
        for op, mark in zip(graph.order.tolist(), _marks(graph), strict=True):
            found.setdefault(mark, []).append(op)
        groups.append(found)
    pairs = {}
    for mark, ops in groups[0].items():
        others = groups[1].get(mark, [])
        if len(others) == len(ops):
            pairs.update({source.op_keys[a]: b for a, b in zip(ops, others, strict=True)})
    return pairs


def _marks(graph: Graph) -> list[str]:
    """A text per op, in order of execution, that depends on types and wiring around it (Weisfeiler and Leman, 1968)."""
    marks = [f"{domain}::{kind}" for domain, kind in zip(graph.op_domains, graph.op_types, strict=True)]
    for _ in range(_ROUNDS):
        joined = [repr((marks[op], [marks[p] for p in graph.predecessors[op].tolist()],
                        sorted(marks[s] for s in graph.successors[op].tolist()))) for op in range(len(graph))]
        marks = [hashlib.blake2b(text.encode(), digest_size=8).hexdigest() for text in joined]
    return [marks[op] for op in graph.order.tolist()]
