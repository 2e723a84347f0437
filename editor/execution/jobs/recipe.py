"""The serializable description of a placement, sent to workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from editor.devices.table import load_devices
from editor.graph.graph import Graph
from editor.graph.model_file import check_same
from editor.placement.kept import with_affinity
from editor.placement.placement import Placement, Settings, solve


@dataclass(frozen=True)
class Recipe:
    """Everything a worker needs to have the same placement."""

    model: str
    sha256: str
    """Of the model file that the plan was made for; ``model`` must still be the same."""
    define: Mapping[str, int]
    devices: Sequence[Mapping[str, Any]]
    settings: Settings
    affinity: Mapping[str, str] = field(default_factory=dict)
    """Op key -> device, where solving the settings may lead to another placement: by a profile that has changed since."""

    def placement(self, graph: Graph) -> Placement:
        """The placement of the model that was read from ``model``.

        Raises:
            EditorError: the devices of this machine cannot run it.
        """
        solved = solve(check_same(graph, self.sha256), load_devices(self.devices), self.settings)
        return with_affinity(solved, self.affinity, "the plan has it there")
