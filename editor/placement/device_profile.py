"""Measured costs of a model on devices, stored between sessions.

`editor.execution.measure.profile` measures them on the devices of this machine, `editor.imports` reads those of other
machines; policies read them here. A device has one profile: the last one holds. The one before it is kept, and can be put back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from editor.devices.device import Device
from editor.errors import NoProfileError
from editor.files import cache_folder, json_text, write_atomic
from editor.graph.graph import Graph
from editor.graph.proposed_sizes import sizes_text
from editor.kinds import Basis, basis_of_costs
from editor.placement.constraints import allowed_by_lists
from editor.placement.costs import ColdStart, Costs, estimate, with_ends, with_wires
from editor.text import human_seconds, pluralize

_VERSION = 4
_DOUBTFUL_PERCENT = 25


@dataclass(frozen=True)
class DeviceProfile:
    """Measured times of one model on one device."""

    device: str
    """Description of the device, with version and hardware."""
    total: float
    """seconds of one run of all ops that the device can run; equals the sum over them where it was measured here, else it
    has layers without a match, and launches, too"""
    seconds: Mapping[str, float]
    """op key -> seconds in that run"""
    fused: Mapping[str, int]
    """op key -> index of the kernel that computes it; fused ops share its time in proportion to their estimated work"""
    kernels: tuple[str, ...]
    """[kernel] its type"""
    launch_seconds: float
    """seconds of launch overhead per subgraph"""
    in_latency: float
    """seconds per value transferred from host memory; as measured in splits, where there were some"""
    in_seconds_per_byte: float
    """seconds per byte of such a value"""
    out_latency: float
    out_seconds_per_byte: float
    """the same for transfers to host memory"""
    runs: int
    split_factor: float = 1.0
    """How many times as long ops take in a split: cuts prevent fusions, and caches are colder"""
    scale: float = 1.0
    """What the times of kernels were multiplied with, so that they add up to the unsplit model measured beside them."""
    origin: str = ""
    """Tool, machine and date of a profile from elsewhere; "" for one that was measured here."""
    estimated: bool = False
    """Whether a compiler worked the times out, and nothing ran."""
    has_launch: bool = True
    """Whether ``launch_seconds`` was measured; else launches are estimated."""
    has_links: bool = True
    """Whether transfers were measured; else they are estimated."""
    reach_seconds: float = 0.0
    """seconds that a subgraph on another machine takes beyond its ops and the wires: messages, threads, copies"""
    cold_seconds: float = 0.0
    """Most seconds that a subgraph takes longer because other devices ran before it (`cold_start`)"""
    cold_constant: float = 1e-3
    """Seconds of ops after which all but 1/e of that is reached"""
    convert_seconds_per_byte: float = 0.0
    """Seconds that a subgraph takes longer per byte that enters or leaves it: layouts are converted there"""
    unable: tuple[str, ...] = ()
    """Keys of the ops that the runtime could not run when the profile was made: they need no figure. Those that only the device
    table excluded are not among them: the table may allow them later."""
    disturbances: tuple[str, ...] = ()
    """The disturbances of the measurement, in words."""
    measured_on: str = ""
    """Execution provider, or device of a runtime, of the CPU that was measured in place of the device; "" where none was."""
    earlier: int = 0
    """Number of ops whose figures are those of the profile before it (`completed`)."""

    def stand_in(self, name: str) -> str:
        """What was measured in place of the device of a name, in words; "" where it was measured itself."""
        return f"measured on {self.measured_on}, not on {name}" if self.measured_on else ""

    @property
    def overhead(self) -> str:
        """The cost of an extra subgraph, in words: "170 us", "170 to 410 us"."""
        least = human_seconds(self.launch_seconds)
        return (
            f"{least} to {human_seconds(self.launch_seconds + self.cold_seconds)}"
            if self.cold_seconds
            else least
        )

    @property
    def check(self) -> str:
        """How well the times of kernels agreed with the unsplit model measured beside them, and what disturbed, in words."""
        off = (1 / self.scale - 1) * 100
        doubt = "; single ops are doubtful" if abs(off) > _DOUBTFUL_PERCENT else ""
        kept = (
            f"; {pluralize(self.earlier, 'op')} excluded now keep their figures"
            if self.earlier
            else ""
        )
        noise = (
            f". Noisy: {'; '.join(self.disturbances)}; profile again on a quiet machine"
            if self.disturbances
            else ""
        )
        return (
            f"kernels add up to {100 + off:.0f} % of the unsplit model measured beside them, and were scaled to it{doubt}"
            f"{kept}{noise}"
        )


def profile_path(graph: Graph, device: Device, define: Mapping[str, int] | None = None) -> Path:
    """Path of the stored profile of a model on a device; at other sizes than those of ``graph`` with ``define``."""
    named = (
        [device.name, device.backend] if device.planned else []
    )  # nothing else tells planned devices apart
    identity = json.dumps(
        [
            _VERSION,
            graph.sha256,
            sorted((graph.define if define is None else define).items()),
            device.runtime,
            device.provider,
            device.unit,
            sorted(device.properties.items()),
            device.description,
            *named,
        ]
    )
    return cache_folder("profiles") / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.json"


def profile_of(document: Mapping[str, Any]) -> DeviceProfile:
    """The profile of a JSON document. Raises ``TypeError`` where its fields are not those of a profile."""
    lists = {key: tuple(document.get(key, ())) for key in ("kernels", "unable", "disturbances")}
    return DeviceProfile(**{**document, **lists})


def earlier_path(graph: Graph, device: Device) -> Path:
    """Path of the profile that was stored before the present one, or before that was forgotten."""
    path = profile_path(graph, device)
    return path.with_name(f"{path.stem}.before.json")


def save_profile(graph: Graph, device: Device, profile: DeviceProfile) -> Path:
    """Stores a profile, and keeps the one before it; returns its path."""
    path = profile_path(graph, device)
    if load_profile(graph, device) not in (None, profile):
        forget_profile(graph, device)
    return write_atomic(path, json_text(asdict(profile)))


def load_profile(graph: Graph, device: Device) -> DeviceProfile | None:
    """The stored profile; None when it is missing or damaged."""
    return _read(profile_path(graph, device))


def unprofiled(graph: Graph, devices: Sequence[Device]) -> list[str]:
    """Names of the real devices of which no profile of the model is stored."""
    return [d.name for d in devices if not d.planned and load_profile(graph, d) is None]


def has_profile_at(graph: Graph, devices: Sequence[Device], define: Mapping[str, int]) -> bool:
    """Whether a profile of a model at these sizes is stored of one of the devices; it is not read."""
    return any(profile_path(graph, device, define).is_file() for device in devices)


def earlier_profile(graph: Graph, device: Device) -> DeviceProfile | None:
    """Returns the profile that `put_back_profile` would put back; None where that is nothing."""
    return _read(earlier_path(graph, device))


def _read(path: Path) -> DeviceProfile | None:
    try:
        return profile_of(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def forget_profile(graph: Graph, device: Device) -> None:
    """Takes the stored profile away, where there is one: it can be put back."""
    with suppress(FileNotFoundError):
        profile_path(graph, device).replace(earlier_path(graph, device))


def follow_renamed(
    graph: Graph, before: Sequence[Device], after: Sequence[Device], renamed: Mapping[str, str]
) -> None:
    """Gives planned devices their profile under their new name: it was stored under the old one.

    Args:
        graph: the model.
        before: the table with the old names.
        after: the table with the new ones.
        renamed: old name -> new name.
    """
    new = {d.name: d for d in after}
    for device in before:
        profile, now = load_profile(graph, device), new.get(renamed.get(device.name, ""))
        if profile is not None and now is not None and device.planned and now.planned:
            save_profile(graph, now, profile)


def put_back_profile(graph: Graph, device: Device) -> bool:
    """Takes the profile before the present one, which can be put back in turn; returns whether there was one."""
    now, before = profile_path(graph, device), earlier_path(graph, device)
    if earlier_profile(graph, device) is None:
        return False
    aside = before.with_name(f"{now.stem}.aside.json")
    with suppress(FileNotFoundError):
        now.replace(aside)
    before.replace(now)
    with suppress(FileNotFoundError):
        aside.replace(before)
    return True


def costs_of(graph: Graph, devices: Sequence[Device], source: str) -> Costs:
    """Costs from estimates or from profiles.

    Args:
        graph: the model.
        devices: the device table.
        source: ``estimate`` or ``measured``. Planned devices without an imported profile are estimated.

    Raises:
        EditorError: the source is unknown.
        NoProfileError: a real device has not been profiled.
    """
    if source == "estimate":
        return with_wires(graph, devices, estimate(graph, devices))
    profiles = [load_profile(graph, d) for d in devices]
    missing = [
        d.name for d, p in zip(devices, profiles, strict=True) if p is None and not d.planned
    ]
    if missing:
        sizes = f" at {sizes_text(graph.define)}" if graph.define else ""
        raise NoProfileError(
            f"no profile of this model{sizes} on {', '.join(missing)} yet",
            "press Profile in the tab Benchmark, or run `python -m editor profile PLAN`, or import one of another machine",
        )
    return with_wires(graph, devices, measured(graph, devices, profiles))


def best_source(graph: Graph, devices: Sequence[Device]) -> str:
    """``measured`` where some device and every real one has a profile of the model, else ``estimate``."""
    has = [load_profile(graph, d) is not None for d in devices]
    return (
        "measured"
        if any(has) and all(h or d.planned for h, d in zip(has, devices, strict=True))
        else "estimate"
    )


def basis_of(costs: Costs, source: str, used: Iterable[int] = ()) -> Basis:
    """What costs of a source are; planned devices may have estimates beside the profiles of others.

    Args:
        costs: of all devices.
        source: ``estimate`` or ``measured``.
        used: numbers of the devices that a figure is about; all where there are none.
    """
    numbers = list(used)
    if source == "estimate" or not costs.profiled or not numbers:
        profiled = source != "estimate"
        return basis_of_costs(costs.estimated, profiled, costs.origins, any(costs.noisy))
    between = costs.wires is not None and costs.wires.estimated
    assumed, profiled = (
        any(costs.assumed[d] for d in numbers),
        any(costs.profiled[d] for d in numbers),
    )
    noisy = any(costs.noisy[d] for d in numbers)
    return basis_of_costs(between or assumed, profiled, [costs.origins[d] for d in numbers], noisy)


def measured(
    graph: Graph, devices: Sequence[Device], profiles: Sequence[DeviceProfile | None]
) -> Costs:
    """Estimated costs, replaced by measured ones for each device with a profile, as far as that has them."""
    base = estimate(graph, devices)
    op, leave, enter, launch = (
        base.op.copy(),
        base.leave.copy(),
        base.enter.copy(),
        base.launch.copy(),
    )
    whole = np.full(len(devices), np.nan)
    cold, convert = [ColdStart()] * len(devices), np.zeros(len(devices))
    own = [graph.op_keys[op] for op in np.flatnonzero(~graph.op_is_constant).tolist()]
    sizes = np.maximum(graph.tensor_bytes, 0).astype(np.float64)
    for d, profile in enumerate(profiles):
        if profile is None:
            continue
        for key, seconds in profile.seconds.items():
            if key in graph.key_index:
                op[graph.key_index[key], d] = seconds * profile.split_factor
        if all(key in profile.seconds for key in own):
            whole[d] = profile.total + profile.reach_seconds
        if profile.has_links:
            enter[:, d] = profile.in_latency + profile.in_seconds_per_byte * sizes
            leave[:, d] = profile.out_latency + profile.out_seconds_per_byte * sizes
        if profile.has_launch:
            launch[d] = profile.launch_seconds + profile.reach_seconds
        convert[d] = profile.convert_seconds_per_byte
        enter[:, d] += convert[d] * sizes
        leave[:, d] += convert[d] * sizes
        cold[d] = ColdStart(profile.cold_seconds, profile.cold_constant)
    op[graph.op_is_constant] = 0.0
    origins = tuple(
        "" if p is None or not p.origin else _origin(d, p)
        for d, p in zip(devices, profiles, strict=True)
    )
    assumed = tuple(
        p is None or p.estimated or bool(ops_without_figure(graph, d, p))
        for d, p in zip(devices, profiles, strict=True)
    )
    costs = Costs(
        op,
        leave,
        enter,
        launch,
        any(assumed),
        whole,
        origins,
        profiled=tuple(p is not None for p in profiles),
        assumed=assumed,
        noisy=tuple(p is not None and bool(p.disturbances) for p in profiles),
        measured_on=tuple("" if p is None else p.measured_on for p in profiles),
        cold=tuple(cold),
        convert=convert,
    )
    return with_ends(graph, devices, costs)


def ops_without_figure(graph: Graph, device: Device, profile: DeviceProfile) -> list[int]:
    """Ops that the device may run and whose time is estimated, because its profile does not have them."""
    known = {*profile.seconds, *profile.unable}
    missing = ~graph.op_is_constant & np.array([key not in known for key in graph.op_keys], bool)
    return (
        [int(op) for op in np.flatnonzero(missing & allowed_by_lists(graph, device))]
        if missing.any()
        else []
    )


def completed(graph: Graph, profile: DeviceProfile, before: DeviceProfile | None) -> DeviceProfile:
    """A profile that was measured here, with the ops of the one before it that it lacks: the table excluded them meanwhile.

    Args:
        graph: the model.
        profile: the new one.
        before: the stored one of the same device; one from elsewhere is replaced as a whole.
    """
    if before is None or before.origin or profile.origin:
        return profile
    kept = {
        key: t
        for key, t in before.seconds.items()
        if key not in profile.seconds and key not in profile.unable and key in graph.key_index
    }
    if not kept:
        return profile
    theirs = {key: kernel for key, kernel in before.fused.items() if key in kept}
    used = sorted(set(theirs.values()))
    number = {kernel: i for i, kernel in enumerate(used, len(profile.kernels))}
    fused = {**profile.fused, **{key: number[kernel] for key, kernel in theirs.items()}}
    return replace(
        profile,
        total=profile.total + sum(kept.values()),
        seconds={**profile.seconds, **kept},
        fused=fused,
        kernels=(*profile.kernels, *(before.kernels[kernel] for kernel in used)),
        earlier=len(kept),
    )


def _origin(device: Device, profile: DeviceProfile) -> str:
    lacking = [
        what
        for what, has in (("transfers", profile.has_links), ("launches", profile.has_launch))
        if not has
    ]
    note = f", {' and '.join(lacking)} estimated" if lacking else ""
    other = f", {profile.stand_in(device.name)}" if profile.measured_on else ""
    return f"{device.name}: {profile.origin}{other}{note}"


def scaled(profile: DeviceProfile, total: float | None) -> DeviceProfile:
    """The profile scaled to another total time."""
    if total is None or not profile.total:
        return profile
    factor = total / profile.total
    return replace(
        profile,
        total=total,
        scale=profile.scale * factor,
        seconds={key: t * factor for key, t in profile.seconds.items()},
    )
