"""Signals while processes start: none finds a process half started, where Python would print a traceback."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker

ENDING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


_noted: list[int] = []


@contextmanager
def signals_wait(numbers: Sequence[int] = ENDING) -> Iterator[None]:
    """Delays signals to this thread, and to the threads and processes that start in the block until they call ``receive``."""
    resource_tracker.ensure_running()  # the first process would start it, and that ends a delay
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def note_ending() -> None:
    """From now on a signal that ends programs is noted only: an exception in the middle of an import can block the next one."""
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            signal.signal(number, lambda noted, _frame: _noted.append(noted))


def must_end() -> bool:
    """Whether such a signal came."""
    return bool(_noted)


def receive() -> None:
    """Ends the delay in a process that was started; Ctrl+C, which reaches every process of the terminal, is its parent's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
