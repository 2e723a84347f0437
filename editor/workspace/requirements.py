"""What a placement must reach, as ``GPU >= 95% of time``; in a module of its own for the parser of the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_FORM = re.compile(
    r"\s*(?P<device>[^\s<>=%](?:[^<>=%]*[^\s<>=%])?)\s*>=\s*(?P<share>\d{1,3}(?:\.\d{1,6})?)\s*%\s*(?:of\s+)?(?P<of>time|ops)\s*"
)
FORM = "a requirement; write 'GPU >= 95% of time' or 'GPU >= 95% of ops'"


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
    match = _FORM.fullmatch(text)
    if match is None or float(match["share"]) > 100:
        return None
    share = float(match["share"]) / 100
    return Requirement(match["device"], share, "time" if match["of"] == "time" else "ops")
