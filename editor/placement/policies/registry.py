"""Policies: the automatic mode. Each chooses one allowed device for every op."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from editor.errors import EditorError
from editor.placement.policies.memory import memory
from editor.placement.policies.optimal import optimal
from editor.placement.policies.pipeline import pipeline
from editor.placement.policies.task import Assignment, Task

Policy = Callable[[Task], Assignment]


def priority(task: Task) -> Assignment:
    """First device in table order that may run the op.

    The rule of Glow's backend-based partition and of OpenVINO's HETERO: order is everything. Option
    ``first`` names a device to try before the others.
    """
    names = [d.name for d in task.table.devices]
    first = task.options.get("first")
    if first is not None and first not in names:
        raise EditorError(f"policy option first: there is no device {first!r} (there is {', '.join(names)})")
    order = sorted(range(len(names)), key=lambda d: names[d] != first)
    names = [names[d] for d in order]
    place = task.table.allowed[:, order].argmax(axis=1)
    device = np.array(order, np.int64)[place]

    def because(op: int) -> str:
        if place[op] == 0:
            return f"first device in the table ({' > '.join(names)})"
        return f"first device in the table that may run it, after {', '.join(names[:place[op]])}"
    return Assignment(device, because)


# `rules` is `priority` for whatever the rules leave open; rules themselves hold for every policy.
POLICIES: dict[str, Policy] = {"priority": priority, "rules": priority, "optimal": optimal, "memory": memory,
                               "pipeline": pipeline}


def policy_of(name: str) -> Policy:
    """The policy of a name.

    Raises:
        EditorError: there is none.
    """
    if name not in POLICIES:
        raise EditorError(f"unknown policy {name!r}; there is {', '.join(POLICIES)}")
    return POLICIES[name]
