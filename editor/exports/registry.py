"""Export formats by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

from editor.errors import ExportError
from editor.exports.dot import write_dot
from editor.exports.glow import write_glow
from editor.exports.glow_log import write_partition_log
from editor.exports.multidevice import write_multidevice
from editor.exports.onnxruntime import write_onnxruntime
from editor.exports.openvino import write_openvino
from editor.exports.report import write_csv, write_html, write_json, write_markdown
from editor.exports.split import write_split
from editor.exports.tvm import write_tvm
from editor.placement.placement import Placement

Writer = Callable[..., list[Path]]
"""Of a partition, a folder, and options of the format."""

FORMATS: dict[str, Writer] = {
    "dot": write_dot, "log": write_partition_log, "openvino": write_openvino, "onnxruntime": write_onnxruntime,
    "onnx": write_multidevice, "glow": write_glow, "tvm": write_tvm, "split": write_split, "csv": write_csv,
    "json": write_json, "html": write_html, "md": write_markdown}


def export(placement: Placement, form: str, out_dir: Path, stamp: str = "", **options: str) -> list[Path]:
    """Writes a placement in one format; returns the paths.

    Args:
        placement: what to write.
        form: one of ``FORMATS``.
        out_dir: the folder.
        stamp: who made it and from which plan; it goes into every file that has room for a remark.
        options: of the format.

    Raises:
        ExportError: the format or an option of it is unknown, or the folder cannot be written.
    """
    if form not in FORMATS:
        if form == "plan":
            raise ExportError(f"plan has no option {next(iter(options), '')!r}; it has none")
        raise ExportError(f"unknown export format {form!r}; choose one of: {', '.join(FORMATS)}")
    known = [name for name in inspect.signature(FORMATS[form]).parameters if name not in ("placement", "out_dir", "stamp")]
    for name in options:
        if name not in known:
            raise ExportError(f"{form} has no option {name!r}; {_choice(known)}")
    return FORMATS[form](placement, out_dir, stamp=stamp, **options)


def _choice(options: list[str]) -> str:
    return f"choose one of: {', '.join(options)}" if options else "it has none"
