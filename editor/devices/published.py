"""Knows what the documents of a device say that it takes, and the presets that hold it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import yaml

from editor.arguments import did_you_mean, shown
from editor.devices.condition_words import Lack, lack_of
from editor.devices.expressions import Expression, UnknownValueError
from editor.devices.vocabulary import OpName, op_name
from editor.errors import DeviceTableError, EditorError
from editor.files import resource_dir
from editor.graph.attributes import (
    all_attribute_names,
    attribute_default,
    attribute_names,
    attribute_value,
)
from editor.graph.graph import Graph, Ints, Shape, bits_of, cached_per_graph
from editor.text import joined

FIELDS = (
    "op",
    "name",
    "key",
    "domain",
    "inputs",
    "outputs",
    "dtype",
    "rank",
    "shape",
    "dtype_b",
    "rank_b",
    "shape_b",
    "out_dtype",
    "out_rank",
    "out_shape",
    "computed",
    "opset",
)
_ONES, _ZEROS = frozenset({"strides", "dilations"}), frozenset({"pads", "output_padding"})
_WINDOW = _ONES | _ZEROS | {"kernel_shape"}


class OpFields:
    """Values of one op. ``dtype``, ``rank`` and ``shape`` are those of its first input, ``_b`` those of its second one.

    An op without inputs has the element type and shape of its output. ``computed`` are the positions of inputs that are
    not constant: ``1 not in computed`` for constant weights. ``opset`` is the version of the op's domain.
    """

    fields: tuple[str, ...] = FIELDS

    def __init__(self, graph: Graph, op: int, types: Sequence[str] | None = None) -> None:
        """``types`` are the element types of the tensors; those of the model by default."""
        self.graph, self.op = graph, op
        self.types = graph.tensor_types if types is None else types

    def field(self, name: str) -> Any:
        """The value of a field; raises ``UnknownValueError`` where it is not known."""
        graph, op = self.graph, self.op
        plain = {
            "op": graph.op_types,
            "name": graph.op_names,
            "key": graph.op_keys,
            "domain": graph.op_domains,
        }
        if name in plain:
            return plain[name][op]
        if name == "inputs":
            return len(graph.op_reads[op])
        if name == "outputs":
            return len(graph.op_outputs[op])
        if name == "computed":
            return tuple(
                i
                for i, t in enumerate(graph.op_inputs[op].tolist())
                if t >= 0 and not graph.tensor_is_constant[t]
            )
        if name == "opset":
            return self._opset
        tensor = self._tensor(name)
        what = name.removeprefix("out_").partition("_")[0]
        if what == "dtype":
            return _known(self.types[tensor] or None, name)
        shape: Shape = _known(graph.tensor_shapes[tensor], name)
        return len(shape) if what == "rank" else tuple(shape)

    def attribute(self, name: str) -> Any:
        """The value of an attribute, or its default; see ``Names.attribute``."""
        graph, op = self.graph, self.op
        text = next((text for key, text in graph.op_attributes[op] if key == name), None)
        if text is not None:
            return attribute_value(text)
        op_type, domain = graph.op_types[op], graph.op_domains[op]
        default = attribute_default(op_type, domain, self._opset, name)
        if default is None and name in _WINDOW and name in attribute_names(op_type, domain):
            default = self._window(name)
        if default is None and name in all_attribute_names():
            raise UnknownValueError(f"{graph.op_types[op]} has no {name}")
        return default

    @property
    def _opset(self) -> int:
        return self.graph.opsets.get(self.graph.op_domains[self.op] or "ai.onnx", 1)

    def _tensor(self, name: str) -> int:
        inputs, outputs = (
            t[self.op].tolist() for t in (self.graph.op_inputs, self.graph.op_outputs)
        )
        tensors = outputs if name.startswith("out_") or not inputs else inputs
        position = 1 if name.endswith("_b") else 0
        if position >= len(tensors) or tensors[position] < 0:
            raise UnknownValueError(f"{self.graph.op_types[self.op]} has no {name}")
        return int(tensors[position])

    def _window(self, name: str) -> tuple[int, ...] | None:
        """Defaults that ONNX states in words: one value per spatial axis."""
        if name == "kernel_shape":
            shape: Shape = self.field("shape_b")
            return (
                tuple(d for d in shape[2:] if isinstance(d, int))
                if all(isinstance(d, int) for d in shape)
                else None
            )
        axes = int(self.field("rank")) - 2
        return (
            (1,) * axes
            if name in _ONES
            else (0,) * (axes if name == "output_padding" else 2 * axes)
        )


def _known(value: Any, name: str) -> Any:
    if value is None:
        raise UnknownValueError(f"{name} is not known")
    return value


HAS = "; this op has "
"""Separates what a condition needs from what the op has."""
PRECISION = "Precision"
"""What the page calls the key ``assumes``."""
ASSUMABLE = ("int8", "uint8", "int16", "uint16", "float16", "bfloat16")
"""Types to plan a float model in; the first of those that a device takes is proposed."""
FLOATS = ("float32", "float64", "float16", "bfloat16")
_KEEP_TYPE = frozenset({"Relu", "Clip"})
"""Ops between a quantised op and its QuantizeLinear, which compilers fuse."""


@dataclass(frozen=True)
class _Named:
    """An entry about the ops of one name."""

    name: str

    @property
    def meaning(self) -> OpName:
        """The op types that the name stands for."""
        domain, separator, op_type = self.name.partition("::")
        found = None if separator else op_name(self.name)
        return found or OpName(frozenset({op_type or domain}))

    def names(self, graph: Graph, op: int) -> bool:
        """Whether an op has this name, in the domain that it states."""
        domain = self.name.partition("::")[0] if "::" in self.name else ""
        return graph.op_domains[op] in (domain, domain or "ai.onnx") and self.meaning.matches(
            graph, op
        )


@dataclass(frozen=True)
class Supported(_Named):
    """One entry of ``supported``: an op name, perhaps under a condition."""

    where: Expression | None = None
    reason: str = ""
    """Why ops outside the condition are refused; the condition itself by default."""

    def lack(self, fields: OpFields) -> Lack | None:
        """What an op lacks; None when the condition holds."""
        return (
            None if self.where is None or self.where.holds(fields) else lack_of(self.where, fields)
        )

    def need(self, lack: Lack) -> str:
        """What an op lacks as a sentence: the reason of the table, where it states one."""
        return self.reason or (f"needs {lack.need}" if lack.has else f"{lack.need} is needed here")


@dataclass(frozen=True)
class Unchecked(_Named):
    """What a list does not say of an op, or nobody wrote down as a condition."""

    what: str


@dataclass(frozen=True)
class Published:
    """The published limits of a device."""

    supported: tuple[Supported, ...] = ()
    """Empty: no list is published."""
    dtypes: tuple[str, ...] = ()
    static: bool = False
    max_rank: int = 0
    """Most dimensions of a tensor; 0 where none is published."""
    assumes: str = ""
    """Element type that float tensors are planned with, as if the model had been converted to it."""
    source: str = ""
    published: str = ""
    preset: str = ""
    unofficial: str = ""
    """What the list is of, where it is not the vendor's."""
    read: str = ""
    version: str = ""
    """The version of a compiler, or the year, that the document is of."""
    unchecked: tuple[Unchecked, ...] = ()
    """What the list leaves to the person."""

    @property
    def restricts(self) -> bool:
        """Whether any op may be refused."""
        return bool(self.supported or self.dtypes or self.static or self.max_rank)

    @property
    def origin(self) -> str:
        """What says what the device takes, of which version and date; "" where nothing does."""
        if not self.source:
            return ""
        said = [
            self._list if self.supported else self._list.replace("list", "limits"),
            self.version if self.unofficial else "",
            self.published,
            f"read {self.read}" if self.read else "",
            "" if self.version or self.published else "version not stated",
        ]
        return ", ".join(filter(None, said))

    def unchecked_in(self, graph: Graph) -> str:
        """What is not checked of the ops of a model, as a clause; "" where nothing is left open."""
        found = [
            one.what if one.name == ANY else f"{one.name}: {one.what}"
            for one in self.unchecked
            if one.name == ANY or any(one.names(graph, op) for op in range(len(graph)))
        ]
        return f"not checked: {'; '.join(found)}" if found else ""

    def unchecked_of(self, graph: Graph, op: int) -> str:
        """What is not checked of this op; that of any op is said of the device."""
        found = [u.what for u in self.unchecked if u.name != ANY and u.names(graph, op)]
        return f"not checked: {'; '.join(found)}" if found else ""

    @property
    def note(self) -> str:
        """For people: preset and assumption."""
        parts = [
            f"preset {self.preset}" if self.preset else "",
            f"as if {self.assumes}" if self.assumes else "",
            self._list if self.unofficial else "",
        ]
        return ", ".join(part for part in parts if part)

    def refusals(self, graph: Graph) -> tuple[str, ...]:
        """[op] why the device does not take it; "" where it does. Constants are folded and never refused."""
        if not self.restricts:
            return ("",) * len(graph)
        types = effective_types(graph, self.assumes)
        return tuple(
            "" if graph.op_is_constant[op] else self._refusal(graph, op, types)
            for op in range(len(graph))
        )

    def _refusal(self, graph: Graph, op: int, types: Sequence[str]) -> str:
        named = [entry for entry in self.supported if entry.names(graph, op)]
        if self.supported and not named:
            return f"{graph.type_label(op)} is not in the {self._list}{self._link}"
        fields = OpFields(graph, op, types)
        dtype = _dtype(graph, op, types)
        if self.dtypes and dtype and dtype not in self.dtypes:
            return self._wrong_type(dtype)
        if self.static and (tensor := _open_tensor(graph, op)) >= 0:
            return (
                f"the size of {graph.tensor_names[tensor]!r} ({graph.shape_label(tensor)}) is not fixed before a run; "
                f"this device takes static sizes"
            )
        if self.max_rank and (tensor := _deep_tensor(graph, op, self.max_rank)) >= 0:
            return (
                f"{graph.tensor_names[tensor]!r} ({graph.shape_label(tensor)}) has more than {self.max_rank} dimensions, "
                f"the most that this device takes{self._link}"
            )
        lacking = _lacking(named, fields)
        if not lacking:
            return ""
        needs = ", or else ".join(dict.fromkeys(entry.need(lack) for entry, lack in lacking))
        needs = needs.replace(", or else needs ", ", or else ")
        has = joined(list(dict.fromkeys(one for _, lack in lacking for one in lack.has)))
        return (
            f"{graph.type_label(op)}: {needs}{f', by an {self._list}' if self.unofficial else ''}"
            f"{self._link}{f'{HAS}{has}' if has else ''}"
        )

    def condition(self, graph: Graph, op: int) -> str:
        """The conditions of the table that an op does not meet, as they are written; "" where there are none."""
        named = [entry for entry in self.supported if entry.names(graph, op)]
        if not any(entry.where for entry in named):
            return ""
        lacking = _lacking(named, OpFields(graph, op, effective_types(graph, self.assumes)))
        texts = [" ".join(e.where.text.split()) for e, _ in lacking if e.where is not None]
        return texts[0] if len(texts) == 1 else " or ".join(f"({text})" for text in texts)

    def way_out(self, reason: str) -> str:
        """The element type to plan a model in, where that ends this refusal; "" elsewhere."""
        possible = [] if self.assumes else [t for t in self.dtypes if t in ASSUMABLE]
        types = [t for t in FLOATS if t not in self.dtypes]
        return possible[0] if possible and reason in map(self._wrong_type, types) else ""

    def _wrong_type(self, dtype: str) -> str:
        possible = (
            []
            if self.assumes or dtype not in FLOATS
            else [t for t in self.dtypes if t in ASSUMABLE]
        )
        way_out = (
            f"; with {PRECISION} (assumes) {possible[0]} it is planned as if the model were converted"
            if possible
            else ""
        )
        return f"{dtype}; this device takes {joined(self.dtypes, 'or')}{way_out}"

    def is_hearsay(self, reason: str) -> bool:
        """Whether a refusal is by a list that is not the vendor's."""
        return bool(self.unofficial) and self._list in reason

    @property
    def _list(self) -> str:
        if self.unofficial:
            return f"unofficial list of {self.unofficial}"
        return f"published list of {self.version}" if self.version else "published list"

    @property
    def _link(self) -> str:
        return f" ({self.source})" if self.source else ""


