"""Calls to Dask servers (scheduler and workers) from threads outside Dask, and which devices the workers offer.

The connections are those of Dask's own ``comm`` layer, TLS included. They live in one event loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from editor.environment import CONNECTION
from editor.errors import EditorError, ExecutionError
from editor.version import VERSION

T = TypeVar("T")

PING_SECONDS = 1.0
"""Interval at which a machine is asked whether it is still there, while something waits for it."""
PING_LIMIT_SECONDS = 3.0
"""A machine that does not answer a ping for so long is given up."""
_LAST_PORT = 65_535
MACHINE_RESOURCE = "machine"
"""A Dask resource of workers that offer devices; jobs of an editor do not run on them."""


@dataclass(frozen=True)
class Connection:
    """The scheduler to connect to, and the credentials. Child processes inherit it by environment variables."""

    scheduler: str
    ca: str = ""
    cert: str = ""
    key: str = ""
    insecure: str = ""

    @property
    def address(self) -> str:
        """The address with the protocol that fits the credentials: ``tls://`` where there are some."""
        text = self.scheduler if "://" in self.scheduler else f"tcp://{self.scheduler}"
        return text.replace("tcp://", "tls://", 1) if self.ca else text

    def security(self) -> Any:
        """Dask's description of the credentials."""
        from distributed import Security

        if not self.ca:
            return Security()
        roles = ("scheduler", "worker", "client")
        return Security(
            tls_ca_file=self.ca,
            require_encryption=True,
            **{f"tls_{role}_cert": self.cert for role in roles},
            **{f"tls_{role}_key": self.key for role in roles},
        )

    def check(self) -> None:
        """Checks the address, that the credentials are complete and that nothing leaves this machine without them.

        Raises:
            EditorError: there is no host or port, a file is missing, or the address is beyond the loopback and there are no
                credentials.
        """
        address = re.fullmatch(r"(?:(\w+)://)?(\[[^]]+\]|[^/:@\s]+):(\d{1,5})", self.scheduler)
        if (
            not address
            or address[1] not in (None, "tcp", "tls")
            or not 0 < int(address[3]) <= _LAST_PORT
        ):
            raise EditorError(
                f"{self.scheduler!r} is not the address of a scheduler; write tcp://HOST:PORT"
            )
        if address[1] == "tls" and not self.ca:
            raise EditorError(
                f"{self.scheduler} needs --tls-ca, --tls-cert and --tls-key (docs/device-farm.md says how to "
                "make them)"
            )
        given = {"--tls-ca": self.ca, "--tls-cert": self.cert, "--tls-key": self.key}
        if any(given.values()) and not all(given.values()):
            lacking = ", ".join(option for option, path in given.items() if not path)
            raise EditorError(
                f"TLS needs --tls-ca, --tls-cert and --tls-key together; missing: {lacking}"
            )
        for option, path in given.items():
            if path and not Path(path).is_file():
                raise EditorError(f"{option} {path}: no such file")
            if "\n" in path:  # Dask would take the path for a certificate
                raise EditorError(f"{option} {path!r}: a path with a line break cannot be used")
        if self.insecure and self.ca:
            raise EditorError("--insecure and --tls-ca exclude each other")
        if not self.ca and not self.insecure and not is_loopback(self.scheduler):
            raise EditorError(
                f"{self.scheduler} is beyond this machine: give --tls-ca, --tls-cert and --tls-key (docs/"
                "device-farm.md says how to make them), or --insecure, which lets everyone who reaches the port "
                "run code on the machines"
            )


def connection_of(options: Any) -> Connection:
    """The connection that options of the command line describe."""
    return Connection(
        options.scheduler,
        options.tls_ca or "",
        options.tls_cert or "",
        options.tls_key or "",
        "1" if options.insecure else "",
    )


def is_loopback(address: str) -> bool:
    """Whether an address such as ``tcp://127.0.0.1:8786`` leads to this machine only."""
    host = address.rpartition("://")[2].rpartition(":")[0].strip("[]")
    if host in ("localhost", ""):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def use(connection: Connection) -> None:
    """Makes this process and those that it starts use a scheduler.

    Raises:
        EditorError: see ``Connection.check``.
    """
    connection.check()
    for field, variable in CONNECTION.items():
        variable.set(getattr(connection, field))


def configured() -> Connection | None:
    """The connection of this process; None where there is no scheduler."""
    values = {field: variable.value for field, variable in CONNECTION.items()}
    return Connection(**values) if values["scheduler"] else None


