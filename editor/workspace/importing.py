"""Takes the affinities of a file over into a placement, as pins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from editor.arguments import as_path
from editor.errors import EditorError, PlanError
from editor.graph.loading import load_model
from editor.imports.affinity_files import first_come, read_affinities
from editor.imports.matching import match
from editor.imports.placements import of_layers
from editor.placement.placement import Placement, solve
from editor.placement.rules import label_mask


@dataclass(frozen=True)
class ImportReport:
    """The used and unused entries of an imported file."""

    kind: str
    """The format."""
    pinned: int
    how: dict[str, int]
    """Entries matched by ``key``, ``name`` and ``structure``."""
    problems: tuple[str, ...]
    """Unused entries with their reasons."""


def with_affinities(placement: Placement, path: str | Path) -> tuple[Placement, ImportReport]:
    """A placement solved again with the affinities of a file as pins; what the devices refuse is reported.

    Raises:
        PlanError: the file cannot be read.
    """
    graph, devices = placement.graph, placement.devices
    imported = read_affinities(as_path(path, "a file of affinities", PlanError))
    if imported.table:
        imported = first_come(graph, devices, placement.constraints.capabilities, imported)
    if imported.layers:
        imported = of_layers(graph, devices, imported)
    source = None
    has_all_keys = set(imported.affinities) <= set(graph.key_index)
    if imported.model is not None and Path(imported.model).is_file() and not has_all_keys:
        try:
            source = load_model(imported.model, None)
        except EditorError:
            source = None  # then only names can match
    # OpenVINO's nodes for inputs and weights are not ops.
    ignore = (
        imported.helpers | frozenset(graph.tensor_names) if imported.helpers else imported.helpers
    )
    matched = match(graph, devices, imported.affinities, source, ignore)
    constraints, pins, refused = placement.constraints, {}, []
    for key, label in matched.pins.items():
        op, allowed = graph.key_index[key], label_mask(label, devices)
        if (constraints.able[op] & allowed).any():
            pins[key] = label
        else:
            refused.append(
                f"{key!r}: {label} cannot run it ({constraints.inability(op, int(allowed.argmax()))})"
            )
    settings = replace(placement.settings, pins={**placement.settings.pins, **pins})
    solved = solve(graph, devices, settings, constraints.capabilities)
    problems = (*imported.problems, *matched.problems, *refused)
    return solved, ImportReport(imported.kind, len(pins), dict(matched.how), problems)
