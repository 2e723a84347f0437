"""Colours of devices and subgraphs.

Okabe and Ito's palette ("Color Universal Design", 2008): distinct for every common kind of colour
vision, on light and on dark backgrounds; its black is a grey here, which is seen on dark ones too. Names or numbers
always accompany colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

DEVICE_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#5A5A5A")


def device_colour(index: int) -> str:
    """Fill colour of the device at a position of the table."""
    return DEVICE_COLOURS[index % len(DEVICE_COLOURS)]


def text_colour(fill: str) -> str:
    """Black or white, whichever contrasts more with a fill (WCAG 2 relative luminance)."""
    channels = [int(fill[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "#000000"


def subgraph_colours(count: int, neighbours: Mapping[int, Sequence[int]]) -> list[str]:
    """A colour for each subgraph, different from all its neighbours where the palette allows."""
    colours: list[int] = []
    for i in range(count):
        used = {colours[n] for n in neighbours.get(i, ()) if n < i}
        order = [(i + step) % len(DEVICE_COLOURS) for step in range(len(DEVICE_COLOURS))]
        colours.append(next((c for c in order if c not in used), order[0]))
    return [DEVICE_COLOURS[c] for c in colours]
