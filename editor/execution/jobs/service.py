"""Long work away from the process that serves people: on Dask.

An embedded cluster with one worker process starts on first use; ``--scheduler tcp://...`` uses
another, whose workers may be other machines. What a runtime does to its process (crash, hang, eat
memory) happens to the worker: the job reports it and the next job finds a fresh worker.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from editor.errors import EditorError, JobError

log = logging.getLogger(__name__)

CANCEL_GRACE_SECONDS = 0.6
"""Time for a job to notice that it was cancelled; then its worker is ended."""
_POLL_SECONDS = 0.1
_STARTED = "started"
START_SECONDS = 60
TIME_LIMIT_SECONDS = 3600.0

Event = dict[str, Any]


class Channel:
    """What a job function gets: a way to report, and to learn that it is to stop."""

    def __init__(self, job_id: str) -> None:
        from distributed import get_worker

        self.job_id = job_id
        self._worker = get_worker()
        self._stop = threading.Event()
        self._pending: list[Event] = []
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Channel:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join(timeout=5)
        self._flush()

    def emit(self, event: Event) -> None:
        """Queues an event; they are sent ten times a second."""
        with self._lock:
            self._pending.append(event)

    def started(self) -> None:
        """Tells at once where the job runs."""
        self._worker.log_event(self.job_id, [{"kind": _STARTED, "worker": self._worker.address}])

    def stopped(self) -> bool:
        """The job was cancelled."""
        return self._stop.is_set()

    def _flush(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, []
        if pending:
            self._worker.log_event(self.job_id, pending)

    def _serve(self) -> None:
        from distributed import Variable

        cancelled = Variable(f"cancel-{self.job_id}", client=self._worker._get_client())
        while not self._done.wait(_POLL_SECONDS):
            self._flush()
            try:
                if cancelled.get(timeout=0.05):
                    self._stop.set()
            except TimeoutError:
                continue  # nobody has set it
            except Exception as error:  # noqa: BLE001  # the connection is gone, and with it whoever wanted the result
                log.debug("no word from the scheduler: %s", error)
                self._stop.set()
                return


def _run(job_id: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    """Runs on the worker. Errors come back as values, those of the input with their types: what is raised is Dask's."""
    with Channel(job_id) as channel:
        channel.started()
        try:
            return True, function(channel, *arguments)
        except EditorError as error:
            return False, error
        except Exception as error:  # noqa: BLE001  # a job's function may raise anything; its caller gets a message
            return False, JobError(f"the job failed unexpectedly: {type(error).__name__}: {error}")


class Job:
    """One piece of work, seen from the process that asked for it."""

    def __init__(self, job_id: str, service: JobService) -> None:
        self.id, self._service = job_id, service
        self.events: list[Event] = []
        """Everything reported so far; only ever appended to."""
        self._result: tuple[bool, Any] | None = None
        self._finished = threading.Event()
        self.cancelled = False
        self.ended_because = "cancelled"
        self._future: Any = None
        self._timer: threading.Timer | None = None
        """Ends the job at its time limit."""
        self._worker: str | None = None
        """Address of the worker that started it."""

    @property
    def done(self) -> bool:
        """Finished, failed or cancelled."""
        return self._finished.is_set()

    def wait(self, seconds: float) -> bool:
        """Waits for the end; False when it did not come in time."""
        return self._finished.wait(seconds)

    def result(self, timeout: float | None = None) -> Any:
        """What the function returned.

        Raises:
            EditorError: what it raised, or ``JobError`` when it was cancelled or its worker died.
            TimeoutError: not finished within ``timeout`` seconds.
        """
        if not self._finished.wait(timeout):
            raise TimeoutError("the job is still running")
        assert self._result is not None
        ok, value = self._result
        if not ok:
            raise value
        return value

    def cancel(self) -> None:
        """Stops the job within a second, whatever it is doing."""
        self._service.cancel(self)

    def _hear(self, events: list[Event]) -> None:
        """Takes what the worker reports."""
        for event in events:
            if event["kind"] != _STARTED:
                self.events.append(event)
                continue
            self._worker = event["worker"]
            if self.done and self.cancelled:  # it started just when it was taken off the list
                self._service._end_worker_of(self)

    def _finish(self, ok: bool, value: Any) -> None:
        if not self._finished.is_set():
            self._result = (ok, value)
            self._finished.set()
            if self._timer is not None:
                self._timer.cancel()