class Calls:
    """An event loop in a thread, with pooled connections of one set of credentials."""

    def __init__(self, connection: Connection) -> None:
        from distributed.core import ConnectionPool

        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="machines", daemon=True).start()
        arguments = connection.security().get_connection_args("client")

        async def make() -> Any:
            return await ConnectionPool(
                limit=512, connection_args=arguments, timeout=PING_LIMIT_SECONDS
            )

        self.pool = asyncio.run_coroutine_threadsafe(make(), self.loop).result()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the loop and waits for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()


@cache
def _calls(connection: Connection, _process: int) -> Calls:
    return Calls(connection)


def calls() -> Calls:
    """The calls of this process.

    Raises:
        ExecutionError: no scheduler is configured.
    """
    connection = configured()
    if connection is None:
        raise ExecutionError("no scheduler is given: start with --scheduler tcp://HOST:PORT")
    return _calls(connection, os.getpid())


class Failed(ExecutionError):
    """An error that a machine reports. The message names the machine."""

    def __init__(self, machine: str, what: str) -> None:
        super().__init__(what if machine in what else f"{machine}: {what}")
        self.machine, self.what = machine, what

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.machine, self.what)


class Lost(Failed):
    """A machine ended, was stopped or was cut off."""


_GIVEN_UP = "another call gave up on this address"


async def call(
    pool: Any, machine: str, address: str, op: str, alive: Sequence[str] = (), /, **message: Any
) -> Any:
    """Calls a handler of the worker of a machine and waits as long as the machine answers pings.

    Args:
        pool: Dask's pool of connections.
        machine: its name, for messages.
        address: of its worker.
        op: the handler.
        alive: ids of runs that callers still wait for, which the pings tell.
        message: arguments of the handler.

    Raises:
        Lost: the worker ended, or it did not answer for ``PING_LIMIT_SECONDS``.
        Failed: what the handler reports.
    """
    try:
        return await _call_once(pool, machine, address, op, alive, message)
    except Lost as error:  # a late answer to an earlier call, such as one that was given up; this one was not sent yet
        if str(error.__cause__) != _GIVEN_UP:
            raise
        return await _call_once(pool, machine, address, op, alive, message)


