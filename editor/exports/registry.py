"""Export formats by name."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from editor.errors import ExportError
from editor.exports.formats import FORMATS, WRITERS
from editor.exports.notes import export_notes
from editor.placement.placement import Placement

Writer = Callable[..., list[Path]]
"""(placement, folder, options of the format) -> written paths"""


def writer_of(form: str) -> Writer:
    """The function that writes a format."""
    module, _, function = WRITERS[form].partition(":")
    writer: Writer = getattr(import_module(f"editor.exports.{module}"), function)
    return writer


def export(placement: Placement, form: str, out_dir: Path, stamp: str = "", **options: str) -> list[Path]:
    """Writes a placement in one format; returns the written paths.

    Args:
        placement: the placement to write.
        form: one of ``FORMATS``.
        out_dir: the folder.
        stamp: origin of the export, written into every file whose format has comments or metadata.
        options: options of the format.

    Raises:
        ExportError: the format or an option of it is unknown, or the folder cannot be written.
    """
    if form not in FORMATS:
        if form == "plan":
            raise ExportError(f"plan has no option {next(iter(options), '')!r}; it has none")
        raise ExportError(f"unknown export format {form!r}; choose one of: {', '.join(FORMATS)}")
    writer = writer_of(form)
    known = [name for name in inspect.signature(writer).parameters if name not in ("placement", "out_dir", "stamp")]
    for name in options:
        if name not in known:
            raise ExportError(f"{form} has no option {name!r}; {_choice(known)}")
    for note in export_notes(placement, form):
        warnings.warn(note, stacklevel=2)
    return writer(placement, out_dir, stamp=stamp, **options)


def _choice(options: list[str]) -> str:
    return f"choose one of: {', '.join(options)}" if options else "it has none"
