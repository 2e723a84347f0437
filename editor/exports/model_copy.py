"""Writing a model again with more in it: weights in other files come along, bytes are deterministic."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from onnx import ModelProto, TensorProto

from editor.errors import ExportError
from editor.execution.constants import fold_constants
from editor.files import write_atomic
from editor.graph.bodies import captured_names
from editor.graph.graph import Graph
from editor.graph.model_file import read_model

ONNX_RUNTIME_IR = 13
"""Newest IR version that ONNX Runtime 1.31 reads."""


def open_copy(graph: Graph) -> ModelProto:
    """The model as it is in its file, without external weights.

    Raises:
        ExportError: it is gone.
    """
    try:
        return read_model(graph.path)
    except Exception as error:
        raise ExportError(f"{graph.path}: cannot be read again: {error}") from error


def fold(model: ModelProto, graph: Graph) -> None:
    """Replaces constant ops by their values, in place, where they can be evaluated.

    A tool that cuts the model itself would cut between a weight and the ops that make it.
    """
    _, folded = fold_constants(graph, model)
    if not folded:
        return
    kept = [node for op, node in enumerate(model.graph.node) if not graph.op_is_constant[op]]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    needed = {name for node in kept for name in (*node.input, *captured_names(node))} | {o.name for o in model.graph.output}
    weights = [t for t in model.graph.initializer if t.name in needed]
    del model.graph.initializer[:]
    model.graph.initializer.extend([*weights, *(folded[name] for name in sorted(folded))])


def write_model(model: ModelProto, graph: Graph, path: Path) -> list[Path]:
    """Writes a copy of a model; files of external weights are linked or copied next to it.

    Returns the paths, the model's first.
    """
    written = [write_atomic(path, model.SerializeToString(deterministic=True))]
    for location in sorted(set(_locations(model.graph.initializer))):
        source, target = graph.path.resolve().parent / location, path.parent / location
        if target.exists() and source.samefile(target):
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            try:
                os.link(source, target)
            except OSError:
                shutil.copyfile(source, target)
        except OSError as error:
            raise ExportError(f"{target}: the weights cannot be copied there ({error.strerror or error})") from error
        written.append(target)
    return written


def _locations(tensors: Iterable[TensorProto]) -> list[str]:
    return [entry.value for tensor in tensors if tensor.data_location == TensorProto.EXTERNAL
            for entry in tensor.external_data if entry.key == "location"]
