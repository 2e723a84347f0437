"""Devices: one entry each of the device table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Link:
    """The way between a device and host memory."""

    bandwidth: float
    """bytes/s"""
    latency: float
    """seconds per transfer"""


@dataclass(frozen=True)
class Device:
    """A named place to run: runtime, provider, options and limits.

    A device that this machine does not have is *planned*: it can be painted, exported and
    estimated; in a run its subgraphs execute on a stand-in.
    """

    name: str
    backend: str
    """``backendName`` as the table has it: a runtime or one of Glow's names."""
    runtime: str
    """Name of the runtime, "" when no runtime is known for it."""
    provider: str
    """ONNX Runtime's execution provider or OpenVINO's device; "" where there is only one."""
    present: bool
    """This machine can really run it."""
    device: str
    unit: str
    codegen: str
    title: str = ""
    """The runtime and provider in words, for a device that is present."""
    slowdown: float = 1.0
    """Estimated op times are multiplied by it; see ``Runtime.slowdown``."""
    supported: tuple[str, ...] = ()
    non_supported: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    memory: int | None = None
    """bytes"""
    peak_compute: float | None = None
    """flop/s, for estimates"""
    peak_dram_bw: float | None = None
    """bytes/s, for estimates"""
    link: Link | None = None
    logical_id: int | None = None
    """Glow's ``deviceID``."""
    entry: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The table entry it was read from, written back into plans."""

    @property
    def planned(self) -> bool:
        """The device is not on this machine."""
        return not self.present

    @property
    def description(self) -> str:
        """What runs here, in a few words for people."""
        return f"planned: {self.backend} is not on this machine" if self.planned else self.title

    @property
    def settings(self) -> tuple[object, ...]:
        """Devices with equal settings run a model alike, whatever their names."""
        return self.runtime, self.provider, tuple(sorted(self.properties.items()))

    def labels(self) -> dict[str, str]:
        """The three target levels."""
        return {"device": self.device, "unit": self.unit, "codegen": self.codegen}
