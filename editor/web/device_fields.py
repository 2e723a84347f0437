"""Entries of a device table as the fields of the Devices tab show and change them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from editor.devices.device import Device
from editor.devices.keys import LINK, form_fields, listed
from editor.devices.table import load_devices
from editor.errors import EditorError
from editor.text import human_bytes, parse_bytes

Entry = Mapping[str, Any]
"""As in a YAML table"""

FIELDS = tuple(form_fields())
"""Keys of all fields; bandwidth and latency are those of the link."""

_PARTS = frozenset(part.name for part in LINK)
RUNS_ON = frozenset({"backendName", "preset", "runtime", "provider"})
"""Keys that say where a device runs; without them its name does."""


def text_of(entry: Mapping[str, Any], key: str) -> str:
    """An entry's value as the form shows it."""
    if key in _PARTS:
        link = entry.get("link")
        return str(link.get(key, "")) if isinstance(link, Mapping) else ""
    if key == "properties":
        properties = entry.get("properties")
        return (
            "; ".join(f"{k}={v}" for k, v in properties.items())
            if isinstance(properties, Mapping)
            else ""
        )
    text = "" if entry.get(key) is None else str(entry[key])
    form = form_fields().get(key)
    return in_bytes(text) if form and form.unit == "bytes" else text


def in_bytes(text: str) -> str:
    """A number of bytes with a unit, where it is the same with four digits; other texts as they are."""
    exact = text.isdigit() and parse_bytes(human_bytes(int(text))) == int(text)
    return human_bytes(int(text)) if exact else text


def changed_entry(entry: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """The entry with a field of the form set; an empty field is left out.

    Raises:
        EditorError: properties are not of the form ``option=value; option=value``, or a number lacks its unit.
    """
    _check_unit(key, str(value or "").strip())
    made = dict(entry)
    if key in _PARTS:
        link = {**(made.get("link") or {}), key: value}
        made["link"] = {k: v for k, v in link.items() if str(v).strip()}
        key, value = "link", made["link"]
    elif key == "properties":
        parts = [part.partition("=") for part in str(value or "").split(";") if part.strip()]
        if wrong := next(
            (name.strip() for name, equals, _ in parts if not equals or not name.strip()), None
        ):
            raise EditorError(
                f"properties are written as option=value; option=value, and {wrong[:40]!r} has no value"
            )
        value = {name.strip(): option.strip() for name, _, option in parts}
    elif key == "backendName":
        for other in ("runtime", "provider"):  # they said where it runs until now
            made.pop(other, None)
    made[key] = value
    return {k: v for k, v in made.items() if v not in (None, "", [], {})}


def _check_unit(key: str, text: str) -> None:
    """Raises ``EditorError`` for a number without a unit that nobody means in bytes, in operations or in seconds."""
    form = form_fields().get(key)
    if form is None or not form.unit or not re.fullmatch(r"\d+(\.\d*)?", text, re.ASCII):
        return
    if form.doubted(float(text)):
        raise EditorError(
            f"{text} would be {text} {form.unit}: write the unit, e.g. {text} {form.meant}"
        )


def listed_ops(entry: Entry, key: str) -> list[str]:
    """Types of the ops in one of a device's lists."""
    return [*listed(entry.get(key))]


def with_device(entries: Sequence[Entry], text: str) -> list[dict[str, Any]]:
    """The table with one more device: a planned one before those that are here, as it would get no op after them.

    Where its name is taken, it has that of its preset, or a number.

    Args:
        entries: the table.
        text: a device as `HETERO:` takes it, e.g. ``NPU(hailo8)``.

    Raises:
        EditorError: there is no such device.
    """
    (device,) = load_devices(f"HETERO:{text}")
    entry = dict(device.entry)
    others = load_devices([dict(e) for e in entries])
    taken = {d.name for d in others}
    if device.name in taken:
        numbered = (f"{device.name} {number}" for number in range(2, len(taken) + 3))
        names = (str(entry.get("preset") or device.name), *numbered)
        entry = {**entry, "name": next(name for name in names if name not in taken)}
        if not entry.get("preset"):
            entry["backendName"] = device.backend
        kind = (device.runtime, device.provider, device.device)
        alike = {d.unit for d in others if (d.runtime, d.provider, d.device) == kind}
        if (
            device.device != "CPU" and device.unit in alike and device.unit.isdigit()
        ):  # another of them, not the same twice
            entry["unit"] = next(n for n in range(len(alike) + 1) if str(n) not in alike)
    table = [dict(e) for e in entries]
    first = next((i for i, d in enumerate(others) if d.present), len(others))
    table.insert(first if device.planned else len(table), entry)
    return table


def shown(device: Device) -> dict[str, str | list[str] | None]:
    """What each field shows, by its key; None where it is empty. Where a device runs may follow from its preset."""
    texts = {
        key: (listed_ops if form.kind == "ops" else text_of)(device.entry, key) or None
        for key, form in form_fields().items()
    }
    return {**texts, "name": device.name, "backendName": device.backend}
