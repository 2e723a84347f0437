"""Discovers the devices of this machine through its runtimes, and resolves their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from editor.devices.device import Link, Property
from editor.text import human_bytes


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
    vendor: str = ""
    """Of the hardware, where the runtime reports it."""
    index: int = 0
    """Which of the provider's devices it is."""
    link: Link | None = None
    """The connection to host memory, from what the hardware states; for estimates."""
    kind: str = ""
    """``CPU``, ``GPU`` or ``NPU`` where the provider has several devices; "" where it is not known."""
    machine: str = ""
    """The machine that has it; "" for this one."""

    @property
    def description(self) -> str:
        """Display text."""
        provider = f" {self.provider}" if self.provider else ""
        return f"{self.title or self.runtime} {self.version}{provider}"

    @property
    def details(self) -> str:
        """Hardware, its memory and its link where they are known, and where values stay between subgraphs."""
        parts = [self.hardware or self.vendor]
        if self.memory:
            parts.append(human_bytes(self.memory))
        if self.link and self.link.bandwidth:
            parts.append(f"link of {human_bytes(int(self.link.bandwidth))}/s")
        if self.memory_space != "cpu":
            parts.append(f"memory of its own ({self.memory_space})")
        return ", ".join(part for part in parts if part)


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
    machine: str = ""
    """The machine that has it; "" for this one."""
    memory: int | None = None
    """Bytes that it has, where that is known and the table states no limit."""
    preference: int = 0
    """Where several runtimes resolve a name, the lowest number wins."""
    unit: str = ""
    """Default label of the unit level; "" leaves the choice to the table."""
    unit_selects: bool = False
    """Whether the unit says which of the provider's devices it is."""
    reason: str = ""
    """Why a device that is installed cannot be used."""
    link: Link | None = None
    """The connection to host memory, for estimates."""


@dataclass(frozen=True)
class UnusableRuntime:
    """A runtime that is installed but cannot be used."""

    name: str
    reason: str


class DeviceSource(Protocol):
    """The part of the runtime protocol that discovery uses."""

    name: str

    title: str

    def properties(self, provider: str) -> Sequence[Property]:
        """The properties that it takes from device tables for a provider; "": for any."""
        ...

    def unusable(self) -> Sequence[UnusableRuntime]:
        """Parts of it that are installed but cannot be used, with the reason."""
        ...

    def devices(self) -> Sequence[AvailableDevice]:
        """Devices of this machine; raises ``ModuleNotFoundError`` when the runtime is not installed."""
        ...

    def resolve(self, name: str, provider: str) -> Target | None:
        """Resolves a device or backend name; None when the runtime does not know it."""
        ...

    def resolve_library(self, library: str, provider: str) -> Target | None:
        """The device of a local build that a table names; None when the runtime loads no libraries."""
        ...


class Sources(Protocol):
    """The part of the registry of runtimes that discovery uses."""

    def runtimes(self) -> Iterable[DeviceSource]:
        """Yields every usable runtime, the built-in ones first; others are loaded on demand."""
        ...

    def unusable(self) -> Sequence[UnusableRuntime]:
        """Runtimes that cannot be used, with the reason."""
        ...


_LAST = "CPU"
"""Runs every op, so that nothing is left for what comes after it."""
_devices: dict[str, tuple[AvailableDevice, ...]] = {}
"""Runtime name -> its devices, for runtimes queried so far"""
_failures: dict[str, str] = {}
"""Runtime name -> error, for runtimes whose query failed"""
_unusable_parts: dict[str, tuple[UnusableRuntime, ...]] = {}
"""Runtime name -> its parts that cannot be used"""


def sources() -> Iterable[DeviceSource]:
    """Every usable runtime."""
    return _registry().runtimes()


def _registry() -> Sources:
    """The registry of runtimes, which knows devices, and so is imported by its name when it is first needed."""
    registry: Sources = import_module("editor.runtimes.registry")  # type: ignore[assignment]
    return registry


def devices_of(source: DeviceSource) -> tuple[AvailableDevice, ...]:
    """Devices of one runtime; none where it is not installed or fails."""
    if source.name not in _devices:
        try:
            _devices[source.name] = tuple(source.devices())
        except ModuleNotFoundError:  # other errors of an import: it is there, and broken
            _devices[source.name] = ()
        except Exception as error:  # noqa: BLE001  # a runtime may raise anything; it is listed with its reason
            _devices[source.name] = ()
            _failures[source.name] = f"{type(error).__name__}: {error}"
    return _devices[source.name]


def devices_of_runtime(name: str) -> tuple[AvailableDevice, ...]:
    """Devices of the runtime of a name."""
    return next((devices_of(source) for source in sources() if source.name == name), ())


def unusable_parts(name: str) -> tuple[UnusableRuntime, ...]:
    """Parts of the runtime of a name that cannot be used, and those that another process reported."""
    for source in sources():
        if source.name == name:
            _ask_for_parts(source)
    return (*_unusable_parts.get(name, ()), *_unusable_parts.get("", ()))


def available_devices() -> tuple[AvailableDevice, ...]:
    """Every device of this machine, those of built-in runtimes first.

    Runtimes that are not installed are omitted; see ``unusable_runtimes`` for those that fail.
    """
    return tuple(device for source in sources() for device in devices_of(source))


