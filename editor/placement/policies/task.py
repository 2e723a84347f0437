"""What a policy gets, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from editor.graph.graph import Ints
from editor.placement.constraints import Constraints
from editor.placement.costs import Costs
from editor.text import human_seconds


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


def reasons(task: Task, costs: Costs, device: Ints) -> Callable[[int], str]:
    """Why an op is on its device, in times."""
    names, word = [d.name for d in task.table.devices], "estimated" if costs.estimated else "measured"

    def because(op: int) -> str:
        chosen = int(device[op])
        times = {d: float(costs.op[op, d]) for d in range(len(names)) if task.table.allowed[op, d]}
        here = f"{human_seconds(times[chosen])} here" if chosen in times else "here"
        others = ", ".join(f"{human_seconds(t)} on {names[d]}" for d, t in times.items() if d != chosen)
        if not others:
            return "the only device that may run it"
        if times[chosen] <= min(times.values()):
            return f"fastest for this op: {here}, {others} ({word})"
        return f"saves transfers or starts of subgraphs: {here}, {others} by itself ({word})"
    return because
