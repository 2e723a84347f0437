"""Starts the worker that offers this machine's devices to a scheduler, and serves editors on it.

It tells its devices, keeps weights, compiles, runs, profiles and measures links. Each handler is one operation of Dask's
protocol between servers. Messages are plain data and arrays. A handler answers a mapping; ``error`` in it is the message of an
``EditorError``.

``python -m editor worker`` starts it. A plain ``dask worker tcp://... --name N --preload editor.execution.machines.worker``
does the same with Dask's own options.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import logging
import os
import platform
import re
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from distributed import Nanny, Worker
from onnx import ModelProto

from editor import environment, operating_system
from editor.devices.device import Device
from editor.devices.discovery import available_devices, resolve, unusable_runtimes
from editor.devices.table import load_devices
from editor.errors import DeviceTableError, EditorError, ExecutionError
from editor.execution.machines.dataflow import (
    Narrow,
    Program,
    Stage,
    Values,
    for_wire,
    message_of,
    run_program,
    value_of,
)
from editor.execution.measure.profile import profile_here
from editor.files import cache_folder, remove_oldest, write_atomic
from editor.graph.external_data import locations_of
from editor.graph.loading import load_model
from editor.runtimes.base import CompileOptions, SubModel
from editor.runtimes.machines.connection import (
    MACHINE_RESOURCE,
    PROTOCOL,
    Connection,
    Failed,
    Lost,
    call,
    is_loopback,
)
from editor.runtimes.registry import capability, runtime_of, stand_in
from editor.text import human_bytes
from editor.version import VERSION

_HASH = re.compile(r"[0-9a-f]{64}")


class WeightStore:
    """A folder of at most so many bytes; the files that were not used for the longest time are removed first."""

    def __init__(self, folder: Path, limit: int) -> None:
        """Keeps what an earlier worker has left in the folder.

        Args:
            folder: is made, for this user only.
            limit: bytes.
        """
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder, self.limit = folder, limit
        self._lock = threading.Lock()

    def missing(self, sizes: Mapping[str, int]) -> list[str]:
        """Names of the weights that are not here; makes room for them, and marks the others as used.

        Raises:
            ExecutionError: together they exceed the limit, or a name is not a hash.
        """
        for name in sizes:
            check_name(name)
        total = sum(sizes.values())
        if total > self.limit:
            raise ExecutionError(
                f"the weights take {human_bytes(total)}, its cache holds {human_bytes(self.limit)} "
                "(`--cache` of the worker)"
            )
        with self._lock:
            missing = []
            for name, size in sizes.items():
                path = self.folder / name
                if path.is_file() and path.stat().st_size == size:
                    os.utime(path)
                else:
                    missing.append(name)
            room = self.limit - sum(sizes[name] for name in missing)
            remove_oldest(self.folder, room, frozenset(sizes))
        return missing

    def put(self, name: str, data: bytes | memoryview) -> None:
        """Stores data under its hash.

        Raises:
            ExecutionError: the data has another hash, or the disk is full.
        """
        check_name(name)
        if hashlib.sha256(data).hexdigest() != name:
            raise ExecutionError(f"the weights {name[:12]} arrived damaged")
        with self._lock:
            remove_oldest(self.folder, self.limit - len(data), frozenset({name}))
            write_atomic(self.folder / name, bytes(data), private=True)

    def model(self, skeleton: bytes) -> Path:
        """The path of a model file with this content, beside its weights."""
        path = self.folder / f"{hashlib.sha256(skeleton).hexdigest()}.onnx"
        with self._lock:
            if path.is_file():
                os.utime(path)
            else:
                remove_oldest(self.folder, self.limit - len(skeleton))
                write_atomic(path, skeleton, private=True)
        return path


def check_name(name: str) -> None:
    """Raises ``ExecutionError`` where a name is not a SHA-256: it could be a path."""
    if not _HASH.fullmatch(name):
        raise ExecutionError(f"{name[:80]!r} is not a SHA-256")


_MAX_PROGRAMS = 64
_FORGET_SECONDS = 20.0
"""A run whose editor is not heard for so long is given up."""
Reply = dict[str, Any]


def _answering(
    machine: str, handler: Callable[..., Awaitable[Reply]]
) -> Callable[..., Awaitable[Reply]]:
    """A handler whose errors become messages; a bug becomes one too, because Dask would send its traceback."""

    @functools.wraps(handler)
    async def answer(**message: Any) -> Reply:
        try:
            return await handler(**message)
        except Failed as error:  # of another machine
            return {"error": error.what, "machine": error.machine, "lost": isinstance(error, Lost)}
        except EditorError as error:
            what = str(error)
        except MemoryError as error:
            what = f"its memory ran out: {error}"
        except Exception as error:  # noqa: BLE001  # whatever it is, the editor shows it
            what = f"its worker failed unexpectedly: {type(error).__name__}: {error}"
        return {"error": what, "machine": machine, "lost": False}

    return answer


class Host:
    """The handlers of one worker."""

    def __init__(
        self, worker: Any, store: WeightStore, offered: Collection[str] = (), threads: int = 0
    ) -> None:
        """Registers the handlers.

        Args:
            worker: a Dask worker.
            store: for weights.
            offered: names of the devices to offer; default: all.
            threads: most threads per subgraph; 0 leaves the choice to the runtime.
        """
        self.worker, self.store, self.threads = worker, store, threads
        self.machine = str(worker.name)
        self.offered = {name.lower() for name in offered}
        self._programs: dict[str, Program] = {}
        self._runs: dict[str, Values] = {}
        self._pool = ThreadPoolExecutor(64, thread_name_prefix="subgraphs")
        self._devices: list[Reply] | None = None
        handlers = (
            self.hello,
            self.missing,
            self.weight,
            self.deploy,
            self.release,
            self.run,
            self.put,
            self.take,
            self.abandon,
            self.capability,
            self.profile,
            self.push,
            self.echo,
        )
        worker.handlers["hetero_ping"] = self.ping
        worker.handlers.update(
            {
                f"hetero_{handler.__name__}": _answering(self.machine, handler)
                for handler in handlers
            }
        )

    async def ping(self, runs: Sequence[str] = ()) -> Reply:
        """Says that the worker lives, and the time of its clock."""
        now = perf_counter()
        for run in runs:
            if run in self._runs:
                self._runs[run].last_sign = now
        return {"now": now}

    async def hello(self) -> Reply:
        """The devices of this machine."""
        if self._devices is None:
            self._devices = await self._in_thread(self._described)
        return {
            "editor": VERSION,
            "protocol": PROTOCOL,
            "python": platform.python_version(),
            "devices": self._devices,
            "unusable": [f"{u.name}: {u.reason}" for u in unusable_runtimes()],
        }

    def _described(self) -> list[Reply]:
        found = []
        for device in available_devices():
            if self.offered and device.name.lower() not in self.offered:
                continue
            target, local = resolve(device.name), self._device({"name": device.name})
            limits = [
                size for size in (device.memory, self.worker.memory_manager.memory_limit) if size
            ]
            found.append(
                {
                    "name": device.name,
                    "runtime": device.description,
                    "hardware": device.hardware,
                    "device": target.device if target is not None else device.name,
                    "slowdown": target.slowdown if target is not None else 1.0,
                    "precision": runtime_of(local.runtime).precision(local),
                    "memory": min(limits, default=None),
                }
            )
        return found

    def _device(self, entry: Mapping[str, Any]) -> Device:
        """The device of a table entry, under its full name, if it is offered."""
        name = f"{self.machine}/{entry['name']}"
        if self.offered and str(entry["name"]).lower() not in self.offered:
            raise ExecutionError(
                f"{name}: {self.machine} does not offer it (its worker has --offer)"
            )
        try:
            device = load_devices([dict(entry)])[0]
        except DeviceTableError as error:
            raise ExecutionError(f"{name}: {self.machine} does not have it: {error}") from error
        if device.planned:
            raise ExecutionError(
                f"{name}: {self.machine} does not have it: {device.description.removeprefix('planned: ')}"
            )
        return replace(device, name=name)

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    async def missing(self, sizes: Mapping[str, int]) -> Reply:
        """Which weights are not here."""
        limit = self.worker.memory_manager.memory_limit
        if limit and sum(sizes.values()) > limit:
            raise ExecutionError(
                f"{self.machine}: the weights take {human_bytes(sum(sizes.values()))}, and its worker may use "
                f"{human_bytes(limit)} of memory"
            )
        return {"missing": await self._in_thread(self.store.missing, sizes)}

    async def weight(self, name: str, data: Any) -> Reply:
        """Keeps a weight."""
        await self._in_thread(self.store.put, name, memoryview(data))
        return {}

    async def deploy(
        self, program: str, stages: Sequence[Mapping[str, Any]], threads: int, requests: int
    ) -> Reply:
        """Compiles the subgraphs of a plan that run here."""
        options = CompileOptions(threads or self.threads, requests=requests)

        def compiled() -> Program:
            return Program([self._stage(stage, options) for stage in stages])

        self._programs[program] = await self._in_thread(compiled)
        while len(self._programs) > _MAX_PROGRAMS:
            self._programs.pop(next(iter(self._programs)))
        return {}

    def _stage(self, stage: Mapping[str, Any], options: CompileOptions) -> Stage:
        device = self._device(stage["device"])
        model = ModelProto.FromString(stage["skeleton"])
        for location in locations_of(model):
            check_name(location)
        submodel = SubModel(
            model,
            tuple(stage["inputs"]),
            tuple(stage["outputs"]),
            self.store.folder,
            stage["label"],
        )
        executable = runtime_of(device.runtime).compile(submodel, device, options)
        return Stage(
            stage["id"],
            device,
            submodel.inputs,
            submodel.outputs,
            stage["send"],
            stage["wire_type"],
            executable,
        )

    async def release(self, program: str) -> Reply:
        """Forgets a program."""
        self._programs.pop(program, None)
        return {}

    async def run(
        self,
        program: str,
        run: str,
        inputs: Mapping[str, Any],
        outputs: Sequence[str],
        peers: Mapping[str, str],
    ) -> Reply:
        """Runs the subgraphs of a program once.

        Args:
            program: its id.
            run: id of the run, the same on all machines.
            inputs: graph inputs that are read here.
            outputs: graph outputs that are computed here, which the reply has.
            peers: machine -> address of its worker.
        """
        known = self._programs.get(program)
        if known is None:
            return {"unknown": True}
        values = self._values(run)
        for name, value in inputs.items():
            values.set(name, value)

        async def send(name: str, machine: str, value: Narrow) -> None:
            if not machine:
                if not values.leaving(name).done():  # else the run was given up
                    values.leaving(name).set_result(value)
                await values.taken(name)
            else:
                await call(
                    self.worker.rpc,
                    machine,
                    peers[machine],
                    "hetero_put",
                    run=run,
                    name=name,
                    value=message_of(value),
                )

        watch = asyncio.ensure_future(self._watch(values))
        try:
            spent, results = await run_program(known, values, send, outputs, self._pool)
        finally:
            watch.cancel()
            self._runs.pop(run, None)
        sent = {name: for_wire(value) for name, value in results.items()}
        return {"outputs": sent, **asdict(spent), "arrived": values.arrived}

    async def _watch(self, values: Values) -> None:
        """Gives a run up when its editor is gone."""
        while perf_counter() - values.last_sign < _FORGET_SECONDS:
            await asyncio.sleep(_FORGET_SECONDS / 4)
        values.fail(ExecutionError("the editor that started the run is gone"))

    def _values(self, run: str) -> Values:
        if run not in self._runs:
            for old in [
                r
                for r, v in self._runs.items()
                if perf_counter() - v.last_sign > 2 * _FORGET_SECONDS
            ]:
                del self._runs[old]  # tensors that came for a run that was given up
            self._runs[run] = Values()
        return self._runs[run]

    async def put(self, run: str, name: str, value: Mapping[str, Any]) -> Reply:
        """A tensor of a run comes from another machine."""
        values = self._values(run)
        whole = await self._in_thread(value_of, value) if value["dtype"] else value_of(value)
        values.arrived[name] = perf_counter()
        values.set(name, whole)
        return {}

    async def take(self, run: str, name: str) -> Reply:
        """The editor fetches a tensor of a run, for a device of its own machine."""
        values = self._values(run)
        message = message_of(await values.leaving(name))
        if not values.taken(name).done():
            values.taken(name).set_result(None)
        return {"value": message}

    async def abandon(self, run: str) -> Reply:
        """Another machine failed."""
        if run in self._runs:
            self._runs.pop(run).fail(ExecutionError("the run was given up"))
        return {}

    async def capability(
        self, skeleton: bytes, define: Mapping[str, int], device: Mapping[str, Any]
    ) -> Reply:
        """Which ops of a model a device can run; reasons for the others."""

        def ask() -> Reply:
            graph = load_model(self.store.model(skeleton), define)
            return {
                "keys": len(graph),
                "reasons": list(capability(graph, self._device(device)).reasons),
            }

        result: Reply = await self._in_thread(ask)
        return result

    async def profile(
        self,
        skeleton: bytes,
        define: Mapping[str, int],
        devices: Sequence[Mapping[str, Any]],
        seconds: float,
        threads: int,
    ) -> Reply:
        """Profiles a model whose weights are here; full name of a device -> fields of its profile, or why there is none."""

        def measure() -> Reply:
            graph = load_model(self.store.model(skeleton), define)
            table = [self._device(device) for device in devices]
            able = [capability(graph, device).mask.all() for device in table]
            # It runs the ops that a profiled device cannot run, so that the others have inputs.
            helpers = [] if all(able) else [replace(stand_in(), name="helper")]
            found = profile_here(graph, [*table, *helpers], seconds, threads or self.threads)
            found = {device.name: found[device.name] for device in table}
            return {
                "profiles": {
                    name: p if isinstance(p, str) else asdict(p) for name, p in found.items()
                }
            }

        result: Reply = await self._in_thread(measure)
        return result

    async def push(self, machine: str, peer: str, size: int) -> Reply:
        """Seconds until another machine (or this one) has received and confirmed so many bytes."""
        data = np.zeros(size, np.uint8)
        start = perf_counter()
        await call(self.worker.rpc, machine, peer, "hetero_echo", data=for_wire(data))
        return {"seconds": perf_counter() - start}

    async def echo(self, data: Any = None, size: int = 0) -> Reply:
        """Takes bytes and returns bytes, to measure a link."""
        return {"data": for_wire(np.zeros(size, np.uint8))} if size else {}


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
