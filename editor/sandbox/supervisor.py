"""Keeps the limits of the command line: a parent process that watches the child that works. See ``editor.sandbox``."""

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
from functools import partial
from typing import Any

from editor import operating_system
from editor.sandbox.watch import POLL_SECONDS, Section, Watch, report_to

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
    return _Supervisor(child, reader).status()


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
        """Of Ctrl+C."""
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
