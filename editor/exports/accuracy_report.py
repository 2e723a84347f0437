"""The accuracy of a plan in reports: read from what `accuracy --json` wrote, in words and as rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from editor.errors import ExportError
from editor.execution.measure.accuracy import COLUMNS, Accuracy, TensorError, accuracy_of, row_of
from editor.files import finite
from editor.placement.placement import Placement

_MOST_BYTES = 256 << 20
"""Half a million tensors."""
_WORST = 10
"""Tensors at the ends of subgraphs that a report names."""


def read_accuracy(path: str, placement: Placement) -> Accuracy:
    """The accuracy in a file, which must be of the placement.

    Raises:
        ExportError: the file cannot be read, or holds no accuracy of this plan.
    """
    try:
        if Path(path).stat().st_size > _MOST_BYTES:
            raise ExportError(f"{path} is too large for the JSON of an accuracy")
        found = accuracy_of(json.loads(Path(path).read_text(encoding="utf-8-sig")))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ExportError(f"{path}: {error}; it must be what `accuracy --json` wrote") from error
    if found.plan != placement.fingerprint:
        raise ExportError(
            f"{path} is not of this plan: its ops, devices or subgraphs are other ones. "
            "Run `accuracy PLAN --json` again"
        )
    return found


def accuracy_report(found: Accuracy, placement: Placement) -> dict[str, Any]:
    """The accuracy as a part of a report's JSON."""
    ends = {name for subgraph in placement.subgraphs for name in subgraph.outputs}
    worst = sorted(
        (one for one in found.tensors if one.tensor in ends),
        key=lambda one: one.relative / one.tolerance,
        reverse=True,
    )
    rows: dict[str, Any] = finite(
        {
            "reference": found.reference,
            "every_tensor": found.every_tensor,
            "within_tolerance": found.within_tolerance,
            "outside": sum(not one.ok for one in found.tensors),
            "first": None if found.first is None else _row(found.first),
            "worst": [_row(one) for one in worst[:_WORST]],
            "tensors": [_row(one) for one in found.tensors],
            "notes": list(found.notes),
        }
    )
    return rows


def _row(one: TensorError) -> dict[str, object]:
    return dict(zip(COLUMNS, row_of(one), strict=True))


ERRORS = ("relative", "noise", "snr_db", "tolerance", "ok")
"""The columns that follow those of an op in a table of ops."""


def noisiest(found: Accuracy, placement: Placement) -> dict[str, tuple[object, ...]]:
    """Op key -> ``ERRORS`` of the noisiest of its tensors; empty texts for an op that was not compared."""
    empty: tuple[object, ...] = ("",) * len(ERRORS)
    return dict.fromkeys(placement.graph.op_keys, empty) | {
        one.key: (one.relative, one.noise, one.snr, one.tolerance, "yes" if one.ok else "no")
        for one in sorted(found.tensors, key=lambda one: one.noise)
    }
