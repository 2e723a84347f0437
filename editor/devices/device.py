"""Devices: the entries of the device table, and their properties, which go to the runtime as they are.

A table may come from a stranger, so a runtime states which properties it takes. Everything else is refused, and with it all
that names a file or a folder, holds an address in memory or loads code, unless the person trusts the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from editor.arguments import did_you_mean
from editor.devices.published import Published
from editor.environment import TRUST
from editor.limits import is_trusted
from editor.text import human_bytes

_REPLACES = {"float16": ("float32",), "int8": ("float32", "float16")}
WIRE_TYPES = tuple(_REPLACES)
TAKEN = "memoryTaken"
"""Key of a device table: bytes that other models of a set take."""


def travels_as(element_type: str, wire_type: str) -> str:
    """The type in which a tensor travels: ``wire_type`` where that is allowed and shorter, else its own.

    Args:
        element_type: of the tensor, such as ``float32``.
        wire_type: one of ``WIRE_TYPES``; "" leaves all tensors as they are.
    """
    return wire_type if wire_type and element_type in _REPLACES[wire_type] else element_type


def letters(name: str) -> str:
    """The letters and digits of a name, to compare names by."""
    return "".join(filter(str.isalnum, name)).lower()


@dataclass(frozen=True)
class Link:
    """The connection between a device and host memory."""

    bandwidth: float | None = None
    """bytes/s; None: what is assumed of such a device"""
    latency: float | None = None
    """seconds per transfer; None: what is assumed of such a device"""
    ends: bool = False
    """Whether what the model reads from and returns to host memory is counted, and not only what other devices send"""


@dataclass(frozen=True)
class Device:
    """A named place to run: runtime, provider, options and limits.

    A device that this machine does not have is *planned*: ops can be assigned to it, exported and
    estimated; in a run its subgraphs execute on a stand-in.
    """

    name: str
    backend: str
    """``backendName`` of the table: a runtime or one of Glow's names."""
    runtime: str
    """Name of the runtime; "" when no runtime supports the device."""
    provider: str
    """ONNX Runtime's execution provider or OpenVINO's device; "" where there is only one."""
    present: bool
    """Whether this machine has the device."""
    device: str
    unit: str
    codegen: str
    title: str = ""
    """Display text of the runtime and provider, for a device that is present."""
    machine: str = ""
    """Name of the machine that has the device; "" for this one. It tells so for a planned device too."""
    slowdown: float = 1.0
    """Factor of estimated op times; see ``Runtime.slowdown``."""
    supported: tuple[str, ...] = ()
    non_supported: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    custom_ops: tuple[str, ...] = ()
    """Libraries of custom ops, by path or package."""
    memory: int | None = None
    """bytes that a plan may use"""
    taken: int = 0
    """bytes that other models of a set take of ``memory_of_table``"""
    memory_of_table: int | None = None
    """bytes that the table states, where other models of a set take some"""
    peak_compute: float | None = None
    """flop/s, for estimates"""
    peak_dram_bw: float | None = None
    """bytes/s, for estimates"""
    on_chip_memory: int | None = None
    """bytes of weights that a device without DRAM keeps, for estimates; None for a device with DRAM"""
    assumes_on_chip_memory: bool = False
    """Whether its preset assumes that, because its maker does not publish it"""
    power: float | None = None
    """watts while it works; None where the table states none"""
    link: Link | None = None
    start: float | None = None
    """seconds that the start of a subgraph takes, for estimates; None where the table states none"""
    wire_type: str = ""
    """Type in which its boundary tensors may travel to other machines, one of ``wire_types.WIRE_TYPES``; "": as they are."""
    logical_id: int | None = None
    """Glow's ``deviceID``."""
    index: str = ""
    """Which of the provider's devices it is; "" where the unit is a label only."""
    reason: str = ""
    """Why a device that is installed, or of a machine that is connected, cannot be used; "" for others."""
    published: Published = field(default_factory=Published, repr=False)
    """The ops and types that the device takes, as its documents state them."""
    entry: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The table entry of the device, which plans store."""

    @property
    def planned(self) -> bool:
        """Whether this machine lacks the device."""
        return not self.present

    @property
    def limit_text(self) -> str:
        """Its memory in words, with what other models of a set take of it; "" where there is no limit."""
        if self.memory is None:
            return ""
        binary = f" ({self.binary_limit})" if self.binary_limit else ""
        return f"{human_bytes(self.memory_of_table or self.memory)}{binary}{self.taken_text}"

    @property
    def binary_limit(self) -> str:
        """Its memory as the table has it where that is in powers of 1,024: "64 MiB"; else ""."""
        written = re.fullmatch(r"([\d.]+)\s*([KMGT]iB)", str(self.entry.get("memory", "")))
        return " ".join(written.groups()) if written else ""

    @property
    def taken_text(self) -> str:
        """What other models of a set take, to stand behind a limit; "" where it is in none."""
        return f"; the other models of the set take {human_bytes(self.taken)}" if self.taken else ""

    @property
    def own_entry(self) -> dict[str, Any]:
        """``entry`` without what other models of a set take: what runs is the same, whatever that is."""
        return {key: value for key, value in self.entry.items() if key != TAKEN}

    def beside(self, taken: int) -> Device:
        """The device where other models of a set take so many bytes of its memory."""
        whole = self.memory_of_table or self.memory
        if whole is None or taken == self.taken:
            return self
        return replace(
            self,
            memory=max(whole - taken, 1),
            taken=taken,
            memory_of_table=whole if taken else None,
            entry=self.own_entry | ({TAKEN: taken} if taken else {}),
        )

    def lacking(self, needed: int) -> int:
        """bytes that are too few where a plan needs so many; 0 where they fit."""
        if self.memory is None or needed <= self.memory:
            return 0
        if self.memory_of_table is None:
            return needed - self.memory
        return needed + self.taken - self.memory_of_table

    @property
    def description(self) -> str:
        """Short display text of the runtime and hardware, with the preset and what is assumed."""
        if self.reason:
            lack = f"{'cannot be used' if self.machine else 'is installed but unusable'}: {self.reason}"
        else:
            lack = "is not connected" if self.machine else "is not on this machine"
        text = f"planned: {self.backend} {lack}" if self.planned else self.title
        return f"{text} ({self.published.note})" if self.published.note else text

    @property
    def runtime_title(self) -> str:
        """The runtime as people call it; "" where none here supports the device."""
        return self.title.partition(",")[0]

    @property
    def runtime_beside(self) -> str:
        """The runtime as people call it, where the device's own name does not say it; else ""."""
        said, words = letters(self.name), (self.runtime, self.runtime_title)
        return "" if any(letters(word) in said for word in words) else self.runtime_title

    @property
    def settings(self) -> tuple[object, ...]:
        """Runtime, provider, index, properties and libraries; devices with equal ones run a model in the same way."""
        properties = tuple(sorted(self.properties.items()))
        return self.runtime, self.provider, self.index, properties, *self.custom_ops

    def labels(self) -> dict[str, str]:
        """The three target levels."""
        return {"device": self.device, "unit": self.unit, "codegen": self.codegen}


