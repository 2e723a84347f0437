"""Makes the profile of a device from times of another machine, and says what it covers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np

from editor.devices.device import Device
from editor.errors import PlanError
from editor.graph.graph import Bools, Graph
from editor.imports.matching import Layer, LayerTimes, OpTimes, Unmatched, times_of_ops
from editor.placement.device_profile import DeviceProfile
from editor.placement.placement import Placement
from editor.runtimes.onnxruntime.providers import CPU
from editor.text import human_seconds, pluralize, shortened

_MAX_LABEL = 80
_MOST_ADDED = 5
_ENOUGH = 0.9
"""Share of a runtime's own profile that must be matched, before it is preferred to a kit's groups."""


@dataclass(frozen=True)
class ProfileReport:
    """What an imported profile covers."""

    device: str
    origin: str
    """Tool, machine and date."""
    named: int
    """Ops that a layer of the file names."""
    ordered: int
    """Ops whose layer has a name of the tool's making: matched by type and order."""
    joined: int
    """Ops that have a share of the layer beside them."""
    without: tuple[str, ...]
    """Keys of ops that the device can run and that have no figure: they keep an estimate."""
    total: float
    """seconds of all layers of the file that ran on the device"""
    share: float
    """Of that time that went to ops."""
    unmatched: tuple[Unmatched, ...]
    """Layers whose time no op has, the longest first."""
    notes: tuple[str, ...]
    stand_in: str = ""
    """What was measured in place of the device, in words; one of the notes."""

    @property
    def text(self) -> str:
        """The report in one line."""
        found = self.named + self.ordered + self.joined
        how = [
            f"{count} {words}"
            for count, words in (
                (self.named, "named"),
                (self.ordered, "by type and order"),
                (self.joined, "as part of a fused layer"),
            )
            if count
        ]
        parts = [
            f"{found} of {pluralize(found + len(self.without), 'op')} of {self.device} have a figure ({', '.join(how)})",
            f"{self.share * 100:.3g} % of {human_seconds(self.total)} matched",
        ]
        if self.without:
            parts.append(
                f"{pluralize(len(self.without), 'op')} keep{'s' if len(self.without) == 1 else ''} an estimate"
            )
        return f"{self.origin}: {'; '.join(parts)}"

    def problems(self, most: int) -> list[str]:
        """What could not be matched, and which ops have no figure: at most so many of each."""
        lines = [
            f"{shortened(one.name, _MAX_LABEL)!r}: {human_seconds(one.seconds)} not matched: {one.reason}"
            for one in self.unmatched[:most]
            if one.seconds > 0
        ]
        if len(self.unmatched) > most:
            rest = sum(one.seconds for one in self.unmatched[most:])
            lines.append(
                f"… and {len(self.unmatched) - most} more layers without a match ({human_seconds(rest)})"
            )
        lines += [
            f"{shortened(key, _MAX_LABEL)!r}: no figure in the file" for key in self.without[:most]
        ]
        if len(self.without) > most:
            lines.append(f"… and {len(self.without) - most} more ops without a figure")
        return [*self.notes, *lines]


