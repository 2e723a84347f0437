"""Reads ``profile.json`` of a kit (``editor.exports.kit``); times in seconds.

The kit measured a device's subgraphs as wholes, the runtime's own profile of each, and their ops in small groups. The times of
the layers are scaled to the whole without the profiler; the times of groups, each less one launch, are too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from editor.errors import PlanError
from editor.imports.matching import (
    Layer,
    LayerTimes,
    Measured,
    check_layers,
    layer_name,
    seconds_of,
)

FORMAT = "hetero-editor/profile"
_FAR = 0.25
"""How far the groups may be from the whole, relative to it, before the report says it."""
_DRIFT = 0.1
"""How far the whole may change while the groups are measured."""
_LINKS = ("in_latency", "in_seconds_per_byte", "out_latency", "out_seconds_per_byte")


def read_kit_profile(path: Path, data: dict[str, Any]) -> LayerTimes:
    """What a kit measured.

    Raises:
        PlanError: the file is damaged or of another version; the message names the entry.
    """
    if data.get("version") != 1:
        raise PlanError(
            f"{path}: version {data.get('version')!r} of {FORMAT}; this editor reads version 1"
        )
    wholes = list(_mappings(path, data, "wholes"))
    links = _mapping(path, data, "links")
    launch = (
        seconds_of(links["launch_seconds"], 1.0, f"{path}: links")
        if "launch_seconds" in links
        else None
    )
    groups, runs = _groups(path, data, wholes, launch or 0.0)
    layers = _layers(path, wholes, launch or 0.0)
    check_layers(path, len(groups) + len(layers))
    aliases = {name: key for where, whole in wholes for name, key in _ops(where, whole).items()}
    measured = Measured(
        str(data.get("device", "")),
        str(data.get("machine", "")),
        _day(data.get("date")),
        str(data.get("model_sha256", "")),
        {str(k): v for k, v in _mapping(path, data, "define").items() if isinstance(v, int)},
        _cut(wholes),
        _links(path, links),
        aliases,
        frozenset(aliases.values()),
        tuple(groups),
        {str(k): str(v) for k, v in _mapping(path, data, "properties").items()}
        if "properties" in data
        else None,
        str(data.get("target", "")),
    )
    version = str(data.get("runtime_version", "")).partition("-")[0]
    precision = str(data.get("precision", ""))
    tool = f"{data.get('runtime', '')} {version} {data.get('target', '')}{f' in {precision}' if precision else ''}"
    return LayerTimes(
        f"kit with {tool.strip()}"[:120],
        tuple(layers or groups),
        runs,
        by_key=True,
        overhead=launch,
        notes=tuple(_notes(path, data, wholes)),
        disturbances=tuple(_drifts(wholes)),
        measured=measured,
    )


def _mapping(path: Path, data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise PlanError(f"{path}: {key} must be a mapping, not {type(value).__name__}")
    return value


def _mappings(
    path: Path, data: Mapping[str, Any], key: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Entries of a list, each with the place that a message names."""
    value = data.get(key, [])
    if not isinstance(value, list):
        raise PlanError(f"{path}: {key} must be a list, not {type(value).__name__}")
    for number, entry in enumerate(value):
        if not isinstance(entry, dict):
            raise PlanError(
                f"{path}: {key}, entry {number}: a mapping expected, not {type(entry).__name__}"
            )
        yield f"{path}: {key}, entry {number}", entry


def _ops(where: str, entry: Mapping[str, Any]) -> dict[str, str]:
    ops = entry.get("ops")
    if not isinstance(ops, dict):
        raise PlanError(f"{where}: ops must be a mapping of node to key")
    return {layer_name(name, where): layer_name(key, where) for name, key in ops.items()}


