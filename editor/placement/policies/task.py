"""What a policy gets and returns, what every policy must hold, and the simplest policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from editor.arguments import check_one_of
from editor.graph.graph import Ints
from editor.placement.choices import policy_of
from editor.placement.constraints import Constraints
from editor.placement.costs import Costs
from editor.text import human_joules, human_seconds, joined


@dataclass(frozen=True, eq=False)
class Assignment:
    """The result of a policy."""

    device: Ints
    """[op] index of the device."""
    because: Callable[[int], str]
    """Op -> reason of the policy for its device, without pins and rules."""
    objective: float | None = None
    """Value of the objective in seconds or joules; None when the policy optimises nothing."""
    bound: float | None = None
    """Proved lower bound of the objective, or None."""
    objective_name: str = ""
    estimated: bool = True
    """Whether the costs are estimates instead of a profile."""
    in_joules: bool = False
    no_room: Ints | None = None
    """[op] number of the device that it would be on if that had the memory, -1 of others; None where limits do not count."""

    def human(self, value: float) -> str:
        """Text of a value of the objective."""
        return human_joules(value) if self.in_joules else human_seconds(value)


@dataclass(frozen=True, eq=False)
class Task:
    """The input of a policy."""

    constraints: Constraints
    costs: Callable[[], Costs]
    """Computed on demand: some policies need no costs."""
    options: Mapping[str, Any]
    should_stop: Callable[[], bool] = bool
    """Asked from time to time during a long search, which then ends with the best placement so far."""

    @property
    def placed(self) -> Ints:
        """Ops with a device of their own, in topological order."""
        order = self.constraints.graph.order
        return order[self.constraints.placed[order]]


def reasons(
    task: Task, costs: Costs, device: Ints, in_joules: bool = False
) -> Callable[[int], str]:
    """Op -> reason for its device, in times per device; or in joules, which ``costs`` are then."""
    human = human_joules if in_joules else human_seconds
    best = "least energy" if in_joules else "fastest"
    saves = "transfers, launches or time" if in_joules else "transfers or launches"
    names, word = (
        [d.name for d in task.constraints.devices],
        "estimated" if costs.estimated else "measured",
    )

    def because(op: int) -> str:
        chosen = int(device[op])
        times = {
            d: float(costs.op[op, d]) for d in range(len(names)) if task.constraints.allowed[op, d]
        }
        here = f"{human(times[chosen])} here" if chosen in times else "here"
        others = ", ".join(f"{human(t)} on {names[d]}" for d, t in times.items() if d != chosen)
        if not others:
            return "the only device that may run it"
        alike = [names[d] for d, t in times.items() if d != chosen and t == times.get(chosen)]
        if alike and times[chosen] <= min(times.values()):
            return f"nowhere faster for this op, and as good on {joined(alike)}: {here}, {others} ({word})"
        if times[chosen] <= min(times.values()):
            return f"{best} for this op: {here}, {others} ({word})"
        return f"saves {saves}: {here}, {others} for this op alone ({word})"

    return because


def priority(task: Task) -> Assignment:
    """First device in table order that may run the op.

    The rule of Glow's backend-based partition and of OpenVINO's HETERO. Option ``first`` names a device
    to try before the others.
    """
    names = [d.name for d in task.constraints.devices]
    first = task.options.get("first")
    if first is not None:
        check_one_of(first, names, "policy option first: unknown device")
    order = sorted(range(len(names)), key=lambda d: names[d] != first)
    names = [names[d] for d in order]
    position = task.constraints.allowed[:, order].argmax(axis=1)
    device = np.array(order, np.int64)[position]

    def because(op: int) -> str:
        if position[op] == 0:
            return f"first device in the table ({' > '.join(names)})"
        return (
            f"first device in the table that may run it, after {', '.join(names[: position[op]])}"
        )

    return Assignment(device, because)


def assign(name: str, task: Task) -> Assignment:
    """Runs a policy: every op gets one device of the table, and every placed op one that its row of ``allowed`` permits.

    Pins and rules are part of ``allowed``, so they hold, too.

    Raises:
        EditorError: the policy finds no solution, or no policy has this name.
        AssertionError: the policy breaks its promise; a fault of the policy.
    """
    assignment = policy_of(name)(task)
    for read, write in task.constraints.graph.state_pairs:
        assignment.device[write] = assignment.device[read]
    device, allowed = assignment.device, task.constraints.allowed
    assert device.shape == allowed.shape[:1], (
        f"{name}: {device.shape} devices for {len(allowed)} ops"
    )
    assert ((device >= 0) & (device < allowed.shape[1])).all(), f"{name}: no such device"
    wrong = task.placed[~allowed[task.placed, device[task.placed]]]
    assert not len(wrong), f"{name}: op {wrong[:1]} is on a device that may not run it"
    if assignment.objective is not None and assignment.bound is not None:
        assert assignment.bound <= assignment.objective * (1 + 1e-9), (
            f"{name}: the bound is above the objective"
        )
    return assignment
