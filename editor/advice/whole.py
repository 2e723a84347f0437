"""Forms of a whole model: what can be computed beforehand, and other versions of the operator set.

They are tried whatever ops a device refuses, and said only where one of these is no longer refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import onnx_ir as ir
from onnx import ModelProto, version_converter
from onnx_ir.passes.common import RemoveUnusedNodesPass, RemoveUnusedOpsetsPass
from onnxscript.optimizer import fold_constants

from editor.graph.attributes import bodies_of

CLEAN = ir.passes.PassManager((RemoveUnusedNodesPass(), RemoveUnusedOpsetsPass()))
_MOST_BYTES = 1 << 28
"""Of a tensor that is computed beforehand, and of one that it is computed from."""
_OPSETS = (11, 13, 17, 21)
"""Versions that compilers of devices ask for."""


@dataclass(frozen=True)
class WholeForm:
    """One form of a whole model for another."""

    title: str
    """Says what becomes of the model."""
    changed: Callable[[ModelProto, Path], ModelProto | None]
    """Makes it of a model, whose weights may be below a folder; None where it is the same or cannot be made."""


def _folded(model: ModelProto, folder: Path) -> ModelProto | None:
    """Weights in place of the ops that compute them."""
    copy = ir.serde.deserialize_model(model)
    ir.external_data.set_base_dir(copy.graph, folder)
    limits = {"input_size_limit": _MOST_BYTES, "output_size_limit": _MOST_BYTES}
    if not fold_constants(copy, **limits).modified:
        return None
    return ir.serde.serialize_model(CLEAN(copy).model)


def _at_opset(version: int, model: ModelProto, folder: Path) -> ModelProto | None:
    """All ops at a version of the operator set; the converter of ONNX leaves functions and bodies as they are."""
    now = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), version)
    if now == version or model.functions or any(bodies_of(node) for node in model.graph.node):
        return None
    try:
        return version_converter.convert_version(model, version)
    except RuntimeError:  # it has no way between the versions of an op
        return None


WHOLE: dict[str, WholeForm] = {
    "FoldConstants": WholeForm("Constants computed beforehand", _folded),
    **{
        f"Opset{version}": WholeForm(f"All ops at opset {version}", partial(_at_opset, version))
        for version in _OPSETS
    },
}
