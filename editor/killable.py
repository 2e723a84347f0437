"""Runs what reads, folds or probes a model where it can be killed, whatever native code it is in.

onnx, ONNX Runtime and OpenVINO loop over sizes that a file states, hold the interpreter's lock for as long, and cannot be
interrupted. So somebody else looks at time and memory, and kills the process:

- On the command line the process forks before anything large is imported (``supervisor``): the child works, the parent
  watches. That takes a few ms; an interpreter of its own would take half a second.
- In the page, models are read by the worker of jobs, which the server kills (``execution.jobs``).
- In Python, the process belongs to somebody else. A helper process does the work and is kept for the next model; plain
  models (``graph.plain_models``), whose cost their size bounds, do not need it. It is a fresh interpreter, not a fork: the
  runtimes have threads, and a fork would copy the locks that these hold.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from editor import limits, terminal
from editor.errors import EditorError, LimitError
from editor.files import file_state
from editor.startup import python_command

if TYPE_CHECKING:  # importing it would delay the start
    from multiprocessing.connection import Connection

POLL_SECONDS = 0.05
READING = "reading"
"""What begins the time of a model anew."""
T = TypeVar("T")

_reports: int | None = None
"""File descriptor of the pipe to the supervisor of this process."""
_expendable = False
_inside = False
"""A section has been reported, and its end not yet; one in it is part of it."""


def report_to(descriptor: int) -> None:
    """From now on a supervisor, which reads from this pipe, keeps the limits of this process."""
    global _reports
    _reports = descriptor


def set_expendable() -> None:
    """From now on somebody else keeps the limits of this process, and kills it."""
    global _expendable
    _expendable = True


def is_killable() -> bool:
    """Whether somebody may kill this process when it exceeds a limit."""
    return _expendable or _reports is not None


def run_limited(
    what: str, path: Path, harmless: bool, function: Callable[..., T], *arguments: Any
) -> T:
    """Calls a function of a module under the limits of time and memory: here where this process may be killed, else in the
    helper process.

    Args:
        what: is done, for the message: "reading", "asking CPU about".
        path: of the model. What is done to one model has one limit of time, until it is read again.
        harmless: it can run in any process, because the counts that were checked bound what it needs.
        function: what to call; it and its arguments are pickled.
        arguments: of the function.

    Raises:
        LimitError: it needed too much time or memory.
        EditorError: as the function does, or because its process crashed.
    """
    if harmless and not is_killable():
        return function(*arguments)
    section = section_of(what, path)
    if is_killable():
        with _reported(section):
            return function(*arguments)
    result: T = _helper().call(section, function, arguments)
    return result


@dataclass(frozen=True)
class Section:
    """Work that has limits."""

    what: str
    model: str
    """Path of the model."""
    seconds: float
    memory: int
    """Bytes that it may add."""


def section_of(what: str, path: Path) -> Section:
    """What is done to the model at a path, with the limits that hold now."""
    now = limits.current()
    return Section(what, str(path), now.seconds, now.bytes_for((file_state(path) or (0, 0))[1]))


@contextlib.contextmanager
def _reported(section: Section) -> Iterator[None]:
    """Tells the supervisor what begins and ends."""
    global _inside
    if _reports is None or _inside:
        yield
        return
    _inside = True
    os.write(_reports, json.dumps(asdict(section)).encode() + b"\n")
    try:
        yield
    except MemoryError:
        raise limits.out_of_memory(f"{section.what} {section.model}", section.memory) from None
    finally:
        _inside = False
        os.write(_reports, b"{}\n")


class Watch:
    """Time and memory of a process since a section began."""

    def __init__(self, pid: int, section: Section, used: float = 0.0) -> None:
        """Begins; ``used`` are seconds that were taken by earlier sections of the model."""
        self.pid, self.section, self.used = pid, section, 0.0 if section.what == READING else used
        self._before, self._last = limits.memory_of(pid), time.monotonic()

    @property
    def title(self) -> str:
        """What is done, for messages."""
        return f"{self.section.what} {self.section.model}"

    def verdict(self) -> LimitError | None:
        """The error when a limit is exceeded; call it every ``POLL_SECONDS``."""
        now = time.monotonic()
        self.used += min(
            now - self._last, 1.0
        )  # a longer gap: this process was stopped, and the other with it
        self._last = now
        if self.used > self.section.seconds:
            return limits.out_of_time(self.title, self.section.seconds)
        if limits.memory_of(self.pid) - self._before > self.section.memory:
            return limits.out_of_memory(self.title, self.section.memory)
        return None


def crashed(what: str, status: int) -> EditorError:
    """The error of a process that ended by itself; ``status`` as ``subprocess`` gives it."""
    cause = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
    return EditorError(
        f"{what}: the process that did it crashed ({cause}); the file is damaged, or a library has a fault"
    )


class ChildProcess:
    """A fresh interpreter that calls functions for this one, one at a time, until it is killed."""

    def __init__(self, silent: bool = False) -> None:
        """Starts it; a ``silent`` one loses what native code writes to its standard error."""
        from multiprocessing.connection import Pipe

        self.owner, self._lock = os.getpid(), threading.Lock()
        self._pipe, other = Pipe()
        root = str(Path(__file__).resolve().parents[1])
        code = f"import sys; sys.path.insert(0, {root!r}); from editor.killable import serve; serve({other.fileno()})"
        # Python's own output would go between the lines of the host's.
        self._process = subprocess.Popen(
            python_command(code),
            pass_fds=[other.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if silent else None,
        )
        other.close()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Whether it is alive, and this process started it (and not one that this is a fork of)."""
        return self.owner == os.getpid() and self._process.poll() is None

    def kill(self) -> int:
        """Ends it at once; its exit status as ``subprocess`` gives it."""
        self._process.kill()
        return self._process.wait()

    def request(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        seconds: float,
        watch: Callable[[], Callable[[], Exception | None]],
        died: Callable[[int], Exception],
    ) -> Any:
        """The function's result; kills the process when a limit is exceeded, and when this call is interrupted.

        Args:
            function: of a module; it and its arguments are pickled.
            arguments: of the function.
            seconds: that it may take; the kernel ends a process whose owner died after twice as many of the processor.
            watch: called when the work begins; returns a function that is called every ``POLL_SECONDS`` and returns the error
                that ends the work.
            died: makes the error of a process that ended by itself, from its exit status.
        """
        request = pickle.dumps((str(Path.cwd()), dict(os.environ), seconds, function, arguments))
        with self._lock:
            try:
                self._pipe.send_bytes(request)
                verdict = watch()
                while not self._pipe.poll(POLL_SECONDS):
                    if (error := verdict()) is not None:
                        raise error
                ok, value = pickle.loads(self._pipe.recv_bytes())  # nosec B301  # of a process of our own
            except (EOFError, OSError):
                raise died(self._process.wait()) from None
            except BaseException:
                self.kill()
                raise
        if not ok:
            raise value
        return value


