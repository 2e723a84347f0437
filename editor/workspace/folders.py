"""Names of authors, and folders of workspaces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from editor.errors import EditorError
from editor.text import is_utf8

if TYPE_CHECKING:
    from sqlalchemy import URL


UPLOADS, INCOMING = "uploads", "incoming"
"""Folders of a workspace: of uploads, and in it of those that are not complete."""


@dataclass(frozen=True)
class Author:
    """Stored with every change of a document."""

    page: str = ""
    """Id of the page; "" outside the page."""
    sequence: int = 0
    """Number of the page's stroke, so that it is applied once, even by another server."""
    name: str = ""
    """For people, e.g. "tab 2"."""
    server: str = ""
    """Where the page is served, e.g. "box:8050"."""

    def seen_from(self, server: str) -> str:
        """The name for people who look at another server, or at the same."""
        name = self.name or "another program"
        return name if self.server in ("", server) else f"{name} of {self.server}"


_NOBODY = Author()
_author: ContextVar[Author] = ContextVar("author")


def current_author() -> Author:
    """The author of the changes that this thread makes."""
    return _author.get(_NOBODY)


@contextmanager
def acting_as(author: Author) -> Iterator[None]:
    """Changes in this context are stored as the author's."""
    token = _author.set(author)
    try:
        yield
    finally:
        _author.reset(token)


def default_folder() -> Path:
    """Default path of the workspace (XDG base directory specification)."""
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "hetero-editor"


def folder_of(url: str | None) -> Path:
    """The folder of a workspace that is given as a folder or as the URL of a database; it may not exist.

    Raises:
        EditorError: the text is neither, or a folder has a name that jobs cannot use.
    """
    folder = default_folder()
    if url and "://" not in url:
        folder = Path(url)
    elif url:
        from sqlalchemy import exc, make_url  # takes the start of the program 0.1 s

        try:
            file = file_of(make_url(url))
        except (exc.ArgumentError, ValueError) as error:
            raise EditorError(f"{url!r} is neither a folder nor the URL of a database") from error
        folder = folder if file is None else file.parent
    absolute = str(folder.absolute())
    if "\n" in absolute or not is_utf8(absolute):
        what = "a line break in its name" if "\n" in absolute else "a name that is not UTF-8"
        raise EditorError(
            f"the workspace {absolute!r} has {what}; name another folder (--workspace)"
        )
    return folder


def uploads_of(folder: Path) -> dict[str, Path]:
    """The complete uploads of a workspace: name -> folder."""
    uploads = folder / UPLOADS
    found = uploads.iterdir() if uploads.is_dir() else ()
    return {path.name: path for path in sorted(found) if path.is_dir() and path.name != INCOMING}


def title_of(model: Path) -> str:
    """The title of a document: the name of the model's file, with its folder where exporters give every model that name."""
    of_upload = model.parent.parent.name == UPLOADS  # the folder is named by what it holds
    says_little = "model" in model.stem.lower().split("_")  # decoder_model_merged.onnx
    if says_little and model.parent.name and not of_upload:
        return f"{model.parent.name}/{model.name}"
    return model.name


def file_of(url: URL) -> Path | None:
    """The file of an SQLite database; None for one in memory or on a server."""
    kept = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
    return Path(str(url.database)) if kept else None


def make_private(folder: Path) -> Path:
    """Creates a folder that only its owner can read; one that exists stays as it is.

    Raises:
        EditorError: it cannot be created, or is a file.
    """
    try:
        if not folder.exists():
            folder.mkdir(
                parents=True, mode=0o700, exist_ok=True
            )  # the process for jobs may be making it now
        elif not folder.is_dir():
            raise EditorError(f"the workspace {folder} is a file; name a folder or a database URL")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EditorError(f"the workspace {str(folder)!r} cannot be created: {reason}") from error
    return folder
