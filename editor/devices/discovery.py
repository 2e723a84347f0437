"""What this machine really has, as its runtimes report it.

Devices stand below runtimes, so this module knows no runtime: whoever puts the program together
connects it to the registry of runtimes (``editor/__init__.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class AvailableDevice:
    """A runtime and provider that can be used here."""

    name: str
    """The short name that a ``HETERO:`` string may use."""
    runtime: str
    provider: str
    version: str
    hardware: str
    """Full hardware name where the runtime tells it."""
    title: str = ""
    """The runtime's name for people."""
    memory: int | None = None
    """Bytes of its own memory where the runtime tells it."""
    memory_space: str = "cpu"
    """Kind of memory in which its values stay between subgraphs."""

    @property
    def description(self) -> str:
        """For people."""
        provider = f" {self.provider}" if self.provider else ""
        return f"{self.title or self.runtime} {self.version}{provider}"


@dataclass(frozen=True)
class Target:
    """Where a device or backend name leads."""

    runtime: str
    """"" for a device that no runtime serves"""
    provider: str
    present: bool
    """This machine has it."""
    device: str
    """Default label of the device level."""
    title: str = ""
    """The runtime and provider in words."""
    slowdown: float = 1.0
    """See ``Runtime.slowdown``."""
    preference: int = 0
    """Where several runtimes answer to a name, the lowest number wins."""


@dataclass(frozen=True)
class UnusableRuntime:
    """A runtime that is installed and cannot be used."""

    name: str
    reason: str


class DeviceSource(Protocol):
    """What discovery asks of a runtime."""

    name: str

    def devices(self) -> Sequence[AvailableDevice]:
        """Devices of this machine; raises ``ImportError`` when the runtime is not installed."""
        ...

    def resolve(self, name: str, provider: str) -> Target | None:
        """Where a device or backend name leads, None when the runtime does not answer to it."""
        ...


class Sources(Protocol):
    """The registry of runtimes, as discovery sees it."""

    def runtimes(self) -> Iterable[DeviceSource]:
        """Every runtime that can be loaded, the built-in ones first; others are looked up when they are reached."""
        ...

    def unusable(self) -> Sequence[UnusableRuntime]:
        """Those that cannot."""
        ...


_registry: list[Callable[[], Sources]] = []
_found: dict[str, tuple[AvailableDevice, ...]] = {}
"""Devices by runtime, for runtimes that were asked."""
_failures: dict[str, str] = {}
"""Reasons of runtimes that failed when they were asked."""


def connect(registry: Callable[[], Sources]) -> None:
    """Says where runtimes come from; the function is called when they are first needed."""
    _registry[:] = [registry]


def sources() -> Iterable[DeviceSource]:
    """Every runtime that can be loaded."""
    return _registry[0]().runtimes() if _registry else ()


def devices_of(source: DeviceSource) -> tuple[AvailableDevice, ...]:
    """Devices of one runtime; none where it is not installed or fails."""
    if source.name not in _found:
        try:
            _found[source.name] = tuple(source.devices())
        except ImportError:
            _found[source.name] = ()
        except Exception as error:  # noqa: BLE001  # a runtime may raise anything; it is listed with its reason
            _found[source.name] = ()
            _failures[source.name] = f"{type(error).__name__}: {error}"
    return _found[source.name]


def available_devices() -> tuple[AvailableDevice, ...]:
    """Every runtime and device of this machine, best known names first.

    Runtimes that are not installed are simply absent; see ``unusable_runtimes`` for those that fail.
    """
    return tuple(device for source in sources() for device in devices_of(source))


def unusable_runtimes() -> tuple[UnusableRuntime, ...]:
    """Runtimes that are installed and cannot be used, with the reason."""
    available_devices()
    loaded = _registry[0]().unusable() if _registry else ()
    return (*loaded, *(UnusableRuntime(name, reason) for name, reason in _failures.items()))


def set_available_devices(found: Sequence[AvailableDevice]) -> None:
    """Reuses the device list that another process of this machine discovered."""
    _found.clear()
    for source in sources():
        _found[source.name] = tuple(d for d in found if d.runtime == source.name)


def is_present(runtime: str, provider: str) -> bool:
    """Whether this machine has a device of a runtime."""
    return any(d.provider == provider for source in sources() if source.name == runtime for d in devices_of(source))
