"""The colours of devices can be told apart by everyone."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from editor.exports.dot import DEVICE_COLOURS, text_colour

Floats = npt.NDArray[np.float64]

# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB.
VISIONS = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
_WHITE = np.array([0.95047, 1.0, 1.08883])
LEAST = 15.0
"""Difference in CIELAB (CIE 1976); 2.3 can just be seen side by side."""


def linear(colour: str) -> Floats:
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb: Floats) -> Floats:
    xyz = _XYZ @ np.clip(rgb, 0, 1) / _WHITE
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", VISIONS)
def test_all_pairs_of_colours_differ_for_every_kind_of_colour_vision(vision: str) -> None:
    seen = {colour: lab(VISIONS[vision] @ linear(colour)) for colour in DEVICE_COLOURS}
    close = {
        (a, b): round(gap, 1)
        for a, b in combinations(DEVICE_COLOURS, 2)
        if (gap := float(np.linalg.norm(seen[a] - seen[b]))) < LEAST
    }
    assert not close


@pytest.mark.parametrize("colour", DEVICE_COLOURS)
def test_names_on_a_colour_have_the_contrast_of_text(colour: str) -> None:
    bright, dark = sorted(
        (float(_XYZ[1] @ linear(c)) + 0.05 for c in (colour, text_colour(colour))), reverse=True
    )
    assert bright / dark >= 4.5