def names_here() -> list[str]:
    """Devices of this machine in the order in which they are wanted: those with memory of their own, and the CPU last.

    Left out are devices of other machines, which the user has to name, and what is much slower than the hardware allows.
    """
    here = [
        (device, source)
        for source in sources()
        for device in devices_of(source)
        if not device.machine
    ]
    targets = [(device, source.resolve(device.name, "")) for device, source in here]
    found = [device for device, target in targets if target is not None and target.slowdown <= 1]
    return [d.name for d in sorted(found, key=lambda d: (d.name == _LAST, d.memory_space == "cpu"))]


def unusable_runtimes() -> tuple[UnusableRuntime, ...]:
    """Runtimes that are installed but cannot be used, with the reason."""
    available_devices()
    loaded = _registry().unusable()
    for source in sources():
        if source.name not in _failures:
            _ask_for_parts(source)
    parts = [part for several in _unusable_parts.values() for part in several]
    return tuple(
        dict.fromkeys(
            (
                *loaded,
                *(UnusableRuntime(name, reason) for name, reason in _failures.items()),
                *parts,
            )
        )
    )


def _ask_for_parts(source: DeviceSource) -> None:
    if source.name not in _unusable_parts:
        try:
            _unusable_parts[source.name] = tuple(source.unusable())
        except Exception as error:  # noqa: BLE001  # a runtime may raise anything; it is listed with its reason
            _unusable_parts[source.name] = (
                UnusableRuntime(source.name, f"{type(error).__name__}: {error}"),
            )


def set_available_devices(
    devices: Sequence[AvailableDevice], unusable: Sequence[UnusableRuntime] = ()
) -> None:
    """Reuses what another process of this machine discovered.

    Args:
        devices: ``available_devices()`` of that process.
        unusable: its ``unusable_runtimes()``.
    """
    _devices.clear()
    _failures.clear()
    _unusable_parts.clear()
    _unusable_parts[""] = tuple(unusable)
    for source in sources():
        _devices[source.name] = tuple(d for d in devices if d.runtime == source.name)
        _unusable_parts[source.name] = ()


def known_properties(runtime: str, provider: str) -> tuple[str, list[Property]]:
    """The title of a runtime and the properties that it takes from device tables.

    A device that this machine lacks may belong to any runtime, so ``runtime`` "" is for what any of them takes.
    """
    found = [source for source in sources() if runtime in ("", source.name)]
    title = found[0].title if runtime and found else "the editor"
    return title, [
        each for source in found for each in source.properties(provider if runtime else "")
    ]


def loads_custom_ops(runtime: str) -> bool:
    """Whether a runtime registers libraries of custom ops: it has an attribute of this name that says so."""
    return any(
        source.name == runtime and getattr(source, "loads_custom_ops", False)
        for source in sources()
    )


def is_present(runtime: str, provider: str) -> bool:
    """Whether this machine has a device of a runtime."""
    return any(
        d.provider == provider
        for source in sources()
        if source.name == runtime
        for d in devices_of(source)
    )


# Accelerators in tables of other tools; a device of such a name is planned unless a runtime resolves it.
_PLANNED = {
    name.lower(): name
    for name in (
        "OpenCL",
        "MYRIAD",
        "NPU",
        "HDDL",
        "HABANA",
        "Habana",
        "NNPI",
        "FPGA",
        "GNA",
        "VPU",
        "KEEMBAY",
        "DSP",
        "TPU",
        "Hexagon",
        "EdgeTPU",
        "ANE",
        "Vulkan",
        "Metal",
        "NVPTX",
        "BLAS",
        "MULTI",
        "BATCH",
        "AUTO",
        "DLA",
        "APU",
        "RKNN",
        "EthosU",
        "Hailo",
    )
}


def resolve(name: str, provider: str = "") -> Target | None:
    """Resolves a device or backend name; None when it is unknown.

    Args:
        name: ``CPU``, ``GPU``, ``GPU.1``, ``Interpreter``, ``OpenVINO``, ``OpenVINO.GPU``, ``OpenCL``, the name
            of an ONNX Runtime provider ... in any case.
        provider: an explicit provider of the runtime, from a table.
    """
    best: Target | None = None
    base = name.lower().partition(".")[0]
    for source in sorted(
        sources(), key=lambda each: each.name != base
    ):  # a runtime that is named goes first
        target = source.resolve(name, provider)
        if target is None:
            continue
        if target.present and not target.preference:
            return target
        if best is None or (not target.present, target.preference) < (
            not best.present,
            best.preference,
        ):
            best = target
    if best is not None:
        return best
    return Target("", "", False, _PLANNED[base]) if base in _PLANNED else None


def resolve_library(library: str, provider: str) -> Target | None:
    """The device of a local build that a table names; None when no runtime loads libraries."""
    return next(
        (
            target
            for source in sources()
            if (target := source.resolve_library(library, provider)) is not None
        ),
        None,
    )


def known_names() -> list[str]:
    """Names that a ``HETERO:`` string may use: available devices, then planned ones."""
    available = [a.name for a in available_devices()]
    planned = ["GPU", *sorted(set(_PLANNED.values()), key=str.lower)]
    return available + [name for name in planned if name not in available]
