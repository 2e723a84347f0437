"""Limits of time and memory of what is done to a model, and the one loop that keeps them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

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
        """What is done to which model, for messages."""
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
    """What is done to the model at a path, with the limits that hold now."""
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
