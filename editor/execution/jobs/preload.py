"""Reads the model named on the command line in a worker while the server starts; the worker then serves the first jobs.

When that fails (crash, out of memory), the caller repeats the work as another job, which reports the cause.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from editor.errors import EditorError, JobError
from editor.files import file_state
from editor.sandbox.jobs import JobService
from editor.sandbox.watch import section_of
from editor.sandbox.worker import Channel, Event

if TYPE_CHECKING:  # importing them would delay the start
    from editor.devices.discovery import AvailableDevice, UnusableRuntime
    from editor.devices.table import Spec
    from editor.graph.graph import Graph
    from editor.runtimes.base import Capability


class ModelPreloader:
    """Loads a model and queries the capabilities of devices in a job."""

    def __init__(
        self,
        jobs: JobService,
        model: str,
        define: Mapping[str, int],
        devices: Spec,
        assume_sizes: bool = False,
    ) -> None:
        """Starts the job.

        Args:
            jobs: runs it.
            model: absolute path of the file.
            define: sizes of symbolic dimensions.
            devices: the device table whose capabilities are queried.
            assume_sizes: whether dimensions without a size get a proposed one.
        """
        self._request = (model, dict(define))
        self._file_state = file_state(model)
        self._answers: Event = {}
        self._changed = threading.Condition()
        self._job = jobs.submit(
            _read,
            *self._request,
            devices,
            assume_sizes,
            section=section_of("opening", Path(model)),
            on_event=self._hear,
        )
        threading.Thread(target=self._note_end, daemon=True).start()

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

    def cancel(self) -> None:
        """Ends the job; waiting calls raise ``JobError``."""
        self._job.cancel()

    def _answer(self, kind: str, seconds: float) -> Any:
        with self._changed:
            if not self._changed.wait_for(lambda: kind in self._answers or self._job.done, seconds):
                step = "asking the devices" if "graph" in self._answers else "reading the model"
                late = JobError(f"gave up after {seconds:.0f} s (last step: {step})")
                self._job.cancel(late)
                raise late
            if kind in self._answers:
                return self._answers[kind]
        try:
            self._job.result(0)
        except JobError:
            if self._job.cancelled:
                raise
        return None

    def _hear(self, event: Event) -> None:
        with self._changed:
            self._answers.update(event)
            self._changed.notify_all()

    def _note_end(self) -> None:
        self._job.wait()
        self._hear({})


def _read(
    channel: Channel, model: str, define: Mapping[str, int], spec: Spec, assume_sizes: bool
) -> None:
    """Runs as the job; what it finds are its events."""
    from editor.devices.discovery import available_devices, unusable_runtimes

    channel.emit({"machine": (available_devices(), unusable_runtimes())})
    from editor.devices.table import load_devices
    from editor.graph.loading import load_model

    devices = load_devices(spec)  # whose libraries of custom ops say what these return
    graph = load_model(model, define)
    if graph.unbound and assume_sizes:
        from editor.graph.proposed_sizes import proposed_sizes

        graph = load_model(model, {**define, **proposed_sizes(graph)})
    channel.emit({"graph": graph})
    if not graph.unbound:
        from editor.runtimes.registry import capability

        answers = [capability(graph, device) for device in devices]
        channel.emit({"capabilities": ([dict(d.entry) for d in devices], answers)})
    from editor.execution.jobs.tasks import remember

    remember(graph)
