"""Files that a page uploads: written to disk as they come, checked, and kept in a folder named by their content."""

from __future__ import annotations

import hashlib
import re
import shutil
import stat
import time
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from editor.errors import EditorError
from editor.files import safe_stem
from editor.text import human_bytes

MAX_BYTES = 16 << 30
MAX_FILES = 10_000
_FREE_BYTES = 512 << 20
"""Room that uploads leave on the disk."""
_CHUNK = 1 << 20
_UPLOAD_ID = re.compile(r"[a-z0-9]{8,40}")
_OLD_SECONDS = 24 * 3600


class Uploads:
    """Uploads of all pages, below one folder. Unfinished ones lie in ``incoming`` and are removed after a day."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self.folder, self._incoming, self._max_bytes = folder, folder / "incoming", max_bytes
        if self._incoming.is_dir():
            for old in self._incoming.iterdir():
                if time.time() - old.stat().st_mtime > _OLD_SECONDS:
                    shutil.rmtree(old, ignore_errors=True)

    def shown(self, text: str) -> str:
        """A message without the places of uploaded files, which mean nothing to whoever uploaded them."""
        return re.sub(rf"{re.escape(str(self.folder))}/[^/\s]+/", "", text)

    async def receive(self, upload: str, name: str, chunks: AsyncIterator[bytes]) -> None:
        """Writes one file of an upload.

        Args:
            upload: made up by the page, the same for all files that belong together.
            name: path of the file in the folder that is uploaded, or its name.
            chunks: what it holds.

        Raises:
            EditorError: the name is not usable, a limit is exceeded, or the disk is full; the upload is removed.
        """
        folder = self._folder_of(upload)
        try:
            path = folder / safe_path(name)
            self._make_room(folder, path)
            with path.open("wb") as file:
                room = self._room(folder)
                async for chunk in chunks:
                    room -= len(chunk)
                    if room < 0:
                        raise EditorError(self._too_large())
                    file.write(chunk)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise EditorError(f"the upload of {name!r} cannot be stored: {error.strerror or error}") from error
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def finish(self, upload: str) -> Path:
        """The model or plan of a complete upload, after unpacking it where it is a zip file.

        Raises:
            EditorError: there is no model, or more than one; the upload is removed.
        """
        folder = self._folder_of(upload)
        try:
            files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
            if len(files) == 1 and files[0].suffix.lower() == ".zip":
                archive = files[0].rename(folder.with_suffix(".zip"))
                try:
                    self._unpack(archive, folder)
                finally:
                    archive.unlink()
                files = sorted(path for path in folder.rglob("*") if path.is_file())
            model = _the_model(files, folder)
            target = self.folder / _digest(files, folder)
            if not target.is_dir():
                folder.rename(target)
            return target / model.relative_to(folder)
        except OSError as error:
            raise EditorError(f"the upload cannot be stored: {error.strerror or error}") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _folder_of(self, upload: str) -> Path:
        if not _UPLOAD_ID.fullmatch(upload):
            raise EditorError("The page sent an upload without a name; reload the page.")
        return self._incoming / upload

    def _make_room(self, folder: Path, path: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if sum(1 for _ in folder.rglob("*")) >= MAX_FILES:
            raise EditorError(f"an upload may have {MAX_FILES:,} files; open the model by its path")

    def _room(self, folder: Path) -> int:
        """Bytes that may still be written."""
        used = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        free = shutil.disk_usage(folder).free - _FREE_BYTES
        if free <= 0:
            raise EditorError("the disk of the workspace is full")
        return min(self._max_bytes - used, free)

    def _too_large(self) -> str:
        return f"an upload may have {human_bytes(self._max_bytes)}, and must fit on the disk; open the model by its path"

    def _unpack(self, archive: Path, folder: Path) -> None:
        """Extracts a zip file under the same limits; sizes are counted, for its table may lie."""
        room = self._room(folder)
        try:
            with zipfile.ZipFile(archive) as opened:
                entries = [entry for entry in opened.infolist() if not entry.is_dir()]
                if len(entries) > MAX_FILES:
                    raise EditorError(f"the zip file has {len(entries):,} files; {MAX_FILES:,} are allowed")
                for entry in entries:
                    if stat.S_ISLNK(entry.external_attr >> 16):
                        raise EditorError(f"{entry.filename!r} in the zip file is a link; pack the file itself")
                    path = folder / safe_path(entry.filename)
                    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                    with opened.open(entry) as source, path.open("wb") as target:
                        for chunk in _chunks(source):
                            room -= len(chunk)
                            if room < 0:
                                raise EditorError(self._too_large())
                            target.write(chunk)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
            raise EditorError(f"the zip file cannot be read: {error}") from error


def safe_path(name: str) -> Path:
    """A path below a folder: no parents, no drive, no hidden names.

    Raises:
        EditorError: nothing is left of the name, or it leads out of its folder.
    """
    parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part.strip("/") not in ("", ".")]
    if not parts or ".." in parts or any("\0" in part or len(part.encode()) > 200 for part in parts) or len(parts) > 20:
        raise EditorError(f"the name {name[:80]!r} cannot be used for an uploaded file")
    return Path(*parts[:-1], safe_stem(parts[-1]))


def _the_model(files: list[Path], folder: Path) -> Path:
    for suffix in (".onnx", ".json"):
        found = [path for path in files if path.suffix.lower() == suffix]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(str(path.relative_to(folder)) for path in found[:5])
            raise EditorError(f"the upload has {len(found)} {suffix} files ({names}); upload one with the files of its weights")
    raise EditorError("the upload has no .onnx file; other models are exported to ONNX first (of PyTorch: torch.onnx.export)")


def _digest(files: list[Path], folder: Path) -> str:
    whole = hashlib.sha256()
    for path in files:
        content = hashlib.sha256()
        with path.open("rb") as file:
            for chunk in _chunks(file):
                content.update(chunk)
        whole.update(f"{path.relative_to(folder)}\0{content.hexdigest()}\0".encode())
    return whole.hexdigest()[:16]


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk
