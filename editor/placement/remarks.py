"""Finds what there is to say of the devices of a plan: why one has no ops, and what they make of NaN."""

from __future__ import annotations

import numpy as np

from editor.graph.graph import Bools, Graph
from editor.placement.placement import Placement
from editor.text import pluralize

_MAKERS = frozenset(
    {"Acos", "Acosh", "Asin", "Atanh", "Div", "Log", "Mod", "Pow", "Reciprocal", "Sqrt"}
)
_TESTS = frozenset({"IsInf", "IsNaN"})


def remarks(placement: Placement) -> list[str]:
    """What devices make of NaN in ops that they have in the plan and that NaN can reach or that are tested for it."""
    graph = placement.graph
    found: dict[str, list[str]] = {}
    concerned = _meets_nan(graph)
    for op in placement.placed_ops.tolist():
        known = placement.constraints.capabilities[int(placement.device_of_op[op])].remarks
        if known and known[op] and concerned[op]:
            found.setdefault(known[op], []).append(graph.op_keys[op])
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
        return "other devices come first for all that it can run"
    if settings.policy == "pipeline":
        return _NO_GAIN["throughput"]
    if settings.policy == "memory":
        return _NO_GAIN["latency"]
    return _NO_GAIN[settings.policy_options.get("objective", "latency")]


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
