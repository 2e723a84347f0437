"""What policy ``memory`` says: what a placement needs beyond the limits, why an op is elsewhere, why nothing fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from editor.graph.graph import Bools, Ints
from editor.placement.costs import Costs
from editor.placement.device_memory import heaviest
from editor.placement.policies.problem import Floats
from editor.placement.policies.task import Task, reasons
from editor.placement.run_memory import RunMemory, run_memory
from editor.placement.subgraphs.minimal import minimal
from editor.text import counted, human_bytes

_LARGEST = 3


@dataclass(frozen=True, eq=False)
class Excess:
    """A placement that needs more memory than there is."""

    total: float
    """bytes"""
    over: Floats
    """[device] bytes; negative where there is room"""
    device: Ints
    """[op]"""
    needed: RunMemory

    @classmethod
    def of(cls, task: Task, device: Ints, limits: Floats) -> Excess:
        """What a placement needs beyond the limits; ``total`` is 0 where it fits."""
        constraints = task.constraints
        needed = run_memory(constraints.graph, constraints.devices, device, minimal(constraints.graph, device, task.placed))
        over = np.array([needed.peaks[d.name] for d in constraints.devices]) - limits
        return cls(float(np.maximum(over, 0).sum()), over, device, needed)


def memory_reasons(task: Task, costs: Costs, device: Ints, limits: Floats, size: Floats, ideal: Ints) -> Callable[[int], str]:
    """As `reasons`; where the device that an op would be on has no room, that is why it is elsewhere.

    Args:
        task: what is placed.
        costs: of the task.
        device: [op] of the placement.
        limits: [device] bytes.
        size: [op, device] bytes of the op's constants there.
        ideal: [op] device of the best placement without limits.
    """
    constraints, plain, needed = task.constraints, reasons(task, costs, device), Excess.of(task, device, limits).needed
    wanted = Excess.of(task, ideal, limits)

    def because(op: int) -> str:
        times = np.where(constraints.allowed[op], costs.op[op], np.inf)
        fastest = int(times.argmin())
        name, weights = constraints.devices[fastest].name, int(size[op, fastest])
        if times[fastest] != times[device[op]] and needed.peaks[name] + weights > limits[fastest]:
            return (f"no room on {name}, which is faster for it: {taken(fastest)} are taken, and it has "
                    f"{human_bytes(weights)} of constants")
        better = int(ideal[op])
        if better != device[op] and wanted.over[better] > 0:
            name = constraints.devices[better].name
            return (f"no room on {name}, where it would be without limits: {taken(better)} are taken, and all that would be "
                    f"there needs {human_bytes(wanted.needed.peaks[name])}")
        return plain(op)

    def taken(d: int) -> str:
        return f"{human_bytes(needed.peaks[constraints.devices[d].name])} of {human_bytes(int(limits[d]))}"
    return because


def too_large(task: Task, size: Floats, limits: Floats, shrinkage: Floats, closest: Excess | None) -> str:
    """Why nothing fits, one line for each thing that can be changed."""
    constraints = task.constraints
    names, placed = [d.name for d in constraints.devices], np.zeros(len(constraints.graph), bool)
    placed[task.placed] = True
    lines = ["The model does not fit into the memory of its devices."]
    needed, room = float(size[placed].sum() / shrinkage.max()), float(limits.sum())
    if needed > room:
        least = "at least " if (shrinkage > 1).any() else ""  # where floats count as int8
        lines.append(f"Its constants take {least}{human_bytes(int(needed))}, all devices together have "
                     f"{human_bytes(int(room))}: {_exact(needed - room)} too few.")
    held = len(constraints.pins) + len(constraints.ruled)
    if held and needed <= room and len(names) > 1:
        are = "is" if held == 1 else "are"
        lines.append(f"{counted(held, 'op')} {are} held by pins or rules: with fewer of them it may fit.")
    only = constraints.allowed & (constraints.allowed.sum(axis=1) == 1)[:, None]
    for d, name in enumerate(names):
        forced = float(size[only[:, d]].sum() / shrinkage[d])
        if forced > limits[d]:
            lines.append(f"{name} is over by {_exact(forced - limits[d])} with the ops that can only run there"
                         f"{', or are held there' if held else ''}.")
    if closest is None:
        own = " (in their own type)" if (shrinkage > 1).any() else ""
        lines.append(f"Heaviest constants{own}: {', '.join(heaviest(constraints.graph, placed, size)) or 'none'}.")
        return "\n".join(lines)
    lines.append("The closest placement that was found:")
    for d, name in enumerate(names):
        if closest.over[d] > 0:
            lines += _what_fills(closest, d, name, limits[d], placed & (closest.device == d), size)
    return "\n".join(lines)


def _exact(size: float) -> str:
    """For a limit that is to be set anew."""
    return f"{human_bytes(int(size))} ({int(size):,} bytes)"


def _what_fills(closest: Excess, d: int, name: str, limit: float, ops: Bools, size: Floats) -> list[str]:
    """What a device holds at its peak: constants and tensors, and the largest of them."""
    memory = closest.needed.devices[d]
    lines = [f"{name} is over by {_exact(closest.over[d])}, the limit is {human_bytes(int(limit))}: "
             f"{human_bytes(memory.constants)} of constants and {human_bytes(memory.peak - memory.constants)} of tensors at "
             "once."]
    if constants := heaviest(closest.needed.graph, ops, size, _LARGEST):
        own = " (in their own type)" if closest.needed.devices[d].constants < size[ops].sum() else ""
        lines.append(f"Heaviest constants there{own}: {', '.join(constants)}.")
    if tensors := closest.needed.at_peak(d)[:_LARGEST]:
        lines.append(f"Heaviest tensors there: {', '.join(f'{t.tensor} ({human_bytes(t.bytes)}, {t.kind})' for t in tensors)}.")
    return lines
