"""Arguments of public functions: what has the wrong type is named, before an inner line fails at it; requirements as text."""

from __future__ import annotations

import difflib
import operator
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from editor.errors import EditorError

MOST_REQUESTS, MOST_THREADS, MOST_TOKENS = 256, 4096, 1 << 20
_LONGEST = 60

KEEP_FUNCTIONS = "keep_functions"
"""Name in ``define`` that leaves calls of local functions closed."""


def shown(value: object) -> str:
    """A value in a message: its beginning."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # a whole number of thousands of digits, or a faulty class
        text = type(value).__name__
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def did_you_mean(
    name: object, known: Iterable[str], otherwise: str = "", cutoff: float = 0.6
) -> str:
    """The end of a message about an unknown name: the known one that is closest, or ``otherwise``."""
    close = difflib.get_close_matches(str(name), [*known], 1, cutoff)
    return f"; did you mean {close[0]!r}?" if close else otherwise


def check_one_of(
    value: object, known: Iterable[str], what: str, error: type[EditorError] = EditorError
) -> None:
    """Raises ``error`` with the values to choose from where it is none of them; ``what`` begins the message."""
    names = [*known]
    if not isinstance(value, str) or value not in names:
        choice = f"choose one of: {', '.join(names)}" if names else "it has none"
        raise error(f"{what} {shown(value)}; {choice}")


def as_text(value: object, what: str, error: type[EditorError] = EditorError) -> str:
    """The text; raises ``error`` where it is none."""
    if not isinstance(value, str):
        raise error(f"{what} must be text, not {shown(value)}")
    return value


def as_path(value: object, what: str, error: type[EditorError] = EditorError) -> Path:
    """The path; raises ``error`` where it is none, or one that no file can have."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str):
        raise error(f"{what} must be a path, not {shown(value)}")
    try:
        if b"\0" not in os.fsencode(text):
            return Path(text)
    except UnicodeEncodeError:
        pass
    raise error(f"{what} {shown(text)}: no file can have this name")


def as_mapping(value: object, what: str, error: type[EditorError] = EditorError) -> dict[str, Any]:
    """The entries; raises ``error`` where it is not a mapping, or a key is not a text."""
    if not isinstance(value, Mapping):
        raise error(f"{what} must be a mapping, not {shown(value)}")
    return {as_text(key, f"{what}: a key", error): entry for key, entry in value.items()}


def as_count(value: object, what: str, least: int, most: int) -> int:
    """The whole number; raises ``EditorError`` where it is none, too small or too large."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # TypeError says so
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        raise EditorError(
            f"{what} must be a whole number from {least} to {most:,}, not {shown(value)}"
        )
    return number


def as_seconds(value: object, what: str, most: float) -> float:
    """The time; raises ``EditorError`` where it is not a number above 0, or too large."""
    if not isinstance(value, float | int) or not 0 < value <= most:
        raise EditorError(f"{what} must be more than 0 and at most {most:g}, not {shown(value)}")
    return float(value)


_REQUIREMENT = re.compile(
    r"\s*(?P<device>[^\s<>=%](?:[^<>=%]*[^\s<>=%])?)\s*>=\s*(?P<share>\d{1,3}(?:\.\d{1,6})?)\s*%\s*(?:of\s+)?(?P<of>time|ops)\s*"
)
REQUIREMENT_FORM = "a requirement; write 'GPU >= 95% of time' or 'GPU >= 95% of ops'"


@dataclass(frozen=True)
class Requirement:
    """The least share of a model that a device must run."""

    device: str
    """Its name, or a label such as ``GPU``."""
    share: float
    """From 0 to 1."""
    of: Literal["time", "ops"]

    def __str__(self) -> str:
        return f"{self.device} >= {self.share * 100:.6g}% of {self.of}"


def parse_requirement(text: str) -> Requirement | None:
    """The requirement that a text states; None where it states none."""
    match = _REQUIREMENT.fullmatch(text)
    if match is None or float(match["share"]) > 100:
        return None
    share = float(match["share"]) / 100
    return Requirement(match["device"], share, "time" if match["of"] == "time" else "ops")
