"""Forms of a whole model: what can be computed beforehand, and other versions of the operator set.

They are tried whatever ops a device refuses, and said only where one of these is no longer refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import onnx_ir as ir
from onnxscript.optimizer import fold_constants

from editor.graph.opsets import at_opset

_MOST_BYTES = 1 << 28
"""Of a tensor that is computed beforehand, and of one that it is computed from."""
_OPSETS = (11, 13, 17, 21)
"""Versions that compilers of devices ask for."""


@dataclass(frozen=True)
class WholeForm:
    """One form of a whole model for another."""

    title: str
    """Says what becomes of the model."""
    changed: Callable[[ir.Model, Path], ir.Model | None]
    """Makes it of a model, whose weights may be below a folder; None where it is the same or cannot be made."""


def _folded(model: ir.Model, folder: Path) -> ir.Model | None:
    """Weights in place of the ops that compute them."""
    ir.external_data.set_base_dir(model.graph, folder)
    limits = {"input_size_limit": _MOST_BYTES, "output_size_limit": _MOST_BYTES}
    return model if fold_constants(model, **limits).modified else None


def _at_opset(version: int, model: ir.Model, folder: Path) -> ir.Model | None:
    """All ops at a version of the operator set."""
    made = at_opset(ir.serde.serialize_model(model), version)
    return None if made is None else ir.serde.deserialize_model(made)


WHOLE: dict[str, WholeForm] = {
    "FoldConstants": WholeForm("Constants computed beforehand", _folded),
    **{
        f"Opset{version}": WholeForm(f"All ops at opset {version}", partial(_at_opset, version))
        for version in _OPSETS
    },
}
