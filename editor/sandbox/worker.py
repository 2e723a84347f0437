"""A process that calls functions for this one, one at a time, is kept for the next call, and is killed at a limit."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any, TypeVar

from editor import operating_system, terminal
from editor.errors import EditorError, JobError
from editor.sandbox.watch import (
    POLL_SECONDS,
    Section,
    Watch,
    is_killable,
    reported,
    section_of,
    set_expendable,
)
from editor.startup import python_command

T = TypeVar("T")
Event = dict[str, Any]
ENDING = operating_system.ENDING_SIGNALS
_noted: list[int] = []
_PREFIX = "hetero-worker-"
_LOCKED = b"locked"
"""Content of a lock file once it is locked; an empty one is about to be."""
_STOP = b"stop"
_STARTED, _EVENT, _RESULT, _ERROR = range(4)
"""Kinds of messages of a worker."""


def run(
    function: Callable[..., T], *arguments: Any, what: str, path: Path, harmless: bool = False
) -> T:
    """Calls a function of a module under the limits of time and memory: here where this process may be killed, else in a
    worker.

    Args:
        function: what to call; it and its arguments are pickled.
        arguments: of the function.
        what: is done, for the message: "reading", "asking CPU about".
        path: of the model. What is done to one model has one limit of time, until it is read again.
        harmless: it can run in any process, because the counts that were checked bound what it needs.

    Raises:
        LimitError: it needed too much time or memory.
        EditorError: as the function does, or because its process crashed.
    """
    if is_killable():
        with reported(section_of(what, path)):
            return function(*arguments)
    if harmless:
        return function(*arguments)
    section = section_of(what, path)
    try:
        result: T = _own_worker().call(function, *arguments, section=section)
        return result
    except WorkerEndedError as error:
        raise section.crashed(error.status) from None


class WorkerEndedError(Exception):
    """A worker ended by itself; ``status`` as ``subprocess`` gives it."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Worker:
    """A fresh interpreter that ends with this process, and leaves no files behind."""

    def __init__(self, silent: bool = False) -> None:
        """Starts it; a ``silent`` one loses what native code writes to its standard error."""
        self.owner, self._lock = os.getpid(), threading.Lock()
        self._sending = threading.Lock()
        folder, lock = _made_folder()
        self._pipe, other = Pipe()
        root, here = str(Path(__file__).resolve().parents[2]), Path.cwd()
        others = [folder for folder in sys.path if folder and Path(folder).resolve() != here]
        number, options = operating_system.inherited(other)
        code = (
            f"import sys; sys.path[:] = [{root!r}, *sys.path, *{others!r}]; from editor.sandbox.worker import serve; "
            f"serve({number}, {self.owner}, {str(folder)!r})"
        )
        # Python's own output would go between the lines of the host's.
        self._process = _start(
            python_command(code),
            **options,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if silent else None,
        )
        other.close()
        self._end = weakref.finalize(self, _end, self.owner, self._process, folder, lock)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Whether it is alive, and this process started it (and not one that this is a fork of)."""
        return self.owner == os.getpid() and self._process.poll() is None

    def kill(self) -> int:
        """Ends it at once; its exit status as ``subprocess`` gives it."""
        self._end()
        return self._process.wait()

    def stop(self) -> None:
        """Asks the function that is being called to end; one that has a ``Channel`` can look."""
        with contextlib.suppress(OSError), self._sending:  # it has ended
            self._pipe.send_bytes(_STOP)

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        section: Section | None = None,
        progress: Callable[[Event], None] | None = None,
    ) -> Any:
        """The function's result; kills the process when a limit is exceeded, and when this call is interrupted.

        Args:
            function: of a module; it and its arguments are pickled.
            arguments: of the function.
            section: its limits, from the moment when the process has imported the function.
            progress: gets the events of the function, which is then given a ``Channel`` first.

        Raises:
            WorkerEndedError: the process ended by itself.
            Exception: as the function or the section does.
        """
        request = pickle.dumps(
            (
                str(Path.cwd()),
                dict(os.environ),
                pickle.dumps((progress is not None, function, arguments)),
            )
        )
        with self._lock:
            try:
                with self._sending:
                    self._pipe.send_bytes(request)
                watch, kind, value = None, _STARTED, None
                while kind not in (_RESULT, _ERROR):
                    kind, value = self._receive(watch)
                    if kind == _STARTED and section is not None:
                        watch = Watch(value, section)
                    elif kind == _EVENT and progress is not None:
                        progress(value)
            except (EOFError, OSError):
                raise WorkerEndedError(self.kill()) from None
            except BaseException:
                self.kill()
                raise
        if isinstance(value, Exception) and kind == _ERROR:
            raise value
        return value

    def _receive(self, watch: Watch | None) -> tuple[int, Any]:
        if watch is not None:
            while not self._pipe.poll(POLL_SECONDS):
                if (error := watch.error()) is not None:
                    raise error
            watch.error()  # counts the time since the last look
        message: tuple[int, Any] = pickle.loads(self._pipe.recv_bytes())  # nosec B301  # of a process of our own
        return message


_current: Worker | None = None
_making = threading.Lock()


def _own_worker() -> Worker:
    """The worker that reads and probes models for this process."""
    global _current
    with _making:
        if _current is None or not _current.usable:
            _current = Worker()
        return _current


class ProcessEndedError(Exception):
    """A process ended before it answered; the message is a phrase: "crashed when it was tried (signal 11)"."""


@dataclass(frozen=True)
class _Trial(Section):
    """Work whose failure is an answer: a driver that crashes while it is tried is one that cannot be used."""

    def exceeded(self, limit: str) -> Exception:
        """The answer of a trial that exceeded a limit."""
        if limit == "seconds":
            return ProcessEndedError(
                f"gave no answer within {self.seconds:.2g} s when it was tried"
            )
        return ProcessEndedError(
            f"needed more than {self.memory / (1 << 30):.3g} GiB of memory when it was tried"
        )

    def crashed(self, status: int) -> Exception:
        """The answer of a trial whose process ended."""
        cause = f"signal {-status}" if status < 0 else f"status {status}"
        return ProcessEndedError(f"crashed when it was tried ({cause})")


class IsolatedProcess:
    """Calls functions that try a driver or a runtime, in a worker that is started again after it ended."""

    def __init__(self, memory: int) -> None:
        """Starts nothing yet; ``memory`` is how many bytes a call may add."""
        self.memory = memory
        self._worker: Worker | None = None

    def call(self, seconds: float, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a function of a module that may take so many seconds.

        Raises:
            ProcessEndedError: it crashed, took too long or needed too much memory.
            Exception: as the function does.
        """
        if self._worker is None or not self._worker.usable:
            self._worker = Worker(silent=True)
        trial = _Trial("trying", "", seconds, self.memory)
        try:
            result: T = self._worker.call(function, *arguments, section=trial)
            return result
        except WorkerEndedError as error:
            raise trial.crashed(error.status) from None

    def close(self) -> None:
        """Ends the process, where there is one."""
        if self._worker is not None and self._worker.usable:
            self._worker.kill()
        self._worker = None


