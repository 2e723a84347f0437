"""Times of layers as the profilers of other tools write them; what the readers of each format return."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from editor import limits
from editor.errors import PlanError
from editor.runtimes.profiling import QUIET_SHARE
from editor.text import shortened

CUT = "..."
"""Ends a name that a tool has cut for its table."""
_MAX_NAME = 65_536
"""Characters of a layer's name; TensorRT joins the names of all ops that it fuses."""
_MAX_SECONDS = 1e6
_LEAST_QUIET = 3


@dataclass(frozen=True)
class Layer:
    """One layer of a run, as a tool timed it."""

    name: str
    """The tool's name: of an op, of several, or of its own making."""
    seconds: float
    """of one run"""
    type: str = ""
    """The tool's name of its kind."""
    provider: str = ""
    """The execution provider that ran it, where the tool has several."""
    ops: tuple[str, ...] = ()
    """Names of the ops in it, where the file lists them."""
    index: int = -1
    """Number of the op in the model, where the file has it and the layer has no name."""


@dataclass(frozen=True)
class LayerTimes:
    """What a file says of a run."""

    tool: str
    layers: tuple[Layer, ...]
    runs: int
    """Runs that the times are of; 0 where the file does not say."""
    by_key: bool = False
    """Whether names are keys of ops first, and names of nodes second; other tools know names of nodes first."""
    overhead: float | None = None
    """seconds of a run outside all layers, where the file has it"""
    notes: tuple[str, ...] = ()
    """What a reader of the figures must know."""
    ordered: bool = True
    """Whether the layers stand in the order of execution."""
    fuses: bool = True
    """Whether a layer may have computed ops that it does not name; a table that a person wrote means what it says."""
    measured: Measured | None = None
    """What the kit measured besides; None for other tools."""


@dataclass(frozen=True)
class Measured:
    """What a kit says besides the times of layers."""

    device: str
    machine: str
    day: date | None
    model_sha256: str
    define: Mapping[str, int]
    cut: float | None
    """seconds that one more subgraph costs by the pieces of a whole; None where it was not measured"""
    links: tuple[float, float, float, float] | None
    """seconds per value and per byte to the device, and from it; None where they were not measured"""
    aliases: Mapping[str, str]
    """Name of a node in the kit -> key of the op"""
    covered: frozenset[str]
    """Keys of ops that ran within the layers: one without a layer of its own took no time of its own."""
    groups: tuple[Layer, ...]
    """The same ops measured in small groups, for where the layers cannot be matched; scaled to the run of the whole."""
    properties: Mapping[str, str] | None = None
    """Of the device, as they were set; None where the kit does not say."""


def layer_name(value: Any, where: str) -> str:
    """A name of a stranger's file; ``where`` is the file with the line or entry.

    Raises:
        PlanError: it is not a text, empty or too long.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > _MAX_NAME:
        raise PlanError(f"{where}: a layer needs a name, not {shortened(repr(value), 60)}")
    return value.strip()


def seconds_of(value: Any, unit: float, where: str) -> float:
    """A time of a stranger's file in seconds; ``unit`` is that of the file.

    Raises:
        PlanError: it is no number of 0 or more.
    """
    try:
        number = float(value) * unit if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number <= _MAX_SECONDS:
        raise PlanError(f"{where}: {shortened(repr(value), 60)} is not a time of 0 or more")
    return number


def check_layers(path: Path, count: int) -> None:
    """Raises an error when a file has no layer, or more than a model may have ops."""
    if not count:
        raise PlanError(f"{path}: no layer with a time in this file")
    limits.check_count(str(path), "ops", count, "layers")


def quiet_runs(layers: Sequence[Sequence[Layer]], totals: Sequence[float]) -> list[int]:
    """The quickest runs, which were disturbed least: their numbers."""
    order = sorted(range(len(layers)), key=lambda i: totals[i])
    return order[:max(min(_LEAST_QUIET, len(order)), int(len(order) * QUIET_SHARE))]


def mean_layers(runs: Sequence[Sequence[Layer]]) -> tuple[Layer, ...]:
    """The layers of runs, each with its mean time over them, so that the sum over layers is the mean of the runs.

    Layers are told apart by everything but their time; one that stands several times in a run counts with its sum. Names that
    the tool has cut may be of several layers: the first of such a name in each run is one of them, the second another.
    """
    times: dict[tuple[Layer, int], float] = {}
    for layers in runs:
        seen: Counter[Layer] = Counter()
        for layer in layers:
            key = replace(layer, seconds=0.0)
            place = seen[key] if layer.name.endswith(CUT) else 0
            seen[key] += 1
            times[key, place] = times.get((key, place), 0.0) + layer.seconds
    return tuple(replace(key, seconds=seconds / len(runs)) for (key, _), seconds in times.items())