PropertyKind = Literal["switch", "number", "word", "names", "text"]
_FORMS: Mapping[PropertyKind, tuple[re.Pattern[str], str]] = {
    "switch": (re.compile(r"(?i)true|false|yes|no|on|off|auto|[01]"), "true or false"),
    "number": (re.compile(r"-?\d{1,19}(\.\d{1,19})?([eE][-+]?\d{1,2})?"), "a number"),
    "word": (re.compile(r"[\w.:+-]{1,80}"), "one word, without a path"),
    "names": (re.compile(r"[\w.:,;=+ -]{1,2000}"), "names, numbers and , ; : = without a path"),
    "text": (re.compile(r"[\w.:,;=+/ -]{1,2000}"), "plain text"),
}


WAY_OUT = f"if you trust where it comes from, pass --trust or set {TRUST.name}=1"


@dataclass(frozen=True)
class Property:
    """An option that a runtime takes from a device table."""

    name: str
    kind: PropertyKind
    text: str
    """Says what it does."""


def property_problem(name: str, value: str, known: Sequence[Property], owner: str) -> str:
    """The reason to refuse a property; "" where the runtime takes it, or the person trusts the table.

    Args:
        name: of the property.
        value: as text.
        known: what the runtime takes.
        owner: title of the runtime, for the message.
    """
    if is_trusted():
        return ""
    stated = next((p for p in known if p.name == name), None)
    if stated is None:
        hint = did_you_mean(name, [p.name for p in known], cutoff=0.8)
        return (
            f"the property {name[:80]!r} is not among those that {owner} takes from device tables, which may name no files "
            f"and load no code{hint} ({WAY_OUT})"
        )
    pattern, form = _FORMS[stated.kind]
    if not pattern.fullmatch(value) or ".." in value:
        return f"the property {name!r} must be {form}, not {value[:60]!r} ({WAY_OUT})"
    return ""
