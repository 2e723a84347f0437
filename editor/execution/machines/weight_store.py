"""What a worker keeps of the models that it was sent: files named by the SHA-256 of their content, in a bounded folder."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path

from editor.errors import ExecutionError
from editor.files import write_atomic
from editor.text import human_bytes

_NAME = re.compile(r"[0-9a-f]{64}")


class WeightStore:
    """A folder of at most so many bytes; the files that were not used for the longest time are removed first."""

    def __init__(self, folder: Path, limit: int) -> None:
        """Keeps what an earlier worker has left in the folder.

        Args:
            folder: is made, for this user only.
            limit: bytes.
        """
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder, self.limit = folder, limit
        self._lock = threading.Lock()

    def missing(self, sizes: Mapping[str, int]) -> list[str]:
        """Names of the weights that are not here; makes room for them, and marks the others as used.

        Raises:
            ExecutionError: together they exceed the limit, or a name is not a hash.
        """
        for name in sizes:
            check_name(name)
        total = sum(sizes.values())
        if total > self.limit:
            raise ExecutionError(
                f"the weights take {human_bytes(total)}, its cache holds {human_bytes(self.limit)} "
                "(`--cache` of the worker)"
            )
        with self._lock:
            missing = []
            for name, size in sizes.items():
                path = self.folder / name
                if path.is_file() and path.stat().st_size == size:
                    os.utime(path)
                else:
                    missing.append(name)
            self._evict(self.limit - sum(sizes[name] for name in missing), keep=frozenset(sizes))
        return missing

    def put(self, name: str, data: bytes | memoryview) -> None:
        """Stores data under its hash.

        Raises:
            ExecutionError: the data has another hash, or the disk is full.
        """
        check_name(name)
        if hashlib.sha256(data).hexdigest() != name:
            raise ExecutionError(f"the weights {name[:12]} arrived damaged")
        with self._lock:
            self._evict(self.limit - len(data), keep=frozenset({name}))
            write_atomic(self.folder / name, bytes(data), private=True)

    def model(self, skeleton: bytes) -> Path:
        """The path of a model file with this content, beside its weights."""
        path = self.folder / f"{hashlib.sha256(skeleton).hexdigest()}.onnx"
        with self._lock:
            if path.is_file():
                os.utime(path)
            else:
                self._evict(self.limit - len(skeleton), keep=frozenset())
                write_atomic(path, skeleton, private=True)
        return path

    @property
    def used(self) -> int:
        """Bytes in the folder."""
        return sum(path.stat().st_size for path in self.folder.iterdir() if path.is_file())

    def _evict(self, room: int, keep: frozenset[str]) -> None:
        """Removes the files used the longest time ago until the others take at most ``room`` bytes."""
        files = sorted(
            (path for path in self.folder.iterdir() if path.is_file()),
            key=lambda path: path.stat().st_mtime_ns,
        )
        used = sum(path.stat().st_size for path in files)
        for path in files:
            if used <= room:
                return
            if path.name not in keep:
                used -= path.stat().st_size
                path.unlink(missing_ok=True)


def check_name(name: str) -> None:
    """Raises ``ExecutionError`` where a name is not a SHA-256: it could be a path."""
    if not _NAME.fullmatch(name):
        raise ExecutionError(f"{name[:80]!r} is not a SHA-256")
