"""One set of decisions at several sizes of the inputs: what changes with the sequence, the batch, the image."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from editor.arguments import as_count, as_mapping, shown
from editor.errors import Cancelled, EditorError, ModelError
from editor.graph.dimensions import Dimensions
from editor.graph.graph import Graph
from editor.kinds import Basis
from editor.placement.chosen_costs import costs_of_plan
from editor.placement.device_profile import best_source
from editor.placement.placement import Placement, Settings, solve
from editor.runtimes.base import Capability
from editor.workspace.layouts import figures

MOST_SIZES = 24
_TOO_MANY = f"combinations of sizes; at most {MOST_SIZES} can be compared at once"
_FORM = "sequence=128,512 batch=1,8, or in sets that go together: total=128 past=127; total=256 past=255"
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
    possible: bool = True
    """Whether the model can have these sizes, as far as that is known"""


def parse_sizes(text: str) -> list[dict[str, int]]:
    """``sequence=128,512 batch=1`` as every combination of these sizes; a semicolon begins other ones.

    Sizes that go together are written ``total=128 past=127; total=256 past=255``.

    Raises:
        EditorError: it is not of this form, or asks for too many combinations.
    """
    found: list[dict[str, int]] = []
    for part in text.split(";"):
        sizes: dict[str, list[int]] = {}
        for word in part.split():
            match = re.fullmatch(r"([^=\s]+)=(\d{1,9}(?:,\d{1,9})*)", word, re.ASCII)
            if match is None:
                raise EditorError(f"{word[:60]!r}: sizes are written as {_FORM}")
            sizes[match[1]] = [int(size) for size in match[2].split(",")]
        if sizes:
            count = math.prod(len(set(each)) for each in sizes.values())
            if count > MOST_SIZES:
                raise EditorError(f"{count} {_TOO_MANY}")
            found += [each for each in combinations(sizes) if each not in found]
    if not found:
        raise EditorError(f"no sizes: write them as {_FORM}")
    if len(found) > MOST_SIZES:
        raise EditorError(f"{len(found)} {_TOO_MANY}")
    return found


def combinations(sizes: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """Every combination of sizes of some dimensions."""
    different = [list(dict.fromkeys(each)) for each in sizes.values()]
    return [dict(zip(sizes, values, strict=True)) for values in itertools.product(*different)]


def checked_sizes(sizes: object) -> list[dict[str, int]]:
    """Sets of sizes, of what ``Plan.at_sizes`` takes.

    Raises:
        EditorError: it is not a mapping of sizes, and no list of such.
    """
    if isinstance(sizes, Mapping):
        lists = {
            name: each if isinstance(each, list | tuple) else [each]
            for name, each in as_mapping(sizes, "sizes").items()
        }
        sets = combinations(
            {name: [_checked(name, size) for size in each] for name, each in lists.items()}
        )
    elif isinstance(sizes, list | tuple):
        sets = [
            {name: _checked(name, size) for name, size in as_mapping(each, "sizes").items()}
            for each in sizes
        ]
    else:
        raise EditorError(
            f"sizes must be a mapping of names to sizes, or a list of such, not {shown(sizes)}"
        )
    return sets


def _checked(name: str, size: object) -> int:
    return as_count(size, f"the size of {name!r}", 0, (1 << 63) - 1)


def names_of(sizes: Iterable[Mapping[str, int]]) -> list[str]:
    """The dimensions that are named in some sets of sizes, in order."""
    return list(dict.fromkeys(name for each in sizes for name in each))


def at_sizes(
    now: Placement,
    sizes: Sequence[Mapping[str, int]],
    load: Load,
    progress: Progress | None = None,
    should_stop: Callable[[], bool] = bool,
) -> list[AtSizes]:
    """Solves the decisions of a placement at some sizes.

    Args:
        now: the placement; its own sizes hold for dimensions that are not named.
        sizes: each a set of sizes, by the name of the dimension.
        load: reads the model.
        progress: called before each of them; what it raises ends the work.
        should_stop: asked during a long search.

    Raises:
        EditorError: the model has no such dimension.
        Cancelled: it was told to stop.
    """
    dimensions = Dimensions(now.graph.input_dims)
    known_names = now.graph.define.keys() | dimensions.sums.keys() | dimensions.axes.keys()
    unknown = [name for name in names_of(sizes) if name not in known_names]
    if unknown:
        known = ", ".join(now.graph.define) or "none: all sizes of this model are fixed"
        raise EditorError(f"the model has no dimension {unknown[0]!r} to choose; it has: {known}")
    device = now.affinity
    found: list[AtSizes] = []
    for chosen in sizes:
        define = {**now.graph.define, **chosen}
        if progress:
            progress(len(found), len(sizes), size_words(chosen))
        try:
            graph, answers = load(dimensions.resized(now.graph.define, chosen))
            if graph.impossible:
                raise ModelError(graph.impossible)
            settings = with_known_costs(now.settings, best_source(graph, now.devices))
            placement = solve(graph, now.devices, settings, answers, should_stop)
        except EditorError as error:
            if should_stop():
                raise Cancelled from None
            found.append(
                AtSizes(define, {}, 0, None, str(error), not isinstance(error, ModelError))
            )
            continue
        if should_stop():
            raise Cancelled
        costs, basis = costs_of_plan(placement)
        placed = [graph.op_keys[op] for op in placement.placed_ops.tolist()]
        there = placement.affinity
        moved = sum(1 for key in placed if key in device and device[key] != there[key])
        found.append(AtSizes(define, figures(placement, costs), moved, basis, ""))
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
