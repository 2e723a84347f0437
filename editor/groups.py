"""Values by what they have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Key -> the values that come with it, in their order; keys are in the order of their first value."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def firsts(pairs: Iterable[tuple[K, V]]) -> dict[K, V]:
    """Key -> the first value that comes with it."""
    found: dict[K, V] = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found


def common_length(one: Sequence[K], other: Sequence[K]) -> int:
    """How many values two sequences begin with in common."""
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
