"""Reads device tables: YAML (Glow's layout included), ``HETERO:`` strings and lists of mappings.

An entry may name a preset, whose keys are its defaults; ``HETERO:NPU(edgetpu),CPU`` does so in one line,
and ``HETERO:NPU(edgetpu as int8),CPU`` plans a float model as if it were quantised.

Glow's file is a YAML list whose ``parameters`` value is itself a block of ``"key" : "value"`` lines
(Glow ``lib/Runtime/RuntimeTypes``, ``docs/Partitioner.md``).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml

from editor.devices.device import WIRE_TYPES, Device, Link
from editor.devices.discovery import (
    Target,
    known_names,
    known_properties,
    names_here,
    resolve,
    resolve_library,
    unusable_runtimes,
)
from editor.devices.properties import property_problem
from editor.devices.published import KEYS as _PUBLISHED_KEYS
from editor.devices.published import Published, preset, preset_names, published_of
from editor.devices.vocabulary import op_name
from editor.errors import DeviceTableError
from editor.text import parse_bytes, parse_bytes_per_second, parse_seconds, parse_work_per_second
from editor.yaml_text import YamlError, load_yaml

MAX_DEVICES = 64
_MAX_DIGITS = 24
"""Of a number in a table."""
MAX_FILE_BYTES = 1 << 20
"""Of a device table."""
_KEYS = (
    "name",
    "backendName",
    "runtime",
    "provider",
    "library",
    "parameters",
    "device",
    "unit",
    "codegen",
    "properties",
    "memory",
    "peakCompute",
    "peakDramBw",
    "link",
    "wireType",
    "nonSupportedNodes",
    "supportedNodes",
    "deviceID",
    "deviceMemory",
    *_PUBLISHED_KEYS,
)
# Parameters of Glow that do not affect placement.
_IGNORED_PARAMETERS = (
    "peakSramBw",
    "peakPCIeBw",
    "sramCapacity",
    "sparseNN",
    "sparseNNOptimize",
    "availableMemory",
    "peakDramBw",
    "peakCompute",
)
_WITH_PRESET = re.compile(r"([^()]*)\(([^()]*)\)")
"""``NPU(edgetpu)``, ``NPU(edgetpu as int8)``"""

Spec = str | Path | Sequence[Mapping[str, Any]]


def load_devices(spec: Spec) -> tuple[Device, ...]:
    """Reads a device table; order is priority.

    Args:
        spec: a YAML file, ``HETERO:GPU,CPU``, ``HETERO:NPU(edgetpu),CPU``, ``HETERO`` alone for the
            devices of this machine, or a list of entries as in the YAML file.

    Raises:
        DeviceTableError: invalid YAML, an unknown runtime or op name, or a duplicate name; with file and line.
    """
    if isinstance(spec, str | Path):
        text = str(spec)
        if is_hetero(text):
            return _from_hetero(text)
        return parse_devices(_read(Path(spec)), text)
    if (
        isinstance(spec, Mapping)
        or not isinstance(spec, Iterable)
        or not all(isinstance(entry, Mapping) for entry in spec)
    ):
        raise DeviceTableError(
            "device table: a list of devices holds mappings such as {'name': 'CPU'}; "
            "for names alone write 'HETERO:GPU,CPU'"
        )
    return _from_entries([dict(entry) for entry in spec], [""] * len(spec), "device table")


def is_hetero(spec: str) -> bool:
    """Whether a device table is given by names, not by a file."""
    return spec.upper().startswith("HETERO:") or spec.upper() == "HETERO"


def text_of_table(spec: Spec) -> str:
    """The text of the file that a device table is read from; "" where it is none.

    Raises:
        DeviceTableError: the file cannot be read.
    """
    is_file = isinstance(spec, Path) or (isinstance(spec, str) and not is_hetero(spec))
    return _read(Path(str(spec))) if is_file else ""


def _from_hetero(text: str) -> tuple[Device, ...]:
    names = (
        [name.strip() for name in text.partition(":")[2].split(",")]
        if ":" in text
        else names_here()
    )
    if names == [""]:
        raise DeviceTableError(
            f"{text!r}: names no device; write HETERO:GPU,CPU, or HETERO for those of this machine"
        )
    return _from_entries([_named(name) for name in names], [""] * len(names), repr(text))


def _named(text: str) -> dict[str, Any]:
    """The entry of ``GPU``, ``NPU(preset)`` or ``NPU(preset as int8)``."""
    match = _WITH_PRESET.fullmatch(text)
    if not match:
        return {"name": text}
    preset_name, _, assumes = match[2].strip().partition(" as ")
    entry = {"name": match[1].strip(), "preset": preset_name.strip()}
    return {**entry, "assumes": assumes.strip()} if assumes else entry


def are_names(text: str) -> bool:
    """Whether a text without `HETERO:` was meant as the names of devices."""
    known = {name.lower() for name in known_names()}
    return all(name.strip().partition("(")[0].lower() in known for name in text.split(","))


def _read(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise DeviceTableError(
                f"{path}: not a regular file (a device table, or HETERO:GPU,CPU)"
            )
        if path.stat().st_size > MAX_FILE_BYTES:
            raise DeviceTableError(
                f"{path}: {path.stat().st_size:,} bytes; a device table has at most {MAX_FILE_BYTES:,}"
            )
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        names = (
            f"for devices write HETERO:{path}"
            if are_names(str(path))
            else "a device table, or HETERO:GPU,CPU"
        )
        raise DeviceTableError(f"{path}: no such file ({names})") from error
    except UnicodeDecodeError as error:
        raise DeviceTableError(f"{path}: not a device table (it is not text)") from error
    except (OSError, ValueError) as error:
        raise DeviceTableError(
            f"{str(path)!r}: cannot be read ({getattr(error, 'strerror', None) or error})"
        ) from error


def parse_devices(text: str, source: str) -> tuple[Device, ...]:
    """Parses the text of a YAML table; ``source`` names it in error messages."""
    try:
        node, data = load_yaml(text)
    except YamlError as error:
        where = f"{source}:{error.line}" if error.line else source
        raise DeviceTableError(f"{where}: not valid YAML ({error})") from error
    if not isinstance(node, yaml.SequenceNode):
        raise DeviceTableError(
            f"{source}:1: a device table is a list of devices (lines starting with `- name: ...`)"
        )
    lines = [f"{source}:{item.start_mark.line + 1}" for item in node.value]
    for line, entry in zip(lines, data, strict=True):
        if not isinstance(entry, dict):
            raise DeviceTableError(
                f"{line}: a device is a mapping with a name and a backendName, not {type(entry).__name__}"
            )
    return _from_entries(data, lines, source)


def _from_entries(
    entries: list[dict[str, Any]], lines: list[str], source: str
) -> tuple[Device, ...]:
    if not entries:
        raise DeviceTableError(f"{source}: the table has no devices")
    if len(entries) > MAX_DEVICES:
        raise DeviceTableError(f"{source}: {len(entries)} devices, the limit is {MAX_DEVICES}")
    devices: list[Device] = []
    for i, entry in enumerate(entries):
        where = lines[i] or (
            source
            if len(entries) == 1
            else f"{source}, {str(entry.get('name') or f'device {i + 1}')[:40]}"
        )
        device = _Entry(entry, where).device(i)
        if any(device.name == other.name for other in devices):
            raise DeviceTableError(
                f"{where}: there are two devices named {device.name!r}; names must differ"
            )
        devices.append(device)
    return tuple(devices)


class _Entry:
    """One entry of a table, with its location for error messages."""

    def __init__(self, entry: dict[str, Any], where: str) -> None:
        self.entry, self.where, self.preset = entry, where, dict[str, Any]()
        for key in entry:
            if key not in _KEYS:
                close = difflib.get_close_matches(str(key), _KEYS, 1)
                self.fail(
                    f"unknown key {key!r}" + (f"; did you mean {close[0]!r}?" if close else "")
                )
        self.preset = self._preset()
        self.parameters = self._parameters()

    def fail(self, message: str) -> NoReturn:
        """Raises ``DeviceTableError`` with the location of the entry."""
        raise DeviceTableError(f"{self.where}: {message}")

    def value(self, key: str) -> Any:
        """The value of a key of the entry, of its parameters or of its preset; None when absent, or emptied by the entry."""
        return next(
            (keys[key] for keys in (self.entry, self.parameters, self.preset) if key in keys), None
        )

    def text(self, key: str, default: str = "") -> str:
        """The value of a key as text."""
        value = self.value(key)
        if value is None:
            return default
        if isinstance(value, dict | list):
            self.fail(f"{key} must be plain text, not {type(value).__name__}")
        return str(value).strip()

    def device(self, position: int) -> Device:
        """Checks and builds the device."""
        backend = self.text("backendName") or self.text("runtime") or self.text("name")
        name = self.text("name") or backend
        if not name:
            self.fail("the device has no name")
        target = self._target(name, backend)
        unit = self.text("unit") or (
            str(self._logical_id()) if self._logical_id() else target.unit or "0"
        )
        properties = self.value("properties") or {}
        if not isinstance(properties, dict):
            self.fail("properties must be a mapping of option: value")
        return Device(
            name=name,
            backend=backend,
            runtime=target.runtime,
            provider=target.provider,
            present=target.present,
            device=self.text("device", target.device),
            unit=unit,
            codegen=self.text("codegen", target.runtime or backend.lower()),
            title=target.title,
            slowdown=target.slowdown,
            machine=target.machine,
            supported=self._op_names("supportedNodes"),
            non_supported=self._op_names("nonSupportedNodes"),
            properties=self._properties(properties, target),
            memory=self._size() or target.memory,
            peak_compute=self._rate("peakCompute", parse_work_per_second, "1e13 or 10 TFLOPS"),
            peak_dram_bw=self._rate("peakDramBw", parse_bytes_per_second, "4e11 or 400 GB/s"),
            link=self._link() or target.link,
            wire_type=self._wire_type(),
            logical_id=self._logical_id(),
            published=self._published(),
            entry=self.entry,
            index=str(properties.get("device_id", unit)) if target.unit_selects else "",
            reason=target.reason,
        )

    def _target(self, name: str, backend: str) -> Target:
        library, provider = self.text("library"), self.text("provider")
        target = resolve_library(library, provider) if library else resolve(backend, provider)
        if target is None:
            known = known_names()
            if backend.lower() in preset_names():
                name = backend.lower()
                self.fail(
                    f"{backend!r} is a preset of a device: write NPU({name}), or preset: {name} in a table"
                )
            close = difflib.get_close_matches(backend, known, 1, 0.5)
            what = f"unknown device or runtime {backend!r}"
            self.fail(
                f"{what}; did you mean {close[0]!r}? "
                if close
                else f"{what}; known: {', '.join(known)}{_unusable()}"
            )
            raise AssertionError  # fail() always raises
        return target

    def _properties(self, given: Mapping[object, object], target: Target) -> dict[str, str]:
        properties = {str(k): _plain(v) for k, v in given.items()}
        owner, known = (
            known_properties("" if target.machine else target.runtime, target.provider)
            if properties
            else ("", [])
        )
        for name, value in properties.items():
            if problem := property_problem(name, value, known, owner):
                self.fail(problem)
        return properties

    def _parameters(self) -> dict[str, str]:
        block = self.entry.get("parameters")
        if block is None:
            return {}
        if isinstance(block, str):
            try:
                block = load_yaml(block)[1] or {}
            except YamlError as error:
                self.fail(f'parameters: not `"key" : "value"` lines ({error})')
        if not isinstance(block, dict):
            self.fail('parameters must hold `"key" : "value"` lines')
            return {}
        for key in block:
            if key not in _KEYS and key not in _IGNORED_PARAMETERS:
                close = difflib.get_close_matches(str(key), _KEYS, 1)
                self.fail(
                    f"unknown parameter {key!r}"
                    + (f"; did you mean {close[0]!r}?" if close else "")
                )
        return block

    def _preset(self) -> dict[str, Any]:
        name = self.entry.get("preset")
        if name is None:
            return {}
        try:
            keys = preset(str(name))
        except DeviceTableError as error:
            self.fail(str(error))
        if any(
            self.entry.get(key) for key in ("backendName", "runtime", "provider")
        ):  # they belong together
            return {
                k: v for k, v in keys.items() if k not in ("backendName", "runtime", "provider")
            }
        return keys

    def _published(self) -> Published:
        try:
            return published_of(
                {key: self.value(key) for key in _PUBLISHED_KEYS if self.value(key) is not None}
            )
        except DeviceTableError as error:
            self.fail(str(error))
            raise

    def _op_names(self, key: str) -> tuple[str, ...]:
        value = self.value(key)
        parts = value if isinstance(value, list) else self.text(key).split(",")
        names = tuple(str(p).strip() for p in parts if str(p).strip())
        for name in names:
            custom = "::" in name or "." in name.partition("::")[0]
            if op_name(name) is None and not custom:
                self.fail(
                    f"{key}: unknown op {name!r} (ONNX, Glow and Relay names are known; "
                    "write domain::Type for a custom op)"
                )
        return names

    def _logical_id(self) -> int | None:
        text = self.text("deviceID")
        if text and not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
            self.fail(f"deviceID must be a whole number, not {text[:40]!r}")
        return int(text) if text else None

    def _size(self) -> int | None:
        text = self.text("memory") or self.text("deviceMemory")
        if not text:
            return None
        size = parse_bytes(text)
        if not size:
            self.fail(
                f"memory must be a size above 0 such as 8GiB or 500MB, not {text[:40]!r}; without one there is no limit"
            )
        return size

    def _rate(self, key: str, parse: Callable[[str], float | None], example: str) -> float | None:
        text = self.text(key)
        if not text:
            return None
        number = parse(text)
        if number is None:
            self.fail(f"{key} must be a number above 0 such as {example}, not {text[:40]!r}")
        return number

    def _link(self) -> Link | None:
        link = self.value("link")
        if link is None:
            return None
        if not isinstance(link, dict) or not link or not set(link) <= {"bandwidth", "latency"}:
            self.fail(
                f"link must be a mapping such as {{bandwidth: 12e9, latency: 1e-5}} (bytes/s, seconds), not {link!r:.60}"
            )
        bandwidth, latency = (
            None if link.get(key) is None else parse(str(link[key]).strip())
            for key, parse in (("bandwidth", parse_bytes_per_second), ("latency", parse_seconds))
        )
        if bandwidth is None and link.get("bandwidth") is not None:
            self.fail(
                f"link: bandwidth must be bytes/s above 0 such as 12e9 or 12 GB/s, not {link['bandwidth']!r:.40}"
            )
        if latency is None and link.get("latency") is not None:
            self.fail(
                f"link: latency must be seconds such as 1e-5 or 10us, not {link['latency']!r:.40}"
            )
        return Link(bandwidth, latency)

    def _wire_type(self) -> str:
        wanted = self.text("wireType")
        if wanted and wanted not in WIRE_TYPES:
            self.fail(f"wireType must be {' or '.join(WIRE_TYPES)}, not {wanted[:40]!r}")
        return wanted


def _unusable() -> str:
    """What a name may have meant that is installed but cannot be used."""
    parts = [f"{part.name} ({part.reason})" for part in unusable_runtimes()]
    return f"; installed but unusable: {', '.join(parts)}" if parts else ""


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