class _Helper(ChildProcess):
    """The process that reads and asks for this one, within the limits of each model."""

    def __init__(self) -> None:
        super().__init__()
        self._used: dict[str, float] = {}
        """Seconds that were taken for each model."""

    def call(
        self, section: Section, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> Any:
        """The function's result; kills the process when it exceeds a limit of the section."""
        watches: list[Watch] = []

        def watch() -> Callable[[], Exception | None]:
            watches.append(Watch(self.pid, section, self._used.get(section.model, 0.0)))
            return watches[0].verdict

        try:
            return self.request(
                function,
                arguments,
                section.seconds,
                watch,
                lambda status: crashed(f"{section.what} {section.model}", status),
            )
        finally:
            if watches:
                self._used[section.model] = watches[0].used


_current: _Helper | None = None
_starting = threading.Lock()


def _helper() -> _Helper:
    global _current
    with _starting:
        if _current is None or not _current.usable:
            _current = _Helper()
        return _current


def serve(descriptor: int) -> None:
    """Main function of the helper process: answers requests until its owner is gone."""
    from multiprocessing.connection import Connection

    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl+C is for the owner, who kills this process where necessary
    set_expendable()
    terminal.protect()
    pipe: Connection[Any, Any] = Connection(descriptor)
    with contextlib.suppress(EOFError, OSError):
        while True:
            folder, environment, seconds, function, arguments = pickle.loads(pipe.recv_bytes())  # nosec B301  # of the process that started this one
            os.environ.clear()
            os.environ.update(environment)
            _limit_processor(seconds)
            pipe.send_bytes(_answer(folder, function, arguments))


def _answer(folder: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    try:
        os.chdir(folder)  # relative paths are those of the owner
        return pickle.dumps((True, function(*arguments)))
    except MemoryError:
        return pickle.dumps((False, EditorError("not enough memory")))
    except Exception as error:  # noqa: BLE001  # it is the owner's to handle
        try:
            pickle.loads(pickle.dumps(error))  # nosec B301  # of this process
        except Exception:  # noqa: BLE001  # an exception that cannot be pickled
            error = EditorError(f"{type(error).__name__}: {error}")
        return pickle.dumps((False, error))


def _limit_processor(seconds: float) -> None:
    """Lets the kernel end this process when its owner died while it was in native code."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    allowed = used.ru_utime + used.ru_stime + 2 * seconds * (os.cpu_count() or 1) + 10
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(
        resource.RLIMIT_CPU, (int(allowed) if hard < 0 else min(int(allowed), hard), hard)
    )
