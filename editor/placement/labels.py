"""Target labels: the name of a device, or a label of the levels device, unit and codegen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from editor.arguments import as_text
from editor.devices.device import Device
from editor.errors import PinError
from editor.graph.graph import Bools

LEVELS = ("device", "unit", "codegen")


def label_mask(label: str, devices: Sequence[Device]) -> Bools:
    """[device] whether a label selects it.

    Device names have precedence (case-insensitive), then device, unit and codegen labels. ``unit:1``
    states the level.

    Raises:
        PinError: no device has this name or label.
    """
    return _level_and_mask(label, devices)[1]


def label_level(label: str, devices: Sequence[Device]) -> str:
    """The level of a label; "" for the name of a device, which determines all levels."""
    return _level_and_mask(label, devices)[0]


def _level_and_mask(label: str, devices: Sequence[Device]) -> tuple[str, Bools]:
    level, _, value = as_text(label, "the target of a pin", PinError).partition(":")
    if level in LEVELS and value:
        mask = np.array([device.labels()[level] == value for device in devices], bool)
        if mask.any():
            return level, mask
    for exact in (True, False):
        names = [d.name if exact else d.name.lower() for d in devices]
        wanted = label if exact else label.lower()
        if wanted in names:
            return "", np.array([name == wanted for name in names], bool)
    for level in LEVELS:
        labels = [d.labels()[level].lower() for d in devices]
        if label.lower() in labels:
            return level, np.array([text == label.lower() for text in labels], bool)
    raise PinError(f"unknown device {label!r}; this plan has {', '.join(d.name for d in devices)}")