def _groups(
    path: Path, data: Mapping[str, Any], wholes: list[tuple[str, Mapping[str, Any]]], launch: float
) -> tuple[list[Layer], int]:
    """Groups without their launch, scaled to the whole that they are of; and the least number of runs of one."""
    scale = {
        key: float(factor)
        for where, whole in wholes
        if (factor := whole.get("scale")) is not None
        and seconds_of(factor, 1.0, f"{where}, scale") >= 0
        for key in _ops(where, whole).values()
    }
    groups, runs = [], []
    for where, group in _mappings(path, data, "groups"):
        keys = tuple(_ops(where, group).values())
        if not keys:
            continue
        seconds = max(seconds_of(group.get("seconds"), 1.0, where) - launch, 0.0)
        groups.append(Layer(keys[0], seconds * scale.get(keys[0], 1.0), "group", ops=keys))
        runs.append(group["runs"] if isinstance(group.get("runs"), int) else 0)
    return groups, min(runs, default=0)


def _layers(path: Path, wholes: list[tuple[str, Mapping[str, Any]]], launch: float) -> list[Layer]:
    """Layers of the runtime's own profiles, scaled to the wholes; none where a whole has no such profile."""
    found = []
    for where, whole in wholes:
        entries = list(_mappings(path, whole, "layers"))
        total = sum(seconds_of(entry.get("seconds"), 1.0, at) for at, entry in entries)
        if not total or "seconds" not in whole:
            return []
        factor = max(seconds_of(whole["seconds"], 1.0, where) - launch, 0.0) / total
        for at, entry in entries:
            listed = entry.get("ops")
            ops = (
                tuple(name for name in listed if isinstance(name, str))
                if isinstance(listed, list)
                else ()
            )
            found.append(
                Layer(
                    layer_name(entry.get("name"), at),
                    float(entry["seconds"]) * factor,
                    str(entry.get("type", "")),
                    str(entry.get("provider", "")),
                    ops,
                )
            )
    return found


def _cut(wholes: list[tuple[str, Mapping[str, Any]]]) -> float | None:
    """Seconds that one more subgraph costs, as measured by pieces of the wholes."""
    cuts = [
        seconds_of(whole["cut_seconds"], 1.0, where)
        for where, whole in wholes
        if whole.get("cut_seconds") is not None
    ]
    return max(cuts, default=None)


def _links(path: Path, links: Mapping[str, Any]) -> tuple[float, float, float, float] | None:
    if not all(name in links for name in _LINKS):
        return None
    a, b, c, d = (seconds_of(links[name], 1.0, f"{path}: links, {name}") for name in _LINKS)
    return a, b, c, d


def _day(text: Any) -> date | None:
    try:
        return date.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _drifts(wholes: list[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """The wholes that took another time after the groups than before them."""
    for number, (where, whole) in enumerate(wholes):
        if "seconds" not in whole:
            continue
        before, after = (
            seconds_of(whole.get(k, whole["seconds"]), 1.0, where) for k in ("before", "after")
        )
        if before and abs(after / before - 1) > _DRIFT:
            times = f"{before * 1e3:.3g} ms at first and {after * 1e3:.3g} ms at last"
            yield f"whole {number} took {times}: the machine was not quiet"


def _notes(
    path: Path, data: Mapping[str, Any], wholes: list[tuple[str, Mapping[str, Any]]]
) -> Iterator[str]:
    """What makes the figures doubtful: failures, and groups that are far from their whole."""
    for number, (_, whole) in enumerate(wholes):
        if "seconds" not in whole:
            reason = str(whole.get("error", "no reason given"))[:200]
            yield f"the whole {number} was not measured ({reason}); its groups are not scaled"
            continue
        factor = whole.get("scale")
        if factor is not None and abs(float(factor) - 1) > _FAR:
            yield f"whole {number} takes {float(factor):.2f} times the sum of its groups measured one by one"
    for where, entry in _mappings(path, data, "failed"):
        keys = list(_ops(where, entry).values())
        yield f"not measured: {', '.join(keys[:3])}{' …' if len(keys) > 3 else ''}: {str(entry.get('reason', ''))[:200]}"
