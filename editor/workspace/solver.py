"""Placements of a document's decisions. Those that were solved lately are kept: undo and redo come back to them."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from editor.devices.device import Device
from editor.devices.table import load_devices
from editor.errors import NoProfileError
from editor.files import modified
from editor.graph.graph import Graph
from editor.placement.device_profile import profile_path
from editor.placement.placement import Placement, solve
from editor.runtimes.base import Capability
from editor.runtimes.registry import capability
from editor.workspace.decisions import identity, settings_of

_MOST_KEPT, _LEAST_KEPT, _OPS_KEPT = 32, 3, 200_000
"""Placements that are kept: as many as have so many ops together."""


class Solver:
    """Solves decisions about one model. Thread-safe."""

    def __init__(self, graph: Graph, decisions: Mapping[str, Any], capabilities: Mapping[str, Capability]) -> None:
        """``capabilities`` by names of the devices in ``decisions``, as far as they are known."""
        self.graph = graph
        self._capabilities = {identity(d): capabilities[d.name] for d in load_devices(decisions["devices"])
                              if d.name in capabilities}
        """By everything that a table says of a device: it may be changed, and changed back."""
        self._kept = min(max(_OPS_KEPT // max(len(graph), 1), _LEAST_KEPT), _MOST_KEPT)
        self._solved: OrderedDict[tuple[Any, ...], Placement] = OrderedDict()
        self._lock = threading.Lock()
        """Of what is kept; not held while a placement is solved."""

    def solve(self, decisions: Mapping[str, Any], should_stop: Callable[[], bool] = bool) -> Placement:
        """The placement that decisions give; where ``should_stop`` ends a search, the best that it had found.

        Raises:
            EditorError: the decisions contradict each other, or what devices can run.
        """
        devices = load_devices(decisions["devices"])
        # Profiles are costs, and a placement is of the costs that its policy found.
        key = (frozenset((name, json.dumps(value)) for name, value in decisions.items()),
               tuple(modified(profile_path(self.graph, device)) for device in devices))
        with self._lock:
            if key in self._solved:
                self._solved.move_to_end(key)
                return self._solved[key]
        answers = [self.capability(d) for d in devices]
        placement = solve(self.graph, devices, settings_of(decisions), answers, should_stop)
        if should_stop():
            return placement
        with self._lock:
            kept = self._solved.setdefault(key, placement)
            while len(self._solved) > self._kept:
                self._solved.popitem(last=False)
        return kept

    def solve_stored(self, decisions: Mapping[str, Any], should_stop: Callable[[], bool] = bool) -> Placement:
        """As ``solve``, for decisions that were solved before: by estimates where the profiles that they went by are gone.

        Raises:
            EditorError: as ``solve``, but for profiles.
        """
        try:
            return self.solve(decisions, should_stop)
        except NoProfileError:
            return self.solve({**decisions, "options": {**decisions["options"], "costs": "estimate"}}, should_stop)

    def capability(self, device: Device) -> Capability:
        """What a device can run; asked once."""
        known = self._capabilities.get(identity(device))
        if known is None:
            known = self._capabilities[identity(device)] = capability(self.graph, device)
        return known
