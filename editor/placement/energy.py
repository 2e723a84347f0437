"""The energy of a placement: the seconds that each device works, by the costs, times the watts that its table states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from editor.kinds import Basis, basis_of_energy
from editor.placement.costs import Costs
from editor.placement.placement import Placement
from editor.text import human_joules


@dataclass(frozen=True)
class Energy:
    """The energy of one run."""

    joules: Mapping[str, float]
    """Device -> joules while it works; of the devices that the plan uses and whose watts are stated"""
    unstated: tuple[str, ...]
    """Devices that the plan uses and whose watts are not stated"""
    basis: Basis

    @property
    def total(self) -> float | None:
        """Joules of all devices; None where the watts of one of them are not stated."""
        return None if self.unstated else sum(self.joules.values())

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {human_joules(joules)}" for name, joules in self.joules.items())
        if self.total is None:
            return f"{parts}; without {' and '.join(self.unstated)}, whose power is not stated"
        return parts if len(self.joules) == 1 else f"{human_joules(self.total)} ({parts})"

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON."""
        return {
            "joules": self.total,
            "devices": dict(self.joules),
            "unstated": list(self.unstated),
            "kind": self.basis.kind,
        }


def energy_of(placement: Placement, costs: Costs, basis: Basis) -> Energy | None:
    """The energy of one run; None where the table states the watts of no device that the plan uses.

    Args:
        placement: the plan.
        costs: times.
        basis: what these are called.
    """
    joules = joules_of(placement, costs)
    unstated = tuple(d.name for d in placement.used_devices if d.power is None)
    return Energy(joules, unstated, basis_of_energy(basis)) if joules else None


def joules_of(placement: Placement, costs: Costs) -> dict[str, float]:
    """Device -> joules of one run; of the devices that it uses and whose watts are stated."""
    used = [(number, placement.devices[number]) for number in placement.used_numbers]
    if all(device.power is None for _, device in used):
        return {}
    seconds = placement.busy_seconds(costs)
    return {d.name: float(seconds[number]) * d.power for number, d in used if d.power is not None}
