"""Reads the keys of a device table that state what a device takes: ``supported``, ``dtypes``, ``static``, ``assumes`` ..."""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from editor.devices.expressions import Expression
from editor.devices.op_fields import FIELDS
from editor.devices.published import ASSUMABLE, Published, Supported
from editor.devices.vocabulary import op_name
from editor.errors import DeviceTableError, EditorError
from editor.graph.attribute_values import all_attribute_names, attribute_names
from editor.graph.types import bits_of

KEYS = ("supported", "dtypes", "static", "assumes", "source", "published", "preset")
_MAX_OPS = 2000
_ENTRY_KEYS = ("op", "where", "reason")


def published_of(entry: Mapping[str, Any]) -> Published:
    """The published limits that an entry states.

    Raises:
        DeviceTableError: a key has a wrong value; without file and line.
    """
    static = entry.get("static", False)
    if not isinstance(static, bool):
        raise DeviceTableError(f"static must be true or false, not {static!r}")
    return Published(_supported(entry.get("supported")), _dtypes(entry.get("dtypes")), static, _assumes(entry.get("assumes")),
                     _source(entry.get("source")), _date(entry.get("published")), str(entry.get("preset") or ""))


def _supported(value: Any) -> tuple[Supported, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",") if name.strip()]
    if not isinstance(value, list) or not value:
        raise DeviceTableError("supported must be a list of op types, or of {op: Conv, where: \"group == 1\"}")
    if len(value) > _MAX_OPS:
        raise DeviceTableError(f"supported: {len(value):,} entries, the limit is {_MAX_OPS:,}")
    return tuple(_one(item) for item in value)


def _one(item: Any) -> Supported:
    if isinstance(item, str):
        return Supported(_op(item))
    if not isinstance(item, dict) or not isinstance(item.get("op"), str):
        raise DeviceTableError(f"supported: an entry is an op type or {{op, where, reason}}, not {_short(item)}")
    for key in item:
        if key not in _ENTRY_KEYS:
            raise DeviceTableError(f"supported: {item['op']}: unknown key {_short(key)}; the keys are {', '.join(_ENTRY_KEYS)}")
    name, where, reason = _op(item["op"]), item.get("where"), item.get("reason", "")
    if not isinstance(where, str | None) or not isinstance(reason, str):
        raise DeviceTableError(f"supported: {name}: where and reason must be texts; put conditions in quotes")
    return Supported(name, _condition(name, where), reason)


def _op(text: str) -> str:
    name = text.strip()
    if "::" not in name and op_name(name) is None:
        raise DeviceTableError(f"supported: unknown op {_short(name)} (ONNX, Glow and Relay names are known; "
                               "write domain::Type for a custom op)")
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
            close = difflib.get_close_matches(word, known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; the fields are {', '.join(FIELDS)}"
            raise DeviceTableError(f"supported: {name}: {_short(word)} is neither a field nor an attribute of {name}{hint}")
    return expression


def _attributes(name: str) -> frozenset[str]:
    """Attributes that a condition on an op may name; those of all ops where ONNX does not define the op."""
    if "::" in name:
        return all_attribute_names() | attribute_names(name.partition("::")[2], "")
    meaning = op_name(name)
    return frozenset(a for op_type in (meaning.types if meaning else ()) for a in attribute_names(op_type, ""))


def _dtypes(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    names = [n.strip() for n in value.split(",")] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        raise DeviceTableError("dtypes must be a list of element types such as [int8, uint8]")
    for name in names:
        if not isinstance(name, str) or not bits_of(name):
            raise DeviceTableError(f"dtypes: unknown element type {_short(name)}{_close(name)}")
    return tuple(names)


def _close(name: Any) -> str:
    known = ("float32", "float16", "bfloat16", "float64", "int8", "uint8", "int16", "uint16", "int32", "int64", "bool", "int4")
    close = difflib.get_close_matches(str(name), known, 1)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)} ..."


def _assumes(value: Any) -> str:
    if value is None:
        return ""
    if value not in ASSUMABLE:
        raise DeviceTableError(f"assumes must be one of {', '.join(ASSUMABLE)}, not {_short(value)}")
    return str(value)


def _source(value: Any) -> str:
    if value is None:
        return ""
    try:
        parts = urlsplit(value if isinstance(value, str) else "")
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc or any(c.isspace() for c in str(value)):
        raise DeviceTableError(f"source must be the URL of the document, not {_short(value)}")
    return str(value)


def _date(value: Any) -> str:
    if value is None:
        return ""
    try:
        return datetime.date.fromisoformat(str(value)).isoformat()
    except ValueError:
        raise DeviceTableError(f"published must be a date such as 2025-03-31, not {_short(value)}") from None


def _short(value: Any) -> str:
    return repr(value)[:60]
