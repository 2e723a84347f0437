"""Lists of ops as short text: a block of a large model has thousands, mostly one after the other."""

from __future__ import annotations

import numpy as np

from editor.graph.graph import Ints


def spans(ops: Ints) -> str:
    """Ascending numbers as ranges: 3, 4, 5 and 9 are "3-5 9"."""
    if not len(ops):
        return ""
    ends = np.flatnonzero(np.diff(ops) != 1)
    return " ".join(
        str(a) if a == b else f"{a}-{b}"
        for a, b in zip(ops[[0, *(ends + 1)]].tolist(), ops[[*ends, -1]].tolist(), strict=True)
    )


def ops_of(text: str) -> list[int]:
    """The numbers again."""
    ends = [[int(number) for number in part.split("-")] for part in text.split()]
    return [op for end in ends for op in range(end[0], end[-1] + 1)]


__all__ = ["ops_of", "spans"]
