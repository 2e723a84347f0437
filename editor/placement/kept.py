"""Keeps a placement although solving its settings here leads to another one: as devices, as pins, as a recipe for workers.

A newer profile decides otherwise, a search ended earlier, or a run has corrected a profile. What was seen is what is run,
compared and written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from editor.devices.device import Device
from editor.devices.table import load_devices
from editor.graph.graph import Graph
from editor.graph.model_file import check_same
from editor.placement.placement import Placement, Settings, solve
from editor.placement.policies.task import Assignment
from editor.placement.rules import label_mask
from editor.runtimes.registry import lessons


def moved_ops(solved: Placement, affinity: Mapping[str, str]) -> set[str]:
    """Keys of ops that run, and that are on another device in ``affinity`` (op key -> device name)."""
    here = solved.affinity
    return {key for key in _running(solved) if key in affinity and affinity[key] != here[key]}


def learned_since(graph: Graph, devices: Sequence[Device], affinity: Mapping[str, str]) -> set[str]:
    """Keys of ops that runs have taught not to give to the devices of ``affinity`` again."""
    return {
        key
        for device in devices
        if not device.planned
        for key in lessons(graph, device)
        if affinity.get(key) == device.name
    }


def with_affinity(solved: Placement, affinity: Mapping[str, str], because: str) -> Placement:
    """A solved placement with ops on the devices of ``affinity``.

    Args:
        solved: what its settings lead to here.
        affinity: op key -> device name; ops that it lacks go where the settings lead, as do constants and ops that runs have
            taught not to give to their device.
        because: why an op is on its device, in words.

    Returns:
        The placement with the same settings where these allow every op its device, else with pins.

    Raises:
        EditorError: a device is unknown, or cannot run an op.
    """
    learned = learned_since(solved.graph, solved.devices, affinity)
    pinned = pin_to_affinity(solved, {k: d for k, d in affinity.items() if k not in learned})
    placed, device = solved.placed_ops, pinned.assignment.device
    if (
        pinned is solved
        or not np.array_equal(placed, pinned.placed_ops)
        or not solved.constraints.allowed[placed, device[placed]].all()
    ):
        return pinned
    assignment = Assignment(device, lambda _op: because, estimated=solved.assignment.estimated)
    return replace(solved, assignment=assignment, division=pinned.division)


def pin_to_affinity(solved: Placement, affinity: Mapping[str, str]) -> Placement:
    """As `with_affinity`, with pins that hold the ops there: first for those that would be elsewhere, where that is enough.

    Raises:
        EditorError: a device is unknown, or cannot run an op.
    """
    changed = moved_ops(solved, affinity)
    pinned = solved
    for kept in (
        (changed, _running(solved)) if changed else ()
    ):  # pins of some may move others; then everything is pinned
        pins = {**solved.settings.pins, **{key: affinity[key] for key in kept if key in affinity}}
        for name in set(pins.values()):
            label_mask(name, solved.devices)
        pinned = solve(
            solved.graph,
            solved.devices,
            replace(solved.settings, pins=pins),
            solved.constraints.capabilities,
        )
        if not moved_ops(pinned, affinity):
            break
    return pinned


def _running(placement: Placement) -> set[str]:
    """Keys of ops of subgraphs; constants follow their readers."""
    part = placement.division.subgraph_of_op
    return {key for key, op in placement.graph.key_index.items() if part[op] >= 0}


@dataclass(frozen=True)
class Recipe:
    """Everything a worker needs to have the same placement."""

    model: str
    sha256: str
    """Of the model file that the plan was made for; ``model`` must still be the same."""
    define: Mapping[str, int]
    devices: Sequence[Mapping[str, Any]]
    settings: Settings
    affinity: Mapping[str, str] = field(default_factory=dict)
    """Op key -> device, where solving the settings may lead to another placement: by a profile that has changed since."""
    prompt: Recipe | None = None
    """Of a language model's prompt, where that is placed for itself"""

    def placement(self, graph: Graph) -> Placement:
        """The placement of the model that was read from ``model``.

        Raises:
            EditorError: the devices of this machine cannot run it.
        """
        solved = solve(check_same(graph, self.sha256), load_devices(self.devices), self.settings)
        return with_affinity(solved, self.affinity, "the plan has it there")
