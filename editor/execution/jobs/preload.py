"""Reads the model named on the command line in a separate process while the server starts.

A Dask worker starts 1.5 s later than a bare process. When the process fails (crash, out of memory), the caller
repeats the work as a job, which reports the cause.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from editor.errors import EditorError, JobError
from editor.execution.jobs.signals import receive, signals_wait
from editor.files import file_state
from editor.killable import POLL_SECONDS, Section, Watch, section_of, set_expendable

if TYPE_CHECKING:  # importing them would delay the start
    from editor.devices.discovery import AvailableDevice, UnusableRuntime
    from editor.devices.table import Spec
    from editor.graph.graph import Graph
    from editor.runtimes.base import Capability


class ModelPreloader:
    """Loads a model and queries the capabilities of devices in a separate process."""

    def __init__(
        self, model: str, define: Mapping[str, int], devices: Spec, assume_sizes: bool = False
    ) -> None:
        """Starts the process.

        Args:
            model: absolute path of the file.
            define: sizes of symbolic dimensions.
            devices: the device table whose capabilities are queried.
            assume_sizes: whether dimensions without a size get a proposed one.
        """
        self._request = (model, dict(define))
        self._file_state = file_state(model)
        self._answers: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._cancelled = False
        context = multiprocessing.get_context(
            "spawn"
        )  # a fork would copy locks that other threads hold
        self._messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        """Pickled messages of the process; None after its end."""
        receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_read, args=(sender, *self._request, devices, assume_sizes), daemon=True
        )
        with signals_wait():
            self._process.start()
        sender.close()  # then the pipe ends with the process
        # A full pipe would block the process.
        threading.Thread(
            target=self._listen, args=(receiver, section_of("opening", Path(model))), daemon=True
        ).start()

    def machine(
        self, seconds: float
    ) -> tuple[Sequence[AvailableDevice], Sequence[UnusableRuntime]]:
        """Devices of this machine, and what is installed but cannot be used; both empty when the process died."""
        with contextlib.suppress(EditorError):  # `graph` raises the error
            return self._answer("machine", seconds) or ((), ())
        return (), ()

    def graph(self, model: str, define: Mapping[str, int], seconds: float) -> Graph | None:
        """The graph of the preloaded model; None for another model, a changed file, or after a crash.

        Raises:
            EditorError: the error of the loader, or ``JobError`` when it was cancelled or took too long.
        """
        if (model, dict(define)) != self._request or file_state(model) != self._file_state:
            return None
        graph: Graph | None = self._answer("graph", seconds)
        return graph

    def capabilities(
        self, graph: Graph, entries: Sequence[Mapping[str, Any]], seconds: float
    ) -> list[Capability] | None:
        """[device] its capability; None as for ``graph``, or for another device table.

        Raises:
            EditorError: as for ``graph``.
        """
        read = self.graph(str(graph.path), self._request[1], seconds)
        if read is None or dict(read.define) != dict(graph.define):
            return None
        preloaded, answers = self._answer("capabilities", seconds) or (None, None)
        return answers if preloaded == list(entries) else None

    def _answer(self, kind: str, seconds: float) -> Any:
        end = time.monotonic() + seconds
        with self._lock:
            while kind not in self._answers and "error" not in self._answers:
                try:
                    message = self._messages.get(timeout=max(end - time.monotonic(), 0))
                except queue.Empty:
                    self._process.kill()
                    raise JobError(
                        f"gave up after {seconds:.0f} s (last step: "
                        f"{'asking the devices' if 'graph' in self._answers else 'reading the model'})"
                    ) from None
                if message is None:
                    self._messages.put(None)  # for the next call
                    if self._cancelled:
                        raise JobError("cancelled")
                    return None
                name, value = pickle.loads(message)  # nosec B301  # from our own child
                self._answers[name] = value
            if kind not in self._answers:
                raise self._answers["error"]
            return self._answers[kind]

    def _listen(self, pipe: Connection, section: Section) -> None:
        watch = Watch(self._process.pid or 0, section)
        try:
            while True:
                while not pipe.poll(POLL_SECONDS):
                    if (error := watch.verdict()) is not None:
                        self._process.kill()
                        self._messages.put(pickle.dumps(("error", error)))
                        return
                self._messages.put(pipe.recv_bytes())
        except (EOFError, OSError):
            self._messages.put(None)

    def cancel(self) -> None:
        """Kills the process; waiting calls raise ``JobError``."""
        self._cancelled = True
        self._process.kill()


def _read(
    pipe: Connection, model: str, define: Mapping[str, int], spec: Spec, assume_sizes: bool
) -> None:
    """Main function of the separate process."""
    receive()
    set_expendable()
    with contextlib.suppress(BrokenPipeError):  # the server has ended
        _read_all(pipe, model, define, spec, assume_sizes)


def _read_all(
    pipe: Connection, model: str, define: Mapping[str, int], spec: Spec, assume_sizes: bool
) -> None:
    from editor.devices.discovery import available_devices, unusable_runtimes
    from editor.graph.loading import load_model

    pipe.send(("machine", (available_devices(), unusable_runtimes())))
    try:
        graph = load_model(model, define)
        if graph.unbound and assume_sizes:
            from editor.graph.proposed_sizes import proposed_sizes

            graph = load_model(model, {**define, **proposed_sizes(graph)})
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
