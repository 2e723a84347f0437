"""The whole model on one device, which is what a split has to beat, and what devices lack for that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

from editor.devices.device import Device
from editor.graph.graph import Graph
from editor.placement.placement import Placement, Settings, solve
from editor.placement.state_memory import StateMemory, state_memory
from editor.text import human_bytes


def on_one_device(now: Placement) -> dict[str, Settings]:
    """The whole model on each device that can run it, which is what a split has to beat.

    Not on those that are much slower than their hardware: beside them all others look alike.
    """
    if len(now.devices) == 1:
        return {}
    able = now.constraints.able[~now.graph.op_is_constant]
    return {
        f"all on {device.name}": Settings("priority", {"first": device.name})
        for d, device in enumerate(now.devices)
        if able[:, d].all() and device.slowdown <= 1
    }


def unsplit_lacks(placement: Placement, context: int = 0) -> dict[str, str]:
    """Device -> "needs 72 MB of 60 MB", of those whose memory is too small for the whole model.

    Args:
        placement: of the model, whose devices are asked.
        context: tokens before a step, where they are more than at its sizes.
    """
    limits = {d.name: d for d in placement.devices if d.memory is not None}
    needed = {name: need.at(context) for name, need in _whole(placement).items()}
    return {
        name: f"needs {human_bytes(size)} of {limits[name].limit_text}"
        for name, size in needed.items()
        if size > (limits[name].memory or 0)
    }


def ops_excluded(placement: Placement) -> dict[str, int]:
    """Device -> ops that only the lists of its table keep from it, of those with any: a runtime may take the whole model."""
    constraints, placed = placement.constraints, placement.placed_ops
    counts = {
        device.name: sum(
            constraints.excluded(op, d) for op in placed[~constraints.able[placed, d]].tolist()
        )
        for d, device in enumerate(placement.devices)
    }
    return {name: count for name, count in counts.items() if count}


class _Need(NamedTuple):
    """What the whole model needs of a device."""

    peak: int
    """Bytes at its sizes"""
    state: StateMemory | None

    def at(self, context: int) -> int:
        """Bytes at so many tokens before a step, or at its sizes where those are more."""
        if self.state is None:
            return self.peak
        return max(self.peak, self.state.needed(context))


_needs: WeakKeyDictionary[Graph, tuple[tuple[Device, ...], dict[str, _Need]]] = WeakKeyDictionary()


def _whole(now: Placement) -> Mapping[str, _Need]:
    devices, needs = _needs.get(now.graph, ((), {}))
    if devices == now.devices:
        return needs
    needs = {}
    for settings in on_one_device(now).values():
        name = str(settings.policy_options["first"])
        if next(d for d in now.devices if d.name == name).memory is None:
            continue
        placement = solve(now.graph, now.devices, settings, now.constraints.capabilities)
        state = next((each for each in state_memory(placement) if each.device == name), None)
        needs[name] = _Need(placement.run_memory.peaks[name], state)
    _needs[now.graph] = now.devices, needs
    return needs
