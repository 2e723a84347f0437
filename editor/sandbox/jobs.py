"""Runs long jobs in workers, outside the process of the page or the command.

A runtime that crashes, hangs or exhausts memory affects only the worker of its job: the job reports it, and the next job
runs on another worker.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

from editor.errors import EditorError, JobError
from editor.sandbox.watch import Section
from editor.sandbox.worker import Event, Worker, WorkerEndedError

CANCEL_GRACE_SECONDS = 0.6
"""Time for a cancelled job to stop; after it, its worker is killed."""
TIME_LIMIT_SECONDS = 3600.0
_AT_ONCE = 2
"""Workers, which each run one job."""


class Job:
    """One submitted job, in the process that submitted it."""

    def __init__(self, stop: Callable[[Job], None], section: Section | None = None) -> None:
        """A job that waits; ``stop`` asks it to end, wherever it is."""
        self.id, self.section, self._stop = f"job-{uuid.uuid4().hex}", section, stop
        self.events: list[Event] = []
        """All events so far; append-only."""
        self.on_event: Callable[[Event], None] = self.events.append
        self.cancelled = False
        self.reason: EditorError = JobError("cancelled")
        """The error that ``result`` raises when the job was stopped."""
        self._result: tuple[bool, Any] | None = None
        self._finished = threading.Event()

    @property
    def done(self) -> bool:
        """Whether the job has finished, failed or been cancelled."""
        return self._finished.is_set()

    @property
    def last_phase(self) -> str:
        """The last step that it reported."""
        phases = [e["text"] for e in self.events if e.get("kind") == "phase"]
        return phases[-1] if phases else "start"

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until the job is done; False on timeout."""
        return self._finished.wait(seconds)

    def result(self, timeout: float | None = None) -> Any:
        """The result of the job function.

        Raises:
            EditorError: the error of the function, or ``JobError`` when it was cancelled or its worker died.
            TimeoutError: the job is not done within ``timeout`` seconds.
        """
        if not self._finished.wait(timeout):
            raise TimeoutError("the job is still running")
        assert self._result is not None
        ok, value = self._result
        if not ok:
            raise value
        return value

    def cancel(self, reason: EditorError | None = None) -> None:
        """Stops the job within a second, by killing its worker if necessary."""
        if not self.done:
            self.cancelled, self.reason = True, reason or self.reason
            self._stop(self)

    def finish(self, ok: bool, value: Any) -> None:
        """Keeps the result or the error; of a cancelled job, why it was stopped."""
        if not self.done:
            self._result = (False, self.reason) if self.cancelled else (ok, value)
            self._finished.set()


class JobService:
    """Runs job functions ``f(channel, *arguments)`` in workers of this machine, which are kept for the next jobs."""

    def __init__(self) -> None:
        """Starts nothing yet."""
        self._idle: list[tuple[Worker, bool]] = []
        """Workers, and whether the last job of each had limits: it has read a model, and others have measured."""
        self._waiting: list[Job] = []
        self._running: dict[Job, Worker] = {}
        self._changed = threading.Condition()
        self._closed = False

    def start(self) -> None:
        """Starts a worker where there is none.

        Raises:
            JobError: it cannot be started, or the service was closed.
        """
        with self._changed:
            if self._closed:
                raise JobError("the server is ending")
            if not self._idle and not self._running:
                self._idle.append((_worker(), True))

    def submit(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        time_limit: float = TIME_LIMIT_SECONDS,
        section: Section | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Job:
        """Starts a job and returns it without waiting.

        Args:
            function: the job.
            arguments: of the function.
            time_limit: seconds after which it is cancelled, wherever it waits.
            section: limits of time and memory while it runs; beyond them its worker is killed.
            on_event: gets its events, which are then not kept.
        """
        self.start()
        job = Job(self._stop, section)
        job.on_event = on_event or job.on_event
        self._enqueue(job)
        threading.Thread(target=self._follow, args=(job, function, arguments), daemon=True).start()
        threading.Thread(target=_end_late, args=(job, time_limit), daemon=True).start()
        return job

    def run(
        self, function: Callable[..., Any], *arguments: Any, timeout: float | None = None
    ) -> Any:
        """Runs a job and returns its result; cancels it after ``timeout`` seconds."""
        job = self.submit(function, *arguments)
        try:
            return job.result(timeout)
        except TimeoutError:
            job.cancel()
            raise JobError(f"gave up after {timeout:.0f} s") from None

    def close(self) -> None:
        """Ends all jobs and workers; nothing can be started any more."""
        with self._changed:
            self._closed = True
            for job in self._running:
                job.cancel(JobError("the server is ending"))
            for worker in (*self._running.values(), *(worker for worker, _ in self._idle)):
                worker.kill()
            self._idle.clear()
            self._changed.notify_all()

    def _follow(self, job: Job, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        try:
            job.finish(True, self._execute(job, function, arguments))
        except EditorError as error:
            job.finish(False, error)
        except WorkerEndedError:
            died = "the worker process died: a runtime crashed or used too much memory"
            job.finish(False, JobError(f"{died} (last step: {job.last_phase})"))
        except Exception as error:  # noqa: BLE001  # a job's function may raise anything; its caller gets a message
            text = f"{type(error).__name__}: {error}"
            job.finish(False, JobError(f"the job failed unexpectedly: {text}"))

    def _execute(self, job: Job, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """The result of a job, once one of the workers is free."""
        worker = self._take(job)
        try:
            return worker.call(function, *arguments, section=job.section, progress=job.on_event)
        finally:
            with self._changed:
                del self._running[job]
                if worker.usable and not self._closed:
                    self._idle.append((worker, job.section is not None))
                self._changed.notify_all()

    def _enqueue(self, job: Job) -> None:
        """Gives a job its place in the order of the submissions."""
        with self._changed:
            self._waiting.append(job)

    def _take(self, job: Job) -> Worker:
        """A free worker: the one whose last job was alike, which has its model or its compiled plans still."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    job.done
                    or self._closed
                    or (self._waiting[0] is job and len(self._running) < _AT_ONCE)
                )
            )
            self._waiting.remove(job)
            self._changed.notify_all()
            if job.done or self._closed:
                raise job.reason
            self._idle = [each for each in self._idle if each[0].usable]
            self._idle.sort(key=lambda each: each[1] == (job.section is not None))
            self._running[job] = self._idle.pop()[0] if self._idle else _worker()
            return self._running[job]

    def _stop(self, job: Job) -> None:
        """Asks a cancelled job to end, and kills its worker if it does not; one that waits ends at once."""
        with self._changed:
            worker = self._running.get(job)
            if worker is None:
                job.finish(False, job.reason)
                self._changed.notify_all()
                return
        worker.stop()
        threading.Thread(target=self._enforce, args=(job, worker), daemon=True).start()

    def _enforce(self, job: Job, worker: Worker) -> None:
        if not job.wait(CANCEL_GRACE_SECONDS):
            job.finish(False, job.reason)
            with self._changed:
                if self._running.get(job) is worker:
                    worker.kill()


def _worker() -> Worker:
    try:
        return Worker()
    except OSError as error:
        raise JobError(f"the process for jobs cannot be started: {error}") from error


def _end_late(job: Job, limit: float) -> None:
    if not job.wait(limit):
        job.cancel(JobError(f"gave up after {limit:.0f} s (last step: {job.last_phase})"))
