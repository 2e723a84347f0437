"""What a person asks to open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from editor.errors import EditorError


@dataclass(frozen=True)
class OpenRequest:
    """What a person asked to open."""

    path: str
    devices: Any
    define: Mapping[str, int] = field(default_factory=dict)
    assume_sizes: bool = False
    """Whether dimensions without a size get a proposed one; else they are asked for."""
    earlier: Literal["continue", "ask", "fresh"] = "continue"
    """What to do where an edited document of the same model and devices is in the workspace."""
    greeting: str = ""
    """What its page says when it opens"""


class EarlierWorkError(EditorError):
    """An edited document of the same model and devices is in the workspace."""

    def __init__(self, document: str, updated: str) -> None:
        super().__init__("There is earlier work on this model with these devices.")
        self.document, self.updated = document, updated
        """Its id, and when it was last used."""