def profile_from_layers(
    placement: Placement,
    device: Device,
    times: LayerTimes,
    machine: str = "",
    day: date | None = None,
) -> tuple[DeviceProfile, ProfileReport]:
    """The profile of a device by the times of a file.

    Args:
        placement: of the model; what the device can run is taken from it.
        device: one of its devices.
        times: what the file says.
        machine: name of the machine that was measured; "" where it is unknown.
        day: when it was measured.

    Raises:
        PlanError: no layer of the file is an op of the model.
    """
    graph = placement.graph
    kit = times.measured
    if kit is not None and (
        kit.model_sha256 != graph.sha256 or dict(kit.define) != dict(graph.define)
    ):
        raise PlanError(
            f"the kit measured another model or other sizes than {graph.name} of the plan; write a new kit"
        )
    elsewhere = _ran_elsewhere(times, device)
    found, notes = _matched(graph, times, elsewhere)
    able = (
        placement.constraints.able[:, placement.device_number(device.name)] & ~graph.op_is_constant
    )
    runs = placement.constraints.capabilities[placement.device_number(device.name)].mask
    if not found.seconds:
        first = next(iter(found.unmatched), None)
        longest = (
            f"; the longest is {shortened(first.name, _MAX_LABEL)!r} ({first.reason})"
            if first
            else (": its layers only compute constants, or their ops have a layer already")
        )
        raise PlanError(f"no layer of this file is an op of {graph.name} on {device.name}{longest}")
    origin = _origin(
        times.tool, machine or (kit.machine if kit else ""), (kit.day if kit else None) or day
    )
    links = kit.links if kit and kit.links else None
    launch = (
        None if times.overhead is None else max(times.overhead, (kit.cut or 0.0) if kit else 0.0)
    )
    profile = DeviceProfile(
        device.description,
        found.total + (times.overhead or 0.0),
        {graph.op_keys[op]: t for op, t in found.seconds.items()},
        {graph.op_keys[op]: kernel for op, kernel in found.kernel.items()},
        found.kernels,
        launch or 0.0,
        *(links or (0.0, 0.0, 0.0, 0.0)),
        times.runs,
        origin=origin,
        has_launch=launch is not None,
        has_links=links is not None,
        unable=_keys(graph, ~runs & ~graph.op_is_constant),
        disturbances=times.disturbances,
        measured_on=_stand_in(times, device, elsewhere),
    )
    stand_in = profile.stand_in(device.name)
    notes = (
        *filter(None, [stand_in]),
        *times.disturbances,
        *times.notes,
        *notes,
        *_properties_note(times, device),
        *(() if stand_in else _provider_note(times, device, elsewhere)),
        *_constants_note(found),
        *(_added_notes(graph, times, found) if times.by_key and not times.measured else ()),
    )
    report = _report(graph, device, found, able, origin, notes)
    return profile, replace(report, stand_in=stand_in)


def _matched(
    graph: Graph, times: LayerTimes, elsewhere: Callable[[Layer], str]
) -> tuple[OpTimes, tuple[str, ...]]:
    """Times of ops; of a kit those of its groups where the runtime's own layers cannot be matched."""
    found = times_of_ops(graph, times, elsewhere)
    kit = times.measured
    if kit is None or times.layers == kit.groups:
        return found, ()
    share = sum(found.seconds.values()) / found.total if found.total else 0.0
    if share < _ENOUGH and kit.groups:
        note = f"{share * 100:.0f} % of the runtime's own profile matched, so the groups that were measured one by one are used"
        return times_of_ops(graph, replace(times, layers=kit.groups)), (note,)
    rest = {graph.key_index[key] for key in kit.covered if key in graph.key_index} - set(
        found.seconds
    )
    return replace(
        found, seconds={**found.seconds, **dict.fromkeys(rest, 0.0)}, joined=found.joined | rest
    ), ()


def device_of(devices: Sequence[Device], name: str, hint: str) -> Device:
    """The device that a file is of.

    Args:
        devices: the device table.
        name: of the device; "" where nobody said it.
        hint: the name of the file: a device may be named in it.

    Raises:
        PlanError: there is no such device, or it is not clear which one is meant.
    """
    if name:
        chosen = [d for d in devices if d.name.lower() == name.lower()]
        if not chosen:
            raise PlanError(
                f"unknown device {name!r} (choose one of: {', '.join(d.name for d in devices)})"
            )
        return chosen[0]
    planned = [d for d in devices if d.planned]
    found = [d for d in devices if d.name.lower() in hint.lower()]
    named = [
        d
        for d in found
        if not any(d.name.lower() in other.name.lower() for other in found if other is not d)
    ]
    for candidates in (named, planned):
        if len(candidates) == 1:
            return candidates[0]
    raise PlanError(
        f"{hint}: this is a profile; say which device it is of (command line: --device NAME, or --pins to take only "
        f"where ops ran; in the page: put the device's name into the file's name): {', '.join(d.name for d in devices)}"
    )


def _report(
    graph: Graph, device: Device, found: OpTimes, able: Bools, origin: str, notes: tuple[str, ...]
) -> ProfileReport:
    without = able.copy()
    without[list(found.seconds)] = False
    share = sum(found.seconds.values()) / found.total if found.total else 1.0
    counts = [
        sum(1 for op in ops if able[op]) for ops in (found.seconds, found.by_order, found.joined)
    ]  # a file may have more
    return ProfileReport(
        device.name,
        origin,
        counts[0] - counts[1] - counts[2],
        counts[1],
        counts[2],
        _keys(graph, without),
        found.total,
        share,
        found.unmatched,
        notes,
    )


