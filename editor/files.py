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

from editor.errors import EditorError, ExportError


def modified(path: Path) -> float:
    """When a file was written; 0 where there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


_MAX_SHOWN = 300
"""Characters of a path in a message."""


def json_text(data: Any) -> str:
    """Indented JSON; infinity and NaN become null."""
    return json.dumps(_finite(data), indent=1, allow_nan=False) + "\n"


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    return [_finite(value) for value in data] if isinstance(data, list | tuple) else data


MAX_TEXT_BYTES = 64 << 20
"""Of a plan, a file of rules or affinities, or a sidecar."""


def read_text(path: str | Path, error: type[EditorError], max_bytes: int = MAX_TEXT_BYTES) -> str:
    """The text of a file from a stranger: a regular one, of a limited size, in UTF-8.

    Raises:
        EditorError: of the given type; the file is missing, no such file, or cannot be read.
    """
    path, shown = Path(path), str(path)
    if len(shown) > _MAX_SHOWN or not shown.isprintable():
        shown = repr(shown[:_MAX_SHOWN])
    try:
        if path.exists() and not path.is_file():
            raise error(f"{shown}: not a regular file")
        if path.stat().st_size > max_bytes:
            raise error(f"{shown}: {path.stat().st_size:,} bytes; the limit is {max_bytes:,}")
        return path.read_text(encoding="utf-8-sig")  # spreadsheets put a mark of the byte order first
    except FileNotFoundError:
        raise error(f"{shown}: no such file") from None
    except UnicodeDecodeError as cause:
        raise error(f"{shown}: cannot be read (it is not text in UTF-8)") from cause
    except (OSError, ValueError) as cause:  # a path that is too long, or has NUL
        raise error(f"{shown}: cannot be read ({getattr(cause, 'strerror', None) or cause})") from cause


def parse_json(text: str) -> Any:
    """The value of a JSON text from a stranger.

    Raises:
        ValueError: it is not valid, nested too deeply, or has a number of thousands of digits; the message says where.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} in line {error.lineno}") from None
    except ValueError:
        raise ValueError("a number has too many digits") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def write_atomic(path: Path, content: str | bytes, private: bool = False) -> Path:
    """Writes to a temporary file in the same folder, then renames it; returns the path.

    A ``private`` file can be read by its owner only.

    Raises:
        ExportError: the folder cannot be created or written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
            if not private:  # mkstemp made it so
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


def cache_folder(name: str = "") -> Path:
    """The editor's folder below the user's cache, or a folder in it; whoever writes there creates it."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "hetero-editor" / name


def private_folder(path: Path) -> Path:
    """Creates a folder that only its owner can read; returns it.

    Raises:
        ExportError: it cannot be created, or belongs to somebody else.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        raise ExportError(f"{path}: cannot be created ({error.strerror or error})") from error
    return path


def file_state(path: str | Path) -> tuple[int, int] | None:
    """Time of the last change (ns) and size (bytes) of a file, to tell whether it changed; None when it is gone."""
    try:
        stat = Path(path).stat()
    except (OSError, ValueError):  # a path with NUL
        return None
    return stat.st_mtime_ns, stat.st_size


def safe_stem(name: str) -> str:
    """A model's name for use in a file name: characters that file systems refuse are replaced."""
    stem = re.sub(r"[\x00-\x1f\x7f/\\:*?\"<>|]", "_", name).strip(" .") or "model"
    return stem[:120]
