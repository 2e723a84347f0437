"""Measured costs of a model on real devices, stored between sessions.

`editor.execution.measure.profile` measures them; policies read them here.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from editor.devices.device import Device
from editor.errors import EditorError
from editor.files import json_text, write_atomic
from editor.graph.graph import Graph
from editor.placement.costs import Costs, estimate

_VERSION = 2


@dataclass(frozen=True)
class DeviceProfile:
    """Measured times of one model on one real device."""

    device: str
    """Description of the device, with version and hardware."""
    total: float
    """seconds of one run; equals the sum over its ops"""
    seconds: Mapping[str, float]
    """op key -> seconds"""
    fused: Mapping[str, int]
    """op key -> index of the kernel that computes it; fused ops share its time in proportion to their estimated work"""
    kernels: tuple[str, ...]
    """[kernel] its type"""
    launch_seconds: float
    """seconds of launch overhead per subgraph"""
    in_latency: float
    """seconds per value transferred from host memory, plus the time that a measured split took beyond its prediction"""
    in_seconds_per_byte: float
    """seconds per byte of such a value"""
    out_latency: float
    out_seconds_per_byte: float
    """the same for transfers to host memory"""
    runs: int


def profile_path(graph: Graph, device: Device) -> Path:
    """Path of the stored profile of a model on a device."""
    identity = json.dumps([_VERSION, graph.sha256, sorted(graph.define.items()), device.runtime, device.provider,
                           device.unit, sorted(device.properties.items()), device.description])
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "hetero-editor" / "profiles" / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.json"


def save_profile(graph: Graph, device: Device, profile: DeviceProfile) -> Path:
    """Stores a profile; returns its path."""
    path = profile_path(graph, device)
    return write_atomic(path, json_text(asdict(profile)))


def load_profile(graph: Graph, device: Device) -> DeviceProfile | None:
    """The stored profile; None when it is missing or damaged."""
    try:
        document = json.loads(profile_path(graph, device).read_text(encoding="utf-8"))
        return DeviceProfile(**{**document, "kernels": tuple(document["kernels"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def costs_of(graph: Graph, devices: Sequence[Device], source: str) -> Costs:
    """Costs from estimates or from profiles.

    Args:
        graph: the model.
        devices: the device table.
        source: ``estimate`` or ``measured``. Planned devices are always estimated.

    Raises:
        EditorError: the source is unknown, or a real device has not been profiled.
    """
    if source == "estimate":
        return estimate(graph, devices)
    if source != "measured":
        raise EditorError(f"unknown source of costs {source!r}; choose one of: estimate, measured")
    profiles = [None if d.planned else load_profile(graph, d) for d in devices]
    missing = [d.name for d, p in zip(devices, profiles, strict=True) if p is None and not d.planned]
    if missing:
        raise EditorError(f"no profile of this model on {', '.join(missing)} yet: press Profile, or run "
                          "`python -m editor profile PLAN`")
    return measured(graph, devices, profiles)


def best_source(graph: Graph, devices: Sequence[Device]) -> str:
    """``measured`` where every real device has a profile of the model, else ``estimate``."""
    real = [d for d in devices if not d.planned]
    return "measured" if real and all(load_profile(graph, d) is not None for d in real) else "estimate"


def word_for(costs: Costs, source: str) -> str:
    """The word that describes such costs: measured, estimated, or partly estimated (some devices are planned)."""
    return "measured" if not costs.estimated else "estimated" if source == "estimate" else "partly estimated"


def measured(graph: Graph, devices: Sequence[Device], profiles: Sequence[DeviceProfile | None]) -> Costs:
    """Estimated costs, replaced by measured ones for each device with a profile."""
    base = estimate(graph, devices)
    op, leave, enter, launch = base.op.copy(), base.leave.copy(), base.enter.copy(), base.launch.copy()
    sizes = np.maximum(graph.tensor_bytes, 0).astype(np.float64)
    for d, profile in enumerate(profiles):
        if profile is None:
            continue
        for key, seconds in profile.seconds.items():
            if key in graph.key_index:
                op[graph.key_index[key], d] = seconds
        enter[:, d] = profile.in_latency + profile.in_seconds_per_byte * sizes
        leave[:, d] = profile.out_latency + profile.out_seconds_per_byte * sizes
        launch[d] = profile.launch_seconds
    op[graph.op_is_constant] = 0.0
    return Costs(op, leave, enter, launch, any(p is None for p in profiles))
