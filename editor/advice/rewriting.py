"""Rewrites a copy of a model by one idea, or by a form of the whole model; runs in the sandbox, because it reads the model.

Forms of the whole are tried whatever ops a device refuses, and said only where one of these is no longer refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass, RemoveUnusedOpsetsPass
from onnxscript.optimizer import fold_constants
from onnxscript.rewriter import RewriteRuleSet

from editor.advice.arithmetic import (
    ClipByMinMax,
    ConvTransposeByConv,
    ErfByTanh,
    GeluAsOne,
    GeluByParts,
    GemmByParts,
    HardSwishAsOne,
    HardSwishByParts,
    LayerNormAsOne,
    LayerNormByParts,
    MatMulAddAsGemm,
    MeanAsPool,
    MishAsOne,
    MishByParts,
    PoolAsMean,
)
from editor.advice.idea import Facts, Idea
from editor.advice.moves import (
    DepthToSpaceByTranspose,
    ExpandByMul,
    NarrowIndices,
    ReflectBySlices,
    ResizeByRepeat,
    SpaceToDepthByTranspose,
    SplitInThree,
    SplitInTwo,
    TransposeOfFewerAxes,
)
from editor.errors import ExecutionError, ModelError
from editor.files import copy_atomic, inside, write_atomic
from editor.graph.attributes import at_opset
from editor.graph.external_data import external_data_folder, locations_of, weights_problem
from editor.graph.model_file import file_sha256, read_model
from editor.runtimes.base import summarize_error

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


IDEAS: tuple[type[Idea], ...] = (
    HardSwishByParts,
    HardSwishAsOne,
    GeluByParts,
    GeluAsOne,
    LayerNormByParts,
    ClipByMinMax,
    ReflectBySlices,
    NarrowIndices,
    ExpandByMul,
    MeanAsPool,
    PoolAsMean,
    MishByParts,
    MishAsOne,
    GemmByParts,
    MatMulAddAsGemm,
    LayerNormAsOne,
    ErfByTanh,
    DepthToSpaceByTranspose,
    SpaceToDepthByTranspose,
    ConvTransposeByConv,
    ResizeByRepeat,
    TransposeOfFewerAxes,
    SplitInTwo,
    SplitInThree,
)
_CLEAN = ir.passes.PassManager((RemoveUnusedNodesPass(), RemoveUnusedOpsetsPass()))


def fitting(types: frozenset[str]) -> list[tuple[str, str]]:
    """(name, title) of the ideas for ops of these types, and of the forms of a whole model where there are such ops."""
    ideas = [(idea.__name__, idea.title) for idea in IDEAS if idea.types & types]
    return ideas + [(name, form.title) for name, form in WHOLE.items() if types]


def rewritten(path: Path, name: str, facts: Facts, out: Path) -> bool:
    """Writes a model in another form, by an idea wherever it fits; False, and nothing written, where it is the same.

    Args:
        path: of the model.
        name: of the idea, or of the form of the whole model.
        facts: of its tensors.
        out: the file to write; weights in files of their own come beside it.

    Raises:
        ModelError: its weights are not there.
        ExecutionError: the pattern engine cannot handle it.
    """
    model = read_model(path)
    if problem := weights_problem(model, path):
        raise ModelError(f"{path}: {problem}")
    folder = external_data_folder(model, path)
    try:
        copy = ir.serde.deserialize_model(model)
        found = WHOLE[name].changed(copy, folder) if name in WHOLE else _by_idea(copy, name, facts)
        if found is None:
            return False
        made = ir.serde.serialize_model(_CLEAN(found).model)
    except Exception as error:  # onnxscript's and onnx_ir's have no base class of their own
        raise ExecutionError(f"{name} cannot be applied: {summarize_error(error)}") from error
    out.parent.mkdir(parents=True, exist_ok=True)
    for location in locations_of(model):
        source, target = (folder / location).resolve(), inside(out.parent, location)
        if not target.is_file() or file_sha256(target) != file_sha256(source):
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_atomic(source, target)
    write_atomic(out, made.SerializeToString())
    return True


def _by_idea(model: ir.Model, name: str, facts: Facts) -> ir.Model | None:
    """A model in which an idea is applied; None where it fits nowhere."""
    idea = next(idea for idea in IDEAS if idea.__name__ == name)
    rules = RewriteRuleSet([idea.rule(facts)])  # type: ignore[no-untyped-call]
    return model if rules.apply_to_model(model) else None
