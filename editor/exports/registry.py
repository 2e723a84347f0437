"""Export formats by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from editor.errors import ExportError
from editor.exports.dot import write_dot
from editor.exports.partition_log import write_partition_log
from editor.partition.partition import Partition

Writer = Callable[..., list[Path]]
"""Of a partition, a folder, and options of the format."""

FORMATS: dict[str, Writer] = {"dot": write_dot, "log": write_partition_log}


def export(partition: Partition, form: str, out_dir: Path, **options: str) -> list[Path]:
    """Writes a partition in one format; returns the paths.

    Raises:
        ExportError: the format is unknown or the folder cannot be written.
    """
    if form not in FORMATS:
        raise ExportError(f"unknown export format {form!r}; there is {', '.join(FORMATS)}")
    return FORMATS[form](partition, out_dir, **options)