async def _call_once(
    pool: Any, machine: str, address: str, op: str, alive: Sequence[str], message: Mapping[str, Any]
) -> Any:
    task = asyncio.ensure_future(getattr(pool(address), op)(**message))
    ping: asyncio.Task[Any] | None = None
    try:
        while not task.done():
            done, _ = await asyncio.wait([task], timeout=PING_SECONDS)
            if not done:
                ping = asyncio.ensure_future(pool(address).hetero_ping(runs=list(alive)))
                await asyncio.wait(
                    [task, ping], timeout=PING_LIMIT_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                if not task.done() and not (ping.done() and ping.exception() is None):
                    pool.remove(
                        address, reason=_GIVEN_UP
                    )  # what waits in these connections would hold up the next calls
                    raise Lost(
                        machine,
                        f"does not answer for {PING_LIMIT_SECONDS:g} s: it was stopped or cut off, "
                        "or memory ran out",
                    )
        reply = task.result()
    except (OSError, TimeoutError) as error:  # CommClosedError is an OSError
        raise Lost(
            machine,
            "its worker ended (it was stopped, a runtime crashed, or memory ran out), or the connection was "
            f"cut: {error}",
        ) from error
    finally:
        for waiting in (task, ping):
            if waiting is not None and not waiting.done():
                waiting.cancel()
    if reply is None:
        raise Failed(
            machine, "its worker offers no devices; start it with `python -m editor worker`"
        )
    if "error" in reply:
        raise (Lost if reply["lost"] else Failed)(reply["machine"], reply["error"])
    return reply


PROTOCOL = 2
"""Of the handlers of workers; both sides must have the same."""
_FRESH_SECONDS = 2.0
"""For so long an answer is reused."""
_SCHEDULER_SECONDS = 3.0
_MOVED_SECONDS = 0.5
"""A run has failed, and its caller waits for the message."""


@dataclass(frozen=True)
class Offer:
    """A device of another machine, as its worker describes it."""

    machine: str
    name: str
    """On its machine: ``CPU``."""
    runtime: str
    """Title of the runtime there, with version and provider."""
    hardware: str
    device: str
    """Label of the device level."""
    slowdown: float
    precision: str
    memory: int | None
    """bytes; what the device has, at most what its worker may use"""

    @property
    def full_name(self) -> str:
        """``machine/device``, its name in tables."""
        return f"{self.machine}/{self.name}"


@dataclass(frozen=True)
class Machine:
    """A worker at the scheduler."""

    name: str
    address: str
    offers: tuple[Offer, ...] = ()
    problem: str = ""
    """Why its devices cannot be used; "" where they can."""
    notes: tuple[str, ...] = ()
    """Runtimes that are installed there but unusable, with the reason."""


class Directory:
    """Asks the scheduler and its workers; answers are reused for a short time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: tuple[float, object, tuple[Machine, ...] | ExecutionError] | None = None

    def machines(self) -> tuple[Machine, ...]:
        """Every worker at the scheduler.

        Raises:
            ExecutionError: there is no scheduler, or it cannot be reached.
        """
        with self._lock:
            known = self._known
            if (
                known is None
                or time.monotonic() - known[0] > _FRESH_SECONDS
                or known[1] != configured()
            ):
                found: tuple[Machine, ...] | ExecutionError
                try:
                    found = _ask_all()
                except ExecutionError as error:
                    found = error
                self._known = known = (time.monotonic(), configured(), found)
        if isinstance(known[2], ExecutionError):
            raise known[2]
        return known[2]

    def forget(self) -> None:
        """Asks the next question again: a machine has come or gone."""
        with self._lock:
            self._known = None

    def machine(self, name: str) -> Machine:
        """A machine that can be used.

        Raises:
            ExecutionError: it is not there, or its worker cannot be used.
        """
        before = self._known
        found = next((m for m in self.machines() if m.name == name), None)
        if (
            found is None or found.problem
        ) and self._known is before:  # it may have come back since
            self.forget()
            found = next((m for m in self.machines() if m.name == name), None)
        if found is None:
            raise ExecutionError(
                f"the machine {name} is not connected to the scheduler; start "
                f"`python -m editor worker ... --name {name}` on it"
            )
        if found.problem:
            raise ExecutionError(f"the machine {name} cannot be used: {found.problem}")
        return found

    def why_not(self, full_name: str) -> str:
        """Why the device ``machine/device`` cannot be used though its machine is connected; "" where it is not connected."""
        name, _, device = full_name.partition("/")
        try:
            found = next((m for m in self.machines() if m.name.lower() == name.lower()), None)
        except EditorError:
            return ""
        if found is None or found.problem:
            return found.problem if found is not None else ""
        unusable = (
            f"; installed there but unusable: {', '.join(found.notes)}" if found.notes else ""
        )
        return f"{found.name} has no {device}; it offers {', '.join(o.name for o in found.offers)}{unusable}"

    def offer(self, full_name: str) -> Offer | None:
        """The device ``machine/device`` where its machine is connected and can be used; upper and lower case are the same."""
        try:
            offers = [
                offer
                for machine in self.machines()
                if not machine.problem
                for offer in machine.offers
            ]
        except EditorError:
            return None
        return next((o for o in offers if o.full_name.lower() == full_name.lower()), None)


directory = Directory()


def _ask_all() -> tuple[Machine, ...]:
    connection = configured()
    if connection is None:
        return ()
    here = calls()

    async def ask() -> tuple[Machine, ...]:
        workers = await _addresses(here.pool, connection, _SCHEDULER_SECONDS)
        return tuple(
            await asyncio.gather(*(_hello(here.pool, address, name) for name, address in workers))
        )

    return here.wait(ask())


async def _addresses(pool: Any, connection: Connection, seconds: float) -> list[tuple[str, str]]:
    """(machine, address of its worker), as the scheduler knows them."""
    try:
        identity = await asyncio.wait_for(pool(connection.address).identity(), seconds)
    except (OSError, TimeoutError, ValueError) as error:
        raise ExecutionError(
            f"no Dask scheduler at {connection.address}: {error or 'it does not answer'}"
        ) from error
    return [(str(worker["name"]), address) for address, worker in identity["workers"].items()]


def has_moved(addresses: Mapping[str, str]) -> bool:
    """Whether a machine was restarted, so that it has another address than one of these (machine -> address)."""
    connection = configured()
    if connection is None:
        return False
    here = calls()
    try:
        now = here.wait(_addresses(here.pool, connection, _MOVED_SECONDS))
    except ExecutionError:
        return False
    return any(addresses.get(name, address) != address for name, address in now)


async def _hello(pool: Any, address: str, name: str) -> Machine:
    try:
        reply = await call(pool, name, address, "hetero_hello")
    except ExecutionError as error:
        return Machine(name, address, problem=str(error).removeprefix(f"{name}: "))
    if reply["editor"] != VERSION or reply["protocol"] != PROTOCOL:
        return Machine(
            name,
            address,
            problem=f"its worker has version {reply['editor']} of the editor, this is {VERSION}",
        )
    known = [field.name for field in fields(Offer) if field.name != "machine"]
    offers = tuple(Offer(name, **{key: entry[key] for key in known}) for entry in reply["devices"])
    problem = "" if offers else "it has no runtime; install onnxruntime there"
    return Machine(name, address, offers, problem, tuple(reply["unusable"]))