def _lacking(entries: Sequence[Supported], fields: OpFields) -> list[tuple[Supported, Lack]]:
    """What an op lacks of each entry; nothing where it meets one of them."""
    found = [(entry, entry.lack(fields)) for entry in entries]
    lacking = [(entry, lack) for entry, lack in found if lack is not None]
    return lacking if len(lacking) == len(entries) else []


_MOST_SHOWN = 3
"""Values of several ops that a reason names."""


def need_of(reason: str) -> str:
    """A reason without what the op has, so that it is the same for all ops that lack the same."""
    return reason.partition(HAS)[0]


def reason_of_all(reasons: Sequence[str]) -> str:
    """The reasons of several ops that lack the same, as one."""
    has = list(dict.fromkeys(reason.partition(HAS)[2] for reason in reasons))
    if len(reasons) == 1 or not has[0]:
        return reasons[0]
    more = [f"{len(has) - _MOST_SHOWN} others"] if len(has) > _MOST_SHOWN else []
    return f"{need_of(reasons[0])}; these ops have {', or '.join([*has[:_MOST_SHOWN], *more])}"


def _dtype(graph: Graph, op: int, types: Sequence[str]) -> str:
    """Element type of the first input, or of the output of an op without inputs."""
    tensors = [t for t in (*graph.op_inputs[op].tolist(), *graph.op_outputs[op].tolist()) if t >= 0]
    return types[tensors[0]] if tensors else ""


