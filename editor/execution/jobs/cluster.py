"""The embedded Dask cluster: one worker, for holders of its credentials only, and without an HTTP port."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from pathlib import Path
from typing import Any

from distributed import Nanny, Scheduler, Security, SpecCluster, Worker

from editor.execution.jobs.credentials import PrivateFolder, write_credentials

_HOST = "127.0.0.1"


class _SchedulerWithoutHttp(Scheduler):
    """Dask would serve its state to whoever asks."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Does not listen."""


class WorkerWithoutHttp(Worker):
    """Like the scheduler."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Does not listen."""


class EmbeddedCluster(SpecCluster):
    """One worker process of two threads. Its credentials and what it spills are in a folder that ends with it."""

    def __init__(self, folder: Path | None) -> None:
        """Starts the scheduler, in this process, and the worker.

        Args:
            folder: gets the private folder; default: the folder for temporary files.
        """
        self.private = PrivateFolder(folder)
        certificate, key = map(str, write_credentials(self.private.path))
        roles = ("scheduler", "worker", "client")
        self.credentials = Security(
            tls_ca_file=certificate,
            require_encryption=True,
            **{f"tls_{role}_cert": certificate for role in roles},
            **{f"tls_{role}_key": key for role in roles},
        )
        common = {
            "host": _HOST,
            "protocol": "tls",
            "security": self.credentials,
            "dashboard": False,
        }
        worker = {
            "nthreads": 2,
            "memory_limit": 0.8,
            "silence_logs": logging.CRITICAL,
            "worker_class": WorkerWithoutHttp,
            "local_directory": str(self.private.path),
        }
        try:
            super().__init__(
                scheduler={"cls": _SchedulerWithoutHttp, "options": {**common, "port": 0}},
                workers={0: {"cls": Nanny, "options": {**common, **worker}}},
                security=self.credentials,
                silence_logs=logging.CRITICAL,
            )
        except BaseException:
            self.private.remove()
            raise

    def kill_workers(self) -> None:
        """Ends the worker process at once; one that is starting ends with the cluster."""
        for nanny in self.workers.values():
            nanny.close_gracefully()  # it would start another worker, which would outlive the cluster and its folder
            with contextlib.suppress(OSError, TypeError):  # it may be dead or not started yet
                os.kill(nanny.pid, getattr(signal, "SIGKILL", signal.SIGTERM))

    def close(self, timeout: float | None = None) -> Any:
        """Ends the cluster and removes its folder."""
        try:
            return super().close(timeout)
        finally:
            self.private.remove()

    def __del__(self) -> None:
        """Closes nothing: a lock of Dask's may be held where the garbage collector runs (see ``JobClient``)."""
