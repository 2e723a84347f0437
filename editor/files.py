"""Reads and writes files, atomically."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from editor import operating_system
from editor.errors import EditorError, ExportError

_PACKAGE = Path(__file__).resolve().parent


def resource_dir(name: str) -> Path:
    """The path of the folder ``assets`` or ``examples``."""
    beside = _PACKAGE.parent / name
    return beside if (_PACKAGE.parent / "app.py").is_file() and beside.is_dir() else _PACKAGE / name


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
    return json.dumps(finite(data), indent=1, allow_nan=False) + "\n"


def finite(data: Any) -> Any:
    """Plain values, in which infinity and NaN are None."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: finite(value) for key, value in data.items()}
    return [finite(value) for value in data] if isinstance(data, list | tuple) else data


_COPY_BYTES = 8 << 20
MAX_TEXT_BYTES = 64 << 20
"""Of a plan, a file of rules or affinities, or a sidecar."""


def meant(path: str | Path) -> str:
    """Which file was probably meant: one whose name has other case, or one behind the backslashes of a path of Windows."""
    slashed = Path(str(path).replace("\\", "/"))
    try:
        beside = [f for f in slashed.parent.iterdir() if f.name.lower() == slashed.name.lower()]
    except OSError:
        return ""
    return f"; there is {beside[0]}" if beside else ""


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
        return path.read_text(
            encoding="utf-8-sig"
        )  # spreadsheets put a mark of the byte order first
    except FileNotFoundError:
        raise error(f"{shown}: no such file{meant(path)}") from None
    except UnicodeDecodeError as cause:
        raise error(f"{shown}: cannot be read (it is not text in UTF-8)") from cause
    except (OSError, ValueError) as cause:  # a path that is too long, or has NUL
        raise error(
            f"{shown}: cannot be read ({getattr(cause, 'strerror', None) or cause})"
        ) from cause


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


def read_json(path: Path, error: type[EditorError]) -> Any:
    """The value of a JSON file from a stranger.

    Raises:
        EditorError: of the given type; as ``read_text``, or the text is not valid JSON.
    """
    text = read_text(path, error)
    try:
        return parse_json(text)
    except ValueError as cause:
        raise error(f"{path}: not valid JSON ({cause})") from cause


def write_atomic(path: Path, content: str | bytes, private: bool = False) -> Path:
    """Writes to a temporary file in the same folder, then renames it; returns the path.

    A device, a pipe and the like is written to as it is, since a renamed file would take its place. A ``private`` file can
    be read by its owner only.

    Raises:
        ExportError: the folder cannot be created or written to, or the path is a folder or a socket.
    """
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    with writing(path):
        if _is_special(path):
            _write_in_place(path, data)
        else:
            with replacing(path, private) as file:
                file.write(data)
    return path


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Makes the folder of a file; what the system refuses until the end of the block says that the file cannot be written.

    Raises:
        ExportError: the system refused something.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ExportError(f"{path}: cannot be written ({error.strerror or error})") from error


