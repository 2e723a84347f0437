"""A compiled subgraph and its device."""

from __future__ import annotations

from dataclasses import dataclass

from editor.devices.device import Device
from editor.runtimes.base import Executable, SubModel


@dataclass(frozen=True, eq=False)
class Step:
    """One compiled subgraph and the device that runs it."""

    id: int
    submodel: SubModel
    """Without its weights, unless they were asked for."""
    device: Device
    """The device of the plan."""
    runs_on: Device
    """The same device, or the stand-in for a planned device."""
    executable: Executable
