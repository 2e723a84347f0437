"""Writes copies of a model with its weights, and stamps that say where an export comes from."""

from __future__ import annotations

import ast
import hashlib
import re
import tempfile
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from onnx import ModelProto, NodeProto
from onnx.external_data_helper import convert_model_to_external_data, write_external_data_tensors

from editor.errors import ExportError, ModelError
from editor.execution.cut import fold_constants
from editor.files import copy_atomic, inside, json_text, replace, safe_stem, write_atomic, writing
from editor.graph.attributes import op_reads, put
from editor.graph.external_data import load_external_data, locations_of, weights_problem
from editor.graph.graph import Graph
from editor.graph.model_file import read_again

_MAX_FILE_BYTES = 1 << 30
"""Weights of larger sub-models become external data."""
METADATA = "hetero_editor"
"""Key of the stamp in a model's ``metadata_props``."""
_RUNNERS = Path(__file__).resolve().parent / "runners"
_IMPORTED = re.compile(r"^from shared import (.+)$", re.MULTILINE)
"""What a script has of another file of its folder; scripts are exported in one piece."""


def stamp_model(model: ModelProto, stamp: str) -> None:
    """Writes the stamp into a model's metadata, replacing an old one; "" changes nothing."""
    if stamp:
        set_metadata(model, METADATA, stamp)


def set_metadata(owner: ModelProto | NodeProto, key: str, value: str) -> None:
    """Writes a value into the metadata of a model or a node, replacing an old one of the same key."""
    for former in [p for p in owner.metadata_props if p.key == key]:
        owner.metadata_props.remove(former)
    owner.metadata_props.add(key=key, value=value)


def write_sidecar(path: Path, stamp: str) -> Path:
    """Writes ``<file>.json`` for a file whose format has no comments: the origin and the sha256 of the file."""
    document = {
        "format": "hetero-editor/stamp",
        "version": 1,
        "made_by": stamp,
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    return write_atomic(path.with_name(f"{path.name}.json"), json_text(document))


def write_document(graph: Graph, out_dir: Path, ending: str, document: Mapping[str, Any]) -> Path:
    """Writes a JSON file that is called after a model."""
    return write_atomic(out_dir / f"{safe_stem(graph.name)}{ending}", json_text(document))


def script_of(name: str, stamp: str, stem: str) -> str:
    """A script of ``runners`` with its placeholders for origin and file stem filled in, and with what it imports there."""
    text = (_RUNNERS / f"{name}.py").read_text(encoding="utf-8")
    shared = (_RUNNERS / "shared.py").read_text(encoding="utf-8")
    functions = {
        each.name: ast.get_source_segment(shared, each) or ""
        for each in ast.parse(shared).body
        if isinstance(each, ast.FunctionDef)
    }
    text = _IMPORTED.sub(
        lambda found: (
            "\n\n" + "\n\n\n".join(functions[each] for each in found[1].split(", ")) + "\n"
        ),
        text,
    )
    return text.replace("@MADE_BY@", stamp or "Hetero Editor").replace("@STEM@", repr(stem)[1:-1])


ONNX_RUNTIME_IR = 13
"""Newest IR version that ONNX Runtime 1.31 reads."""


def open_copy(graph: Graph, weights: bool = True) -> ModelProto:
    """Reads the model file, without external weights.

    Raises:
        ExportError: the file is gone or changed since it was opened, or its weights are missing.
    """
    try:
        model = read_again(graph)
    except ModelError as error:
        raise ExportError(str(error)) from error
    if weights:
        check_weights(model, graph)
    return model


def copied_bytes(graph: Graph) -> int:
    """Size of a copy of a model with its files of weights.

    Raises:
        ExportError: as ``open_copy``.
    """
    files = [graph.folder / location for location in locations_of(open_copy(graph))]
    return sum(path.stat().st_size for path in (graph.path, *files))


def check_weights(model: ModelProto, graph: Graph) -> None:
    """Raises ``ExportError`` where a file of weights is not there, or not whole."""
    problem = weights_problem(model, graph.path)
    if problem:
        raise ExportError(f"{graph.path} cannot be exported with its weights: {problem}")


def fold(model: ModelProto, graph: Graph) -> None:
    """Replaces constant ops by their values, in place, where they can be evaluated.

    A tool that cuts the model would otherwise cut between a weight and the ops that compute it.
    """
    _, folded = fold_constants(graph, model)
    if not folded:
        return
    kept = [node for op, node in enumerate(model.graph.node) if not graph.op_is_constant[op]]
    put(model.graph.node, kept)
    needed = {name for node in kept for name in op_reads(node)} | {
        o.name for o in model.graph.output
    }
    weights = [t for t in model.graph.initializer if t.name in needed]
    put(model.graph.initializer, [*weights, *(folded[name] for name in sorted(folded))])


def write_model(model: ModelProto, graph: Graph, path: Path, stamp: str = "") -> list[Path]:
    """Writes a copy of a model; copies files of external weights next to it first.

    Args:
        model: the copy; the stamp becomes its metadata entry ``hetero_editor``.
        graph: the original model.
        path: the file to write.
        stamp: origin of the export; "" leaves the metadata unchanged.

    Returns:
        the paths, the model first.

    Raises:
        ExportError: the path is that of the original model, or cannot be written.
    """
    if path.exists() and path.samefile(graph.path):
        raise ExportError(f"{path}: that is the model itself; choose another folder")
    stamp_model(model, stamp)
    weights = []
    for location in locations_of(model):
        source, beside = graph.folder / location, path.parent / location
        if not (beside.exists() and source.samefile(beside)):
            weights.append(copy_atomic(source, inside(path.parent, location)))
    return [write_atomic(path, model.SerializeToString(deterministic=True)), *weights]


def write_submodel(source: ModelProto, folder: Path, path: Path, stamp: str) -> list[Path]:
    """Writes a part of a model with its weights; those of large parts become external data.

    Raises:
        ExportError: its weights changed, or the file cannot be written.
    """
    model = deepcopy(source)
    stamp_model(model, stamp)
    try:
        load_external_data(model, folder)
    except ModelError as error:  # the file changed since it was looked at
        raise ExportError(f"{path}: cannot be written: {error}") from error
    if sum(len(t.raw_data) for t in model.graph.initializer) <= _MAX_FILE_BYTES:
        return [write_atomic(path, model.SerializeToString(deterministic=True))]
    convert_model_to_external_data(model, location=f"{path.name}.data")
    weights = path.with_name(f"{path.name}.data")
    with (
        writing(weights),
        tempfile.TemporaryDirectory(dir=path.parent, prefix=".writing.") as temporary,
    ):
        write_external_data_tensors(model, temporary)
        replace(Path(temporary) / weights.name, weights)
    return [write_atomic(path, model.SerializeToString(deterministic=True)), weights]
