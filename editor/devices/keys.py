"""The keys of a device table: one entry for each.

What reads tables, the page's form, the history, the docs and the JSON Schema go by it. A new key is an entry here; what it
means for a device is in ``Device.entry``, checked, until something needs a field of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from editor.arguments import shown
from editor.devices import published
from editor.devices.device import WIRE_TYPES, Link
from editor.devices.discovery import known_names
from editor.devices.vocabulary import op_name
from editor.errors import DeviceTableError
from editor.text import (
    parse_bytes,
    parse_bytes_per_second,
    parse_seconds,
    parse_watts,
    parse_work_per_second,
)

_MAX_DIGITS = 24
"""Of a number in a table."""
Schema = Mapping[str, Any]
_PLAIN: Schema = {"type": ["string", "number", "boolean", "null"]}
_NAMES: Schema = {"type": ["string", "array", "null"], "items": {"type": "string"}}


@dataclass(frozen=True)
class FormField:
    """How the page's form shows a key."""

    label: str
    example: str = ""
    """What may stand in it; of a list: what an empty one says."""
    kind: Literal["text", "choice", "ops"] = "text"
    choices: Callable[[], Sequence[str]] = tuple
    """Of a choice."""
    unit: str = ""
    """What a number without a unit is counted in."""
    meant: str = ""
    """The unit that is meant where nobody means that one."""
    doubted: Callable[[float], bool] = lambda number: 0 < number < 1e6
    """Whether nobody means such a number without a unit."""
    wide: bool = False
    on_machines: bool = False
    """Whether it stands only at devices of other machines, and where the table has it."""

    @property
    def words(self) -> str:
        """What the history calls it."""
        first = self.label.partition(",")[0]
        return first if first[:2].isupper() else first[:1].lower() + first[1:]


@dataclass(frozen=True)
class Key:
    """A key of the entries of a device table."""

    name: str
    text: str
    """Says what it means."""
    parse: Callable[[Any], Any] = str
    """Makes the value that the editor works with; None where it is not one. Of a plain key, what it gets is text."""
    must: str = "plain text"
    """What a value must be."""
    schema: Schema = field(default_factory=lambda: _PLAIN)
    form: FormField | None = None
    parts: tuple[Key, ...] = ()
    """The keys of a value that is a mapping."""

    @property
    def words(self) -> str:
        """What messages call it: as the page's form does, then as a table does."""
        label = self.form.label.partition(",")[0] if self.form else self.name
        return self.name if label.lower() == self.name.lower() else f"{label} ({self.name})"

    @property
    def fields(self) -> dict[str, FormField]:
        """What the form shows of it, by key or by key of its parts."""
        own = {self.name: self.form} if self.form else {}
        return own | {part.name: part.form for part in self.parts if part.form}

    def read(self, value: Any) -> Any:
        """The value, parsed.

        Raises:
            DeviceTableError: it is not one; without file and line.
        """
        plain = self.schema is _PLAIN
        is_plain = not isinstance(value, dict | list)
        parsed = (
            self.parse(str(value).strip() if plain else value) if is_plain or not plain else None
        )
        if parsed is None:
            raise DeviceTableError(f"{self.words} must be {self.must}, not {shown(value)}")
        return parsed


def listed(value: Any) -> tuple[str, ...]:
    """The names in a list, or in a text with commas."""
    parts = value if isinstance(value, list) else str(value or "").split(",")
    return tuple(str(part).strip() for part in parts if str(part).strip())


def _ops(key: str, value: Any) -> tuple[str, ...]:
    names = listed(value)
    for name in names:
        custom = "::" in name or "." in name.partition("::")[0]
        if op_name(name) is None and not custom:
            raise DeviceTableError(
                f"{KEYS[key].words}: unknown op {name!r} (ONNX, Glow and Relay names are known; write domain::Type for a "
                "custom op)"
            )
    return names


