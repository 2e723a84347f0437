"""Changes of one device table, applied to a table that has changed meanwhile.

Two fields that are finished shortly after each other, or in two tabs, are both made from the table before either. As whole
tables the second would take the first back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Entry = Mapping[str, Any]
"""As in a YAML table"""


def merged(before: Sequence[Entry], after: Sequence[Entry], now: Sequence[Entry]) -> list[dict[str, Any]]:
    """The present table with what somebody changed between two others.

    Args:
        before: the table that was changed.
        after: what it became.
        now: the present table. Where it is ``before``, the result is ``after``.
    """
    if [dict(e) for e in now] == [dict(e) for e in before]:
        return [dict(e) for e in after]
    origin = _origins(before, after)
    old = {str(e.get("name")): e for e in before}
    result: dict[str, dict[str, Any]] = {}
    for entry, name in zip(after, origin, strict=True):
        if name is None:
            result[str(entry.get("name"))] = dict(entry)
            continue
        current = next((e for e in now if e.get("name") == name), None)
        if current is not None:  # else somebody has removed it
            result[name] = _with_changes(old[name], entry, current)
    added = [dict(e) for e in now if str(e.get("name")) not in old and str(e.get("name")) not in result]
    if [name for name in origin if name in old] == [name for name in old if name in origin]:  # the order is that of now
        names = [str(e.get("name")) for e in now]
        place = {name: i for i, name in enumerate(names)}
        kept = sorted((name for name in result if name in place), key=place.__getitem__)
        result = {name: result[name] for name in [*kept, *(name for name in result if name not in place)]}
    return [*result.values(), *added]


def _origins(before: Sequence[Entry], after: Sequence[Entry]) -> list[str | None]:
    """For each entry the name of the one that it was, None where it is new; in tables of one length, names may have changed."""
    names = [str(e.get("name")) for e in before]
    found: list[str | None] = []
    for i, entry in enumerate(after):
        name = str(entry.get("name"))
        renamed = len(before) == len(after) and name not in names
        found.append(name if name in names else names[i] if renamed else None)
    return found


def _with_changes(before: Entry, after: Entry, now: Entry) -> dict[str, Any]:
    """An entry with the keys that have another value, or are gone, between two others."""
    result = dict(now)
    for key in {*before, *after}:
        if key not in after:
            result.pop(key, None)
        elif before.get(key) != after[key]:
            result[key] = after[key]
    return result
