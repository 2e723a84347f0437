"""Writes files atomically, so that a reader never sees an incomplete one."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from editor.errors import ExportError


def json_text(data: Any) -> str:
    """Indented JSON; infinity and NaN become null."""
    return json.dumps(_finite(data), indent=1, allow_nan=False) + "\n"


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    return [_finite(value) for value in data] if isinstance(data, list | tuple) else data


def write_atomic(path: Path, content: str | bytes) -> Path:
    """Writes to a temporary file in the same folder, then renames it; returns the path.

    Raises:
        ExportError: the folder cannot be created or written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ExportError(f"{path}: cannot be written ({error.strerror or error})") from error
    return path


def copy_atomic(source: Path, target: Path) -> Path:
    """Copies a file to a temporary file in the target's folder, then renames it; returns the target.

    A hard link would not do: ``onnx`` refuses weights with a second hard link, in the original model too.

    Raises:
        ExportError: the source cannot be read, or the folder cannot be written to.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".copying.") as folder:
            temporary = Path(folder) / "file"
            shutil.copyfile(source, temporary)
            os.replace(temporary, target)
    except OSError as error:
        raise ExportError(f"{target}: cannot be written ({error.strerror or error})") from error
    return target


def file_state(path: str | Path) -> tuple[int, int] | None:
    """Time of the last change (ns) and size (bytes) of a file, to tell whether it changed; None when it is gone."""
    try:
        stat = Path(path).stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def safe_stem(name: str) -> str:
    """A model's name for use in a file name: characters that file systems refuse are replaced."""
    stem = re.sub(r"[\x00-\x1f\x7f/\\:*?\"<>|]", "_", name).strip(" .") or "model"
    return stem[:120]
