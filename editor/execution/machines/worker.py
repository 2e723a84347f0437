"""Starts the worker that offers this machine's devices to a scheduler.

``python -m editor worker`` does it. A plain ``dask worker tcp://... --name N --preload editor.execution.machines.worker``
does the same with Dask's own options.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import signal
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import Nanny, Worker

from editor import environment, operating_system
from editor.errors import EditorError
from editor.execution.machines.host import Host, WeightStore
from editor.files import cache_folder
from editor.runtimes.machines.connection import MACHINE_RESOURCE, Connection, is_loopback
from editor.text import human_bytes

_QUIET: Mapping[str, object] = {
    "distributed.admin.low-level-log-length": 0,
    "distributed.admin.tick.interval": "1s",  # looks at its event loop 50 times a second otherwise
    "distributed.admin.tick.cycle": "5s",
    "distributed.worker.profile.enabled": False,  # looks at the stacks of running jobs 100 times a second otherwise
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
}
"""What idle clusters do without, and what would disturb measurements."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_MODULE = "editor.execution.machines.worker"
_AGAIN_SECONDS = 2.0
"""Between attempts to reach a scheduler that was lost."""
DEFAULT_CACHE = 8 << 30
"""Bytes of weights that a worker keeps on its disk."""


class _WorkerWithoutHttp(Worker):
    """Dask would serve its state to anyone who asks."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Does not listen."""


@dataclass(frozen=True)
class WorkerOptions:
    """How to offer this machine."""

    connection: Connection
    name: str
    offer: tuple[str, ...] = ()
    """Names of devices; all when empty."""
    memory_limit: int | None = None
    """bytes; beyond it Dask restarts the worker. None: the machine's memory."""
    cache: int = DEFAULT_CACHE
    """bytes"""
    threads: int = 0
    """Most threads per subgraph; 0 leaves the choice to the runtime."""
    host: str = ""
    """Address to listen on; default: the one that reaches the scheduler."""


def serve(options: WorkerOptions) -> None:
    """Runs a worker until it is interrupted; it is restarted when it crashes.

    Raises:
        EditorError: the name has odd characters, the connection is not safe, or there is no scheduler.
    """
    if not _NAME.fullmatch(options.name):
        raise EditorError(
            f"--name {options.name[:80]!r}: a machine's name has letters, digits, '.', '_' and '-' only"
        )
    options.connection.check()
    environment.WORKER_OFFER.set(",".join(options.offer))
    environment.WORKER_THREADS.set(str(options.threads))
    environment.WORKER_CACHE.set(str(options.cache))
    asyncio.run(_serve(options))


async def _serve(options: WorkerOptions) -> None:
    import dask

    address = options.connection.address
    for name in ("distributed.nanny", "distributed.worker", "distributed.core"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    dask.config.set(
        {"distributed.worker.preload": [_MODULE], "distributed.worker.daemon": False, **_QUIET}
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        operating_system.on_signal(number, loop, stop.set)
    stopping, was_up = asyncio.ensure_future(stop.wait()), False
    while not stop.is_set():
        try:
            async with _nanny(options) as nanny:
                was_up = True
                print(
                    f"{options.name} offers its devices to {address}; weights are kept in {weights_folder(options.name)} "
                    f"(at most {human_bytes(options.cache)})",
                    flush=True,
                )
                finished = asyncio.ensure_future(nanny.finished())
                await asyncio.wait([finished, stopping], return_when=asyncio.FIRST_COMPLETED)
        except (OSError, TimeoutError, ValueError, RuntimeError) as error:
            if not was_up:
                raise EditorError(f"no Dask scheduler at {address}: {error}") from error
        if not stop.is_set():
            print(f"{options.name} lost the scheduler at {address}; trying again", flush=True)
            await asyncio.wait([stopping], timeout=_AGAIN_SECONDS)


@contextlib.asynccontextmanager
async def _nanny(options: WorkerOptions) -> AsyncIterator[Any]:
    """A worker process and what restarts it."""
    from distributed.system import MEMORY_LIMIT

    connection = options.connection
    nanny = await Nanny(
        connection.address,
        name=options.name,
        nthreads=1,
        security=connection.security(),
        host=options.host or _own_address(connection),
        protocol="tls" if connection.ca else "tcp",
        dashboard=False,
        resources={MACHINE_RESOURCE: 1},
        memory_limit=options.memory_limit or MEMORY_LIMIT,
        silence_logs=logging.CRITICAL,
        worker_class=_WorkerWithoutHttp,
    )
    try:
        yield nanny
    finally:
        await nanny.close(timeout=2)


def _own_address(connection: Connection) -> str:
    """The address of the network interface that leads to the scheduler."""
    from distributed.comm import parse_host_port
    from distributed.utils import get_ip

    if is_loopback(connection.scheduler):
        return "127.0.0.1"
    host, port = parse_host_port(connection.address, 8786)
    return str(get_ip(host, port))


def weights_folder(name: str) -> Path:
    """Where a worker of this name keeps weights."""
    return cache_folder("worker") / name


async def dask_setup(worker: Any) -> None:
    """Called by Dask in the worker process when it starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the nanny ends its worker
    environment.CONNECTION["scheduler"].set("")  # what this machine offers is its own
    name = str(worker.name)
    name = name if _NAME.fullmatch(name) else "worker"
    store = WeightStore(weights_folder(name), int(environment.WORKER_CACHE.value or DEFAULT_CACHE))
    Host(
        worker,
        store,
        [n for n in environment.WORKER_OFFER.value.split(",") if n],
        int(environment.WORKER_THREADS.value or 0),
    )
