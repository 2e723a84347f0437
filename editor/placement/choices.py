"""The registry of policies, their options and the rules of subgraphs: one entry for each.

The command line, the page, the docs and the solver read it. It names functions instead of importing them, so that
`--help` loads no implementation. A new policy is a module and an entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from editor.arguments import check_one_of, did_you_mean
from editor.errors import EditorError

if TYPE_CHECKING:
    from editor.graph.graph import Graph, Ints
    from editor.placement.policies.task import Assignment, Task

PolicyName = Literal["priority", "rules", "optimal", "memory", "pipeline"]
SubgraphRuleName = Literal["minimal", "connected", "levels"]
Aim = Literal["latency", "throughput"]
"""The least time of one run, or the most runs in a time: of a placement, and of a benchmark."""
AIMS: tuple[Aim, ...] = get_args(Aim)
_EVERY = ("codegen",)
"""Options of every policy."""


@dataclass(frozen=True)
class PolicyEntry:
    """A policy of the automatic mode."""

    home: str
    """``module:function``; the function maps a ``Task`` to an ``Assignment``."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Objective, or "" for a policy without one -> label in the page."""
    own_options: tuple[str, ...] = ()
    """Options that it looks at beside those of every policy."""

    @property
    def by_costs(self) -> bool:
        """Whether it decides by costs, so that a profile changes its decisions."""
        return "costs" in self.own_options

    @property
    def options(self) -> tuple[str, ...]:
        """Options that it looks at."""
        return self.own_options + _EVERY


POLICIES: dict[str, PolicyEntry] = {
    "priority": PolicyEntry(
        "editor.placement.policies.task:priority",
        {"": "Priority: first capable device"},
        ("first",),
    ),
    # Rules apply under every policy; `rules` places the remaining ops by `priority`.
    "rules": PolicyEntry("editor.placement.policies.task:priority", own_options=("first",)),
    "optimal": PolicyEntry(
        "editor.placement.policies.optimal:optimal",
        {
            "latency": "Optimal: least latency",
            "throughput": "Optimal: throughput",
            "energy": "Optimal: least energy",
        },
        ("objective", "within", "costs", "search"),
    ),
    "memory": PolicyEntry(
        "editor.placement.policies.memory:memory",
        {"": "Optimal within memory"},
        ("costs", "search"),
    ),
    "pipeline": PolicyEntry(
        "editor.placement.policies.pipeline:pipeline", {"": "Pipeline: one stage each"}, ("costs",)
    ),
}
COST_POLICIES = frozenset(name for name, entry in POLICIES.items() if entry.by_costs)


def policy_choices() -> dict[str, str]:
    """Value in the page (``optimal:latency``) -> label."""
    return {
        f"{name}:{objective}" if objective else name: label
        for name, entry in POLICIES.items()
        for objective, label in entry.labels.items()
    }


def policy_label(policy: str, options: Mapping[str, Any]) -> str:
    """A policy as the page calls it: "Optimal: least latency"; its name where the page has none."""
    labels, objective = policy_choices(), options.get("objective", "latency")
    return labels.get(f"{policy}:{objective}") or labels.get(policy, policy)


@dataclass(frozen=True)
class OptionEntry:
    """An option of policies. One that a policy does not look at is kept for those that do."""

    text: str
    """Says what it does."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Each value, the default first -> its label in the page; empty: any."""
    parse: Callable[[str], object] = str
    """Makes a value of what the command line was given."""
    form: str | None = None
    """What stands for the value in the help."""


OPTIONS: dict[str, OptionEntry] = {
    "objective": OptionEntry(
        "what is minimised: the time of one run, the load of the busiest device, or the joules of one run; default: latency",
        {aim: aim.capitalize() for aim in (*AIMS, "energy")},
    ),
    "within": OptionEntry(
        "of the objective energy, the most time that one run may take, such as `12ms`; default: any",
        form="TIME",
    ),
    "costs": OptionEntry(
        "where times come from; measured needs a profile (see `profile`)",
        {"estimate": "Estimated from shapes", "measured": "From a profile"},
    ),
    "codegen": OptionEntry(
        "whether entries of one device and unit are chosen per op (default) or once per subgraph, "
        "the fastest that runs all of it",
        {"op": "Chosen op by op", "subgraph": "Fastest per subgraph"},
    ),
    "first": OptionEntry("the device that is tried before the others", form="DEVICE"),
    "search": OptionEntry(
        "how long to search for a better placement; default: 0.5", parse=float, form="SECONDS"
    ),
}


@dataclass(frozen=True)
class SubgraphRule:
    """A rule that forms subgraphs."""

    home: str
    """``module:function``"""
    label: str
    """In the page."""


SUBGRAPH_RULES: dict[str, SubgraphRule] = {
    "minimal": SubgraphRule("editor.placement.subgraphs.minimal:minimal", "Minimal: fewest"),
    "connected": SubgraphRule(
        "editor.placement.subgraphs.connected:connected", "Connected (OpenVINO)"
    ),
    "levels": SubgraphRule("editor.placement.subgraphs.minimal:levels", "Levels (Glow)"),
}
PRESENT = "this plan"
"""Name of the present plan among others that it is compared with."""
Policy: TypeAlias = "Callable[[Task], Assignment]"
Grouping: TypeAlias = "Callable[[Graph, Ints, Ints], Ints]"
"""(graph, [op] device, placed ops) -> [op] number of the subgraph, in topological order."""


@cache
def policy_of(name: str) -> Policy:
    """Returns the policy of this name.

    Raises:
        EditorError: no policy has this name.
    """
    check_one_of(name, POLICIES, "unknown policy")
    policy: Policy = resolve_name(POLICIES[name].home)
    return policy


@cache
def grouping_of(name: str) -> Grouping:
    """Returns the rule of this name.

    Raises:
        EditorError: no rule has this name.
    """
    check_one_of(name, SUBGRAPH_RULES, "unknown way to form subgraphs")
    rule: Grouping = resolve_name(SUBGRAPH_RULES[name].home)
    return rule


def check_options(options: Mapping[str, Any]) -> None:
    """Raises ``EditorError`` for an option that no policy has, and for a value that it cannot have."""
    for name, value in options.items():
        if name not in OPTIONS:
            hint = did_you_mean(name, OPTIONS, f"; choose one of: {', '.join(OPTIONS)}")
            raise EditorError(f"unknown policy option {name!r}{hint}")
        values = OPTIONS[name].values
        if values:
            check_one_of(value, values, f"policy option {name}: it cannot be")
