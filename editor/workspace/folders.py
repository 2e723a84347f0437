"""Where a workspace keeps its files."""

from __future__ import annotations

import os
from pathlib import Path

from editor.errors import EditorError


def default_folder() -> Path:
    """Default path of the workspace (XDG base directory specification)."""
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "hetero-editor"


def folder_of(url: str | None) -> Path:
    """The folder of a workspace that is given as a folder or as the URL of a database; it may not exist."""
    if url and "://" not in url:
        return Path(url)
    if url and url.startswith("sqlite:///") and url != "sqlite:///:memory:":
        return Path(url.removeprefix("sqlite:///")).parent
    return default_folder()


def make_private(folder: Path) -> Path:
    """Creates a folder that only its owner can read; one that exists stays as it is.

    Raises:
        EditorError: it cannot be created, or is a file.
    """
    try:
        if not folder.exists():
            folder.mkdir(parents=True, mode=0o700, exist_ok=True)  # the process for jobs may be making it now
        elif not folder.is_dir():
            raise EditorError(f"the workspace {folder} is a file; name a folder or a database URL")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EditorError(f"the workspace {str(folder)!r} cannot be created: {reason}") from error
    return folder
