"""Rules that form subgraphs, by name."""

from __future__ import annotations

from editor.errors import EditorError
from editor.placement.subgraphs.connected import connected
from editor.placement.subgraphs.grouping import Grouping, levels
from editor.placement.subgraphs.minimal import minimal

GROUPINGS: dict[str, Grouping] = {"minimal": minimal, "connected": connected, "levels": levels}


def grouping_of(name: str) -> Grouping:
    """Returns the rule of this name.

    Raises:
        EditorError: no rule has this name.
    """
    if name not in GROUPINGS:
        raise EditorError(
            f"unknown way to form subgraphs {name!r}; choose one of: {', '.join(GROUPINGS)}"
        )
    return GROUPINGS[name]