def _number(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    return int(text) if is_number else None


def _link(value: Any) -> Link | None:
    parts = {part.name: part for part in LINK}
    if not isinstance(value, dict) or not value or not set(value) <= set(parts):
        return None
    try:
        return Link(**{k: parts[k].read(v) for k, v in value.items() if v is not None})
    except DeviceTableError as error:
        raise DeviceTableError(f"link: {error}") from error


def _mapping(value: Any) -> dict[Any, Any] | None:
    return value if isinstance(value, dict) else None


def _size(text: str) -> int | None:
    return parse_bytes(text) or None


_SIZE = "a size above 0 such as 8GiB or 500MB (without one there is no limit)"
LINK = (
    Key(
        "bandwidth",
        "bytes/s",
        parse_bytes_per_second,
        "bytes/s above 0 such as 12e9 or 12 GB/s",
        form=FormField("Link, bytes/s", "12 GB/s", unit="bytes/s", meant="GB/s"),
    ),
    Key(
        "latency",
        "seconds for each transfer",
        parse_seconds,
        "seconds such as 1e-5 or 10us",
        form=FormField(
            "Link latency", "10us", unit="s", meant="us", doubted=lambda number: number >= 1
        ),
    ),
    Key(
        "ends",
        "`counted`: estimates have the time in which the inputs of the model reach the device, and its outputs host memory; "
        "default: only what other devices send and read",
        {"counted": True, "left out": False}.get,
        "counted or left out",
        form=FormField("Model inputs and outputs", "left out", "choice", lambda: ("counted",)),
    ),
)
KEYS: dict[str, Key] = {
    key.name: key
    for key in (
        Key("name", "how the plan calls the device; must be unique", form=FormField("Name")),
        Key(
            "backendName",
            "what runs it: `onnxruntime`, `openvino`, `tvm`, `Interpreter`, a known device name such as `CPU`, `GPU`, `GPU.1`, "
            "`OpenVINO.GPU`, or the name of an accelerator (`NPU`, `OpenCL`, `MYRIAD` ...)",
            form=FormField("Runs on", kind="choice", choices=known_names),
        ),
        Key("runtime", "the same as `backendName`"),
        Key("provider", "ONNX Runtime's execution provider, or OpenVINO's device"),
        Key(
            "library",
            "a library of execution providers that [the environment allows](devices.md#plugin-execution-providers), by name "
            "or path",
        ),
        Key(
            "preset",
            "a file of `examples/devices/presets`, whose keys are the defaults of this entry",
            form=FormField("Preset", "none", "choice", published.preset_names),
        ),
        Key(
            "assumes",
            "float tensors are planned [as if](#assumptions) they had this type: "
            f"{', '.join(f'`{one}`' for one in published.ASSUMABLE)}",
            lambda text: text if text in published.ASSUMABLE else None,
            f"one of {', '.join(published.ASSUMABLE)}",
            form=FormField(
                published.PRECISION, "as exported", "choice", lambda: published.ASSUMABLE
            ),
        ),
        Key(
            "device",
            "label of the [target level](rules.md#targets) of kinds; default: from the name and the runtime",
        ),
        Key("unit", "label of the level of units; also chooses among the GPUs of a provider"),
        Key("codegen", "label of the level of code generators; default: the runtime"),
        Key(
            "memory",
            "a size above 0 such as `8GiB` or `500MB`, for the policy `memory` and for reports; without one there is no limit",
            _size,
            _SIZE,
            form=FormField("Memory", "8GiB", unit="bytes", meant="MB"),
        ),
        Key("deviceMemory", "Glow's name of `memory`", _size, _SIZE),
        Key(
            "memoryTaken",
            "what the other models of a [set](models.md#sets-of-models) take of `memory`: the plan keeps within the rest",
            _size,
            "a size above 0 such as 8GiB or 500MB",
        ),
        Key(
            "peakCompute",
            "flop/s, for estimates: `1e13` or `10 TFLOPS`",
            parse_work_per_second,
            "a number above 0 such as 1e13 or 10 TFLOPS",
            form=FormField(
                "Peak compute, flop/s", "10 TFLOPS", unit="operations/s", meant="TFLOPS"
            ),
        ),
        Key(
            "peakDramBw",
            "bytes/s, for estimates: `4e11` or `400 GB/s`; `Gb/s` and `Gbps` are bits",
            parse_bytes_per_second,
            "a number above 0 such as 4e11 or 400 GB/s",
            form=FormField("DRAM, bytes/s", "400 GB/s", unit="bytes/s", meant="GB/s"),
        ),
        Key(
            "onChipMemory",
            "bytes of weights that a device without DRAM keeps on its chip, for estimates: those of the first ops; the others "
            "come [over its link](#devices-without-dram) in each run",
            _size,
            "a size above 0 such as 8MB",
            form=FormField("On-chip memory", "8MB", unit="bytes", meant="MB"),
        ),
        Key(
            "notPublished",
            "keys among `onChipMemory` whose values in a preset are assumed, because the maker publishes none",
            listed,
            schema=_NAMES,
        ),
        Key(
            "power",
            "watts that it takes while it works, for [joules](../explanation/numbers.md#energy): `15 W`; "
            "without them nothing is said of "
            "its energy",
            parse_watts,
            "watts above 0 such as 15 W or 350 mW",
            form=FormField("Power, W", "15 W"),
        ),
        Key(
            "link",
            "`{bandwidth: 12 GB/s, latency: 10us}` between the device and host memory, for estimates; a part that is left out "
            "is as assumed for such a device; `ends: counted` adds the inputs of the model, which reach the device, and its "
            "outputs, which leave it",
            _link,
            "a mapping such as {bandwidth: 12e9, latency: 1e-5} (bytes/s, seconds)",
            {"type": ["object", "null"], "minProperties": 1, "additionalProperties": False}
            | {"properties": {part.name: {"description": part.text, **_PLAIN} for part in LINK}},
            parts=LINK,
        ),
        Key(
            "start",
            "seconds that the start of a subgraph takes, for estimates: `50us`; without it, what is assumed",
            parse_seconds,
            "seconds such as 5e-5 or 50us",
            form=FormField(
                "Start of a subgraph",
                "50us",
                unit="s",
                meant="us",
                doubted=lambda number: number >= 1,
            ),
        ),
        Key(
            "properties",
            "[options](#properties) that are passed to the runtime",
            _mapping,
            "a mapping of option: value",
            {"type": ["object", "null"]},
            FormField("Properties", "NUM_STREAMS=1; option=value", wide=True),
        ),
        Key(
            "customOps",
            "libraries of custom ops that ONNX Runtime registers: files, which need "
            "[`--trust` or `--custom-ops`](#properties), or `onnxruntime-extensions`",
            listed,
            schema=_NAMES,
        ),
        Key(
            "wireType",
            "what its boundary tensors may travel as to [other machines](../device-farm.md#narrower-types-on-the-wire): "
            f"{' or '.join(f'`{one}`' for one in WIRE_TYPES)}; default: as they are",
            lambda text: text if text in WIRE_TYPES else None,
            " or ".join(WIRE_TYPES),
            form=FormField("Type on wires", " or ".join(WIRE_TYPES), on_machines=True),
        ),
        Key(
            "nonSupportedNodes",
            "op types that the device may not run",
            partial(_ops, "nonSupportedNodes"),
            schema=_NAMES,
            form=FormField(
                "Block-list",
                "Ops that this device must not take; those of this model come first",
                "ops",
            ),
        ),
        Key(
            "supportedNodes",
            "op types that the device may run; empty or missing: all",
            partial(_ops, "supportedNodes"),
            schema=_NAMES,
            form=FormField("Allow-list", "Every op; with some listed here, those alone", "ops"),
        ),
        Key(
            "supported",
            "op types that the device takes, each perhaps under a [condition](#conditions); a missing list takes all",
            published.parse_supported,
            schema={
                "type": ["string", "array", "null"],
                "items": {
                    "type": ["string", "object"],
                    "required": ["op"],
                    "additionalProperties": False,
                    "properties": {name: {"type": "string"} for name in published.ENTRY_KEYS},
                },
            },
        ),
        Key("dtypes", "element types that it takes", published.parse_dtypes, schema=_NAMES),
        Key(
            "static",
            "`true`: ops with a size that is not known before a run are refused",
            lambda value: value if isinstance(value, bool) else None,
            "true or false",
            {"type": ["boolean", "null"]},
        ),
        Key(
            "maxRank",
            "the most dimensions that a tensor may have",
            published.parse_rank,
            "a whole number above 0",
            {"type": ["integer", "null"], "minimum": 1},
        ),
        Key(
            "source",
            "URL of the document that says what it takes",
            published.parse_source,
            "the URL of the document",
        ),
        Key(
            "published",
            "date of that document",
            published.parse_date,
            "a date such as 2025-03-31",
        ),
        Key(
            "read",
            "date of reading it, where it has none",
            published.parse_date,
            "a date such as 2025-03-31",
        ),
        Key(
            "version",
            "what that document is of, such as `Vela 5.2.0` or a year; every reason that cites the list says so",
        ),
        Key(
            "unofficial",
            "what the list of ops is of, where it is not the vendor's; every reason that cites it says so",
        ),
        Key(
            "unchecked",
            f"what the list does not tell of ops, by op type, or of `{published.ANY}`: `{{Clip: its bounds}}`; the reasons of "
            "such ops say so",
            published.parse_unchecked,
            schema={"type": ["object", "null"], "additionalProperties": {"type": "string"}},
        ),
        Key("deviceID", "Glow's logical device number", _number, "a whole number"),
        Key(
            "parameters",
            'Glow\'s block of `"key" : "value"` lines; all other keys may stand there',
            lambda value: value if isinstance(value, dict | str) else None,
            '`"key" : "value"` lines',
            {"type": ["string", "object", "null"]},
        ),
    )
}
"""By name, in the order of the form and of the docs."""


def form_fields() -> dict[str, FormField]:
    """What the page's form shows, by key; bandwidth and latency are those of the link."""
    return {name: one for key in KEYS.values() for name, one in key.fields.items()}


def schema() -> dict[str, Any]:
    """The JSON Schema of a device table, for editors of text and for other programs."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Device table of Hetero Editor",
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                key.name: {"description": key.text, **key.schema} for key in KEYS.values()
            },
        },
    }