def _keys(graph: Graph, mask: Bools) -> tuple[str, ...]:
    return tuple(graph.op_keys[op] for op in np.flatnonzero(mask).tolist())


def _origin(tool: str, machine: str, day: date | None) -> str:
    machine = shortened(" ".join(machine.split()), _MAX_LABEL)
    return f"{tool}{f' on {machine}' if machine else ''}{f', {day.isoformat()}' if day else ''}"


def _providers(times: LayerTimes) -> set[str]:
    return {layer.provider for layer in times.layers if layer.provider}


def _own_providers(times: LayerTimes, device: Device) -> set[str]:
    """Execution providers of a file by the names of the device; empty where none of them fits."""
    texts = {
        str(text).lower()
        for text in (
            device.provider,
            device.entry.get("provider", ""),
            device.name,
            device.backend,
            device.device,
        )
        if text
    }
    return {
        p
        for p in _providers(times)
        if p.lower() in texts or p.lower().removesuffix("executionprovider") in texts
    }


def _ran_elsewhere(times: LayerTimes, device: Device) -> Callable[[Layer], str]:
    """Why the time of a layer is not that of the device: another execution provider of the session ran it."""
    providers = _providers(times)
    own = _own_providers(times, device) or providers - {CPU} or providers

    def reason(layer: Layer) -> str:
        return f"ran on {layer.provider}" if layer.provider and layer.provider not in own else ""

    return reason


def _taken(times: LayerTimes, elsewhere: Callable[[Layer], str]) -> list[str]:
    """Execution providers whose layers are taken as those of the device."""
    return sorted(
        {layer.provider for layer in times.layers if layer.provider and not elsewhere(layer)}
    )


def _stand_in(times: LayerTimes, device: Device, elsewhere: Callable[[Layer], str]) -> str:
    """What was measured in place of a device: the CPU, where the device is none; "" otherwise."""
    if device.device == "CPU":
        return ""
    target = times.measured.target if times.measured else ""
    targets = [target] if target else _taken(times, elsewhere)
    return targets[0] if len(targets) == 1 and targets[0].upper().startswith("CPU") else ""


def _provider_note(
    times: LayerTimes, device: Device, elsewhere: Callable[[Layer], str]
) -> tuple[str, ...]:
    if not _providers(times) or _own_providers(times, device):
        return ()
    return (f"taken as {device.name}: what ran on {', '.join(_taken(times, elsewhere))}",)


def _properties_note(times: LayerTimes, device: Device) -> tuple[str, ...]:
    """Says so where a kit measured with other properties than the device table has."""
    set_there = times.measured.properties if times.measured else None
    here = {key: str(value) for key, value in device.properties.items()}
    if set_there is None or dict(set_there) == here:
        return ()
    there, now = (
        ", ".join(f"{k}={v}" for k, v in each.items()) or "none" for each in (set_there, here)
    )
    return (
        f"measured with other properties than {device.name} has in the table ({there}; the table: {now})",
    )


def _added_notes(graph: Graph, times: LayerTimes, found: OpTimes) -> tuple[str, ...]:
    """Ops that a table names twice: by key and by the name of the node."""
    names = {layer.name for layer in times.layers}
    twice = [
        graph.op_keys[op]
        for op in found.seconds
        if graph.op_names[op] != graph.op_keys[op]
        and names.issuperset((graph.op_keys[op], graph.op_names[op]))
    ]
    return tuple(
        f"{shortened(key, _MAX_LABEL)!r} has a row by this key and one by its node's name: their times were added"
        for key in twice[:_MOST_ADDED]
    )


def _constants_note(found: OpTimes) -> tuple[str, ...]:
    if not found.constants:
        return ()
    return (
        f"{human_seconds(found.constants)} in layers that compute constants: left out, the editor computes those once",
    )


def day_of(path: Path) -> date:
    """When a file was written, for formats that have no date."""
    return date.fromtimestamp(path.stat().st_mtime)
