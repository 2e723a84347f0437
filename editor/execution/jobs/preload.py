"""Reads the model of the command line in a process of its own, while the server itself still starts.

A Dask worker is ready a second and a half later than a bare process. What it cannot answer (it died, or ran out
of memory) is asked again as a job, whose worker is watched and whose end is explained.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import queue
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from editor.errors import EditorError, JobError

if TYPE_CHECKING:  # whoever starts it does not wait for these
    from editor.devices.discovery import AvailableDevice
    from editor.devices.table import Spec
    from editor.graph.graph import Graph
    from editor.runtimes.base import Capability

MEMORY_SHARE = 0.8
"""Of the machine, as for a worker."""


class HeadStart:
    """A model being read, and the runtimes being asked about it."""

    def __init__(self, model: str, define: Mapping[str, int], devices: Spec) -> None:
        """Starts at once.

        Args:
            model: absolute path of the file.
            define: sizes of symbolic dimensions.
            devices: the table whose devices are asked.
        """
        self._question = (model, dict(define))
        self._state = _state(model)
        self._answers: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._cancelled = False
        context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks as they stand
        self._heard: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        """What it sent, and None when it has ended."""
        mine, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_read, args=(theirs, *self._question, devices), daemon=True)
        self._process.start()
        theirs.close()  # so that its death is the end of the pipe
        threading.Thread(target=self._listen, args=(mine,), daemon=True).start()  # a full pipe would make it wait

    def machine(self, seconds: float) -> Sequence[AvailableDevice]:
        """Runtimes and devices that are here; nothing when the process died."""
        with contextlib.suppress(EditorError):  # said by whoever asks for the graph
            return self._answer("machine", seconds) or ()
        return ()

    def graph(self, model: str, define: Mapping[str, int], seconds: float) -> Graph | None:
        """The model; None when it is another one, the file has changed since, or the process died.

        Raises:
            EditorError: what reading raised, or ``JobError`` when it was cancelled or took too long.
        """
        if (model, dict(define)) != self._question or _state(model) != self._state:
            return None
        graph: Graph | None = self._answer("graph", seconds)
        return graph

    def capabilities(self, graph: Graph, entries: Sequence[Mapping[str, Any]], seconds: float) -> list[Capability] | None:
        """What each device of a table can run; None as for ``graph``, or when the table is another one.

        Raises:
            EditorError: as for ``graph``.
        """
        if self.graph(str(graph.path), graph.define, seconds) is None:
            return None
        asked, answers = self._answer("capabilities", seconds) or (None, None)
        return answers if asked == list(entries) else None

    def _answer(self, kind: str, seconds: float) -> Any:
        end = time.monotonic() + seconds
        with self._lock:
            while kind not in self._answers and "error" not in self._answers:
                try:
                    sent = self._heard.get(timeout=max(end - time.monotonic(), 0))
                except queue.Empty:
                    self._process.kill()
                    raise JobError(f"gave up after {seconds:.0f} s (last step: "
                                   f"{'asking the devices' if 'graph' in self._answers else 'reading the model'})") from None
                if sent is None:
                    self._heard.put(None)  # for whoever asks next
                    if self._cancelled:
                        raise JobError("cancelled")
                    return None
                name, value = pickle.loads(sent)
                self._answers[name] = value
            if kind not in self._answers:
                raise self._answers["error"]
            return self._answers[kind]

    def _listen(self, pipe: Connection) -> None:
        try:
            while True:
                self._heard.put(pipe.recv_bytes())
        except (EOFError, OSError):
            self._heard.put(None)

    def cancel(self) -> None:
        """Ends the process; whoever waits for it gets a ``JobError``."""
        self._cancelled = True
        self._process.kill()


def _state(model: str) -> tuple[int, int] | None:
    try:
        stat = Path(model).stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def _read(pipe: Connection, model: str, define: Mapping[str, int], spec: Spec) -> None:
    """Runs in the process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is the server's
    _limit_memory()
    from editor.devices.discovery import available_devices
    from editor.graph.loading import load_model

    pipe.send(("machine", available_devices()))
    try:
        graph = load_model(model, define)
        pipe.send(("graph", graph))
        if graph.unbound:
            return
        from editor.devices.table import load_devices
        from editor.runtimes.registry import capability

        devices = load_devices(spec)
        answers = [capability(graph, device) for device in devices]
        pipe.send(("capabilities", ([dict(d.entry) for d in devices], answers)))
    except EditorError as error:
        pipe.send(("error", error))


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError, AttributeError):  # not on every system
        import os
        import resource

        most = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * MEMORY_SHARE)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
