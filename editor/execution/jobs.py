"""Long work away from the process that serves people: on Dask.

An embedded cluster with one worker process starts on first use; ``--scheduler tcp://...`` uses
another, whose workers may be other machines. What a runtime does to its process (crash, hang, eat
memory) happens to the worker: the job reports it and the next job finds a fresh worker.
"""

from __future__ import annotations

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
START_SECONDS = 60
RETURN_SECONDS = 20
"""For a worker that was ended to start again."""
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
            except Exception as error:  # the connection is gone, and with it whoever wanted the result
                log.debug("no word from the scheduler: %s", error)
                self._stop.set()
                return


def _run(job_id: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    """Runs on the worker. Errors of the input come back as values, with their types."""
    with Channel(job_id) as channel:
        try:
            return True, function(channel, *arguments)
        except EditorError as error:
            return False, error


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

    def _finish(self, ok: bool, value: Any) -> None:
        if not self._finished.is_set():
            self._result = (ok, value)
            self._finished.set()


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
            if self._client is not None:
                return
            import dask
            from distributed import Client, LocalCluster

            for name in ("distributed", "distributed.nanny", "distributed.worker", "distributed.scheduler"):
                logging.getLogger(name).setLevel(logging.CRITICAL)  # a killed worker is reported by the job
            dask.config.set({"distributed.scheduler.allowed-failures": 0, "distributed.worker.daemon": True,
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
        threading.Thread(target=self._follow, args=(job, function, arguments), daemon=True).start()
        timer = threading.Timer(time_limit, self._time_out, (job, time_limit))
        timer.daemon = True
        timer.start()
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
        from distributed import Variable

        job.cancelled = True
        Variable(f"cancel-{job.id}", client=self._client).set(True)
        threading.Thread(target=self._enforce, args=(job,), daemon=True).start()

    def _time_out(self, job: Job, limit: float) -> None:
        if not job.done:
            job.ended_because = f"gave up after {limit:.0f} s (last step: {self._last_phase(job)})"
            self.cancel(job)

    def _end(self, workers: set[str]) -> None:
        """Ends the processes of these workers (by address) and waits until another one is there."""
        if self._cluster is None:  # somebody else's cluster: ask for it
            self._client.restart_workers(list(workers), timeout=30, raise_for_error=False)
            return
        for nanny in self._cluster.workers.values():
            if nanny.worker_address in workers and nanny.pid:
                os.kill(nanny.pid, getattr(signal, "SIGKILL", signal.SIGTERM))  # asking first would take 5 s in native code
        late = time.monotonic() + RETURN_SECONDS
        while not (here := set(self._client.scheduler_info()["workers"])) or here & workers:
            if time.monotonic() > late:  # Dask forgets a worker now and then that is ended while it still starts
                log.warning("no worker came back within %s s; starting another cluster", RETURN_SECONDS)
                self.close()
                self.start()
                return
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """Ends the embedded cluster."""
        with self._lock:
            for part in (self._client, self._cluster):
                if part is not None:
                    try:
                        part.close(timeout=5)
                    except Exception as error:  # closing is best effort: the processes are daemons
                        log.debug("closing %s: %s", part, error)
            self._client = self._cluster = None

    def _follow(self, job: Job, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Submits a job and waits for its end; once more when its worker was ended because of another job."""
        listening: Any = None
        for attempt in range(3):
            with self._lock:  # not while a worker is being ended
                ended_before = self._ended_workers
                if listening is not self._client:  # another cluster may have been started meanwhile
                    listening = self._client
                    listening.subscribe_topic(job.id, lambda event: job.events.extend(event[1]))
                future = self._client.submit(_run, job.id, function, arguments, key=f"{job.id}-{attempt}", pure=False)
            try:
                ok, value = future.result()
                time.sleep(0.05)  # the last events arrive by another way
                job._finish(*(False, JobError(job.ended_because)) if ok and job.cancelled else (ok, value))
                return
            except Exception as error:
                lost = type(error).__name__ in ("KilledWorker", "FutureCancelledError")  # its worker, or the whole cluster
                innocent = lost and self._ended_workers > ended_before
                if job.cancelled or not innocent or attempt == 2:
                    job._finish(False, self._explain(job, error))
                    return

    def _explain(self, job: Job, error: BaseException) -> JobError:
        if job.cancelled:
            return JobError(job.ended_because)
        if type(error).__name__ == "KilledWorker":
            return JobError("the worker process died: a runtime crashed or used too much memory "
                            f"(last step: {self._last_phase(job)})")
        return JobError(f"the job failed unexpectedly: {type(error).__name__}: {error}")

    def _last_phase(self, job: Job) -> str:
        phases = [e["text"] for e in job.events if e.get("kind") == "phase"]
        return phases[-1] if phases else "start"

    def _enforce(self, job: Job) -> None:
        if job._finished.wait(CANCEL_GRACE_SECONDS):
            return
        job._finish(False, JobError(job.ended_because))
        with self._lock:
            try:
                holders = self._client.processing()
                busy = {address for address, keys in holders.items() if any(job.id in str(key) for key in keys)}
                if busy:
                    self._ended_workers += 1
                    self._end(busy)
            except Exception as error:
                log.warning("could not end the worker of a cancelled job: %s", error)