def _open_tensor(graph: Graph, op: int) -> int:
    """A tensor of the op whose size is not known; -1 when there is none."""
    for tensor in (*graph.op_reads[op].tolist(), *graph.op_outputs[op].tolist()):
        shape = graph.tensor_shapes[tensor] if tensor >= 0 else ()
        if shape is None or any(not isinstance(d, int) for d in shape):
            return int(tensor)
    return -1


def _deep_tensor(graph: Graph, op: int, most: int) -> int:
    """A tensor of the op, no constant, that has more dimensions; -1 when there is none."""
    tensors = (*graph.op_reads[op].tolist(), *graph.op_outputs[op].tolist())
    computed = (t for t in tensors if t >= 0 and not graph.tensor_is_constant[t])
    return next((t for t in computed if len(graph.tensor_shapes[t] or ()) > most), -1)


@cached_per_graph
def effective_types(graph: Graph, assumes: str = "") -> list[str]:
    """[tensor] element type that a compiler sees.

    A float tensor that comes from DequantizeLinear, or goes into QuantizeLinear only, stands for quantised values (the QDQ
    form of a quantised model). ``assumes`` replaces the other float types.
    """
    types = list(graph.tensor_types)
    for op in graph.order.tolist():
        if graph.op_types[op] == "DequantizeLinear":
            types[graph.op_outputs[op][0]] = types[graph.op_inputs[op][0]]
    for op in graph.order.tolist()[::-1]:
        for tensor in graph.op_inputs[op].tolist()[:1]:
            readers = graph.readers[tensor].tolist() if tensor >= 0 else []
            ends = {_read_as(graph, reader, types) for reader in readers}
            if len(ends) == 1 and "" not in ends and types[tensor] in FLOATS:
                types[tensor] = ends.pop()
    return [assumes if assumes and t in FLOATS else t for t in types]


