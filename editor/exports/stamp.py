"""The line that says where an export comes from, in scripts, models, and beside files without room for it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from onnx import ModelProto

from editor.files import json_text, write_atomic

METADATA = "hetero_editor"
"""Key of the stamp in a model's ``metadata_props``."""
_RUNNERS = Path(__file__).resolve().parent / "runners"


def stamp_model(model: ModelProto, stamp: str) -> None:
    """Puts the stamp into a model's metadata, in place of a former one; "" leaves the model alone."""
    if not stamp:
        return
    for former in [p for p in model.metadata_props if p.key == METADATA]:
        model.metadata_props.remove(former)
    model.metadata_props.add(key=METADATA, value=stamp)


def write_sidecar(path: Path, stamp: str) -> Path:
    """Writes ``<file>.json`` beside a file whose format has no room for a remark: its origin and its own sha256."""
    document = {"format": "hetero-editor/stamp", "version": 1, "made_by": stamp, "file": path.name,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    return write_atomic(path.with_name(f"{path.name}.json"), json_text(document))


def script_of(name: str, stamp: str, stem: str) -> str:
    """A script from ``runners`` with its origin and the stem of its files filled in."""
    text = (_RUNNERS / f"{name}.py").read_text(encoding="utf-8")
    return text.replace("@MADE_BY@", stamp or "Hetero Editor").replace("@STEM@", repr(stem)[1:-1])
