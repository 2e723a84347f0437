"""Discovers the devices of this machine through its runtimes.

This package must not import runtimes, so ``editor/__init__.py`` connects it to the registry of runtimes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class AvailableDevice:
    """A runtime and provider available on this machine."""

    name: str
    """The short name that a ``HETERO:`` string may use."""
    runtime: str
    provider: str
    version: str
    hardware: str
    """Full hardware name where the runtime reports it."""
    title: str = ""
    """Display name of the runtime."""
    memory: int | None = None
    """Bytes of device memory where the runtime reports it."""
    memory_space: str = "cpu"
    """Kind of memory that holds its values between subgraphs."""

    @property
    def description(self) -> str:
        """Display text."""
        provider = f" {self.provider}" if self.provider else ""
        return f"{self.title or self.runtime} {self.version}{provider}"


@dataclass(frozen=True)
class Target:
    """The runtime and provider that a device or backend name refers to."""

    runtime: str
    """Name of the runtime; "" when no runtime supports the device"""
    provider: str
    present: bool
    """Whether this machine has the device."""
    device: str
    """Default label of the device level."""
    title: str = ""
    """Display text of the runtime and provider."""
    slowdown: float = 1.0
    """See ``Runtime.slowdown``."""
    preference: int = 0
    """Where several runtimes resolve a name, the lowest number wins."""


@dataclass(frozen=True)
class UnusableRuntime:
    """A runtime that is installed but cannot be used."""

    name: str
    reason: str


class DeviceSource(Protocol):
    """The part of the runtime protocol that discovery uses."""

    name: str

    def devices(self) -> Sequence[AvailableDevice]:
        """Devices of this machine; raises ``ImportError`` when the runtime is not installed."""
        ...

    def resolve(self, name: str, provider: str) -> Target | None:
        """Resolves a device or backend name; None when the runtime does not know it."""
        ...


class Sources(Protocol):
    """The part of the registry of runtimes that discovery uses."""

    def runtimes(self) -> Iterable[DeviceSource]:
        """Yields every usable runtime, the built-in ones first; others are loaded on demand."""
        ...

    def unusable(self) -> Sequence[UnusableRuntime]:
        """Runtimes that cannot be used, with the reason."""
        ...


_registry: list[Callable[[], Sources]] = []
_devices: dict[str, tuple[AvailableDevice, ...]] = {}
"""Runtime name -> its devices, for runtimes queried so far"""
_failures: dict[str, str] = {}
"""Runtime name -> error, for runtimes whose query failed"""


def connect(registry: Callable[[], Sources]) -> None:
    """Sets the function that returns the registry; it is called on first use."""
    _registry[:] = [registry]


def sources() -> Iterable[DeviceSource]:
    """Every usable runtime."""
    return _registry[0]().runtimes() if _registry else ()


def devices_of(source: DeviceSource) -> tuple[AvailableDevice, ...]:
    """Devices of one runtime; none where it is not installed or fails."""
    if source.name not in _devices:
        try:
            _devices[source.name] = tuple(source.devices())
        except ImportError:
            _devices[source.name] = ()
        except Exception as error:  # noqa: BLE001  # a runtime may raise anything; it is listed with its reason
            _devices[source.name] = ()
            _failures[source.name] = f"{type(error).__name__}: {error}"
    return _devices[source.name]


def available_devices() -> tuple[AvailableDevice, ...]:
    """Every device of this machine, those of built-in runtimes first.

    Runtimes that are not installed are omitted; see ``unusable_runtimes`` for those that fail.
    """
    return tuple(device for source in sources() for device in devices_of(source))


def unusable_runtimes() -> tuple[UnusableRuntime, ...]:
    """Runtimes that are installed but cannot be used, with the reason."""
    available_devices()
    loaded = _registry[0]().unusable() if _registry else ()
    return (*loaded, *(UnusableRuntime(name, reason) for name, reason in _failures.items()))


def set_available_devices(devices: Sequence[AvailableDevice]) -> None:
    """Reuses the device list that another process of this machine discovered."""
    _devices.clear()
    for source in sources():
        _devices[source.name] = tuple(d for d in devices if d.runtime == source.name)


def is_present(runtime: str, provider: str) -> bool:
    """Whether this machine has a device of a runtime."""
    return any(d.provider == provider for source in sources() if source.name == runtime for d in devices_of(source))