def _read_as(graph: Graph, op: int, types: Sequence[str]) -> str:
    """The quantised type that an op gives to what it reads; "" when it does not."""
    result = [int(t) for t in graph.op_outputs[op].tolist()[:1]]
    if not result:
        return ""
    fused = graph.op_types[op] in _KEEP_TYPE and types[result[0]] not in FLOATS
    return types[result[0]] if fused or graph.op_types[op] == "QuantizeLinear" else ""


@cached_per_graph
def assumed_bytes(graph: Graph, assumes: str) -> Ints:
    """[tensor] bytes on a device that plans float tensors as ``assumes``; negative where unknown. Cached per graph."""
    if not assumes:
        return graph.tensor_bytes
    sizes = graph.tensor_bytes.copy()
    for tensor in np.flatnonzero(sizes > 0).tolist():
        if graph.tensor_types[tensor] in FLOATS:
            bits = bits_of(graph.tensor_types[tensor])
            sizes[tensor] = sizes[tensor] * bits_of(assumes) // bits
    return sizes


ANY = "any"
"""Stands for every op."""
_MAX_OPS = 2000
ENTRY_KEYS = ("op", "where", "reason")
"""Keys of an entry of ``supported``."""


def parse_supported(value: Any) -> tuple[Supported, ...]:
    """The ops that an entry lists.

    Raises:
        DeviceTableError: one is unknown, or its condition is wrong; without file and line.
    """
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",") if name.strip()]
    if not isinstance(value, list) or not value:
        raise DeviceTableError(
            'supported must be a list of op types, or of {op: Conv, where: "group == 1"}'
        )
    if len(value) > _MAX_OPS:
        raise DeviceTableError(f"supported: {len(value):,} entries, the limit is {_MAX_OPS:,}")
    return tuple(_one(item) for item in value)


def parse_unchecked(value: Any) -> tuple[Unchecked, ...]:
    """What an entry says of ops that is not checked.

    Raises:
        DeviceTableError: an op is unknown, or it is not a mapping of texts; without file and line.
    """
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise DeviceTableError(
            f"unchecked must be a mapping such as {{Clip: its bounds, {ANY}: sizes}}"
        )
    return tuple(
        Unchecked(name if name == ANY else _op(str(name), "unchecked"), text)
        for name, text in value.items()
    )


