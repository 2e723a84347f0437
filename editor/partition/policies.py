"""Policies: the automatic mode. Each chooses one allowed device for every op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from editor.errors import EditorError
from editor.graph.graph import Ints
from editor.partition.constraints import Constraints
from editor.partition.costs import Costs


@dataclass(frozen=True, eq=False)
class Assignment:
    """What a policy decided."""

    device: Ints
    """[op] index of the device."""
    because: Callable[[int], str]
    """Op -> why this device; pins and rules aside."""
    objective: float | None = None
    """Seconds, as the policy counts them; None when it optimises nothing."""
    bound: float | None = None
    """Seconds that no placement can beat, where that is proved."""
    objective_name: str = ""
    estimated: bool = True
    """The costs were estimates, not a profile."""


@dataclass(frozen=True, eq=False)
class Task:
    """What a policy gets."""

    table: Constraints
    costs: Callable[[], Costs]
    """Made on demand: some policies need none."""
    options: Mapping[str, Any]

    @property
    def placed(self) -> Ints:
        """Ops with a place, in topological order."""
        order = self.table.graph.order
        return order[self.table.placed[order]]


Policy = Callable[[Task], Assignment]


def priority(task: Task) -> Assignment:
    """First device in table order that may run the op.

    The rule of Glow's backend-based partition and of OpenVINO's HETERO: order is everything.
    """
    names = [d.name for d in task.table.devices]
    device = task.table.allowed.argmax(axis=1).astype(np.int64)

    def because(op: int) -> str:
        if device[op] == 0:
            return f"first device in the table ({' > '.join(names)})"
        return f"first device in the table that may run it, after {', '.join(names[:device[op]])}"
    return Assignment(device, because)


def policies() -> dict[str, Policy]:
    """All policies by name."""
    from editor.partition.fit import memory
    from editor.partition.optimal import optimal
    from editor.partition.pipeline import pipeline

    # `rules` is `priority` for whatever the rules leave open; rules themselves hold for every policy.
    return {"priority": priority, "rules": priority, "optimal": optimal, "memory": memory, "pipeline": pipeline}


def policy_of(name: str) -> Policy:
    """The policy of a name.

    Raises:
        EditorError: there is none.
    """
    found = policies()
    if name not in found:
        raise EditorError(f"unknown policy {name!r}; there is {', '.join(found)}")
    return found[name]
