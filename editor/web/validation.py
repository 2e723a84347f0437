"""Checks of what a page sends against the message types, before a handler sees it."""

from __future__ import annotations

import types
from collections.abc import Mapping
from functools import lru_cache
from typing import (
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from editor.errors import EditorError

RELOAD = "Reload the page."
_LARGEST = 2**53
"""A page has no larger whole numbers, and a database none above 2 ** 63."""


def require(value: object, expected: type, what: str) -> None:
    """Checks that a message has the fields of its type.

    Args:
        value: as it came from the page.
        expected: a ``TypedDict``.
        what: the message in words, for the error.

    Raises:
        EditorError: a field is missing, unknown or of another type.
    """
    fault = _fault(value, expected)
    if fault:
        raise EditorError(f"The page sent {what} that does not fit: {fault}. {RELOAD}")


def require_value(value: object, expected: Any, name: str) -> None:
    """Checks a value that a callback takes; whether the fields of a message are right is left to its handler.

    Raises:
        EditorError: it is of another type.
    """
    kinds = get_args(expected) if get_origin(expected) in (Union, types.UnionType) else (expected,)
    if all(_fault(value, dict if is_typeddict(kind) else kind) for kind in kinds):
        raise EditorError(f"{name.strip('_')} is of another type")


@lru_cache
def _fields(expected: type) -> dict[str, tuple[Any, bool]]:
    """Type of each field, and whether it must be there."""
    hints = get_type_hints(expected, include_extras=True)
    return {
        name: (get_args(hint)[0], False) if get_origin(hint) is NotRequired else (hint, True)
        for name, hint in hints.items()
    }


def _fault(value: object, expected: Any) -> str:
    """What is wrong with a value; "" when nothing is."""
    if expected is Any:
        return ""
    if is_typeddict(expected):
        return _fault_of_fields(value, expected)
    origin = get_origin(expected)
    if origin is Literal:
        return "" if value in get_args(expected) else f"{value!r} is unknown"
    if origin in (Union, types.UnionType):
        return (
            ""
            if any(not _fault(value, each) for each in get_args(expected))
            else f"{value!r} is of another type"
        )
    if origin is list:
        if not isinstance(value, list):
            return "a list is missing"
        (each,) = get_args(expected)
        return next((fault for one in value if (fault := _fault(one, each))), "")
    if origin is dict and isinstance(value, dict):
        _, each = get_args(expected)
        return next((fault for one in value.values() if (fault := _fault(one, each))), "")
    if expected is int and isinstance(value, int) and abs(value) > _LARGEST:
        return f"the number {str(value)[:20]}… is too large"
    plain = origin or expected
    right = isinstance(value, plain) and not (plain is int and isinstance(value, bool))
    return "" if right else f"{str(value)[:40]!r} is of another type"


def _fault_of_fields(value: object, expected: type) -> str:
    if not isinstance(value, Mapping):
        return "its fields are missing"
    fields = _fields(expected)
    for name, (kind, required) in fields.items():
        if name not in value:
            if required:
                return f"“{name}” is missing"
        elif fault := _fault(value[name], kind):
            return f"in “{name}” {fault}"
    unknown = sorted(set(value) - set(fields))
    return f"“{unknown[0]}” is unknown" if unknown else ""
