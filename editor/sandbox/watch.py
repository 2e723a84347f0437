"""Limits of time and memory of what is done to a model: the one loop that keeps them, and the parent of a command."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from editor import limits, operating_system
from editor.errors import EditorError
from editor.files import file_state

POLL_SECONDS = 0.05
READING = "reading"
"""The section that resets the time of a model."""

_reports: int | None = None
"""File descriptor of the pipe to the supervisor of this process."""
_expendable = False
_inside = False
"""A section has been reported, and its end not yet; one in it is part of it."""
_used: dict[str, float] = {}
"""Seconds that the processes which this one watches have taken for each model."""


def report_to(descriptor: int) -> None:
    """From now on a supervisor, which reads from this pipe, keeps the limits of this process."""
    global _reports
    _reports = descriptor


def set_expendable() -> None:
    """From now on another process keeps the limits of this one, and kills it."""
    global _expendable
    _expendable = True


def is_killable() -> bool:
    """Whether another process kills this one when it exceeds a limit."""
    return _expendable or _reports is not None


@dataclass(frozen=True)
class Section:
    """Work that has limits; what is done to one model has one limit of time, until it is read again."""

    what: str
    """Is done, for messages: "reading", "asking CPU about"."""
    model: str
    """Path of the model; "" for work that has a limit of time of its own."""
    seconds: float
    memory: int
    """Bytes that it may add."""

    @property
    def title(self) -> str:
        """Names the work and the model, for messages."""
        return f"{self.what} {self.model}"

    def exceeded(self, limit: str) -> Exception:
        """The error of work that exceeded its limit of "seconds" or "memory"."""
        if limit == "seconds":
            return limits.out_of_time(self.title, self.seconds)
        return limits.out_of_memory(self.title, self.memory)

    def crashed(self, status: int) -> Exception:
        """The error of a process that ended by itself; ``status`` as ``subprocess`` gives it."""
        cause = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        return EditorError(
            f"{self.title}: the process that did it crashed ({cause}); the file is damaged, or a library has a fault"
        )


def section_of(what: str, path: Path) -> Section:
    """Returns the section of work on the model at a path, with the limits that hold now."""
    now = limits.current()
    return Section(what, str(path), now.seconds, now.bytes_for((file_state(path) or (0, 0))[1]))


@contextlib.contextmanager
def reported(section: Section) -> Iterator[None]:
    """Tells the supervisor of this process, where it has one, what begins and ends."""
    global _inside
    if _reports is None or _inside:
        yield
        return
    _inside = True
    os.write(_reports, json.dumps(asdict(section)).encode() + b"\n")
    try:
        yield
    except MemoryError:
        raise limits.out_of_memory(section.title, section.memory) from None
    finally:
        _inside = False
        os.write(_reports, b"{}\n")


class Watch:
    """Time and memory of a process since a section began."""

    def __init__(self, pid: int, section: Section) -> None:
        """Begins; of a process on another machine, whose ``pid`` is 0, only the time is known."""
        self.pid, self.section = pid, section
        fresh = section.what == READING or not section.model
        self.used = 0.0 if fresh else _used.get(section.model, 0.0)
        self._before, self._last = operating_system.memory_of(pid), time.monotonic()

    def error(self) -> Exception | None:
        """The error when a limit is exceeded; call it every ``POLL_SECONDS``, and once at the end."""
        now, section = time.monotonic(), self.section
        # A longer gap: this process was stopped, and the other with it.
        self.used += min(now - self._last, 1.0)
        _used[section.model], self._last = self.used, now
        if self.used > section.seconds:
            return section.exceeded("seconds")
        if operating_system.memory_of(self.pid) - self._before > section.memory:
            return section.exceeded("memory")
        return None


_GRACE_SECONDS = 1.0
"""Between Ctrl+C and the end of a child that is in native code, where it does not notice."""
_NOTICED = b"null"
"""What the child writes in place of a section when it has noticed Ctrl+C, and ends by itself."""


def fork() -> int | None:
    """Divides this process in two. In the child it returns None, to go on; in the parent the child's exit status.

    Where a process cannot be divided safely, it returns None, too: then workers read the models of this process, and are
    watched. Call it while the process is small and has one thread.
    """
    reader, writer = os.pipe()
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    child = operating_system.fork()
    if child is None:
        os.close(reader)
        os.close(writer)
        return None
    if child == 0:
        os.close(reader)
        operating_system.end_with(parent)
        report_to(writer)
        signal.signal(signal.SIGINT, partial(_notice, writer))
        return None
    os.close(writer)
    status = _Supervisor(child, reader).status()
    # One more press would end Python with its own status.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return status


def _notice(writer: int, *_: Any) -> None:
    """Ctrl+C in the child: native code lets Python come to this only when it returns."""
    with contextlib.suppress(OSError):  # the parent is gone
        os.write(writer, _NOTICED + b"\n")
    raise KeyboardInterrupt


class _Supervisor:
    def __init__(self, child: int, reader: int) -> None:
        self.child, self.reader = child, reader
        self.watch: Watch | None = None
        self.text = b""
        self.presses = 0
        """Number of times that Ctrl+C came."""
        self.noticed = False
        """Whether Ctrl+C has come to the child, which then ends by itself."""
        self.deadline = math.inf
        """When it is killed, because it has not noticed."""

    def status(self) -> int:
        """Waits for the child; its exit status, or 1 when it was killed for a limit, after a message."""
        woken, wakes = socket.socketpair()
        wakes.setblocking(False)
        signal.set_wakeup_fd(wakes.fileno())  # a signal alone does not end ``select``
        signal.signal(signal.SIGINT, self._interrupt)
        ended = operating_system.end_of(self.child)
        while True:
            waiting = POLL_SECONDS if self.watch is not None or self.deadline < math.inf else None
            ready, _, _ = select.select(
                [woken.fileno(), ended] + [self.reader] * (self.reader >= 0), [], [], waiting
            )
            if woken.fileno() in ready:
                woken.recv(1 << 10)
            if self.reader in ready:
                self._read()
            if ended in ready:
                return self._after(os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1]))
            if (error := self.watch.error() if self.watch is not None else None) is not None:
                return self._kill(f"error: {error}", 1)
            if self.presses > 1 or time.monotonic() > self.deadline:
                return self._kill("interrupted", 130)

    def _interrupt(self, *_: Any) -> None:
        self.presses += 1
        if not self.noticed:
            self.deadline = time.monotonic() + _GRACE_SECONDS

    def _read(self) -> None:
        block = os.read(self.reader, 1 << 16)
        if not block:
            os.close(self.reader)
            self.reader = -1
            return
        *lines, self.text = (self.text + block).split(b"\n")
        for line in lines:
            if line == _NOTICED:
                self.noticed, self.deadline = True, math.inf
                continue
            if self.watch is not None:
                self.watch.error()  # counts the time since the last look
            section = json.loads(line)
            self.watch = Watch(self.child, Section(**section)) if section else None

    def _after(self, status: int) -> int:
        if status >= 0:
            return status
        if self.watch is not None:
            print(f"error: {self.watch.section.crashed(status)}", file=sys.stderr)
            return 1
        return 128 - status

    def _kill(self, message: str, status: int) -> int:
        operating_system.kill(self.child)
        os.waitpid(self.child, 0)
        print(message, file=sys.stderr)
        return status