@dataclass(frozen=True)
class Channel:
    """The way by which a function in a worker reports, and learns that it is to end."""

    emit: Callable[[Event], None]
    stopped: Callable[[], bool]

    def step(self, text: str, done: int = 0, total: int = 0) -> None:
        """Reports what is done now, and how many steps of it are behind.

        Raises:
            JobError: the function is to end.
        """
        if self.stopped():
            raise JobError("cancelled")
        self.emit({"kind": "phase", "text": text, "done": done, "total": total})


def serve(number: int, owner: int, folder: str) -> None:
    """Main function of a worker: answers calls until its owner is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the owner
    operating_system.hold_signals(False)
    operating_system.end_with(owner)
    set_expendable()
    terminal.protect()
    pipe = operating_system.pipe_of(number)
    calls: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    stop, sending = threading.Event(), threading.Lock()

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                message = pipe.recv_bytes()
                if message == _STOP:
                    stop.set()
                else:
                    stop.clear()
                    calls.put(message)
        os._exit(0)  # the owner is gone

    def send(kind: int, value: Any = None) -> None:
        message = pickle.dumps((kind, value))
        with sending:
            pipe.send_bytes(message)

    channel = Channel(lambda event: send(_EVENT, event), stop.is_set)
    threading.Thread(target=listen, daemon=True).start()
    while True:
        home, environment, call = pickle.loads(calls.get())  # nosec B301  # of the process that started this one
        os.environ.clear()
        os.environ.update(environment, TMPDIR=folder)
        try:
            os.chdir(home)  # relative paths are those of the owner
            with_channel, function, arguments = pickle.loads(call)  # nosec B301  # of the same
            send(_STARTED, os.getpid())  # on Windows, ``Popen`` knows the launcher of a venv
            send(_RESULT, function(*((channel,) if with_channel else ()), *arguments))
        except MemoryError:
            send(_ERROR, EditorError("not enough memory"))
        except Exception as error:  # noqa: BLE001  # it is the owner's to handle
            send(_ERROR, _sendable(error))
        call = function = arguments = None
        gc.collect()  # compiled models are in circles of references; their memory and threads would pile up


def _sendable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))  # nosec B301  # of this process
    except Exception:  # noqa: BLE001  # an exception that cannot be pickled
        return EditorError(f"{type(error).__name__}: {error}")
    return error


class _Starter(threading.Thread):
    """Starts processes: the kernel ends them with the thread that did, so that this one lasts as long as its process.

    Signals that end programs wait in it, and in the processes until they can do without a traceback.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.owner = os.getpid()
        self._orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        """Starts what is ordered."""
        operating_system.hold_signals(True)
        while True:
            command, options, process = self._orders.get()
            try:
                process.set_result(subprocess.Popen(command, **options))
            except OSError as error:
                process.set_exception(error)

    def process(self, command: list[str], options: Any) -> subprocess.Popen[bytes]:
        """The process of a command."""
        started: Future[subprocess.Popen[bytes]] = Future()
        self._orders.put((command, options, started))
        return started.result()


