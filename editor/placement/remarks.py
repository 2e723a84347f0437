"""Finds what there is to say of the devices of a plan: why one has no ops, what they make of NaN, and which refuse its type."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from editor.devices.device import Device
from editor.graph.graph import Bools, Graph
from editor.groups import grouped
from editor.placement.placement import Placement
from editor.text import joined, pluralize

_MAKERS = frozenset(
    {"Acos", "Acosh", "Asin", "Atanh", "Div", "Log", "Mod", "Pow", "Reciprocal", "Sqrt"}
)
_TESTS = frozenset({"IsInf", "IsNaN"})


def remarks(placement: Placement) -> list[str]:
    """What devices make of NaN in ops that they have in the plan and that NaN can reach or that are tested for it."""
    graph = placement.graph
    concerned, capabilities = _meets_nan(graph), placement.constraints.capabilities
    told = (
        (capabilities[int(placement.device_of_op[op])].remarks, op)
        for op in placement.placed_ops.tolist()
        if concerned[op]
    )
    found = grouped((known[op], graph.op_keys[op]) for known, op in told if known and known[op])
    return [
        f"{remark}, as ONNX Runtime does not ({pluralize(len(keys), 'op')}, the first is {keys[0]})"
        for remark, keys in found.items()
    ]


_NO_GAIN = {
    "latency": "no faster plan with it was found",
    "throughput": "no plan with it and a higher rate was found",
    "energy": "no plan with it and less energy was found",
}


def why_empty(placement: Placement, number: int) -> str:
    """Why a device of the table has no ops of the plan."""
    constraints, settings = placement.constraints, placement.settings
    ops = placement.placed_ops
    if not constraints.able[ops, number].any():
        return "it can run none of them"
    if not constraints.allowed[ops, number].any():
        return "pins and rules have all that it can run elsewhere"
    if settings.policy in ("priority", "rules"):
        return f"{_before(placement, number)} for all that it can run"
    if settings.policy == "pipeline":
        return _NO_GAIN["throughput"]
    if settings.policy == "memory":
        return _NO_GAIN["latency"]
    return _NO_GAIN[settings.policy_options.get("objective", "latency")]


def _before(placement: Placement, number: int) -> str:
    """Devices that the policy tries before another one: "A comes first"."""
    first = placement.settings.policy_options.get("first")
    names = [device.name for device in placement.devices]
    order = sorted(names, key=lambda name: name != first)
    earlier = order[: order.index(names[number])]
    return f"{joined(earlier)} come{'s' if len(earlier) == 1 else ''} first"


def _meets_nan(graph: Graph) -> Bools:
    """[op] whether an op before it can make NaN or infinity, or an op after it tests for them."""
    makes = np.array([kind in _MAKERS for kind in graph.op_types], bool) & ~graph.op_is_constant
    tests = np.array([kind in _TESTS for kind in graph.op_types], bool)
    for op in graph.order.tolist():
        makes[op] |= bool(makes[graph.predecessors[op]].any())
    for op in graph.order[::-1].tolist():
        tests[op] |= bool(tests[graph.successors[op]].any())
    met: Bools = makes | tests
    return met


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
