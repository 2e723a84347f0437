"""The decisions of a document as they are stored: devices, policy, pins, rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from editor.devices.device import Device
from editor.placement.placement import Settings
from editor.placement.rules import parse_rules

TEXT = "devices_text"
"""Key of the text of the file that the device table came from; stands in the first revision only."""

_SHORT = 24
"""Letters of a value that the history names."""
_WORDS = {"nonSupportedNodes": "excluded ops", "supportedNodes": "takes only", "backendName": "runs on",
          "peakCompute": "peak compute", "peakDramBw": "DRAM", "properties": "property", "wireType": "type on wires"}
"""Keys of a device table as the page calls them."""


def identity(device: Device) -> str:
    """All that a device table says of a device, as text."""
    return json.dumps(dict(device.entry), sort_keys=True, default=str)


def changed_devices(before: Sequence[Device], after: Sequence[Device]) -> str:
    """What is different in a device table, in a few words."""
    old, new = ({d.name: identity(d) for d in devices} for devices in (before, after))
    by_name = {d.name: d for d in before}
    if len(before) == len(after):  # a new name where the device was
        renamed = [(b.name, a.name) for b, a in zip(before, after, strict=True) if b.name not in new and a.name not in old]
    else:
        renamed = []
    gone, came = {b for b, _ in renamed}, {a for _, a in renamed}
    parts = [f"{b} is called {a}" for b, a in renamed]
    parts += [f"add {name}" for name in new if name not in old and name not in came]
    parts += [f"remove {name}" for name in old if name not in new and name not in gone]
    parts += [f"{d.name}: {_changed_keys(by_name[d.name], d)}" for d in after if d.name in old and new[d.name] != old[d.name]]
    return "devices: " + (", ".join(parts) or " > ".join(new))


def _changed_keys(before: Device, after: Device) -> str:
    """Which keys of a device's entry are different, with their new values."""
    old, new = _flat(before.entry), _flat(after.entry)
    keys = [k for k in {**old, **new} if old.get(k) != new.get(k)]
    return ", ".join(f"{_WORDS.get(k, k)} {_shortened(new[k]) if k in new else 'none'}" for k in keys)


def _flat(entry: Mapping[str, Any]) -> dict[str, str]:
    """Keys and values of an entry as texts; of a mapping, each key for itself."""
    flat: dict[str, str] = {}
    for key, value in entry.items():
        if isinstance(value, Mapping):
            flat |= {f"{key} {inner}": str(one) for inner, one in value.items()}
        else:
            flat[key] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return flat


def _shortened(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


def first_decisions(plan_settings: Settings, entries: Sequence[Mapping[str, Any]], devices_text: str = "") -> dict[str, Any]:
    """The decisions of a new document, and the text of the file that its device table came from."""
    text = {TEXT: devices_text} if devices_text else {}
    return {**text, "devices": [dict(e) for e in entries], "policy": plan_settings.policy,
            "options": dict(plan_settings.policy_options), "pins": dict(plan_settings.pins),
            "forced": sorted(plan_settings.forced), "subgraphs": plan_settings.subgraphs,
            "rules": [rule.to_dict() for rule in plan_settings.rules]}


def with_new_names(decisions: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Decisions whose rules and options have the new names of devices; ``renamed`` is old name -> new name."""
    rules = [{**rule, "to": renamed.get(rule["to"], rule["to"])} for rule in decisions.get("rules", [])]
    options = {key: renamed.get(value, value) if key == "first" else value for key, value in decisions["options"].items()}
    return {**decisions, "rules": rules, "options": options}


def settings_of(decisions: Mapping[str, Any]) -> Settings:
    """Decisions as settings of a placement."""
    return Settings(decisions["policy"], decisions["options"], decisions["pins"], frozenset(decisions["forced"]),
                    decisions["subgraphs"], parse_rules(decisions.get("rules", [])))
