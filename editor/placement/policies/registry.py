"""Policies by name. Each chooses one allowed device for every op (automatic mode)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from editor.arguments import as_text
from editor.errors import EditorError
from editor.placement.policies.memory import memory
from editor.placement.policies.optimal import optimal
from editor.placement.policies.pipeline import pipeline
from editor.placement.policies.task import Assignment, Task, priority

Policy = Callable[[Task], Assignment]

# Rules apply under every policy; `rules` places the remaining ops by `priority`.
POLICIES: dict[str, Policy] = {
    "priority": priority,
    "rules": priority,
    "optimal": optimal,
    "memory": memory,
    "pipeline": pipeline,
}


def policy_of(name: str) -> Policy:
    """Returns the policy of this name.

    Raises:
        EditorError: no policy has this name.
    """
    if name not in POLICIES:
        raise EditorError(f"unknown policy {name!r}; choose one of: {', '.join(POLICIES)}")
    return POLICIES[name]


OPTIONS = ("objective", "costs", "codegen", "first", "search")
"""Options of all policies; a policy ignores those of the others, so they survive a change of policy."""


def check_options(options: Mapping[str, Any]) -> None:
    """Raises ``EditorError`` for an option that no policy has."""
    for name in options:
        if name not in OPTIONS:
            close = difflib.get_close_matches(str(name), OPTIONS, 1)
            hint = (
                f"did you mean {close[0]!r}?" if close else f"choose one of: {', '.join(OPTIONS)}"
            )
            raise EditorError(f"unknown policy option {name!r}; {hint}")
    for name in ("objective", "costs", "codegen"):
        as_text(options.get(name, ""), f"the policy option {name}")
