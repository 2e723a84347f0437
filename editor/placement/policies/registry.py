"""Policies: the automatic mode. Each chooses one allowed device for every op."""

from __future__ import annotations

from collections.abc import Callable

from editor.errors import EditorError
from editor.placement.policies.memory import memory
from editor.placement.policies.optimal import optimal
from editor.placement.policies.pipeline import pipeline
from editor.placement.policies.priority import priority
from editor.placement.policies.task import Assignment, Task

Policy = Callable[[Task], Assignment]

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