def _one(item: Any) -> Supported:
    if isinstance(item, str):
        return Supported(_op(item))
    if not isinstance(item, dict) or not isinstance(item.get("op"), str):
        raise DeviceTableError(
            f"supported: an entry is an op type or {{op, where, reason}}, not {shown(item)}"
        )
    for key in item:
        if key not in ENTRY_KEYS:
            raise DeviceTableError(
                f"supported: {item['op']}: unknown key {shown(key)}; the keys are {', '.join(ENTRY_KEYS)}"
            )
    name, where, reason = _op(item["op"]), item.get("where"), item.get("reason", "")
    if not isinstance(where, str | None) or not isinstance(reason, str):
        raise DeviceTableError(
            f"supported: {name}: where and reason must be texts; put conditions in quotes"
        )
    return Supported(name, _condition(name, where), reason)


def _op(text: str, key: str = "supported") -> str:
    name = text.strip()
    if "::" not in name and op_name(name) is None:
        raise DeviceTableError(
            f"{key}: unknown op {shown(name)} (ONNX, Glow and Relay names are known; "
            "write domain::Type for a custom op)"
        )
    return name


def _condition(name: str, text: str | None) -> Expression | None:
    if text is None:
        return None
    try:
        expression = Expression(text, "condition")
        words = expression.words()
    except EditorError as error:
        raise DeviceTableError(f"supported: {name}: {error}") from error
    known = (*FIELDS, *sorted(_attributes(name)))
    for word in words:
        if word not in known and word.lower() not in ("true", "false"):
            hint = did_you_mean(word, known, f"; the fields are {', '.join(FIELDS)}")
            raise DeviceTableError(
                f"supported: {name}: {shown(word)} is neither a field nor an attribute of {name}{hint}"
            )
    return expression


def _attributes(name: str) -> frozenset[str]:
    """Attributes that a condition on an op may name; those of all ops where ONNX does not define the op."""
    if "::" in name:
        return all_attribute_names() | attribute_names(name.partition("::")[2], "")
    meaning = op_name(name)
    return frozenset(
        a for op_type in (meaning.types if meaning else ()) for a in attribute_names(op_type, "")
    )


def parse_rank(value: Any) -> int | None:
    """A number of dimensions; None where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def parse_dtypes(value: Any) -> tuple[str, ...]:
    """The element types that an entry lists; raises ``DeviceTableError`` as ``parse_supported``."""
    names = [n.strip() for n in value.split(",")] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        raise DeviceTableError("dtypes must be a list of element types such as [int8, uint8]")
    for name in names:
        if not isinstance(name, str) or not bits_of(name):
            raise DeviceTableError(f"dtypes: unknown element type {shown(name)}{_close(name)}")
    return tuple(names)


def _close(name: Any) -> str:
    known = (
        "float32",
        "float16",
        "bfloat16",
        "float64",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "int64",
        "bool",
        "int4",
    )
    return did_you_mean(name, known, f"; known are {', '.join(known)} ...")


def parse_source(text: str) -> str | None:
    """The URL; None where it is none."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    is_url = parts.scheme in ("http", "https") and parts.netloc
    return text if is_url and not any(c.isspace() for c in text) else None


def parse_date(text: str) -> str | None:
    """The date; None where it is none."""
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        return None


_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""For files of ours: all of them take it a tenth of the time, and the first page waits for them"""


def preset_names() -> list[str]:
    """Names of all presets."""
    return sorted(
        path.stem for path in (resource_dir("examples") / "devices" / "presets").glob("*.yaml")
    )


@cache
def preset(name: str) -> dict[str, Any]:
    """The keys of a preset; do not change them.

    Raises:
        DeviceTableError: there is no such preset, or its file cannot be read.
    """
    known = preset_names()
    if not _NAME.fullmatch(name) or name not in known:
        raise DeviceTableError(
            f"unknown preset {name[:60]!r}{did_you_mean(name, known)} (there are {', '.join(known) or 'none'})"
        )
    path = resource_dir("examples") / "devices" / "presets" / f"{name}.yaml"
    try:
        keys = yaml.load(path.read_text(encoding="utf-8"), _LOADER)  # nosec B506  # a safe one
    except (OSError, yaml.YAMLError) as error:
        raise DeviceTableError(f"{path}: {error}") from error
    if not isinstance(keys, dict) or "preset" in keys or "name" in keys:
        raise DeviceTableError(
            f"{path}: a preset is a mapping of keys of a device, without name and preset"
        )
    return keys
