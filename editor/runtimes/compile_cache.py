"""Compiled models that runtimes keep on disk, so that compiling the same subgraph again takes no time.

They are in the user's cache, in a folder that only the user can read: a runtime executes what it finds there. The folder has a
limit; what was not used for the longest time goes first.
"""

from __future__ import annotations

import time
from pathlib import Path

from editor import limits
from editor.environment import COMPILE_CACHE
from editor.errors import EditorError, ExportError
from editor.files import cache_folder, private_folder, remove_oldest

_DEFAULT = 2 << 30
_TRIM_SECONDS = 30.0
"""Between two looks at the folder: a plan of many subgraphs compiles them in one go."""
_trimmed: dict[Path, float] = {}


def limit() -> int:
    """Bytes that the folder may have.

    Raises:
        EditorError: the environment variable is not a size.
    """
    text = COMPILE_CACHE.value
    if not text:
        return _DEFAULT
    size = 0.0 if text.strip() == "0" else limits.size_of(text)
    if not size >= 0:
        raise EditorError(f"{COMPILE_CACHE.name}={text[:40]!r}: must be a size such as 8GiB, or 0")
    return int(size)


def compile_folder(runtime: str) -> Path | None:
    """The folder in which a runtime keeps compiled models; None where nothing is to be kept, or it cannot be created."""
    if not limit():
        return None
    try:
        return private_folder(private_folder(cache_folder("compiled")) / runtime)
    except ExportError:
        return None


def trim(folder: Path) -> None:
    """Removes what was not used for the longest time until the folder of compiled models keeps its limit."""
    root = folder.parent
    if time.monotonic() - _trimmed.get(root, -_TRIM_SECONDS) < _TRIM_SECONDS:
        return
    _trimmed[root] = time.monotonic()
    remove_oldest(root, limit())
