"""Rewrites a copy of a model by one idea; runs in the sandbox, because it reads the model."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import onnx_ir as ir
from onnxscript.rewriter import rewrite

from editor.advice.clip import ClipByMinMax
from editor.advice.expand import ExpandByMul
from editor.advice.gelu import GeluAsOne, GeluByParts
from editor.advice.hard_swish import HardSwishAsOne, HardSwishByParts
from editor.advice.idea import Facts, Idea
from editor.advice.indices import NarrowIndices
from editor.advice.layer_norm import LayerNormByParts
from editor.advice.pad import ReflectBySlices
from editor.advice.pooling import MeanAsPool, PoolAsMean
from editor.files import inside
from editor.graph.external_data import external_data_folder, locations_of
from editor.graph.model_file import read_model

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
)


def fitting(types: frozenset[str]) -> list[tuple[str, str]]:
    """(name, title) of the ideas for ops of these types."""
    return [(idea.__name__, idea.title) for idea in IDEAS if idea.types & types]


def rewritten(path: Path, name: str, facts: Facts, out: Path) -> bool:
    """Writes a model in which an idea is applied wherever it fits; False, and nothing written, where it fits nowhere.

    Args:
        path: of the model.
        name: of the idea.
        facts: of its tensors.
        out: the file to write; weights in files of their own come beside it.
    """
    model = read_model(path)
    idea = next(idea for idea in IDEAS if idea.__name__ == name)
    before = {node.output[0] for node in model.graph.node if node.output}
    kinds = {node.output[0]: node.op_type for node in model.graph.node if node.output}
    made = ir.serde.serialize_model(
        rewrite(ir.serde.deserialize_model(model), [idea.rule(facts)])
    )
    after = {node.output[0]: node.op_type for node in made.graph.node if node.output}
    if not (before - after.keys()) and all(kinds[key] == after[key] for key in before):
        return False
    folder = external_data_folder(model, path)
    out.parent.mkdir(parents=True, exist_ok=True)
    for location in locations_of(model):
        source, target = (folder / location).resolve(), inside(out.parent, location)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            try:
                os.link(source, target)
            except OSError:
                shutil.copyfile(source, target)
    out.write_bytes(made.SerializeToString())
    return True
