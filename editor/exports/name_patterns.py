"""Finds few substrings of op names that assign each op to its device.

ONNX Runtime's ``session.name_based_layer_assignment`` assigns an op to the device of the longest pattern that its
name contains. The patterns are common prefixes, chosen by dynamic programming over the prefix tree so that their
total length is minimal. A prefix may also occur inside other names, so the full name of each op that would be
assigned wrongly is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_FORBIDDEN = frozenset(",;()")
_SEPARATOR = 2
"""Characters between two patterns."""


@dataclass
class _Branch:
    """A node of the prefix tree: the names with a common prefix."""

    pattern: str
    """The longest usable prefix that no other branch shares; "" where there is none."""
    targets: set[str]
    branches: list[_Branch] = field(default_factory=list)


def usable(pattern: str) -> bool:
    """Whether the settings string can contain a pattern: no separators, and no blanks that ONNX Runtime trims."""
    return bool(pattern) and not _FORBIDDEN & set(pattern) and pattern == pattern.strip() and not pattern.startswith("=")


def name_patterns(targets: Mapping[str, str], most_text: int) -> dict[str, str] | None:
    """Pattern -> target, such that the longest pattern in each name has the target of the name, without ties.

    Args:
        targets: op name -> target.
        most_text: most characters of all patterns and separators together.

    Returns:
        None where no patterns within this length exist.
    """
    names = sorted(targets)
    patterns: dict[str, str] = {}
    for start, stop in _groups_by_character(names, 0, len(names), 0):
        root = _tree(names, targets, start, stop)
        cost, chosen = _choose(root)
        if cost is None:
            return None
        patterns.update(chosen)
    while _text(patterns) <= most_text and (
            wrong := [name for name in names if not _is_assigned_correctly(name, targets[name], patterns)]):
        for name in wrong:
            if not usable(name) or patterns.get(name) == targets[name]:
                return None
            patterns[name] = targets[name]
    return patterns if _text(patterns) <= most_text else None


def _text(patterns: Mapping[str, str]) -> int:
    return sum(len(pattern.encode()) + _SEPARATOR for pattern in patterns)


def _is_assigned_correctly(name: str, target: str, patterns: Mapping[str, str]) -> bool:
    contained = [p for p in patterns if p in name]
    longest = max(map(len, contained), default=0)
    return {patterns[p] for p in contained if len(p) == longest} == {target}


def _groups_by_character(names: list[str], start: int, stop: int, depth: int) -> list[tuple[int, int]]:
    """Ranges of sorted names with the same character at a depth."""
    ranges, first = [], start
    for i in range(start + 1, stop + 1):
        if i == stop or names[i][depth:depth + 1] != names[first][depth:depth + 1]:
            ranges.append((first, i))
            first = i
    return ranges


def _tree(names: list[str], targets: Mapping[str, str], start: int, stop: int) -> _Branch:
    """The prefix tree of a range of sorted names; names of one target have no branches."""
    root = _Branch("", set())
    waiting = [(root, start, stop, 0)]
    while waiting:
        branch, start, stop, above = waiting.pop()
        prefix = _common(names[start], names[stop - 1])
        branch.pattern = next((prefix[:n] for n in range(len(prefix), above, -1) if usable(prefix[:n])), "")
        branch.targets = {targets[name] for name in names[start:stop]}
        if len(branch.targets) == 1 and branch.pattern:
            continue
        for first, last in _groups_by_character(names, start, stop, len(prefix)):
            if last - first < stop - start:
                below = _Branch("", set())
                branch.branches.append(below)
                waiting.append((below, first, last, len(prefix)))
    return root


def _common(a: str, b: str) -> str:
    """The common prefix of two names, and thus of all sorted names between them."""
    return a[:next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))]


def _choose(root: _Branch) -> tuple[int | None, dict[str, str]]:
    """(length in characters, patterns) of the shortest patterns for a tree; the length is None when impossible."""
    order = [root]
    for branch in order:
        order.extend(branch.branches)
    every = sorted(root.targets)
    # cost[branch][inherited]: characters of the subtree, given the target of a shorter prefix; "" is none.
    costs: dict[int, dict[str, int | None]] = {}
    picks: dict[int, dict[str, str]] = {}
    for branch in reversed(order):
        below: dict[str, int | None] = {}
        for target in ("", *every):
            parts = [costs[id(b)][target] for b in branch.branches]
            alone = not branch.branches and branch.targets != {target}
            below[target] = None if alone or None in parts else sum(p for p in parts if p is not None)
        price = len(branch.pattern) + _SEPARATOR
        costs[id(branch)], picks[id(branch)] = {}, {}
        for inherited in ("", *every):
            best, pick = below[inherited], inherited
            for target in every if branch.pattern else ():
                within = below[target]
                if target != inherited and within is not None and (best is None or within + price < best):
                    best, pick = within + price, target
            costs[id(branch)][inherited], picks[id(branch)][inherited] = best, pick
    chosen: dict[str, str] = {}
    waiting = [(root, "")]
    while waiting:
        branch, inherited = waiting.pop()
        pick = picks[id(branch)][inherited]
        if pick != inherited:
            chosen[branch.pattern] = pick
        waiting.extend((b, pick) for b in branch.branches)
    return costs[id(root)][""], chosen
