"""The stamp: a line that states the origin of an export, in scripts, models, or a separate file."""

from __future__ import annotations

import hashlib
from pathlib import Path

from onnx import ModelProto

from editor.files import json_text, write_atomic

METADATA = "hetero_editor"
"""Key of the stamp in a model's ``metadata_props``."""
_RUNNERS = Path(__file__).resolve().parent / "runners"


def stamp_model(model: ModelProto, stamp: str) -> None:
    """Writes the stamp into a model's metadata, replacing an old one; "" changes nothing."""
    if not stamp:
        return
    for former in [p for p in model.metadata_props if p.key == METADATA]:
        model.metadata_props.remove(former)
    model.metadata_props.add(key=METADATA, value=stamp)


def write_sidecar(path: Path, stamp: str) -> Path:
    """Writes ``<file>.json`` for a file whose format has no comments: the origin and the sha256 of the file."""
    document = {"format": "hetero-editor/stamp", "version": 1, "made_by": stamp, "file": path.name,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    return write_atomic(path.with_name(f"{path.name}.json"), json_text(document))


def script_of(name: str, stamp: str, stem: str) -> str:
    """A script of ``runners`` with its placeholders for the origin and the file stem filled in."""
    text = (_RUNNERS / f"{name}.py").read_text(encoding="utf-8")
    return text.replace("@MADE_BY@", stamp or "Hetero Editor").replace("@STEM@", repr(stem)[1:-1])
