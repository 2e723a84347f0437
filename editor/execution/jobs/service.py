"""Runs long jobs in Dask workers, outside the web process.

An embedded cluster with one worker process starts on first use; ``--scheduler tcp://...`` connects to
another one, whose workers may be other machines. A runtime that crashes, hangs or exhausts memory
affects only the worker: the job reports it, and the next job runs on a new worker.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import logging
import signal
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from editor.errors import EditorError, JobError
from editor.execution.jobs.dask_settings import QUIET
from editor.execution.jobs.job_limits import JobLimits
from editor.execution.jobs.signals import signals_wait
from editor.killable import Section, set_expendable
from editor.runtimes.machines.connection import MACHINE_RESOURCE, Connection, configured, use

log = logging.getLogger(__name__)

CANCEL_GRACE_SECONDS = 0.6
"""Time for a cancelled job to stop; after it, its worker is killed."""
_POLL_SECONDS = 0.1
_STARTED = "started"
START_SECONDS = 60
TIME_LIMIT_SECONDS = 3600.0

Event = dict[str, Any]


class Channel:
    """Passed to job functions: reports progress and whether the job was cancelled."""

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
        """Queues an event; events are sent ten times a second."""
        with self._lock:
            self._pending.append(event)

    def started(self) -> None:
        """Reports the address of the worker, and waits until the scheduler has it.

        What follows may be native code that holds the interpreter's lock, so that nothing more leaves this process; who
        wants to cancel the job then must know which worker to kill.
        """
        self._worker._get_client().log_event(
            self.job_id, [{"kind": _STARTED, "worker": self._worker.address}]
        )

    def stopped(self) -> bool:
        """Whether the job was cancelled."""
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
                continue  # not cancelled
            except Exception as error:  # noqa: BLE001  # the connection is lost, so the result cannot be delivered
                log.debug("lost the connection to the scheduler: %s", error)
                self._stop.set()
                return


def _run(job_id: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    """Runs on the worker and returns (ok, value or error); an exception would be mistaken for a failure of Dask."""
    set_expendable()
    with Channel(job_id) as channel:
        channel.started()
        try:
            return True, function(channel, *arguments)
        except EditorError as error:
            return False, error
        except Exception as error:  # noqa: BLE001  # a job's function may raise anything; its caller gets a message
            return False, JobError(f"the job failed unexpectedly: {type(error).__name__}: {error}")
        finally:
            gc.collect()  # compiled models are in circles of references; their memory and threads would pile up


class Job:
    """One submitted job, in the process that submitted it."""

    def __init__(self, job_id: str, service: JobService) -> None:
        self.id, self._service = job_id, service
        self.events: list[Event] = []
        """All events so far; append-only."""
        self._result: tuple[bool, Any] | None = None
        self._finished = threading.Event()
        self.cancelled = False
        self.reason: EditorError = JobError("cancelled")
        """What ``result`` raises when the job was stopped."""
        self._future: Any = None
        self._timer: threading.Timer | None = None
        """Cancels the job at its time limit."""
        self._worker: str | None = None
        """Address of the worker that runs it."""

    @property
    def done(self) -> bool:
        """Whether the job has finished, failed or been cancelled."""
        return self._finished.is_set()

    def wait(self, seconds: float) -> bool:
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

    def cancel(self) -> None:
        """Stops the job within a second, by killing its worker if necessary."""
        self._service.cancel(self)

    def _on_events(self, events: list[Event]) -> None:
        """Handles events of the worker."""
        for event in events:
            if event["kind"] != _STARTED:
                self.events.append(event)
                continue
            self._worker = event["worker"]
            if self.done and self.cancelled:  # it started while it was being cancelled
                self._service._kill_worker_of(self)

    def _finish(self, ok: bool, value: Any) -> None:
        if not self._finished.is_set():
            self._result = (ok, value)
            self._finished.set()
            if self._timer is not None:
                self._timer.cancel()


class JobService:
    """Runs job functions ``f(channel, *arguments)`` on Dask workers."""

    def __init__(self, scheduler: str | None = None, folder: Path | None = None) -> None:
        """Starts nothing yet.

        Args:
            scheduler: address of a Dask scheduler; default: an embedded cluster.
            folder: where the embedded cluster keeps its credentials; default: the folder for temporary files.
        """
        self.scheduler, self.folder = scheduler, folder
        self._client: Any = None
        self._cluster: Any = None
        self._lock = threading.RLock()
        self._closed = False
        self._killed_workers = 0
        """Number of workers killed on purpose; other jobs of these workers are restarted."""
        self._limits = JobLimits(self._pid, self._stop)

    def start(self) -> None:
        """Connects to the scheduler or starts the embedded cluster. Idempotent and thread-safe.

        Raises:
            JobError: the scheduler cannot be reached, or the service was closed.
        """
        with self._lock:
            if self._closed:
                raise JobError("the server is ending")
            if (
                self._client is not None and self._client.status != "closed"
            ):  # closed: the scheduler was gone for too long
                return
            import dask

            from editor.execution.jobs.client import JobClient
            from editor.execution.jobs.cluster import EmbeddedCluster

            for name in (
                "distributed",
                "distributed.nanny",
                "distributed.worker",
                "distributed.scheduler",
            ):
                logging.getLogger(name).setLevel(logging.CRITICAL)  # jobs report killed workers
            dask.config.set(
                {
                    "distributed.scheduler.allowed-failures": 0,
                    "distributed.worker.daemon": True,
                    "distributed.worker.preload": ["editor.execution.jobs.worker_setup"],
                    **QUIET,
                }
            )
            try:
                if self.scheduler:
                    self._client = self._external(JobClient)
                if self._client is None:
                    with signals_wait([signal.SIGINT]):
                        self._cluster = EmbeddedCluster(self.folder)
                    self._client = JobClient(self._cluster, set_as_default=False)
            except (OSError, ValueError) as error:  # ValueError: it is no address
                what = (
                    f"no Dask scheduler at {self.scheduler}"
                    if self.scheduler
                    else "the process for jobs cannot be started"
                )
                raise JobError(f"{what}: {error}") from error

    def _external(self, client_of: Callable[..., Any]) -> Any:
        """A client of the scheduler; None where all its workers offer devices: then jobs run here and use those."""
        connection = configured()
        if connection is None or connection.scheduler != self.scheduler:
            connection = Connection(self.scheduler or "")
        client = client_of(
            connection.address,
            timeout=START_SECONDS,
            set_as_default=False,
            security=connection.security(),
        )
        workers = client.scheduler_info(n_workers=-1)["workers"]
        if not workers or any(MACHINE_RESOURCE not in w["resources"] for w in workers.values()):
            return client
        client.close()
        use(connection)
        return None

    def _plain_workers(self) -> list[str] | None:
        """Addresses of the workers that offer no devices, where others do; None where jobs may run on any.

        Asked for each job: a scheduler that was started again has other workers.
        """
        if self._cluster is not None or not self.scheduler:
            return None
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        plain = [
            address for address, w in workers.items() if MACHINE_RESOURCE not in w["resources"]
        ]
        return plain if 0 < len(plain) < len(workers) else None

    def submit(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        time_limit: float = TIME_LIMIT_SECONDS,
        section: Section | None = None,
    ) -> Job:
        """Starts a job and returns it without waiting.

        Args:
            function: the job.
            arguments: of the function.
            time_limit: seconds after which it is cancelled, wherever it waits.
            section: limits of time and memory while it runs; beyond them its worker is killed.
        """
        self.start()
        job = Job(f"job-{uuid.uuid4().hex}", self)
        if section is not None:
            self._limits.keep(job, section)
        job._timer = threading.Timer(time_limit, self._time_out, (job, time_limit))
        job._timer.daemon = True
        job._timer.start()
        threading.Thread(target=self._follow, args=(job, function, arguments), daemon=True).start()
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

    def cancel(self, job: Job) -> None:
        """Requests the job to stop; kills its worker if it does not."""
        if job.done:
            return
        job.cancelled = True
        threading.Thread(target=self._enforce, args=(job,), daemon=True).start()

    def _time_out(self, job: Job, limit: float) -> None:
        if not job.done:
            job.reason = JobError(
                f"gave up after {limit:.0f} s (last step: {self._last_phase(job)})"
            )
            self.cancel(job)

    def _pid(self) -> int:
        """Process id of the embedded worker; 0 where there is none."""
        cluster = self._cluster
        return (
            next((nanny.pid or 0 for nanny in cluster.workers.values()), 0)
            if cluster is not None
            else 0
        )

    def _stop(self, job: Job, reason: EditorError) -> None:
        """Ends a running job at once, with its worker."""
        job.cancelled, job.reason = True, reason
        job._finish(False, reason)
        self._kill_worker_of(job)

    def _kill_worker_of(self, job: Job) -> None:
        """Kills the worker of a job; its other jobs restart on the next worker."""

        def kill() -> None:
            with self._lock:
                client = job._future.client
                if client is not self._client:
                    return  # another job has already replaced it
                self._killed_workers += 1
                try:
                    if (
                        self._cluster is None
                    ):  # an external cluster: its scheduler restarts the worker
                        client.restart_workers([job._worker], timeout=30, raise_for_error=False)
                    else:
                        self._replace_cluster(client)
                except Exception as error:  # noqa: BLE001  # Dask raises many kinds of errors while a cluster is closed
                    log.warning("could not kill the worker of a cancelled job: %s", error)

        threading.Thread(
            target=kill, daemon=True
        ).start()  # events arrive on the thread that must answer this call

    def _replace_cluster(self, client: Any) -> None:
        """Kills the embedded worker and starts another cluster, unless another thread has done so.

        A Dask nanny does not always restart a dead worker (not the eighth time in a row), and it waits five
        seconds for a worker to stop before it restarts it.
        """
        with self._lock:
            if self._cluster is None or client is not self._client:
                return
            old, self._client, self._cluster = (self._client, self._cluster), None, None
            old[1].kill_workers()
            _close(*old)  # before the start: two clusters would share an event loop
            self.start()

    def close(self) -> None:
        """Closes the client and the embedded cluster; nothing can be started any more."""
        with self._lock:
            self._closed = True
            if self._cluster is not None:
                self._cluster.kill_workers()  # nothing waits for them; Dask would give them seconds
            _close(self._client, self._cluster, seconds=0.5)
            self._client = self._cluster = None

    def _follow(self, job: Job, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        try:
            self._run_to_completion(job, function, arguments)
        except Exception as error:  # noqa: BLE001  # no cluster could start: callers waiting for the job need the error
            job._finish(False, self._explain(job, error))

    def _run_to_completion(
        self, job: Job, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        """Submits a job and waits for its result; resubmits it when its worker was killed because of another job."""
        for attempt in itertools.count():
            with self._lock:  # not while a worker is being killed
                if job.done:  # cancelled before it started
                    return
                self.start()
                client, killed_before = self._client, self._killed_workers
                client.subscribe_topic(job.id, lambda event: job._on_events(event[1]))
                job._worker = None
                job._future = client.submit(
                    _run,
                    job.id,
                    function,
                    arguments,
                    key=f"{job.id}-{attempt}",
                    pure=False,
                    workers=self._plain_workers(),
                )
            try:
                ok, value = job._future.result()
                time.sleep(0.05)  # the last events arrive on another connection
                job._finish(*(False, job.reason) if ok and job.cancelled else (ok, value))
                return
            except Exception as error:  # noqa: BLE001  # Dask raises many kinds of errors; `_explain` tells them apart
                if not job.cancelled:
                    if _worker_lost(error):
                        self._replace_cluster(client)
                    if self._killed_workers > killed_before:
                        continue  # its worker was killed because of another job
                job._finish(False, self._explain(job, error))
                return

    def _explain(self, job: Job, error: BaseException) -> EditorError:
        if job.cancelled:
            return job.reason
        if _worker_lost(error):
            if self.scheduler and self._cluster is None and type(error).__name__ != "KilledWorker":
                return JobError(f"lost the connection to the Dask scheduler at {self.scheduler}")
            return JobError(
                "the worker process died: a runtime crashed or used too much memory "
                f"(last step: {self._last_phase(job)})"
            )
        return JobError(f"the job failed unexpectedly: {type(error).__name__}: {error}")

    def _last_phase(self, job: Job) -> str:
        phases = [e["text"] for e in job.events if e.get("kind") == "phase"]
        return phases[-1] if phases else "start"

    def _enforce(self, job: Job) -> None:
        """Requests a job to stop; then kills its worker, or removes a job that has not started."""
        from distributed import Variable

        with contextlib.suppress(Exception):  # another job may be replacing the cluster
            Variable(f"cancel-{job.id}", client=job._future.client).set(True)
        if job._finished.wait(CANCEL_GRACE_SECONDS):
            return
        job._finish(False, job.reason)
        if job._worker:
            self._kill_worker_of(job)
        else:
            with contextlib.suppress(Exception):
                job._future.cancel()


def _worker_lost(error: BaseException) -> bool:
    """Whether an error means that the worker or the whole cluster is gone."""
    return type(error).__name__ in ("KilledWorker", "FutureCancelledError", "CommClosedError")


def _close(*resources: Any, seconds: float = 5) -> None:
    """Closes a client and its cluster. Best effort: the processes are daemons."""
    for resource in resources:
        if resource is not None:
            try:
                resource.close(timeout=seconds)
            except Exception as error:  # noqa: BLE001  # best effort: the processes are daemons
                log.debug("closing %s: %s", resource, error)
