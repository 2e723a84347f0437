"""Which machines offer devices at the scheduler, and which."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from editor.errors import EditorError, ExecutionError
from editor.runtimes.machines.connection import Connection, call, calls, configured
from editor.version import VERSION

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
