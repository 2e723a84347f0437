"""Reads device tables: YAML (Glow's layout included), ``HETERO:`` strings and lists of mappings.

An entry may name a preset, whose keys are its defaults; ``HETERO:NPU(edgetpu),CPU`` does so in one line,
and ``HETERO:NPU(edgetpu as int8),CPU`` plans a float model as if it were quantised.

Glow's file is a YAML list whose ``parameters`` value is itself a block of ``"key" : "value"`` lines
(Glow ``lib/Runtime/RuntimeTypes``, ``docs/Partitioner.md``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml

from editor import custom_ops
from editor.arguments import did_you_mean
from editor.devices.device import WAY_OUT, Device, property_problem
from editor.devices.discovery import (
    Target,
    known_names,
    known_properties,
    loads_custom_ops,
    names_here,
    resolve,
    resolve_library,
    unusable_runtimes,
)
from editor.devices.keys import KEYS
from editor.devices.published import Published, preset, preset_names
from editor.errors import DeviceTableError, EditorError
from editor.limits import is_trusted
from editor.yaml_text import YamlError, load_yaml

MAX_DEVICES = 64
MAX_FILE_BYTES = 1 << 20
"""Of a device table."""
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
_NAME = re.compile(r"[^\W\d][\w.-]*(\([^()]*\))?")
_SUFFIXES = (".yaml", ".yml")

Spec = str | Path | Sequence[Mapping[str, Any]]


def load_devices(spec: Spec) -> tuple[Device, ...]:
    """Reads a device table; order is priority.

    Args:
        spec: a YAML file, ``HETERO:GPU,CPU`` or ``GPU,CPU``, ``HETERO:NPU(edgetpu),CPU``, ``HETERO`` alone for the
            devices of this machine, or a list of entries as in the YAML file.

    Raises:
        DeviceTableError: invalid YAML, an unknown runtime or op name, or a duplicate name; with file and line.
    """
    if isinstance(spec, str | Path):
        text = str(spec)
        if is_by_names(spec):
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


def as_devices(devices: Spec | Sequence[Device]) -> tuple[Device, ...]:
    """A device table that may be made already: devices, or what ``load_devices`` takes."""
    if isinstance(devices, Sequence) and devices and all(isinstance(d, Device) for d in devices):
        return tuple(devices)  # type: ignore[arg-type]  # mypy does not see what all of them are
    return load_devices(devices)  # type: ignore[arg-type]


def is_hetero(spec: str) -> bool:
    """Whether a text is ``HETERO`` or begins with ``HETERO:``."""
    return spec.upper().startswith("HETERO:") or spec.upper() == "HETERO"


def is_by_names(spec: str | Path) -> bool:
    """Whether a device table is given by names, ``HETERO:GPU,CPU`` or ``GPU,CPU``, not by a file."""
    text = str(spec)
    return is_hetero(text) or (
        _are_names(text) and not os.path.exists(text)  # noqa: PTH110  # Path fails at a long text
    )


def text_of_table(spec: Spec) -> str:
    """The text of the file that a device table is read from; "" where it is none.

    Raises:
        DeviceTableError: the file cannot be read.
    """
    is_file = isinstance(spec, str | Path) and not is_by_names(spec)
    return _read(Path(str(spec))) if is_file else ""


def _from_hetero(text: str) -> tuple[Device, ...]:
    named = text.partition(":")[2] if is_hetero(text) else text
    names = [name.strip() for name in named.split(",")]
    if text.upper() == "HETERO":
        names = names_here()
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


def _are_names(text: str) -> bool:
    """Whether a text without `HETERO:` is names of devices: a known one, or several that may be, as GPU,GPU.1,CPU."""
    known = {name.lower() for name in known_names()}  # of other machines too, as server/CPU
    names = [name.strip() for name in text.split(",")]
    bases = [name.partition("(")[0].strip() for name in names]
    return not text.lower().endswith(_SUFFIXES) and all(
        base.lower() in known
        or (_NAME.fullmatch(name) and (len(names) > 1 or resolve(base) is not None))
        for name, base in zip(names, bases, strict=True)
    )


def _read(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise DeviceTableError(
                f"{path}: not a regular file (a device table, or names such as GPU,CPU)"
            )
        if path.stat().st_size > MAX_FILE_BYTES:
            raise DeviceTableError(
                f"{path}: {path.stat().st_size:,} bytes; a device table has at most {MAX_FILE_BYTES:,}"
            )
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        near = did_you_mean(path, known_names())
        raise DeviceTableError(
            f"{path}: no such file, and no known device{near} (a device table, or names such as GPU,CPU)"
        ) from error
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
    keys = [
        {key.value: f"{source}:{key.start_mark.line + 1}" for key, _ in item.value}
        for item in node.value
    ]
    return _from_entries(data, lines, source, keys)


def _from_entries(
    entries: list[dict[str, Any]],
    lines: list[str],
    source: str,
    keys: Sequence[Mapping[str, str]] = (),
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
        device = _Entry(entry, where, keys[i] if keys else {}).device(i)
        if any(device.name == other.name for other in devices):
            preset = entry.get("preset")
            free = (
                f": with a preset any name will do, as {device.name}2({preset})" if preset else ""
            )
            raise DeviceTableError(
                f"{where}: there are two devices named {device.name!r}; names must differ{free}"
            )
        devices.append(device)
    return tuple(devices)


class _Entry:
    """One entry of a table, with its location and those of its keys for error messages."""

    def __init__(self, entry: dict[str, Any], where: str, keys: Mapping[str, str]) -> None:
        self.entry, self.where, self.preset = entry, where, dict[str, Any]()
        self.keys = keys
        for key in entry:
            if key not in KEYS:
                self.fail(f"unknown key {key!r}{did_you_mean(key, KEYS)}", key)
        self.preset = self._preset()
        self.parameters = self._parameters()

    def fail(self, message: str, key: str = "") -> NoReturn:
        """Raises ``DeviceTableError`` with the location of a key, or of the entry."""
        raise DeviceTableError(f"{self.keys.get(key, self.where)}: {message}")

    def value(self, key: str) -> Any:
        """The value of a key of the entry, of its parameters or of its preset; None when absent, or emptied by the entry."""
        return next(
            (keys[key] for keys in (self.entry, self.parameters, self.preset) if key in keys), None
        )

    def read(self, key: str) -> Any:
        """The parsed value of a key; None when absent or empty."""
        value = self.value(key)
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        try:
            return KEYS[key].read(value)
        except DeviceTableError as error:
            self.fail(str(error), key)

    def device(self, position: int) -> Device:
        """Checks and builds the device."""
        read = {key: self.read(key) for key in KEYS}
        backend = read["backendName"] or read["runtime"] or read["name"] or ""
        name = read["name"] or backend
        if not name:
            self.fail("the device has no name")
        target = self._target(read["library"], read["provider"] or "", backend)
        logical_id: int | None = read["deviceID"]
        unit = read["unit"] or (str(logical_id) if logical_id else target.unit or "0")
        properties = self._properties(read["properties"] or {}, target)
        libraries = self._custom_ops(read["customOps"] or (), target)
        memory = read["memory"] or read["deviceMemory"] or target.memory
        taken: int = (read["memoryTaken"] or 0) if memory else 0
        return Device(
            name=name,
            backend=backend,
            runtime=target.runtime,
            provider=target.provider,
            present=target.present,
            device=read["device"] or target.device,
            unit=unit,
            codegen=read["codegen"] or target.runtime or backend.lower(),
            title=target.title,
            slowdown=target.slowdown,
            machine=target.machine,
            supported=read["supportedNodes"] or (),
            non_supported=read["nonSupportedNodes"] or (),
            properties=properties,
            custom_ops=libraries,
            memory=max(memory - taken, 1) if memory and taken else memory,
            taken=taken,
            memory_of_table=memory if taken else None,
            peak_compute=read["peakCompute"],
            peak_dram_bw=read["peakDramBw"],
            on_chip_memory=read["onChipMemory"],
            assumes_on_chip_memory="onChipMemory" in (read["notPublished"] or ())
            and "onChipMemory" not in self.entry,
            power=read["power"],
            link=read["link"] or target.link,
            start=read["start"],
            wire_type=read["wireType"] or "",
            logical_id=logical_id,
            published=Published(
                read["supported"] or (),
                read["dtypes"] or (),
                bool(read["static"]),
                read["maxRank"] or 0,
                read["assumes"] or "",
                read["source"] or "",
                read["published"] or "",
                read["preset"] or "",
                read["unofficial"] or "",
                read["read"] or "",
                read["version"] or "",
                read["unchecked"] or (),
            ),
            entry={**self.entry, "customOps": list(libraries)} if libraries else self.entry,
            index=properties.get("device_id", unit) if target.unit_selects else "",
            reason=target.reason,
        )

    def _target(self, library: str | None, provider: str, backend: str) -> Target:
        target = resolve_library(library, provider) if library else resolve(backend, provider)
        if target is None:
            known = known_names()
            if backend.lower() in preset_names():
                name = backend.lower()
                self.fail(
                    f"{backend!r} is a preset of a device: write NPU({name}), or preset: {name} in a table",
                    "backendName",
                )
            others = f"; known: {', '.join(known)}{_unusable()}"
            self.fail(
                f"unknown device or runtime {backend!r}{did_you_mean(backend, known, others, 0.5)}",
                "backendName",
            )
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
                self.fail(problem, "properties")
        return properties

    def _custom_ops(self, named: Sequence[str], target: Target) -> tuple[str, ...]:
        """The libraries of the entry, and those that the person gave to all devices that take some."""
        libraries, given = [custom_ops.full_name(each) for each in named], custom_ops.given()
        is_taking = loads_custom_ops(target.runtime)
        if libraries and target.runtime and not target.machine and not is_taking:
            self.fail(
                f"customOps: {target.title} registers no libraries of custom ops", "customOps"
            )
        for library in libraries:
            if library not in (custom_ops.EXTENSIONS, *given) and not is_trusted():
                self.fail(
                    f"customOps: {library} is code, which a table may not load ({WAY_OUT}; or pass --custom-ops {library})",
                    "customOps",
                )
        if not target.machine:
            try:
                custom_ops.give_of_table(libraries)
            except EditorError as error:
                self.fail(str(error), "customOps")
        return tuple(dict.fromkeys((*libraries, *(given if is_taking else ()))))

    def _parameters(self) -> dict[str, str]:
        block = self.entry.get("parameters")
        if isinstance(block, str):
            try:
                block = load_yaml(block)[1]
            except YamlError as error:
                self.fail(f'parameters: not `"key" : "value"` lines ({error})', "parameters")
        block = block or {}
        if not isinstance(block, dict):
            self.fail('parameters must hold `"key" : "value"` lines', "parameters")
        for key in block:
            if key not in KEYS and key not in _IGNORED_PARAMETERS:
                self.fail(f"unknown parameter {key!r}{did_you_mean(key, KEYS)}", "parameters")
        return block

    def _preset(self) -> dict[str, Any]:
        name = self.entry.get("preset")
        if name is None:
            return {}
        try:
            keys = preset(str(name))
        except DeviceTableError as error:
            self.fail(str(error), "preset")
        if any(
            self.entry.get(key) for key in ("backendName", "runtime", "provider")
        ):  # they belong together
            return {
                k: v for k, v in keys.items() if k not in ("backendName", "runtime", "provider")
            }
        return keys


def _unusable() -> str:
    """What a name may have meant that is installed but cannot be used."""
    parts = [f"{part.name} ({part.reason})" for part in unusable_runtimes()]
    return f"; installed but unusable: {', '.join(parts)}" if parts else ""


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
