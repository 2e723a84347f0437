"""What the files of a format do not keep of a plan's split, in one short line."""

from __future__ import annotations

from collections.abc import Callable

from editor.devices.device import Device
from editor.groups import grouped
from editor.placement.placement import Placement
from editor.text import joined, pluralize

NO_SPLIT = "does not split"
"""What a line begins with where the files run ops of several devices as one."""


def shortfall(
    placement: Placement,
    runs_on: Callable[[Device], str],
    is_own: Callable[[Device], bool],
    parts: bool = False,
) -> str:
    """Which ops run elsewhere than in the plan where the files are used; "" where none do.

    Args:
        placement: the plan.
        runs_on: what runs the ops of a device there; "" for nothing.
        is_own: whether that is the device itself.
        parts: whether subgraphs stay apart even where one device runs them.
    """
    counts, used = placement.op_counts, placement.used_devices
    groups = grouped((runs_on(device), device) for device in used)
    nothing = groups.pop("", [])
    if nothing:
        names = joined([device.name for device in nothing])
        return f"no device for {_ops(sum(counts[d.name] for d in nothing))} of {names}"
    moved = [device for device in used if not is_own(device)]
    for target, same in groups.items():
        if parts or len(same) == 1:
            continue
        if len(same) == len(used):
            return f"{NO_SPLIT}: all on {target}"
        return f"{NO_SPLIT} {joined([d.name for d in same])}: {target} runs them"
    if not moved:
        return ""
    ops = sum(counts[d.name] for d in moved)
    targets = joined(list(dict.fromkeys(map(runs_on, moved))))
    return f"{_ops(ops)} {'runs' if ops == 1 else 'run'} on {targets} instead"


def _ops(count: int) -> str:
    return pluralize(count, "op")
