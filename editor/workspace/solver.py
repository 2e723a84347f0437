"""Decisions of a document, and their placements."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from editor.devices.device import Device
from editor.devices.keys import form_fields
from editor.devices.table import load_devices
from editor.errors import NoProfileError
from editor.files import modified
from editor.graph.graph import Graph
from editor.placement.device_profile import profile_path
from editor.placement.placement import Placement, Settings, solve
from editor.placement.rules import parse_rules
from editor.runtimes.base import Capability
from editor.runtimes.registry import capability, lessons_path
from editor.text import shortened

TEXT = "devices_text"
"""Key of the text of the file that the device table came from; stands in the first revision only."""

_SHORT = 25
"""Letters of a value that the history names."""


def identity(device: Device) -> str:
    """All that a device table says of a device itself, as text."""
    return json.dumps(device.own_entry, sort_keys=True, default=str)


def changed_devices(before: Sequence[Device], after: Sequence[Device]) -> str:
    """Describes how two device tables differ, in a few words."""
    old, new = ({d.name: identity(d) for d in devices} for devices in (before, after))
    by_name = {d.name: d for d in before}
    if len(before) == len(after):  # a new name where the device was
        renamed = [
            (b.name, a.name)
            for b, a in zip(before, after, strict=True)
            if b.name not in new and a.name not in old
        ]
    else:
        renamed = []
    gone, came = {b for b, _ in renamed}, {a for _, a in renamed}
    parts = [f"{b} is called {a}" for b, a in renamed]
    parts += [f"add {name}" for name in new if name not in old and name not in came]
    parts += [f"remove {name}" for name in old if name not in new and name not in gone]
    parts += [
        f"{d.name}: {_changed_keys(by_name[d.name], d)}"
        for d in after
        if d.name in old and new[d.name] != old[d.name]
    ]
    return "devices: " + (", ".join(parts) or " > ".join(new))


def _changed_keys(before: Device, after: Device) -> str:
    """Which keys of a device's entry are different, with their new values."""
    old, new = _flat(before.entry), _flat(after.entry)
    keys = [k for k in {**old, **new} if old.get(k) != new.get(k)]
    forms = form_fields()
    return ", ".join(
        f"{forms[k].words if k in forms else k} {shortened(new[k], _SHORT) if k in new else 'none'}"
        for k in keys
    )


def _flat(entry: Mapping[str, Any]) -> dict[str, str]:
    """Keys and values of an entry as texts; of a mapping, each key for itself."""
    flat: dict[str, str] = {}
    for key, value in entry.items():
        if isinstance(value, Mapping):
            flat |= {f"{key} {inner}": str(one) for inner, one in value.items()}
        else:
            flat[key] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return flat


def first_decisions(
    plan_settings: Settings, entries: Sequence[Mapping[str, Any]], devices_text: str = ""
) -> dict[str, Any]:
    """The decisions of a new document, and the text of the file that its device table came from."""
    text = {TEXT: devices_text} if devices_text else {}
    return {
        **text,
        "devices": [dict(e) for e in entries],
        "policy": plan_settings.policy,
        "options": dict(plan_settings.policy_options),
        "pins": dict(plan_settings.pins),
        "forced": sorted(plan_settings.forced),
        "subgraphs": plan_settings.subgraphs,
        "rules": [rule.to_dict() for rule in plan_settings.rules],
    }


def with_new_names(decisions: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Decisions whose rules and options have the new names of devices; ``renamed`` is old name -> new name."""
    rules = [
        {**rule, "to": renamed.get(rule["to"], rule["to"])} for rule in decisions.get("rules", [])
    ]
    options = {
        key: renamed.get(value, value) if key == "first" else value
        for key, value in decisions["options"].items()
    }
    return {**decisions, "rules": rules, "options": options}


def settings_of(decisions: Mapping[str, Any]) -> Settings:
    """Decisions as settings of a placement."""
    return Settings(
        decisions["policy"],
        decisions["options"],
        decisions["pins"],
        frozenset(decisions["forced"]),
        decisions["subgraphs"],
        parse_rules(decisions.get("rules", [])),
    )


_MOST_KEPT, _LEAST_KEPT, _OPS_KEPT = 32, 3, 200_000
"""Placements that are kept: as many as have so many ops together."""


class Solver:
    """Solves decisions about one model. Thread-safe."""

    def __init__(
        self, graph: Graph, decisions: Mapping[str, Any], capabilities: Mapping[str, Capability]
    ) -> None:
        """``capabilities`` by names of the devices in ``decisions``, as far as they are known."""
        self.graph = graph
        self._capabilities = {
            identity(d): capabilities[d.name]
            for d in load_devices(decisions["devices"])
            if d.name in capabilities
        }
        """By everything that a table says of a device: it may be changed, and changed back."""
        self._learned = {
            identity(d): modified(lessons_path(graph, d))
            for d in load_devices(decisions["devices"])
            if d.name in capabilities
        }
        """State of what runs have taught when each capability was asked."""
        self._kept = min(max(_OPS_KEPT // max(len(graph), 1), _LEAST_KEPT), _MOST_KEPT)
        self._solved: OrderedDict[tuple[Any, ...], Placement] = OrderedDict()
        self._lock = threading.Lock()
        """Guards what is kept; not held while a placement is solved."""

    def solve(
        self, decisions: Mapping[str, Any], should_stop: Callable[[], bool] = bool
    ) -> Placement:
        """The placement that decisions give; where ``should_stop`` ends a search, the best that it had found.

        Raises:
            EditorError: the decisions contradict each other, or what devices can run.
        """
        devices = load_devices(decisions["devices"])
        # Profiles are costs, and a placement is of the costs that its policy found.
        key = (
            frozenset((name, json.dumps(value)) for name, value in decisions.items()),
            tuple(
                modified(path(self.graph, device))
                for device in devices
                for path in (profile_path, lessons_path)
            ),
        )
        with self._lock:
            if key in self._solved:
                self._solved.move_to_end(key)
                return self._solved[key]
        answers = [self.capability(d) for d in devices]
        placement = solve(self.graph, devices, settings_of(decisions), answers, should_stop)
        if should_stop():
            return placement
        with self._lock:
            kept = self._solved.setdefault(key, placement)
            while len(self._solved) > self._kept:
                self._solved.popitem(last=False)
        return kept

    def solve_stored(
        self, decisions: Mapping[str, Any], should_stop: Callable[[], bool] = bool
    ) -> Placement:
        """As ``solve``, for decisions that were solved before: by estimates where the profiles that they went by are gone.

        Raises:
            EditorError: as ``solve``, but for profiles.
        """
        try:
            return self.solve(decisions, should_stop)
        except NoProfileError:
            return self.solve(
                {**decisions, "options": {**decisions["options"], "costs": "estimate"}}, should_stop
            )

    def capability(self, device: Device) -> Capability:
        """Returns which ops a device can run; asked once."""
        # A run may have taught more since it was asked.
        key, learned = identity(device), modified(lessons_path(self.graph, device))
        if key not in self._capabilities or self._learned.get(key, learned) != learned:
            self._capabilities[key] = capability(self.graph, device)
        self._learned[key] = learned
        return self._capabilities[key]
