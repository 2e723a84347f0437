"""Policies: the automatic mode. Each chooses one allowed device for every op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from editor.errors import EditorError
from editor.graph.graph import Ints
from editor.partition.constraints import Constraints


@dataclass(frozen=True, eq=False)
class Assignment:
    """What a policy decided."""

    device: Ints
    """[op] index of the device."""
    reasons: tuple[str, ...]
    """[op] why this device."""
    objective: float | None = None
    bound: float | None = None


Policy = Callable[[Constraints, Mapping[str, Any]], Assignment]


def priority(table: Constraints, options: Mapping[str, Any]) -> Assignment:
    """First device in table order that may run the op.

    The rule of Glow's backend-based partition and of OpenVINO's HETERO: order is everything.
    """
    device = table.allowed.argmax(axis=1).astype(np.int64)
    names = [d.name for d in table.devices]
    first = f"first device in the table ({' > '.join(names)})"
    reasons = []
    for op, chosen in enumerate(device.tolist()):
        if table.graph.op_keys[op] in table.pins:
            reasons.append(f"pinned to {table.pins[table.graph.op_keys[op]]}")
        elif chosen == 0:
            reasons.append(first)
        else:
            reasons.append(f"first device in the table that may run it, after {', '.join(names[:chosen])}")
    return Assignment(device, tuple(reasons))


POLICIES: dict[str, Policy] = {"priority": priority}


def policy_of(name: str) -> Policy:
    """The policy of a name.

    Raises:
        EditorError: there is none.
    """
    if name not in POLICIES:
        raise EditorError(f"unknown policy {name!r}; there is {', '.join(POLICIES)}")
    return POLICIES[name]
