"""What a person asks to open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class OpenRequest:
    """What a person asked to open."""

    path: str
    devices: Any
    define: Mapping[str, int] = field(default_factory=dict)
    assume_sizes: bool = False
    """Whether dimensions without a size get a proposed one; else they are asked for."""
