"""Calls functions that may crash or hang in a process of their own, so that this one learns why and goes on.

What reads a model is stopped by ``killable``, and its end is an error of the model. Here the end of the process is an
answer: a driver or a runtime that crashes while it is tried is one that cannot be used.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from editor import limits
from editor.killable import ChildProcess

T = TypeVar("T")


class ProcessEndedError(Exception):
    """The process ended before it answered; the message is a phrase: "crashed when it was tried (signal 11)"."""


class IsolatedProcess:
    """A process that calls functions, and that is started again after it ended."""

    def __init__(self, memory: int) -> None:
        """Starts nothing yet; ``memory`` is how many bytes a call may add."""
        self.memory = memory
        self._process: ChildProcess | None = None

    def call(self, seconds: float, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a function of a module; it and its arguments are pickled.

        Args:
            seconds: that it may take, with the start of the process where it has not been started.
            function: what to call.
            arguments: of the function.

        Raises:
            ProcessEndedError: it crashed, took too long or needed too much memory.
            Exception: as the function does.
        """
        if self._process is None or not self._process.usable:
            self._process = ChildProcess(silent=True)
        process = self._process

        def watch() -> Callable[[], Exception | None]:
            end = time.monotonic() + seconds
            before = limits.memory_of(process.pid)
            return lambda: self._verdict(process.pid, end, seconds, before)

        result: T = process.request(function, arguments, seconds, watch, _died)
        return result

    def _verdict(
        self, pid: int, end: float, seconds: float, before: int
    ) -> ProcessEndedError | None:
        if time.monotonic() > end:
            return ProcessEndedError(f"gave no answer within {seconds:.2g} s when it was tried")
        if limits.memory_of(pid) - before > self.memory:
            return ProcessEndedError(
                f"needed more than {self.memory / (1 << 30):.3g} GiB of memory when it was tried"
            )
        return None

    def close(self) -> None:
        """Ends the process, where there is one."""
        if self._process is not None and self._process.usable:
            self._process.kill()
        self._process = None


def _died(status: int) -> ProcessEndedError:
    return ProcessEndedError(
        f"crashed when it was tried ({f'signal {-status}' if status < 0 else f'status {status}'})"
    )