_starter: _Starter | None = None
_choosing = threading.Lock()


def _start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    global _starter
    with _choosing:
        if _starter is None or _starter.owner != os.getpid():
            _starter = _Starter()
    return _starter.process(command, options)


def _made_folder() -> tuple[Path, int]:
    """A folder for temporary files and its lock, which this process holds until it ends; removes those without a holder."""
    path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = os.open(path / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    operating_system.try_lock(lock)
    os.write(lock, _LOCKED)
    for other in path.parent.glob(f"{_PREFIX}*/lock"):
        _remove_if_abandoned(other)
    return path, lock


def _end(owner: int, process: subprocess.Popen[bytes], folder: Path, lock: int) -> None:
    """Ends a worker, and removes its folder."""
    if os.getpid() == owner:
        process.kill()
        process.wait()
        os.close(lock)  # Windows does not remove open files
        shutil.rmtree(folder, ignore_errors=True)


def _remove_if_abandoned(lock: Path) -> None:
    """Removes the folder of a lock that no process holds."""
    try:
        if not operating_system.is_own(lock.parent) or not lock.lstat().st_size:  # not locked yet
            return
        descriptor = os.open(lock, os.O_RDWR | operating_system.NO_FOLLOW)
    except OSError:
        return
    abandoned = operating_system.try_lock(descriptor)
    os.close(descriptor)
    if abandoned:
        shutil.rmtree(lock.parent, ignore_errors=True)


def note_ending() -> None:
    """From now on a signal that ends programs is noted only: an exception in the middle of an import can block the next one."""
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            signal.signal(number, lambda noted, _frame: _noted.append(noted))


def must_end() -> bool:
    """Whether such a signal came."""
    return bool(_noted)
