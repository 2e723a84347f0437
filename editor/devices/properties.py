"""Properties of devices: the options of a table that go to the runtime as they are.

A table may come from a stranger, so a runtime states which properties it takes. Everything else is refused, and with it all
that names a file or a folder, holds an address in memory or loads code, unless the person trusts the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from editor.arguments import did_you_mean
from editor.environment import TRUST
from editor.limits import is_trusted

Kind = Literal["switch", "number", "word", "names", "text"]
_FORMS: Mapping[Kind, tuple[re.Pattern[str], str]] = {
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
    kind: Kind
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
