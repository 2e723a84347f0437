"""What travels to a worker instead of a placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from editor.placement.placement import Settings


@dataclass(frozen=True)
class Recipe:
    """All that is needed to make a placement again elsewhere."""

    model: str
    define: Mapping[str, int]
    devices: Sequence[Mapping[str, Any]]
    settings: Settings
