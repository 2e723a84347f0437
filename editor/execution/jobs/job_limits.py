"""Keeps the limits of time and memory of jobs that read or probe a model. See ``editor.killable``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakSet

from editor import limits
from editor.errors import EditorError
from editor.killable import POLL_SECONDS, Section, Watch

if TYPE_CHECKING:
    from editor.execution.jobs.service import Job


class JobLimits:
    """Watches the worker process while a job with limits runs in it."""

    def __init__(self, pid: Callable[[], int], stop: Callable[[Job, EditorError], None]) -> None:
        """How to watch and to stop.

        Args:
            pid: process id of the worker; 0 for one on another machine, of which only the time is known.
            stop: ends a job and kills its worker.
        """
        self._pid, self._stop = pid, stop
        self._used: dict[str, float] = {}
        """Seconds that were taken for each model."""
        self._jobs: WeakSet[Job] = WeakSet()

    def keep(self, job: Job, section: Section) -> None:
        """Stops a job when it exceeds its limits, counted from its start on the worker."""
        threading.Thread(target=self._watch, args=(job, section), daemon=True).start()

    def _watch(self, job: Job, section: Section) -> None:
        while job._worker is None:
            if job.wait(POLL_SECONDS):
                return
        if any(not other.done for other in self._jobs):  # the memory may be the other's
            section = replace(section, memory=max(section.memory, limits.half_of_machine()))
        self._jobs.add(job)
        watch = Watch(self._pid(), section, self._used.get(section.model, 0.0))
        while not job.wait(POLL_SECONDS):
            if (error := watch.verdict()) is not None:
                self._stop(job, error)
                return
        self._used[section.model] = watch.used
