"""Runs policies by name, and checks what every policy must hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import Any

from editor.arguments import check_one_of, did_you_mean
from editor.errors import EditorError
from editor.placement.choices import OPTIONS, POLICIES
from editor.placement.policies.task import Assignment, Task

Policy = Callable[[Task], Assignment]


@cache
def policy_of(name: str) -> Policy:
    """Returns the policy of this name.

    Raises:
        EditorError: no policy has this name.
    """
    check_one_of(name, POLICIES, "unknown policy")
    policy: Policy = resolve_name(POLICIES[name].home)
    return policy


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


def check_options(options: Mapping[str, Any]) -> None:
    """Raises ``EditorError`` for an option that no policy has, and for a value that it cannot have."""
    for name, value in options.items():
        if name not in OPTIONS:
            hint = did_you_mean(name, OPTIONS, f"; choose one of: {', '.join(OPTIONS)}")
            raise EditorError(f"unknown policy option {name!r}{hint}")
        values = OPTIONS[name].values
        if values:
            check_one_of(value, values, f"policy option {name}: it cannot be")
