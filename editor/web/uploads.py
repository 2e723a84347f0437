"""Files that a page uploads: written to disk as they come, checked, and kept in a folder named by their content."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import lzma
import os
import re
import shutil
import stat
import struct
import time
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from editor.errors import EditorError
from editor.files import copy_atomic, inside
from editor.graph.model_file import FOREIGN, LOOKS_LIKE, MODEL_SUFFIXES
from editor.text import human_bytes, is_utf8

MAX_BYTES = 16 << 30
MAX_FILES = 10_000
_FREE_BYTES = 512 << 20
"""Room that uploads leave on the disk."""
_CHUNK = 1 << 20
_THREADS = 4
"""That write files: the event loop must not wait for a disk."""
_MOST_PARTS, _LONGEST_PART = 20, 255
"""Folders in each other, and bytes of a name: what file systems take."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ZIP_FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    MemoryError,
)
"""What ``zipfile`` and the decompressors raise for damaged data; OSError is bzip2's."""
_UPLOAD_ID = re.compile(r"[a-z0-9]{8,40}")
_OLD_SECONDS = 24 * 3600


_STILL_COMING = "the upload is not complete: files of it are still coming in"
_NO_MODEL = (
    "the upload has no model that opens: ONNX, OpenVINO IR (.xml and .bin), TensorFlow Lite, TensorFlow, PaddlePaddle or "
    "PyTorch (.pt2); other models are exported to ONNX first (of PyTorch: torch.onnx.export)"
)
FORMATS = {
    "opens": [*MODEL_SUFFIXES, ".zip", ".json"],
    "foreign": FOREIGN,
    "starts": [[start.decode("latin-1"), reason] for start, reason in LOOKS_LIKE],
    "none": _NO_MODEL,
}
"""By what the page tells files apart before it sends them (`assets/upload.js`)."""


@dataclass
class _Incoming:
    """What an upload has written so far: counted here, because a walk over its files for each of them would be quadratic."""

    bytes: int = 0
    names: set[Path] = field(default_factory=set)
    """Of files and folders, relative."""
    writing: int = 0
    """Files that are coming in now."""


