"""Runs jobs on the workers of a Dask scheduler, which may be other machines with other devices."""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

from distributed import Client, Variable, get_client, get_worker

from editor.errors import EditorError, JobError
from editor.runtimes.machines.connection import MACHINE_RESOURCE, Connection, configured, use
from editor.sandbox.jobs import CANCEL_GRACE_SECONDS, Job, JobService
from editor.sandbox.watch import POLL_SECONDS, Watch, set_expendable
from editor.sandbox.worker import Channel, Event

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
_STARTED = "started"
_START_SECONDS = 60
_CLOSE_SECONDS = 2.0


class JobClient(Client):
    """Closes itself where it cannot connect, and only when it is told to otherwise.

    Dask leaves a client that could not connect to the garbage collector, which closes it. A collection may happen while
    another client starts its event loop; it then waits for a lock that its own thread holds, for ever.
    """

    def start(self, **options: Any) -> None:
        """Connects.

        Raises:
            OSError: the scheduler does not answer or refuses.
        """
        try:
            super().start(**options)
        except BaseException:
            with contextlib.suppress(
                Exception
            ):  # Dask raises many kinds of errors here; the one that counts is above
                self.close(timeout=_CLOSE_SECONDS)
            self._loop_runner.stop()  # its thread stays where the connection was closed before; a second stop does nothing
            raise

    def __del__(self) -> None:
        """Closes nothing: see the class."""


