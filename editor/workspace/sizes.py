"""One set of decisions at several sizes of the inputs: what changes with the sequence, the batch, the image."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from editor.errors import Cancelled, EditorError
from editor.graph.graph import Graph
from editor.kinds import Basis
from editor.placement.device_profile import basis_of, best_source, costs_of
from editor.placement.placement import Placement, Settings, solve
from editor.runtimes.base import Capability
from editor.workspace.layouts import figures

MOST_SIZES = 24
Load = Callable[[Mapping[str, int]], tuple[Graph, Sequence[Capability] | None]]
"""The model with its inputs at these sizes, and what the devices can run of it (None: the runtimes are asked)."""

Progress = Callable[[int, int, str], None]
"""Called with (done, total, sizes)."""


@dataclass(frozen=True)
class AtSizes:
    """The plan at one set of sizes."""

    define: Mapping[str, int]
    """Name of a dimension -> size"""
    figures: Mapping[str, Any]
    """As ``layouts.figures``: seconds, bytes, counts; empty where there is no plan."""
    moved_ops: int
    """Ops that are on another device than in the plan itself"""
    basis: Basis | None
    """Where the seconds come from; a profile holds for the sizes that were measured."""
    problem: str
    """Why there is no plan; "" when there is."""


def parse_sizes(text: str) -> dict[str, list[int]]:
    """``sequence=128,512 batch=1`` as names and sizes.

    Raises:
        EditorError: it is not of this form, or asks for too many combinations.
    """
    found: dict[str, list[int]] = {}
    for word in text.split():
        match = re.fullmatch(r"([^=\s]+)=(\d{1,9}(?:,\d{1,9})*)", word, re.ASCII)
        if match is None:
            raise EditorError(f"{word[:60]!r}: sizes are written as sequence=128,512 batch=1,8")
        found[match[1]] = list(dict.fromkeys(map(int, match[2].split(","))))
    if not found:
        raise EditorError("no sizes: write them as sequence=128,512 batch=1,8")
    count = int(np.prod([len(sizes) for sizes in found.values()]))
    if count > MOST_SIZES:
        raise EditorError(f"{count} combinations of sizes; at most {MOST_SIZES} can be compared at once")
    return found


def at_sizes(now: Placement, sizes: Mapping[str, Sequence[int]], load: Load, progress: Progress | None = None,
             should_stop: Callable[[], bool] = bool) -> list[AtSizes]:
    """Solves the decisions of a placement at every combination of sizes.

    Args:
        now: the placement; its own sizes hold for dimensions that are not named.
        sizes: name of a dimension -> sizes.
        load: reads the model.
        progress: called before each combination; what it raises ends the work.
        should_stop: asked during a long search.

    Raises:
        EditorError: the model has no such dimension.
        Cancelled: it was told to stop.
    """
    unknown = [name for name in sizes if name not in now.graph.define]
    if unknown:
        known = ", ".join(now.graph.define) or "none: all sizes of this model are fixed"
        raise EditorError(f"the model has no dimension {unknown[0]!r} to choose; it has: {known}")
    names, device = list(sizes), now.affinity
    found: list[AtSizes] = []
    combinations = list(itertools.product(*sizes.values()))
    for values in combinations:
        chosen = dict(zip(names, values, strict=True))
        define = {**now.graph.define, **chosen}
        if progress:
            progress(len(found), len(combinations), size_words(chosen))
        try:
            graph, answers = load(define)
            source = best_source(graph, now.devices)
            placement = solve(graph, now.devices, with_known_costs(now.settings, source), answers, should_stop)
        except EditorError as error:
            if should_stop():
                raise Cancelled from None
            found.append(AtSizes(define, {}, 0, None, str(error)))
            continue
        if should_stop():
            raise Cancelled
        costs = costs_of(graph, now.devices, source)
        placed = [graph.op_keys[op] for op in placement.placed_ops.tolist()]
        there = placement.affinity
        moved = sum(1 for key in placed if key in device and device[key] != there[key])
        found.append(AtSizes(define, figures(placement, costs), moved, basis_of(costs, source, placement.used_numbers), ""))
    return found


def with_known_costs(settings: Settings, source: str) -> Settings:
    """A profile holds for the sizes that were measured: at others a policy decides by estimates."""
    if settings.policy_options.get("costs") != "measured" or source == "measured":
        return settings
    return replace(settings, policy_options={**settings.policy_options, "costs": "estimate"})


def words(row: AtSizes, names: Sequence[str]) -> str:
    """E.g. ``sequence=128 batch=1``."""
    return size_words({name: row.define[name] for name in names})


def size_words(sizes: Mapping[str, int]) -> str:
    """E.g. ``sequence=128 batch=1``."""
    return " ".join(f"{name}={size}" for name, size in sizes.items())
