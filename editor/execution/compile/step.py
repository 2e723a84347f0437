"""A compiled subgraph in its place."""

from __future__ import annotations

from dataclasses import dataclass

from editor.devices.device import Device
from editor.runtimes.base import Executable, SubModel


@dataclass(frozen=True, eq=False)
class Step:
    """One compiled subgraph and where it runs."""

    id: int
    part: SubModel
    device: Device
    """The device of the plan."""
    runs_on: Device
    """The same, or the stand-in of a planned device."""
    executable: Executable
