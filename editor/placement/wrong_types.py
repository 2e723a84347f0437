"""Finds the devices that refuse most of a model for its element type, and the type to plan the model in for them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from editor.devices.device import Device
from editor.placement.placement import Placement
from editor.text import joined


@dataclass(frozen=True)
class WrongType:
    """A device that refuses most ops of a plan for their element type."""

    device: Device
    number: int
    """Of the device in the table"""
    has: str
    """Element type of most of the ops that it refuses"""
    plan_as: str
    """The type that it would take, if the model were planned in it"""
    ops: int
    """That the plan has on it"""

    @property
    def text(self) -> str:
        """ "NPU takes int8 or uint8 only; this model is float32"."""
        takes = joined(self.device.published.dtypes, "or")
        return f"{self.device.name} takes {takes} only; this model is {self.has}"

    @property
    def way_out(self) -> str:
        """What plans the model in the other type: a name for ``--devices``, or a key of the device table."""
        entry, preset = self.device.entry, self.device.published.preset
        how = f"`assumes: {self.plan_as}` in its entry of the device table"
        if preset and set(entry) <= {"name", "preset"}:
            how = f"`{self.device.name}({preset} as {self.plan_as})` in --devices"
        return f"{how} plans it as if the model were converted"


def wrong_types(placement: Placement) -> list[WrongType]:
    """Returns the devices that refuse more than half of the ops for their element type, in the order of the table."""
    found, placed = [], placement.placed_ops.tolist()
    for number, device in enumerate(placement.devices):
        published, reasons = device.published, placement.constraints.capabilities[number].reasons
        if not published.dtypes or published.assumes:
            continue
        counts = Counter(reasons[op] for op in placed)
        refused = {why: n for why, n in counts.items() if why and published.way_out(why)}
        if 2 * sum(refused.values()) > len(placed):
            why = max(refused, key=lambda reason: refused[reason])
            found.append(
                WrongType(
                    device,
                    number,
                    why.partition(";")[0],
                    published.way_out(why),
                    placement.op_counts[device.name],
                )
            )
    return found