class Uploads:
    """Uploads of all pages, below one folder. Unfinished ones lie in ``incoming`` and are removed after a day."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self.folder, self._incoming, self._max_bytes = folder, folder / "incoming", max_bytes
        self._uploads: dict[str, _Incoming] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="uploads")
        for old in self._incoming.iterdir() if self._incoming.is_dir() else ():
            with contextlib.suppress(OSError):  # another server may be removing it
                if time.time() - old.lstat().st_mtime > _OLD_SECONDS:
                    _remove(old)

    def shown(self, text: str) -> str:
        """A message without the places of uploaded files, which mean nothing to the person who uploaded them."""
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
        folder, loop = self._folder_of(upload), asyncio.get_running_loop()
        incoming = self._uploads.get(upload)
        if incoming is None:
            incoming = self._uploads.setdefault(
                upload, await loop.run_in_executor(self._threads, _found, folder)
            )
        incoming.writing += 1
        try:
            path = safe_path(name)
            incoming.names.update((path, *path.parents[:-1]))
            if len(incoming.names) > MAX_FILES:
                raise EditorError(
                    f"an upload may have {MAX_FILES:,} files; open the model by its path"
                )
            file, before, free = await loop.run_in_executor(self._threads, self._open, folder, path)
            with file:
                incoming.bytes -= before
                waiting = bytearray()
                async for chunk in chunks:
                    incoming.bytes += len(chunk)
                    free -= len(chunk)
                    if free < 0 or incoming.bytes > self._max_bytes:
                        raise EditorError(self._too_large())
                    waiting += chunk
                    if len(waiting) >= _CHUNK:
                        await loop.run_in_executor(self._threads, file.write, bytes(waiting))
                        waiting.clear()
                await loop.run_in_executor(self._threads, file.write, bytes(waiting))
        except OSError as error:
            await loop.run_in_executor(self._threads, self._drop, upload)
            raise EditorError(
                f"the upload of {name!r} cannot be stored: {error.strerror or error}"
            ) from error
        except Exception:
            await loop.run_in_executor(self._threads, self._drop, upload)
            raise
        except BaseException:  # the server ends
            self._drop(upload)
            raise
        finally:
            incoming.writing -= 1

    def finish(self, upload: str) -> Path:
        """The model or plan of a complete upload, or its folder where it has several; a zip file is unpacked.

        Raises:
            EditorError: there is no model, or more than one plan; the upload is removed.
        """
        folder = self._complete(upload)
        try:
            files = _files_in(folder)
            if len(files) == 1 and files[0].suffix.lower() == ".zip":
                archive = files[0].rename(folder.with_suffix(".zip"))
                try:
                    self._unpack(archive, folder)
                finally:
                    archive.unlink()
                files = _files_in(folder)
            model = _the_model(files, folder)
            target = self.folder / _digest(files, folder)
            if not target.is_dir():
                folder.rename(target)
            return target / model.relative_to(folder)
        except OSError as error:
            raise EditorError(f"the upload cannot be stored: {error.strerror or error}") from error
        finally:
            self._drop(upload)

    def deliver(self, upload: str, folder: Path, wanted: Sequence[str]) -> None:
        """Puts the files of a complete upload where a model looks for them; no file is replaced.

        Args:
            upload: as of ``receive``.
            folder: of the model.
            wanted: paths in it that have no file; those of the upload are found by their last part.

        Raises:
            EditorError: a file is none of them, or cannot be written; the upload is removed.
        """
        source = self._complete(upload)
        try:
            for file in _files_in(source):
                place = next((w for w in wanted if PurePosixPath(w).name == file.name), "")
                if not place or os.path.lexists(folder / place):
                    raise EditorError(f"the model does not lack {file.name}")
                copy_atomic(file, inside(folder, place))
        finally:
            self._drop(upload)

    def _complete(self, upload: str) -> Path:
        """The folder of an upload of which nothing is still to come."""
        incoming = self._uploads.get(upload)
        if incoming is not None and incoming.writing:
            raise EditorError(_STILL_COMING)
        return self._folder_of(upload)

    def _drop(self, upload: str) -> None:
        self._uploads.pop(upload, None)
        shutil.rmtree(self._folder_of(upload), ignore_errors=True)

    def _folder_of(self, upload: str) -> Path:
        if not _UPLOAD_ID.fullmatch(upload):
            raise EditorError("The page sent an upload without a name; reload the page.")
        return self._incoming / upload

    def _open(self, folder: Path, path: Path) -> tuple[IO[bytes], int, int]:
        """A file of an upload to write to, the bytes that it had before, and those that the disk has room for."""
        target = folder / path
        for parent in (folder, target.parent):
            parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        before = target.stat().st_size if target.exists() else 0
        return target.open("wb"), before, _free(folder) + before

    def _too_large(self) -> str:
        return f"an upload may have {human_bytes(self._max_bytes)}, and must fit on the disk; open the model by its path"

    def _unpack(self, archive: Path, folder: Path) -> None:
        """Extracts a zip file under the same limits; sizes are counted, for its table may lie."""
        room = min(self._max_bytes, _free(folder))
        try:
            opened = zipfile.ZipFile(archive)
        except _ZIP_FAULTS as error:
            raise EditorError(f"the zip file cannot be read: {error}") from error
        with opened:
            entries = [entry for entry in opened.infolist() if not entry.is_dir()]
            if len(entries) > MAX_FILES:
                raise EditorError(
                    f"the zip file has {len(entries):,} files; {MAX_FILES:,} are allowed"
                )
            for entry in entries:
                if stat.S_ISLNK(entry.external_attr >> 16):
                    raise EditorError(
                        f"{entry.filename!r} in the zip file is a link; pack the file itself"
                    )
                path = folder / safe_path(entry.filename)
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                with path.open("wb") as target:
                    for chunk in _unpacked(opened, entry):
                        room -= len(chunk)
                        if room < 0:
                            raise EditorError(self._too_large())
                        target.write(chunk)


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """The content of a file in a zip file.

    Raises:
        EditorError: it is damaged, encrypted, or of an unknown method.
    """
    try:
        with archive.open(entry) as source:
            yield from _chunks(source)
    except _ZIP_FAULTS as error:
        raise EditorError(f"the zip file cannot be read: {entry.filename!r}: {error}") from error


def _found(folder: Path) -> _Incoming:
    """What an earlier server has received of an upload."""
    paths = list(folder.rglob("*"))
    return _Incoming(
        sum(path.stat().st_size for path in paths if path.is_file()),
        {path.relative_to(folder) for path in paths},
    )


def _free(folder: Path) -> int:
    """Bytes that may be written to the disk of a folder."""
    free = shutil.disk_usage(folder).free - _FREE_BYTES
    if free <= 0:
        raise EditorError("the disk of the workspace is full")
    return free


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


def safe_path(name: str) -> Path:
    """A path below a folder, of the same names: a model refers to the files of its weights by them.

    Raises:
        EditorError: the name is empty, leads out of its folder, or has a part that is too long or has control characters.
    """
    parts = [
        part
        for part in PurePosixPath(name.replace("\\", "/")).parts
        if part.strip("/") not in ("", ".")
    ]
    if (
        not parts
        or len(parts) > _MOST_PARTS
        or not is_utf8(name)
        or any(
            part == ".." or _CONTROL.search(part) or len(part.encode()) > _LONGEST_PART
            for part in parts
        )
    ):
        raise EditorError(f"the name {name[:80]!r} cannot be used for an uploaded file")
    return Path(*parts)


def _files_in(folder: Path) -> list[Path]:
    """The files in a folder, in order; none where it is not there."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _the_model(files: list[Path], folder: Path) -> Path:
    for suffix in (*MODEL_SUFFIXES, ".json"):
        found = [path for path in files if path.suffix.lower() == suffix]
        if len(found) == 1:
            return found[0]
        if found and suffix in MODEL_SUFFIXES:
            return folder  # a set of models
        if found:
            names = ", ".join(str(path.relative_to(folder)) for path in found[:5])
            raise EditorError(
                f"the upload has {len(found)} {suffix} files ({names}); upload one with the files of its weights"
            )
    for suffix, reason in FOREIGN.items():
        for path in files:
            if path.suffix.lower() == suffix:
                raise EditorError(f"{path.relative_to(folder)}: {reason}")
    raise EditorError(_NO_MODEL)


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
