"""Offers what Linux has and other systems lack, with what takes its place there.

The editor is developed and tested on Linux. No other module uses ``/proc``, ``prctl``, ``fork`` or locks of files. Elsewhere

- commands run without the parent process that watches them (``fork``); models are read in workers instead;
- a worker whose owner was killed ends when its pipe closes, which it notices between two calls of native code;
- the memory of a process is its resident set, of which mapped files are a part.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl
if TYPE_CHECKING:  # importing them would delay the start
    import asyncio
    from multiprocessing import connection

    if sys.platform == "win32":
        Pipe = connection.PipeConnection[Any, Any]
    else:
        Pipe = connection.Connection[Any, Any]

IS_LINUX = sys.platform == "linux"
"""Tests set it to False to run what other systems do."""
ENDING_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""Signals that end programs."""
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
"""Flag of ``os.open``: a symbolic link is an error."""
OPEN_FILE = re.compile(r"/(?:dev|proc/self)/(?:fd/(\d+)|(stdout|stderr))")
"""Paths of the files that a process has open."""
SYSTEM_FOLDERS = (Path("/dev"), Path("/proc"))
"""A link there stands for a device or an open file (/dev/stdout), even where that is redirected to a regular file."""
_PR_SET_PDEATHSIG = 1


# Processes


def fork() -> int | None:
    """The child's process id in the parent, 0 in the child, and None where a process cannot be divided safely.

    The libraries of macOS start threads, which a forked child does not have; Windows has no ``fork``.
    """
    if sys.platform == "win32" or not IS_LINUX:
        return None
    return os.fork()


def end_of(child: int) -> int:
    """A file descriptor that can be read once a child has ended; only where ``fork`` works."""
    if sys.platform == "linux":
        return os.pidfd_open(child)
    raise NotImplementedError


def end_with(parent: int) -> None:
    """Lets the kernel kill this process with its parent, however that ends; elsewhere than on Linux its pipe tells it."""
    if sys.platform == "linux" and IS_LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # On Windows the parent of a process in a venv is the launcher of the venv.
    if sys.platform != "win32" and os.getppid() != parent:  # it ended before the lines above
        os._exit(1)


def kill(pid: int) -> None:
    """Ends a process at once."""
    if sys.platform == "win32":
        os.kill(pid, signal.SIGTERM)
    else:
        os.kill(pid, signal.SIGKILL)


def hold_signals(held: bool) -> None:
    """Keeps the signals that end programs from this thread and the processes that it starts, or lets them through."""
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_BLOCK if held else signal.SIG_UNBLOCK, ENDING_SIGNALS)


def on_signal(number: int, loop: asyncio.AbstractEventLoop, handler: Callable[[], None]) -> None:
    """Calls a function in an event loop whenever a signal comes."""
    try:
        loop.add_signal_handler(number, handler)
    except NotImplementedError:  # on Windows
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(handler))


def inherited(pipe: Pipe) -> tuple[int, dict[str, Any]]:
    """The number of a pipe, and the options of ``Popen`` that let a child use it."""
    number = pipe.fileno()
    if sys.platform == "win32":
        import subprocess

        os.set_handle_inheritable(number, True)
        return number, {
            "startupinfo": subprocess.STARTUPINFO(lpAttributeList={"handle_list": [number]})
        }
    return number, {"pass_fds": [number]}


def pipe_of(number: int) -> Pipe:
    """The pipe that has a number in this process."""
    from multiprocessing import connection

    if sys.platform == "win32":
        return connection.PipeConnection(number)
    return connection.Connection(number)


# Files


def try_lock(descriptor: int) -> bool:
    """Locks an open file until it is closed; False where another process has."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_own(path: Path) -> bool:
    """Whether a file belongs to the user of this process; folders of Windows are the user's own."""
    return sys.platform == "win32" or path.lstat().st_uid == os.getuid()


def open_for_writing(path: Path) -> int:
    """A file descriptor of a device or a pipe; raises ``OSError`` at once where no program reads the pipe."""
    if sys.platform == "win32":
        return os.open(path, os.O_WRONLY | os.O_BINARY)
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor


# Memory


def memory_of(pid: int) -> int:
    """Bytes that a process has for itself; on Linux mapped files do not count. 0 when it is gone."""
    if sys.platform == "linux" and IS_LINUX:
        try:
            pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
        except OSError:
            return 0
        return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss) if pid else 0
    except psutil.Error:
        return 0


def private_memory() -> int:
    """Bytes that this process has written, as far as they are in memory.

    Pages of libraries do not count: whether others have loaded them says nothing about this process.
    """
    if IS_LINUX:
        with contextlib.suppress(OSError):
            text = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
            return sum(int(kib) << 10 for kib in re.findall(r"^Private_Dirty: *(\d+)", text, re.M))
    import psutil

    return int(psutil.Process().memory_full_info().uss)


def give_back_memory() -> None:
    """Lets the allocator of glibc give back what was freed; other allocators are left alone."""
    if IS_LINUX:
        with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
            ctypes.CDLL(None).malloc_trim(0)


def memory_of_machine() -> int:
    """Bytes of memory of this machine, or of the container that this process is in."""
    if sys.platform == "linux" and IS_LINUX:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        container = _read("/sys/fs/cgroup/memory.max").strip()
        return min(total, int(container) if container.isdigit() else total)
    import psutil

    return int(psutil.virtual_memory().total)


# The machine


@cache
def cpu_name() -> str:
    """The processor's full name where the system reports it."""
    named = re.search(r"^model name\s*:\s*(.*\S)", _read("/proc/cpuinfo"), re.M)
    if named:
        return named[1]
    import platform

    return platform.processor() or platform.machine()


def boot_id() -> str:
    """What differs after each start of the machine; "" where the system does not say."""
    return _read("/proc/sys/kernel/random/boot_id").strip()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
