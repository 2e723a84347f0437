"""Keeps the limits of the command line: a parent process that watches the child that works. See ``killable``."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import time
from typing import Any

from editor.killable import POLL_SECONDS, Section, Watch, crashed, report_to

_GRACE_SECONDS = 1.0
"""Between Ctrl+C and the end of a child that is in native code, where it does not notice."""
_PR_SET_PDEATHSIG = 1


def fork() -> int | None:
    """Divides this process in two. In the child it returns None, to go on; in the parent the child's exit status.

    Call it while the process is small and has one thread.
    """
    reader, writer = os.pipe()
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _end_with(parent)
        report_to(writer)
        return None
    os.close(writer)
    return _Supervisor(child, reader).status()


def _end_with(parent: int) -> None:
    """Lets the kernel kill this process with its parent, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(1)


class _Supervisor:
    def __init__(self, child: int, reader: int) -> None:
        self.child, self.reader = child, reader
        self.watch: Watch | None = None
        self.used: dict[str, float] = {}
        """Seconds that were taken for each model."""
        self.text = b""
        self.interrupted = 0.0
        """When Ctrl+C was pressed; 0 if it was not."""

    def status(self) -> int:
        """Waits for the child; its exit status, or 1 when it was killed for a limit, after a message."""
        signal.signal(signal.SIGINT, self._interrupt)
        ended = os.pidfd_open(self.child)
        while True:
            waiting = POLL_SECONDS if self.watch is not None else None
            ready, _, _ = select.select([self.reader, ended] if self.reader >= 0 else [ended], [], [], waiting)
            if self.reader in ready:
                self._read()
            if ended in ready:
                return self._after(os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1]))
            if (error := self.watch.verdict() if self.watch is not None else None) is not None:
                return self._kill(f"error: {error}", 1)
            if self.watch is not None and self.interrupted and time.monotonic() > self.interrupted + _GRACE_SECONDS:
                return self._kill("interrupted", 130)

    def _interrupt(self, *_: Any) -> None:
        self.interrupted = self.interrupted or time.monotonic()

    def _read(self) -> None:
        block = os.read(self.reader, 1 << 16)
        if not block:
            os.close(self.reader)
            self.reader = -1
            return
        *lines, self.text = (self.text + block).split(b"\n")
        for line in lines:
            if self.watch is not None:
                self.used[self.watch.section.model] = self.watch.used
            section = json.loads(line)
            self.watch = None if not section else Watch(self.child, Section(**section), self.used.get(section["model"], 0.0))

    def _after(self, status: int) -> int:
        if status >= 0:
            return status
        if self.watch is not None:
            print(f"error: {crashed(self.watch.title, status)}", file=sys.stderr)
            return 1
        return 128 - status

    def _kill(self, message: str, status: int) -> int:
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)
        print(message, file=sys.stderr)
        return status
