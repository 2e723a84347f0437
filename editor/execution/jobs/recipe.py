"""The serializable description of a placement, sent to workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from editor.placement.placement import Settings


@dataclass(frozen=True)
class Recipe:
    """Everything a worker needs to solve the same placement."""

    model: str
    define: Mapping[str, int]
    devices: Sequence[Mapping[str, Any]]
    settings: Settings