class JobService:
    """Runs job functions ``f(channel, *arguments)`` on Dask workers."""

    def __init__(self, scheduler: str | None = None) -> None:
        self.scheduler = scheduler
        self._client: Any = None
        self._cluster: Any = None
        self._lock = threading.RLock()
        self._ended_workers = 0
        """How often a worker was ended on purpose; jobs that shared it are started again."""

    def start(self) -> None:
        """Connects, or starts the embedded cluster. Safe to call more than once and from any thread.

        Raises:
            JobError: the scheduler cannot be reached.
        """
        with self._lock:
            if self._client is not None and self._client.status != "closed":  # closed: its scheduler went away for long
                return
            import dask
            from distributed import Client, LocalCluster

            for name in ("distributed", "distributed.nanny", "distributed.worker", "distributed.scheduler"):
                logging.getLogger(name).setLevel(logging.CRITICAL)  # a killed worker is reported by the job
            dask.config.set({"distributed.scheduler.allowed-failures": 0, "distributed.worker.daemon": True,
                             "distributed.worker.preload": ["editor.execution.jobs.worker_setup"],
                             "distributed.admin.low-level-log-length": 0})
            try:
                if self.scheduler:
                    self._client = Client(self.scheduler, timeout=START_SECONDS, set_as_default=False)
                else:
                    self._cluster = LocalCluster(n_workers=1, threads_per_worker=2, processes=True, host="127.0.0.1",
                                                 dashboard_address="127.0.0.1:0", memory_limit=0.8,
                                                 silence_logs=logging.CRITICAL)
                    self._client = Client(self._cluster, set_as_default=False)
            except OSError as error:
                raise JobError(f"no Dask scheduler at {self.scheduler}: {error}") from error

    def submit(self, function: Callable[..., Any], *arguments: Any, time_limit: float = TIME_LIMIT_SECONDS) -> Job:
        """Starts a job and returns at once; it is ended when it takes longer than ``time_limit`` seconds."""
        self.start()
        job = Job(f"job-{uuid.uuid4().hex}", self)
        job._timer = threading.Timer(time_limit, self._time_out, (job, time_limit))
        job._timer.daemon = True
        job._timer.start()
        threading.Thread(target=self._follow, args=(job, function, arguments), daemon=True).start()
        return job

    def run(self, function: Callable[..., Any], *arguments: Any, timeout: float | None = None) -> Any:
        """Runs a job to its end; it is cancelled when it takes longer than ``timeout`` seconds."""
        job = self.submit(function, *arguments)
        try:
            return job.result(timeout)
        except TimeoutError:
            job.cancel()
            raise JobError(f"gave up after {timeout:.0f} s") from None

    def cancel(self, job: Job) -> None:
        """Asks the job to stop, then ends its worker."""
        if job.done:
            return
        job.cancelled = True
        threading.Thread(target=self._enforce, args=(job,), daemon=True).start()

    def _time_out(self, job: Job, limit: float) -> None:
        if not job.done:
            job.ended_because = f"gave up after {limit:.0f} s (last step: {self._last_phase(job)})"
            self.cancel(job)

    def _end_worker_of(self, job: Job) -> None:
        """Ends the worker that a job runs on; other jobs that it runs start again on the next one."""
        def end() -> None:
            with self._lock:
                client = job._future.client
                if client is not self._client:
                    return  # gone already, because of another job
                self._ended_workers += 1
                try:
                    if self._cluster is None:  # somebody else's: ask for it
                        client.restart_workers([job._worker], timeout=30, raise_for_error=False)
                    else:
                        self._replace_cluster(client)
                except Exception as error:  # noqa: BLE001  # Dask raises many kinds of errors while a cluster is closed
                    log.warning("could not end the worker of a cancelled job: %s", error)

        threading.Thread(target=end, daemon=True).start()  # jobs report from the thread that would have to answer

    def _replace_cluster(self, client: Any) -> None:
        """Kills the embedded worker and starts another cluster, unless somebody did it already.

        A nanny starts a worker again that died, but not always (the eighth time in a row it does not), and a
        nanny that is asked to restart a worker waits five seconds for it to end by itself.
        """
        with self._lock:
            if self._cluster is None or client is not self._client:
                return
            old, self._client, self._cluster = (self._client, self._cluster), None, None
            for nanny in old[1].workers.values():
                with contextlib.suppress(OSError, TypeError):  # it may be dead, or not be there yet
                    os.kill(nanny.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
            _close(*old)  # first: two clusters at once share an event loop
            self.start()

    def close(self) -> None:
        """Ends the embedded cluster."""
        with self._lock:
            _close(self._client, self._cluster)
            self._client = self._cluster = None

    def _follow(self, job: Job, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        try:
            self._see_through(job, function, arguments)
        except Exception as error:  # noqa: BLE001  # no cluster could be started: whoever waits for the job must hear it
            job._finish(False, self._explain(job, error))

    def _see_through(self, job: Job, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Submits a job and waits for its end; once more when its worker was ended because of another job."""
        for attempt in itertools.count():
            with self._lock:  # not while a worker is being ended
                if job.done:  # cancelled meanwhile
                    return
                self.start()
                client, ended_before = self._client, self._ended_workers
                client.subscribe_topic(job.id, lambda event: job._hear(event[1]))
                job._worker = None
                job._future = client.submit(_run, job.id, function, arguments, key=f"{job.id}-{attempt}", pure=False)
            try:
                ok, value = job._future.result()
                time.sleep(0.05)  # the last events arrive by another way
                job._finish(*(False, JobError(job.ended_because)) if ok and job.cancelled else (ok, value))
                return
            except Exception as error:  # noqa: BLE001  # Dask raises many kinds of errors; `_explain` tells them apart
                if not job.cancelled:
                    if _lost(error):
                        self._replace_cluster(client)
                    if self._ended_workers > ended_before:
                        continue  # because of another job, whatever it looked like from here
                job._finish(False, self._explain(job, error))
                return

    def _explain(self, job: Job, error: BaseException) -> JobError:
        if job.cancelled:
            return JobError(job.ended_because)
        if _lost(error):
            if self.scheduler and type(error).__name__ != "KilledWorker":
                return JobError(f"lost the connection to the Dask scheduler at {self.scheduler}")
            return JobError("the worker process died: a runtime crashed or used too much memory "
                            f"(last step: {self._last_phase(job)})")
        return JobError(f"the job failed unexpectedly: {type(error).__name__}: {error}")

    def _last_phase(self, job: Job) -> str:
        phases = [e["text"] for e in job.events if e.get("kind") == "phase"]
        return phases[-1] if phases else "start"

    def _enforce(self, job: Job) -> None:
        """Asks a job to stop; then ends its worker if it runs, else its place in the queue."""
        from distributed import Variable

        with contextlib.suppress(Exception):  # its cluster may just be replaced because of another job
            Variable(f"cancel-{job.id}", client=job._future.client).set(True)
        if job._finished.wait(CANCEL_GRACE_SECONDS):
            return
        job._finish(False, JobError(job.ended_because))
        if job._worker:
            self._end_worker_of(job)
        else:
            with contextlib.suppress(Exception):
                job._future.cancel()


def _lost(error: BaseException) -> bool:
    """The job's worker is gone, or with it the whole cluster (closed while its result was on the way, too)."""
    return type(error).__name__ in ("KilledWorker", "FutureCancelledError", "CommClosedError")


def _close(*parts: Any) -> None:
    """Closes a client and its cluster. Best effort: the processes are daemons."""
    for part in parts:
        if part is not None:
            try:
                part.close(timeout=5)
            except Exception as error:  # noqa: BLE001  # best effort: the processes are daemons
                log.debug("closing %s: %s", part, error)