class DaskJobs(JobService):
    """Runs jobs on Dask workers that offer no devices; where all offer some, jobs run here and use those."""

    def __init__(self, scheduler: str) -> None:
        """Starts nothing yet."""
        super().__init__()
        self.scheduler = scheduler
        self._client: Any = None
        self._runs_here = False
        self._connecting = threading.RLock()
        self._futures: dict[Job, Any] = {}
        self._addresses: dict[Job, str] = {}
        """Addresses of the Dask workers that run the jobs."""

    def start(self) -> None:
        """Connects to the scheduler, again where the connection was lost for too long.

        Raises:
            JobError: it cannot be reached, or the service was closed.
        """
        with self._connecting:
            if self._runs_here or self._closed:
                super().start()
                return
            if self._client is not None and self._client.status != "closed":
                return
            connection = configured()
            if connection is None or connection.scheduler != self.scheduler:
                connection = Connection(self.scheduler)
            for name in ("distributed", "distributed.worker", "distributed.scheduler"):
                logging.getLogger(name).setLevel(logging.CRITICAL)  # jobs report killed workers
            try:
                client = JobClient(
                    connection.address,
                    timeout=_START_SECONDS,
                    set_as_default=False,
                    security=connection.security(),
                )
            except (OSError, ValueError) as error:  # ValueError: it is not an address
                raise JobError(f"no Dask scheduler at {self.scheduler}: {error}") from error
            self._client = client
            workers = self._workers()
            if workers and all(workers.values()):
                client.close()
                use(connection)
                self._client, self._runs_here = None, True
                super().start()

    def _workers(self) -> dict[str, bool]:
        """Address of each worker -> whether it offers devices; a scheduler that was started again has others."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        return {address: MACHINE_RESOURCE in w["resources"] for address, w in workers.items()}

    def close(self) -> None:
        """Ends the connection."""
        super().close()
        with self._connecting, contextlib.suppress(Exception):  # best effort
            if self._client is not None:
                self._client.close(timeout=0.5)

    def _enqueue(self, job: Job) -> None:
        if self._runs_here:
            super()._enqueue(job)

    def _execute(self, job: Job, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if self._runs_here:
            return super()._execute(job, function, arguments)
        client, workers = self._client, self._workers()
        plain = [address for address, offers in workers.items() if not offers]
        plain = plain if len(plain) < len(workers) else []  # one that starts again has another
        known = weakref.ref(job)  # Dask keeps the handler for ever

        def hear(event: tuple[float, list[Event]]) -> None:
            if (listening := known()) is not None:
                self._hear(listening, event[1])

        client.subscribe_topic(job.id, hear)
        try:
            future = self._futures[job] = client.submit(
                _run, job.id, function, arguments, key=job.id, pure=False, workers=plain or None
            )
            if job.section is not None:
                threading.Thread(target=self._watch, args=(job,), daemon=True).start()
            ok, value, events = future.result()
        except (CancelledError, OSError) as error:
            if job.cancelled:
                raise job.reason from error
            raise JobError(
                f"lost the connection to the Dask scheduler at {self.scheduler}"
            ) from error
        except Exception as error:
            if type(error).__name__ != "KilledWorker":
                raise
            died = "the worker process died: a runtime crashed or used too much memory"
            raise JobError(f"{died} (last step: {job.last_phase})") from error
        finally:
            self._futures.pop(job, None)
            self._addresses.pop(job, None)
            with contextlib.suppress(Exception):  # the connection is lost
                client.unsubscribe_topic(job.id)
        self._hear(job, events)
        if not ok:
            raise value
        return value

    def _hear(self, job: Job, events: list[Event]) -> None:
        for event in events:
            if event["kind"] == _STARTED:
                self._addresses[job] = event["worker"]
            elif not job.done:
                job.on_event(event)

    def _watch(self, job: Job) -> None:
        """Keeps the limit of time of a job; Dask keeps the memory of its machine."""
        assert job.section is not None
        while job not in self._addresses:
            if job.wait(POLL_SECONDS):
                return
        watch = Watch(0, job.section)
        while not job.wait(POLL_SECONDS):
            if (error := watch.error()) is not None:
                job.finish(False, error)
                self._kill_worker_of(job)

    def _stop(self, job: Job) -> None:
        if self._runs_here:
            super()._stop(job)
        else:
            threading.Thread(target=self._end, args=(job,), daemon=True).start()

    def _end(self, job: Job) -> None:
        """Asks a job to stop; then kills its worker, or removes a job that has not started."""
        with contextlib.suppress(Exception):  # the connection is lost
            Variable(_name_of(job.id), client=self._client).set(True)
        if not job.wait(CANCEL_GRACE_SECONDS):
            job.finish(False, job.reason)
            self._kill_worker_of(job)

    def _kill_worker_of(self, job: Job) -> None:
        """Ends a job with its worker; the scheduler starts the worker and its other jobs again."""
        future, address = self._futures.get(job), self._addresses.get(job)
        try:
            if future is not None:
                future.cancel(force=True)
            if address is not None:
                self._client.restart_workers([address], timeout=30, raise_for_error=False)
        except Exception as error:  # noqa: BLE001  # Dask raises many kinds of errors where the connection is lost
            log.warning("could not kill the worker of a cancelled job: %s", error)


def _name_of(job_id: str) -> str:
    return f"cancel-{job_id}"


def _run(
    job_id: str, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[bool, Any, list[Event]]:
    """Runs on the worker and returns (ok, value or error, last events); an exception would be mistaken for one of Dask."""
    set_expendable()
    worker, stop, done = get_worker(), threading.Event(), threading.Event()
    pending: list[Event] = []
    client = get_client()
    # What follows may be native code that holds the interpreter's lock: the address must be known before it.
    client.log_event(job_id, [{"kind": _STARTED, "worker": worker.address}])

    def serve() -> None:
        cancelled = Variable(_name_of(job_id), client=client)
        while not done.wait(_POLL_SECONDS):
            if pending:
                events, pending[:] = list(pending), []
                worker.log_event(job_id, events)
            try:
                if cancelled.get(timeout=0.05):
                    stop.set()
            except TimeoutError:
                continue  # not cancelled
            except Exception as error:  # noqa: BLE001  # the connection is lost, so the result cannot be delivered
                log.debug("lost the connection to the scheduler: %s", error)
                stop.set()
                return

    messenger = threading.Thread(target=serve, daemon=True)
    messenger.start()
    ok, value = False, None
    try:
        ok, value = True, function(Channel(pending.append, stop.is_set), *arguments)
    except EditorError as error:
        value = error
    except Exception as error:  # noqa: BLE001  # a job's function may raise anything; its caller gets a message
        value = JobError(f"the job failed unexpectedly: {type(error).__name__}: {error}")
    finally:
        done.set()
        messenger.join(timeout=5)
        gc.collect()  # compiled models are in circles of references; their memory and threads would pile up
    return ok, value, list(pending)
