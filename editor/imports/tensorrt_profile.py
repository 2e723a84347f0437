"""Reads the profile that TensorRT's ``trtexec --exportProfile=FILE`` writes; times in milliseconds.

A list: first ``{"count": iterations}``, then one mapping per layer with ``name``, ``timeMs`` (of all iterations),
``averageMs``, since TensorRT 8.4 ``medianMs``, and ``percentage`` (NVIDIA/TensorRT, samples/common/sampleReporting.cpp).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from editor.errors import PlanError
from editor.imports.layer_times import Layer, LayerTimes, check_layers, layer_name, seconds_of


def is_profile(data: Any) -> bool:
    """Whether parsed JSON looks like such a profile."""
    return isinstance(data, list) and any(isinstance(e, dict) and "averageMs" in e for e in data[:8])


def read_profile(path: Path, data: list[Any]) -> LayerTimes:
    """The median time of each layer, the average where there is no median.

    Raises:
        PlanError: an entry is damaged; the message has its number.
    """
    layers, runs = [], 0
    for number, entry in enumerate(data, 1):
        where = f"{path}: entry {number}"
        if not isinstance(entry, dict):
            raise PlanError(f"{where}: a layer is a mapping, not {type(entry).__name__}")
        if "count" in entry and "name" not in entry:
            runs = entry["count"] if isinstance(entry["count"], int) else 0
            continue
        time = entry.get("medianMs", entry.get("averageMs"))
        layers.append(Layer(layer_name(entry.get("name"), where), seconds_of(time, 1e-3, where)))
    check_layers(path, len(layers))
    return LayerTimes("TensorRT trtexec", tuple(layers), runs)