@contextmanager
def replacing(path: Path, private: bool = False) -> Iterator[BinaryIO]:
    """A new file that takes the place of ``path`` when the block ends without an error, and is removed otherwise.

    Raises:
        OSError: the folder cannot be written to, the disk is full, or something else than a file is at the path.
    """
    _check_replaceable(path)
    temporary = path.with_name(f".{path.name[:40]}.{secrets.token_hex(6)}")
    mode = 0o600 if private else 0o666
    with open(temporary, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as file:
        try:
            yield file
            file.close()
            replace(temporary, path)
        except BaseException:
            file.close()
            temporary.unlink(missing_ok=True)
            raise


def replace(temporary: Path, path: Path) -> None:
    """Renames a file; raises ``OSError`` where something else than a file would be replaced."""
    _check_replaceable(path)
    os.replace(temporary, path)


def _check_replaceable(path: Path) -> None:
    if _is_special(path):
        raise OSError(f"it is {_kind_of(path)}, not a file")


def _is_special(path: Path) -> bool:
    """Whether a path is something that must not be replaced by a file; a link to a regular file is replaced itself."""
    try:
        if path.is_symlink() and any(
            path.parent.resolve().is_relative_to(folder)
            for folder in operating_system.SYSTEM_FOLDERS
        ):
            return True
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:  # not there, or in a folder that is not
        return False


def _kind_of(path: Path) -> str:
    mode = path.stat().st_mode
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _open_special(path: Path) -> int:
    try:
        return operating_system.open_for_writing(path)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(f"it is {_kind_of(path)} that no program reads") from None
        raise


def _write_in_place(path: Path, data: bytes) -> None:
    """Writes to a device or a pipe; one without a reader is refused rather than waited for."""
    if path.is_dir():
        raise OSError("it is a folder")
    if open_file := operating_system.OPEN_FILE.fullmatch(os.path.abspath(path)):  # noqa: PTH100  # opened once more, it would be written over
        sys.stdout.flush()
        handle = os.dup(int(open_file[1] or {"stdout": 1, "stderr": 2}[open_file[2]]))
    else:
        handle = _open_special(path)
    with os.fdopen(handle, "wb") as file:
        file.write(data)


def copy_atomic(source: Path, target: Path) -> Path:
    """Copies a file to a temporary file in the target's folder, then renames it; returns the target.

    A hard link would not do: ``onnx`` refuses weights with a second hard link, in the original model too.

    Raises:
        ExportError: the source cannot be read, or the folder cannot be written to.
    """
    with writing(target), open(source, "rb") as given, replacing(target) as file:
        shutil.copyfileobj(given, file, _COPY_BYTES)
    return target


def inside(folder: Path, name: str) -> Path:
    """The path of a file below a folder, by its name there.

    Raises:
        EditorError: the path leads out of the folder, by ``..``, as an absolute path or through a link.
    """
    target = folder / name
    try:
        leads_out = (
            ".." in target.parts
            or target.is_symlink()
            or not target.parent.resolve().is_relative_to(folder.resolve())
        )
    except (OSError, ValueError) as error:  # too long, or NUL
        raise EditorError(f"{name[:_MAX_SHOWN]!r}: not a path ({error})") from error
    if leads_out or "\0" in name:
        raise EditorError(f"{name!r}: leads out of the folder {folder}")
    return target


def cache_folder(name: str = "") -> Path:
    """The editor's folder below the user's cache, or a folder in it (not created here)."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "hetero-editor" / name


def private_folder(path: Path) -> Path:
    """Creates a folder that only its owner can read; returns it.

    Raises:
        ExportError: it cannot be created, or belongs to another user.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        raise ExportError(f"{path}: cannot be created ({error.strerror or error})") from error
    return path


def kept_json(path: Path, most_bytes: int) -> Any:
    """What ``keep_json`` wrote; None where nothing is kept, or it is damaged or too large."""
    with suppress(OSError, ValueError):
        if path.stat().st_size <= most_bytes:
            return json.loads(path.read_text(encoding="utf-8"))
    return None


def keep_json(path: Path, data: Any) -> None:
    """Keeps for this user what could be found out again; nothing where it cannot be written."""
    with suppress(ExportError):
        private_folder(path.parent)
        write_atomic(path, json.dumps(data), private=True)


def remove_oldest(folder: Path, room: int, keep: frozenset[str] = frozenset()) -> None:
    """Removes files that were not used for the longest time until the others take at most ``room`` bytes.

    Those of the names ``keep`` stay.
    """
    files = []
    for path in folder.rglob("*"):
        with suppress(OSError):  # another process removed it
            state = path.lstat()
            if stat.S_ISREG(state.st_mode):
                files.append((max(state.st_atime, state.st_mtime), state.st_size, path))
    used = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if used <= room:
            return
        if path.name not in keep:
            path.unlink(missing_ok=True)
            used -= size


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
